"""Walks of passages and entities: golden vectors, laws, and igraph as the independent judge."""

from collections import Counter
from itertools import pairwise
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import graph_from, lexical_from
from scipy import sparse

from polyhop.schemas.errors import NoSeedError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking import pagerank
from polyhop.worker.ranking.fusion import best


def test_golden_edge_weights(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, passage by passage, entities ascending; of one passage alone ln(2 / 2) * tf + 1."""
    expected = [3.197225, 1.693147, 1.693147, 1.693147, 1.693147, 2.386294, 1.693147]
    assert pagerank.edge_weights(golden_graph) == pytest.approx(expected, abs=1e-6)
    assert pagerank.edge_weights(graph_from([{"a": 7}])).tolist() == [1.0]


def test_golden_transitions(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, p = .5 and p = 0."""
    matrices = pagerank.bipartite_transition(golden_graph, hub_penalty=0.5)
    entities = np.array([[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0.415044, 0.584956, 0, 0]])
    passages = [[0.727558, 0.272442, 0, 0], [0, 0.5, 0, 0.5], [0, 0, 0.415044, 0.584956], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(matrices.to_passages.toarray().T, entities, atol=1e-6)
    np.testing.assert_allclose(matrices.to_entities.toarray().T, np.array(passages), atol=1e-6)
    assert matrices.dangling.tolist() == [False, False, False, False, True]
    without = pagerank.bipartite_transition(golden_graph).to_entities.toarray().T
    assert without[0] == pytest.approx([0.653779, 0.346221, 0, 0], abs=1e-6)


ENTITY_COUNT = 4
SEEDS = np.array([1, 2**-0.5, 0, 0, 0, 0, 0, 0, 0])
NOTHING = np.array([], dtype=np.intp)


def test_the_judge_gives_the_golden_entities_after_five_steps(whole_walk: sparse.csr_array, plain_walk: Any) -> None:
    """G-SPRIG-2, entity part."""
    scores = plain_walk(whole_walk, SEEDS, 0.15, 5)
    assert scores[:ENTITY_COUNT] == pytest.approx([0.192353, 0.120419, 0.001969, 0.021935], abs=1e-6)


@st.composite
def random_walks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, n) with dangling nodes and no loops, and seeds."""
    n = draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.random((n, n)) * (rng.random((n, n)) < draw(st.sampled_from([0.15, 0.4, 0.8])))
    np.fill_diagonal(weights, 0)
    seeds = rng.random(n) * (rng.random(n) < 0.5)
    seeds[draw(st.integers(0, n - 1))] += 0.5
    return weights, seeds


def rows_of(weights: np.ndarray) -> sparse.csr_array:
    """Each row divided by its sum, if it has one."""
    totals = weights.sum(axis=1, keepdims=True)
    return sparse.csr_array(np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0))


@given(random_walks(), st.sampled_from([0.1, 0.15, 0.25, 0.55, 0.9]))
def test_the_judge_agrees_with_igraph(plain_walk: Any, case: tuple[np.ndarray, np.ndarray], restart: float) -> None:
    weights, seeds = case
    sources, targets = np.nonzero(weights)
    graph = igraph.Graph(n=len(seeds), edges=list(zip(sources.tolist(), targets.tolist(), strict=True)), directed=True)
    options = {"weights": weights[sources, targets].tolist(), "implementation": "prpack"}
    expected = graph.personalized_pagerank(damping=1 - restart, reset=seeds.tolist(), **options)
    assert plain_walk(rows_of(weights), seeds, restart) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seeds", [[0.0] * 9, [-1.0] * 9, [np.nan] * 9, [np.inf] * 9])
def test_seeds_count_above_zero_and_none_are_refused(whole_walk: sparse.csr_array, seeds: list[float]) -> None:
    with pytest.raises(NoSeedError, match="fallback"):
        pagerank.normalised_seeds(np.array(seeds))
    with pytest.raises(NoSeedError):
        pagerank.ppr_push(whole_walk, np.array(seeds), 0.15, 1e-4)
    assert pagerank.normalised_seeds(np.array([1.0, -5.0, np.nan, 3.0])).tolist() == [0.25, 0, 0, 0.75]


@given(st.integers(0, 2**32 - 1), st.integers(0, 8))
def test_the_passages_half_is_the_passages_part_of_the_whole_walk(plain_walk: Any, seed: int, steps: int) -> None:
    """Also for passages without entity, seeded or not."""
    rng = np.random.default_rng(seed)
    rows = [{key: float(rng.integers(1, 4)) for key in "abcdef" if rng.random() < 0.3} for _ in range(7)]
    graph = graph_from([*rows, {"a": 1.0}])
    parts = pagerank.bipartite_transition(graph, hub_penalty=0.5)
    n, m = graph.entity_count, graph.passage_count
    passages = rng.choice(m, 3, replace=False)
    total = rng.random(4)
    total /= total.sum()
    seeds = pagerank.WalkSeeds(np.array([0]), total[:1], passages, total[1:])
    whole = np.zeros(n + m)
    whole[0], whole[n + passages] = total[0], total[1:]
    expected = plain_walk(pagerank.joined(parts), whole, 0.15, steps)[n:]
    assert pagerank.walk_passages(parts, seeds, 0.15, steps, return_dangling=True) == pytest.approx(expected, abs=1e-13)


def test_without_return_the_mass_of_dangling_passages_is_lost(golden_graph: BipartiteGraph) -> None:
    parts = pagerank.bipartite_transition(golden_graph)
    seeds = pagerank.WalkSeeds(NOTHING, np.array([]), np.array([4]), np.array([1.0]))
    found = pagerank.walk_passages(parts, seeds, 0.1, 5, return_dangling=False)
    assert found.tolist() == pytest.approx([0, 0, 0, 0, 0.1])


WEIGHTS = st.lists(st.floats(0, 100), max_size=6).map(np.array)


@pytest.mark.parametrize(
    ("scores", "weighting", "expected"),
    [
        ([12, 9, 6], "rank", [1, 0.5, 0.333333]),
        ([12, 9, 6], "softmax", [0.95033, 0.047314, 0.002356]),
        ([12, 9, 6], "raw", [12, 9, 6]),
        ([2, -1], "raw", [2, 0]),
        *(([], weighting, []) for weighting in ("rank", "raw", "softmax")),
    ],
)
def test_golden_passage_weights(scores: list[float], weighting: pagerank.Weighting, expected: list[float]) -> None:
    """G-SPRIG-5."""
    assert pagerank.passage_weights(np.array(scores, dtype=float), weighting) == pytest.approx(expected, abs=1e-6)


ENTITIES, PASSAGES = np.array([1, 2**-0.5]), np.array([1, 0.5])


@pytest.mark.parametrize(
    ("mixing", "weights", "entities", "passages"),
    [
        # G-SPRIG-2, seeds of the hybrid rows
        ("mass", (ENTITIES, PASSAGES), [0.311808, 0.220481], [0.311808, 0.155904]),
        ("adaptive", (ENTITIES, PASSAGES), [0.292893, 0.207107], [0.333333, 0.166667]),
        # G-SPRIG-2, last line; weights of 0 are not seeds
        ("adaptive", ([1, 0], np.ones(10)), [0.153846, 0], [0.0846154] * 10),
        ("adaptive", ([1, 1, 1, 0], np.ones(5)), [0.133333] * 3 + [0], [0.12] * 5),
        # G-SPRIG-1, last line: df 1 and 2
        ("mass", (pagerank.entity_weights(np.array([1, 2]), 0), []), [0.5, 0.5], []),
        ("mass", (pagerank.entity_weights(np.array([1, 2]), 0.5), []), [0.585786, 0.414214], []),
        ("mass", (pagerank.entity_weights(np.array([1, 2]), 1), []), [0.666667, 0.333333], []),
        # G-SPRIG-5
        ("mass", ([], [12, 9, 6]), [], [0.444444, 0.333333, 0.222222]),
        # a fixed share is kept whatever the raw weights
        ("fixed", ([3000, 1000], [1, 1]), [0.225, 0.075], [0.35, 0.35]),
    ],
)
def test_golden_mixtures(mixing: pagerank.Mixing, weights: Any, entities: list[float], passages: list[float]) -> None:
    of_entities, of_passages = (np.array(part, dtype=float) for part in weights)
    mixed = pagerank.mix(of_entities, of_passages, mixing, 0.3)
    assert mixed[0] == pytest.approx(entities, abs=1e-6)
    assert mixed[1] == pytest.approx(passages, abs=1e-6)


@given(WEIGHTS, WEIGHTS, st.sampled_from(["mass", "fixed", "adaptive"]))
def test_a_mixture_sums_to_one_or_nothing(entities: np.ndarray, passages: np.ndarray, mixing: pagerank.Mixing) -> None:
    mixed = pagerank.mix(entities, passages, mixing)
    total = mixed[0].sum() + mixed[1].sum()
    assert total == pytest.approx(1 if entities.sum() + passages.sum() > 0 else 0)


@pytest.mark.parametrize(
    ("df", "percent", "expected"),
    [
        # G-SPRIG-5; 29 % of 100 are 29 although .29 * 100 is less
        *(([5] * n, p, [*range(k)]) for n, p, k in [(100, 1, 1), (150, 1, 1), (99, 1, 0), (1000, 0.5, 5), (7, 10, 0)]),
        ([5] * 100, 29, [*range(29)]),
        ([3, 9, 2, 3, 9], 60, [0, 1, 4]),
        # entities of one passage are no hubs, those of none no entities
        ([1, 2, 1, 0, 0, 0, 0, 0], 100, [1]),
        ([2, 2, 0, 0], 50, [0]),
    ],
)
def test_hubs_are_the_largest_and_ties_go_to_smaller_keys(df: list[int], percent: float, expected: list[int]) -> None:
    assert pagerank.hubs(np.array(df), percent).tolist() == expected


def test_a_cap_keeps_the_heaviest_edges_and_then_the_first_passages() -> None:
    graph = graph_from([{"a": 1}, {"a": 3, "b": 1}, {"a": 1}, {"a": 2}, {}])
    kept = pagerank.kept_edges(graph, 0, 3)
    assert kept is not None
    assert graph.rows[kept].tolist() == [0, 1, 1, 3]
    assert graph.indices[kept].tolist() == [0, 0, 1, 0]
    assert pagerank.kept_edges(graph, 0, 0) is None
    assert pagerank.kept_edges(graph, 0, 99) is None


def test_weights_keep_the_df_from_before_pruning() -> None:
    """a: df 3, capped to one passage; b: df 1. N = 3: w(a) = 1, w(b) = ln(4 / 2) + 1; a's step costs 3 ** -.5."""
    graph = graph_from([{"a": 1, "b": 1}, {"a": 1}, {"a": 1}])
    kept = pagerank.kept_edges(graph, 0, 1)
    matrices = pagerank.bipartite_transition(graph, hub_penalty=0.5, kept=kept)
    a, b = 3**-0.5, np.log(2) + 1
    assert matrices.to_entities.toarray()[:, 0] == pytest.approx([a / (a + b), b / (a + b)])
    assert matrices.to_passages.toarray().tolist() == [[1, 1], [0, 0], [0, 0]]
    assert matrices.dangling.tolist() == [False, True, True]


def test_a_share_of_all_passages_is_all_of_them() -> None:
    shares = [(100, 0.29), (30, 0.1), (7, 1.0), (9, 0.1)]
    assert [pagerank.most_passages(count, share) for count, share in shares] == [29, 3, 7, 0]


def random_graph(seed: int, passages: int, entities: int) -> BipartiteGraph:
    """Every third passage mentions entity 0, the others few; some passages mention nothing."""
    numbers = np.random.default_rng(seed)
    held = numbers.random((passages, entities)) < 1.5 / entities
    held[::3, 0] = True
    rows = sparse.csr_array(held)
    tf, is_title = numbers.integers(1, 4, rows.nnz).astype(np.float64), numbers.random(rows.nnz) < 0.2
    keys = tuple(f"e{number:03}" for number in range(entities))
    return BipartiteGraph(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), tf, is_title, keys)


