"""The proposition graph, and both walks on it against igraph on random graphs."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import propositions_from
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError, NoSeedError
from polyhop.schemas.propositions import PropositionGraph, Rows
from polyhop.tasks.propositions.artefact import proposition_graph
from polyhop.warehouse.artefacts import open_array, save_arrays
from polyhop.worker.ranking import proposition_walks
from polyhop.worker.ranking.proposition_walks import (
    PathRule,
    Similarities,
    focus,
    in_order,
    most_similar,
    normalised,
    pagerank,
    subgraph,
    walk_subgraph,
    weighted_graph,
)


def lists(rows: Rows) -> list[list[int]]:
    return [rows.indices[start:end].tolist() for start, end in zip(rows.indptr, rows.indptr[1:], strict=False)]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Rows of the tables: propositions without entities, entities and passages without propositions among them."""
    propositions, entities, passages = draw(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 4)))
    named = st.lists(st.integers(0, entities - 1), max_size=5) if entities else st.just([])
    members = [draw(named) for _ in range(propositions)]
    held = st.sets(st.integers(0, passages - 1), max_size=3) if passages else st.just(set())
    sources = [draw(held) for _ in range(propositions)]
    pairs = draw(st.sets(st.sampled_from([*combinations(range(entities), 2)]), max_size=6)) if entities > 1 else set()
    cosines = {pair: draw(st.sampled_from([0.8, 0.9, 1.0])) for pair in sorted(pairs)}
    return {"members": members, "sources": sources, "cosines": cosines, "shape": (propositions, entities, passages)}


def built(case: dict[str, Any]) -> PropositionGraph:
    """The ends of synonyms the other way round."""
    cosines = {pair[::-1]: cosine for pair, cosine in case["cosines"].items()}
    return propositions_from(case["members"], case["sources"], cosines, case["shape"])


@given(tables())
def test_arrays_hold_what_plain_dictionaries_hold(case: dict[str, Any]) -> None:
    graph, (propositions, entities, passages) = built(case), case["shape"]
    members = [[*dict.fromkeys(row)] for row in case["members"]]
    assert graph.shape == case["shape"]
    assert lists(graph.entities) == members
    assert lists(graph.passages) == [sorted(row) for row in case["sources"]]
    naming = [[n for n in range(propositions) if e in members[n]] for e in range(entities)]
    assert lists(graph.entity_propositions) == naming
    held = [[n for n in range(propositions) if d in case["sources"][n]] for d in range(passages)]
    assert lists(graph.passage_propositions) == held
    assert lists(graph.passage_entities) == [sorted({e for n in row for e in members[n]}) for row in held]
    counts = Counter(pair for row in members for pair in combinations(sorted(row), 2))
    found = zip(pairs_of(graph.cliques), graph.clique_counts.tolist(), strict=True)
    assert dict(found) == {**counts, **{pair[::-1]: count for pair, count in counts.items()}}
    both = case["cosines"] | {pair[::-1]: cosine for pair, cosine in case["cosines"].items()}
    ordered = sorted(both, key=lambda pair: (pair[0], -both[pair], pair[1]))
    assert pairs_of(graph.synonyms) == ordered
    assert graph.similarities.tolist() == [both[pair] for pair in ordered]


def pairs_of(rows: Rows) -> list[tuple[int, int]]:
    return [*zip(rows.owners.tolist(), rows.indices.tolist(), strict=True)]


def test_a_name_is_no_synonym_of_itself() -> None:
    nothing = np.empty((0, 2), dtype=np.int64)
    graph = proposition_graph(nothing, nothing, np.array([[0, 0], [1, 0]]), np.array([1.0, 0.9]), (0, 2, 0))
    assert pairs_of(graph.synonyms) == [(0, 1), (1, 0)]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5), st.data())
def test_gathered_rows_follow_each_other(rows: list[list[int]], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=7))
    owners = [number for number, row in enumerate(rows) for _ in row]
    flat = [value for row in rows for value in row]
    compressed = Rows.of(np.array(owners, dtype=np.int64), np.array(flat, dtype=np.int64), len(rows))
    found, offsets = compressed.gathered(np.array(wanted, dtype=np.int64))
    assert compressed.indices[offsets].tolist() == [value for number in wanted for value in rows[number]]
    assert found.tolist() == [order for order, number in enumerate(wanted) for _ in rows[number]]


def test_saved_arrays_open_memory_mapped_as_the_same_graph(g_prop_6: Any, tmp_path: Path) -> None:
    graph = g_prop_6.graph
    save_arrays(tmp_path, "propositions", graph.arrays)
    opened = PropositionGraph.of(lambda name: open_array(tmp_path, f"propositions_{name}"))
    for name, array in opened.arrays.items():
        assert array.dtype == graph.arrays[name].dtype
        assert array.tolist() == graph.arrays[name].tolist()
        assert not array.flags.writeable


Vector = NDArray[np.float64]
GRAPHS = range(200)
GOLDEN_1 = PathRule(seed_propositions=3, seed_entities=4, subgraph_passages=3)
SIX = PathRule(seed_propositions=6, seed_entities=5, subgraph_passages=4)


@dataclass(frozen=True)
class Judged:
    """A random graph: its arrays, and igraph's graph with an edge per shared proposition, synonym and containment."""

    graph: PropositionGraph
    plain: igraph.Graph
    similarities: Similarities
    rng: np.random.Generator


def judge(plain: igraph.Graph, seeds: Vector, restart: float) -> Vector:
    """PageRank by igraph."""
    options = {"directed": False, "weights": "weight", "implementation": "prpack"}
    return np.array(plain.personalized_pagerank(damping=1 - restart, reset=seeds.tolist(), **options))


def judged(seed: int, factor: float = 2.0) -> Judged:
    """Up to 120 nodes, which igraph solves directly; entities and passages without any proposition among them."""
    rng = np.random.default_rng(seed)
    entities, passages, propositions = (int(rng.integers(low, high)) for low, high in ((2, 70), (2, 50), (1, 60)))
    used_entities, used_passages = int(rng.integers(1, entities + 1)), int(rng.integers(1, passages + 1))
    members = [
        rng.choice(used_entities, min(used_entities, int(rng.integers(0, 5))), replace=False).tolist()
        for _ in range(propositions)
    ]
    held = (rng.integers(0, used_passages, int(rng.integers(1, 3))) for _ in range(propositions))
    sources = [np.unique(row).tolist() for row in held]
    synonyms = {tuple(sorted(rng.integers(0, entities, 2).tolist())) for _ in range(int(rng.integers(0, entities)))}
    cosines = {pair: float(rng.uniform(0.8, 1)) for pair in sorted(synonyms) if pair[0] != pair[1]}
    edges = [(pair, factor) for row in members for pair in combinations(row, 2)]
    edges += [(pair, factor * cosine) for pair, cosine in cosines.items()]
    both = zip(members, sources, strict=True)
    edges += [(pair, 1.0) for pair in sorted({(e, entities + d) for row, held in both for d in held for e in row})]
    plain = igraph.Graph(entities + passages, [pair for pair, _ in edges])
    plain.es["weight"] = [weight for _, weight in edges]
    graph = propositions_from(members, sources, cosines, (propositions, entities, passages))
    similarities = Similarities(np.ones(1), rng.uniform(-0.2, 1, propositions), rng.uniform(-0.2, 1, passages).round(1))
    return Judged(graph, plain, similarities, rng)


def order_of(scores: Vector) -> list[int]:
    """Nodes by descending score after rounding to nine digits, then ascending."""
    given: list[int] = np.lexsort((np.arange(len(scores)), -np.round(scores, 9))).tolist()
    return given


def test_walks_agree_with_igraph_on_random_graphs() -> None:
    """Per node to 1e-9 and in order: several seeds, isolated nodes among them, both restart probabilities."""
    isolated_seeds, many_seeds = 0, 0
    for number in GRAPHS:
        case = judged(number)
        walk = weighted_graph(case.graph, 2.0)
        seeds = case.rng.random(len(walk.strengths)) * (case.rng.random(len(walk.strengths)) < 0.2)
        seeds[case.rng.integers(len(seeds))] += 0.5
        isolated_seeds += int(np.any(seeds[walk.strengths == 0] > 0))
        many_seeds += int(np.count_nonzero(seeds) > 1)
        for restart in (0.25, 0.55):
            expected = judge(case.plain, seeds, restart)
            found = pagerank(walk, seeds, restart)
            assert found == pytest.approx(expected, abs=1e-9), number
            assert order_of(found) == order_of(expected), number
            assert found.sum() == pytest.approx(1, abs=1e-11)
    assert min(isolated_seeds, many_seeds) > 100