def random_seeds(seed: int, passages: int, entities: int) -> pagerank.WalkSeeds:
    numbers = np.random.default_rng(seed + 1)
    some_entities, some_passages = numbers.permutation(entities)[:2], numbers.permutation(passages)[:3]
    weights = numbers.random(5)
    weights /= weights.sum()
    return pagerank.WalkSeeds(some_entities, weights[:2], some_passages, weights[2:])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("whole_sum", [0.0, 2.0])
@pytest.mark.parametrize("steps", [4, 5])
def test_a_thinned_walk_holds_no_more_mass(
    seed: int, whole_sum: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_WHOLE_SUM_SHARE": whole_sum, "_WHOLE_STEP_SHARE": 2, "LEAST_EDGES": 0}.items():
        monkeypatch.setattr(pagerank, name, value)
    graph = random_graph(seed, 70, 25)
    kept = np.random.default_rng(seed).random(len(graph.indices)) < 0.8 if seed % 3 else None
    rule: dict[str, Any] = {"hub_penalty": seed % 4 / 4, "title_boost": 1.0 + seed % 5}
    transition = pagerank.bipartite_transition(graph, **rule, kept=kept)
    seeds, returns, everywhere = random_seeds(seed, 70, 25), bool(seed % 2), np.arange(70)
    expected, held = pagerank.walk_passages(transition, seeds, 0.15, steps, return_dangling=returns), []
    for thinnest in (1e-12, 0.05, 0.5):
        thin = pagerank.WalkRule(0.15, steps, returns, thinnest=thinnest, **rule)
        masses = pagerank.walk_of(graph, thin, kept)(seeds)
        assert masses.rows is not None
        held.append(np.bincount(masses.rows, masses.held, 70).astype(np.float64))
        asked = masses.of(everywhere)  # thin mass of the last half-step is there, too
        assert ((held[-1] <= asked + 1e-15) & (asked <= expected + 1e-12)).all()
        assert masses.of(everywhere[5:9]).tolist() == asked[5:9].tolist()
        assert masses.plus(everywhere / 70).of(everywhere).tolist() == (asked + everywhere / 70).tolist()
        found = np.flatnonzero(held[-1])
        assert masses.most(3).tolist() == sorted(best(held[-1], min(3, len(found))))
        numbers = best(held[-1], min(5, len(found)))
        assert [first.tolist() for first in masses.best(5)] == [numbers.tolist(), held[-1][numbers].tolist()]
    assert held[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert (held[1] <= held[0] + 1e-15).all()
    assert 0 < held[2].sum() < held[1].sum() < held[0].sum()
    all_thin = pagerank.walk_of(graph, pagerank.WalkRule(0.15, 1, returns, thinnest=2, **rule), kept)
    once = pagerank.walk_passages(transition, seeds, 0.15, 1, return_dangling=returns)
    assert all_thin(seeds).of(everywhere) == pytest.approx(once)
    monkeypatch.setattr(pagerank, "_WHOLE_STEP_SHARE", 0)  # too wide at once
    assert pagerank.walk_of(graph, thin, kept)(seeds).held.tolist() == expected.tolist()


@pytest.fixture
def whole_walk(golden_graph: BipartiteGraph) -> sparse.csr_array:
    return pagerank.joined(pagerank.bipartite_transition(golden_graph, hub_penalty=0.5))


@pytest.mark.parametrize(
    ("eps", "pushes", "passages", "left"),
    [
        (1e-1, 10, [0.197349, 0.041586, 0, 0], 0.453303),
        (1e-2, 50, [0.301072, 0.085647, 0.0266, 0.004579], 0.084426),
        (1e-3, 113, [0.31387, 0.094965, 0.037977, 0.008715], 0.007789),
        (1e-4, 176, [0.314977, 0.09595, 0.039077, 0.009142], 0.000601),
    ],
)
def test_golden_pushes(whole_walk: Any, eps: float, pushes: int, passages: list[float], left: float) -> None:
    """G-SPRIG-3; no more is pushed than allowed."""
    pushed = pagerank.ppr_push(whole_walk, SEEDS, 0.15, eps)
    assert pushed.pushes == pushes
    assert pushed.scores[4:8] == pytest.approx(passages, abs=1e-6)
    assert pushed.residual.sum() == pytest.approx(left, abs=1e-6)
    if eps == 1e-1:
        assert pushed.residual[[1, 3, 4]] == pytest.approx([0.184388, 0.117827, 0.151089], abs=1e-6)
        assert pushed.scores[:2] == pytest.approx([0.209913, 0.097849], abs=1e-6)
    few = pagerank.ppr_push(whole_walk, SEEDS, 0.15, eps, max_pushes=7)
    assert few.pushes == 7
    assert few.scores.sum() + few.residual.sum() == pytest.approx(1)


@given(random_walks(), st.sampled_from([0.1, 0.15, 0.5]))
def test_pushed_and_left_make_the_whole(plain_walk: Any, case: tuple[np.ndarray, np.ndarray], restart: float) -> None:
    weights, seeds = case
    walk = rows_of(weights)
    exact = plain_walk(walk, seeds, restart)
    seeds /= seeds.sum()
    pushes, before = [], seeds.copy()
    for eps in (1e-1, 1e-3, 1e-5):
        pushed = pagerank.ppr_push(walk, seeds, restart, eps)
        pushes.append(pushed.pushes)
        assert pushed.scores.sum() + pushed.residual.sum() == pytest.approx(1, abs=1e-12)
        assert np.abs(exact - pushed.scores).sum() == pytest.approx(pushed.residual.sum(), abs=1e-9)
        assert np.all(pushed.scores <= exact + 1e-9)
        degrees = np.maximum(1, np.diff(walk.indptr))
        assert np.all(pushed.residual <= eps * degrees)
    assert pushes == sorted(pushes)
    assert np.array_equal(seeds, before)


def is_same(found: BipartiteGraph, expected: BipartiteGraph) -> None:
    assert found.keys == expected.keys
    for name in ("indptr", "indices", "tf", "is_title"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name


@given(st.integers(0, 2**32 - 1), st.sampled_from(["zyx", "zy ", " "]))
def test_labels_give_what_building_with_them_gives(seed: int, labels: str) -> None:
    """Entities of one label become one; those without a label go, and their passages stay."""
    rng = np.random.default_rng(seed)
    rows = [{key: float(rng.integers(1, 4)) for key in "abcdef" if rng.random() < 0.5} for _ in range(6)]
    titles = {n: [key] for n, row in enumerate(rows) for key in list(row)[:1]}
    graph = graph_from(rows, titles)
    label_of = {key: labels[int(rng.integers(0, len(labels)))].strip() for key in "abcdef"}
    sums: list[Counter[str]] = [Counter() for _ in rows]
    for row, total in zip(rows, sums, strict=True):
        for key, tf in row.items():
            if label_of[key]:
                total[label_of[key]] += tf  # type: ignore[assignment]
    expected = graph_from(sums, {n: [label_of[key] for key in keys] for n, keys in titles.items()})
    is_same(pagerank.relabelled(graph, [label_of[key] for key in graph.keys]), expected)


def test_short_names_are_left_out() -> None:
    graph = graph_from([{"a": 1, "bb": 1, "cc": 1}, {"bb": 1, "cc": 1}, {"bb": 1}, {}])
    assert pagerank.without_short_names(graph, 1) is graph
    assert pagerank.without_short_names(graph, 2).keys == ("bb", "cc")


def test_a_term_graph_is_the_postings_by_passage() -> None:
    lexical = lexical_from([["b", "a", "b"], ["c", "b"], ["b", "c"], ["b"]])
    expected = graph_from([{"a": 1, "b": 2}, {"b": 1, "c": 1}, {"b": 1, "c": 1}, {"b": 1}])
    is_same(pagerank.term_graph(lexical, 1, 1.0), expected)
    assert pagerank.term_graph(lexical, 2, 0.5).keys == ("c",)
    assert pagerank.term_graph(lexical, 3, 0.5).keys == ()
    rng = np.random.default_rng(13)
    graph = pagerank.term_graph(lexical_from([[f"t{n}" for n in rng.integers(0, 40, 30)] for _ in range(20)]), 1, 1.0)
    assert all(np.all(np.diff(graph.indices[start:end]) > 0) for start, end in pairwise(graph.indptr))
    assert list(graph.keys) == sorted(graph.keys)