def test_both_stages_agree_with_igraph_on_random_graphs() -> None:
    """Seeds, subgraph and both walks made plainly, from dictionaries and igraph's induced subgraph."""
    walked = 0
    for number in GRAPHS:
        factor = 1.0 if number % 3 == 0 else 2.0
        case = judged(number, factor)
        walk = weighted_graph(case.graph, factor)
        rule = replace(SIX, stage1_passage_weight=0.05 * (number % 2))
        passages = case.graph.shape[2]
        first = focus(case.graph, walk, case.similarities, rule, passages)
        seeds = plain_seeds(case, rule)
        if first is None:
            assert not np.any(seeds)
            continue
        expected = judge(case.plain, seeds, 0.25)[-passages:]
        assert first.scores == pytest.approx(expected, abs=1e-9), number
        ties = -np.round(case.similarities.passages, 9)
        plain_order = np.lexsort((np.arange(passages), ties, -np.round(expected, 9)))
        order = np.lexsort((np.arange(passages), ties, -np.round(first.scores, 9)))
        assert order.tolist() == plain_order.tolist(), number
        walked += stage_2_agrees(case, walk, first.order[:4], rule)
    assert walked > 150


def plain_seeds(case: Judged, rule: PathRule) -> Vector:
    """Seeds of the first walk by sorting; nothing if no entity is named."""
    propositions, entities, passages = case.graph.shape
    sims = case.similarities.propositions.tolist()
    top = sorted(range(propositions), key=lambda n: (-sims[n], n))[: rule.seed_propositions]
    relevance: dict[int, float] = {}
    for n in sorted(top):
        for entity in case.graph.entities.indices[slice(*case.graph.entities.indptr[n : n + 2])].tolist():
            relevance[entity] = relevance.get(entity, 0.0) + sims[n]
    chosen = sorted(relevance, key=lambda entity: (-round(relevance[entity], 12), entity))[: rule.seed_entities]
    seeds = np.zeros(entities + passages)
    if chosen:
        seeds[chosen] = 1.0
        dense = case.similarities.passages
        height = dense.max() - dense.min()
        spread = (dense - dense.min()) / height if height > 0 else float(dense[0] > 0)
        seeds[entities:] = rule.stage1_passage_weight * spread
    return seeds


def stage_2_agrees(case: Judged, walk: Any, passages: NDArray[np.intp], rule: PathRule) -> bool:
    """Compares the second walk from two entities of the subgraph; False if it contains fewer."""
    entity_count = case.graph.shape[1]
    neighbours = {node for d in passages.tolist() for node in case.plain.neighbors(entity_count + d)}
    part = subgraph(case.graph, walk, passages, np.ones(case.graph.shape[0], dtype=np.bool_))
    assert part.entities.tolist() == sorted(neighbours)
    if len(neighbours) < 2:
        return False
    weights = {entity: float(case.rng.random()) for entity in part.entities[:2].tolist()}
    nodes = [*part.entities.tolist(), *(entity_count + passages).tolist()]
    order = sorted(nodes)  # igraph keeps the order of the whole graph
    dense = normalised(case.similarities.passages)
    seed_of = {**weights, **{entity_count + d: 0.05 * float(dense[d]) for d in passages.tolist()}}
    induced = case.plain.induced_subgraph(order)
    scored = judge(induced, np.array([seed_of.get(n, 0.0) for n in order]), 0.55)
    expected = dict(zip(order, scored, strict=True))
    walked = walk_subgraph(part, weights, case.similarities.passages, rule)
    assert walked is not None
    scores = np.array([expected[entity_count + d] for d in passages.tolist()])
    assert walked[0] == pytest.approx(scores, abs=1e-9)
    assert order_of(walked[0]) == order_of(scores)
    assert walked[1] == pytest.approx(min(score for score in expected.values() if score > 0), abs=1e-9)
    return True


def test_a_large_graph_agrees_with_igraph() -> None:
    """3,000 nodes, hubs among them, which igraph solves by iteration to 1e-10."""
    rng = np.random.default_rng(7)
    pairs = np.unique(np.sort((rng.pareto(1.0, (9000, 2)) * 20).astype(np.int64) % 2900, axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    members = np.stack((np.repeat(np.arange(len(pairs)), 2), pairs.ravel()), axis=1)
    held = np.stack((np.arange(len(pairs)), rng.integers(0, 100, len(pairs))), axis=1)
    nothing = np.empty((0, 2), dtype=np.int64)
    graph = proposition_graph(members, held, nothing, np.empty(0), (len(pairs), 2900, 100))
    walk = weighted_graph(graph, 2.0)
    plain = igraph.Graph(3000, [*zip(*map(np.ndarray.tolist, walk.weights.nonzero()), strict=True)])
    plain.es["weight"] = walk.weights.data.tolist()
    seeds = np.zeros(3000)
    seeds[[5, 200, 2700]] = 1, 2, 0.5
    for restart in (0.25, 0.55):
        assert pagerank(walk, seeds, restart) == pytest.approx(judge(plain, seeds, restart), abs=1e-9)


class Counted:
    """Weights that count how often they are multiplied."""

    def __init__(self, weights: Any) -> None:
        self.weights, self.products = weights, 0

    def __matmul__(self, scores: Vector) -> Any:
        self.products += 1
        return self.weights @ scores


@pytest.mark.parametrize(("restart", "most"), [(0.25, 37), (0.55, 21)])
def test_acceleration_saves_steps(restart: float, most: int) -> None:
    """By power iteration 104 and 37 steps are needed for the same accuracy on a graph that mixes slowly."""
    walk = weighted_graph(chain_of_entities(60), 2.0)
    counted = Counted(walk.weights)
    pagerank(replace(walk, weights=counted), np.eye(len(walk.strengths))[0], restart)  # type: ignore[arg-type]
    assert counted.products <= most


def chain_of_entities(count: int) -> PropositionGraph:
    """Each entity shares a proposition with the next one; no passage holds any."""
    return propositions_from([(n, n + 1) for n in range(count - 1)], [], {}, (count - 1, count, 1))


def test_golden_first_walk(g_prop_1: Any) -> None:
    """G-PROP-1."""
    index = g_prop_1.index()
    similarities = g_prop_1.similarities()
    expected = [0.733333, 0.666667, 0.564103, 0.933333, 0.506171, 0.133333]
    assert similarities.propositions == pytest.approx(expected, abs=1e-6)
    first = focus(index.graph, index.walk, similarities, GOLDEN_1, 4)
    assert first is not None
    assert [g_prop_1.names[number] for number in first.propositions] == ["p4", "p1", "p2"]
    assert [g_prop_1.entities[number] for number in first.entities] == ["P", "S", "V", "M"]
    assert first.scores == pytest.approx([0.036849, 0.042325, 0.064275, 0.030773], abs=1e-6)
    assert [g_prop_1.passages[number] for number in first.order] == ["d3", "d2", "d1", "d4"]
    seeds = np.array([float(name in {"M", "P", "S", "V"}) for name in [*g_prop_1.entities, *g_prop_1.passages]])
    found = dict(zip(g_prop_1.entities, pagerank(index.walk, seeds, 0.25).tolist(), strict=False))
    scores = {"M": 0.148735, "P": 0.14606, "B": 0.073254, "V": 0.181863, "W": 0.083707, "S": 0.143435, "F": 0.048724}
    assert found == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "edges", "expected"),
    [
        ({"stage1_passage_weight": 0.05}, (2.0, "counts"), [0.0401, 0.04324, 0.062828, 0.033294]),
        ({}, (1.0, "counts"), [0.051624, 0.057561, 0.09675, 0.041605]),
        ({}, (1.0, "ones"), [0.051671, 0.057869, 0.094557, 0.041625]),
    ],
)
def test_golden_first_walk_with_other_weights(g_prop_1: Any, changes: Any, edges: Any, expected: list[float]) -> None:
    """G-PROP-1."""
    index = g_prop_1.index(*edges)
    first = focus(index.graph, index.walk, g_prop_1.similarities(), replace(GOLDEN_1, **changes), 4)
    assert first is not None
    assert first.scores == pytest.approx(expected, abs=1e-6)


def test_a_walk_that_always_returns_stays_at_its_seeds_and_others_may_be_refused(
    g_prop_1: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, seeds = g_prop_1.index().walk, np.arange(11, dtype=np.float64)
    assert pagerank(walk, seeds, 1.0) == pytest.approx(seeds / seeds.sum(), abs=1e-15)
    with pytest.raises(NoSeedError):
        pagerank(walk, np.zeros(11), 0.25)
    monkeypatch.setattr(proposition_walks, "MAX_STEPS", 3)
    with pytest.raises(AlgorithmError, match="3 steps"):
        pagerank(walk, np.ones(11), 0.25)


def test_other_components_get_exactly_nothing_so_that_similarity_ranks_them(make_named_graph: Any) -> None:
    """d3 and d4 have nothing in common with the seed A, which reaches d2 twice; d4 is the more similar one."""
    named = make_named_graph(
        {"p1": ("d1", "A"), "p2": ("d2", "A B"), "p3": ("d3", "C D"), "p4": ("d4", "D")},
        {},
        {"p1": (1, 0), "p2": (0, 1), "p3": (0, 1), "p4": (0, 1)},
        (1, 0),
        {"d1": 0.1, "d2": 0.2, "d3": 0.3, "d4": 0.4},
    )
    index = named.index()
    first = focus(index.graph, index.walk, named.similarities(), PathRule(seed_propositions=1), 4)
    assert first is not None
    assert first.scores[2:].tolist() == [0, 0]
    assert [named.passages[number] for number in first.order] == ["d2", "d1", "d4", "d3"]


def test_a_subgraph_has_the_entities_of_its_passages_and_their_searchable_propositions(g_prop_6: Any) -> None:
    """G-PROP-6's d1 and d3: A, B, C; p1 and p2 come from d1, p3 from d3, and p2 has no vector."""
    index = g_prop_6.index()
    has_vector = np.array([name != "p2" for name in g_prop_6.names])
    part = subgraph(index.graph, index.walk, np.array([2, 0]), has_vector)
    assert [g_prop_6.entities[number] for number in part.entities] == ["A", "B", "C"]
    assert [g_prop_6.names[number] for number in part.propositions] == ["p1", "p3"]
    assert part.passages.tolist() == [2, 0]
    expected = [[0, 4, 3.7, 1, 1], [4, 0, 2, 0, 1], [3.7, 2, 0, 1, 0], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]]
    assert part.graph.weights.toarray() == pytest.approx(np.array(expected))
    assert part.graph.strengths == pytest.approx(np.sum(expected, axis=1))  # type: ignore[arg-type]


def test_a_second_walk_without_seeds_is_none(g_prop_6: Any) -> None:
    index = g_prop_6.index()
    part = subgraph(index.graph, index.walk, np.array([0]), np.ones(7, dtype=np.bool_))
    assert walk_subgraph(part, {}, np.zeros(5), PathRule()) is None
    assert walk_subgraph(part, {}, np.ones(5), PathRule(passage_weight=0)) is None
    assert walk_subgraph(part, {}, np.ones(5), PathRule()) is not None


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        *(([3.0, 1.0, 2.0], [1, 0, 0.5]), ([0.5, 0.5], [1, 1]), ([0.0, 0.0], [0, 0])),
        *(([-1.0], [0]), ([-3.0, -1.0], [0, 1]), ([], [])),
    ],
)
def test_normalised_similarities(given_values: list[float], expected: list[float]) -> None:
    """Equal ones are all 1 if they are above 0, else all 0."""
    assert normalised(np.array(given_values)).tolist() == expected


def test_propositions_without_a_vector_are_not_similar() -> None:
    assert most_similar(np.array([0.1, np.nan, 0.3, -0.2, 0.3]), 3).tolist() == [2, 4, 0]
    assert most_similar(np.array([np.nan, -0.5]), 3).tolist() == [1]


PAIRS = st.tuples(st.sampled_from([0.0, 0.1, 0.1 + 1e-14, 0.2]), st.sampled_from([-0.5, 0.3, 0.3 + 1e-14]))


@given(st.lists(PAIRS, max_size=90), st.integers(-1, 95))
def test_the_order_is_that_of_sorting_everything(pairs: list[tuple[float, float]], count: int) -> None:
    """Scores that differ by rounding only tie."""
    expected = sorted(range(len(pairs)), key=lambda n: (-round(pairs[n][0], 12), -round(pairs[n][1], 12), n))
    scores, similarities = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    assert in_order(scores, similarities, count).tolist() == expected[: max(0, count)]
