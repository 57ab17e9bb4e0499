"""Personalised PageRank: golden weights, matrices and vectors, laws, and igraph as the independent judge."""

from collections.abc import Callable
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from polyhop.schemas.errors import NoSeedError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.fusion import best
from polyhop.worker.ranking.pagerank import (
    BipartiteTransition,
    WalkSeeds,
    bipartite_transition,
    edge_weights,
    joined,
    normalised_seeds,
    walk_passages,
)

ALICE, BOB, FRANCE, PARIS = range(4)
GOLDEN: dict[str, tuple[dict[int, float], list[float], list[float]]] = {
    "graph": (
        {0: 1, 1: 2**-0.5},
        [0.473781, 0.137297, 0.046668, 0.005578, 0],
        [0.315065, 0.096029, 0.039171, 0.009195, 0],
    ),
    "hybrid mass": (
        {0: 1, 1: 2**-0.5, 4: 1, 6: 0.5},
        [0.347937, 0.089167, 0.064309, 0.009134, 0],
        [0.309719, 0.087736, 0.08093, 0.018997, 0],
    ),
    "hybrid adaptive": (
        {0: (2 - 2**0.5) / 2, 1: (2**0.5 - 1) / 2, 4: 1 / 3, 6: 1 / 6},
        [0.339249, 0.085844, 0.065527, 0.00938, 0],
        [0.30935, 0.087164, 0.083813, 0.019673, 0],
    ),
    "passages only": (
        {4: 2 / 3, 6: 1 / 3},
        [0.204718, 0.03439, 0.084386, 0.013182, 0],
        [0.303636, 0.078298, 0.128454, 0.030152, 0],
    ),
    "uniform": (
        {4: 1, 5: 1, 6: 1, 7: 1, 8: 1},
        [0.105029, 0.087241, 0.116639, 0.07618, 0.036168],
        [0.15267, 0.117631, 0.157213, 0.093489, 0.036145],
    ),
    "dangling seed": (
        {4: 0.5, 8: 0.5},
        [0.351751, 0.042642, 0.005979, 0, 0.135559],
        [0.376776, 0.062022, 0.025299, 0.005938, 0.130435],
    ),
}
ORDERS = {
    "graph": [0, 1, 2, 3, 4],
    "passages only": [0, 2, 1, 3, 4],
    "uniform": [2, 0, 1, 3, 4],
    "dangling seed": [0, 4, 1, 2, 3],
}


def test_golden_edge_weights(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1; passage by passage, entities ascending."""
    expected = [3.197225, 1.693147, 1.693147, 1.693147, 1.693147, 2.386294, 1.693147]
    assert edge_weights(golden_graph) == pytest.approx(expected, abs=1e-6)


def test_golden_transitions_with_hub_penalty(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, p = .5."""
    matrices = bipartite_transition(golden_graph, hub_penalty=0.5)
    from_entities, from_passages = matrices.to_passages.toarray().T, matrices.to_entities.toarray().T
    assert from_entities[ALICE] == pytest.approx([1, 0, 0, 0, 0])
    assert from_entities[BOB] == pytest.approx([0.5, 0.5, 0, 0, 0])
    assert from_entities[FRANCE] == pytest.approx([0, 0, 0.5, 0.5, 0])
    assert from_entities[PARIS] == pytest.approx([0, 0.415044, 0.584956, 0, 0], abs=1e-6)
    assert from_passages[0] == pytest.approx([0.727558, 0.272442, 0, 0], abs=1e-6)
    assert from_passages[1] == pytest.approx([0, 0.5, 0, 0.5])
    assert from_passages[2] == pytest.approx([0, 0, 0.415044, 0.584956], abs=1e-6)
    assert from_passages[3] == pytest.approx([0, 0, 1, 0])
    assert from_passages[4] == pytest.approx([0, 0, 0, 0])
    assert matrices.dangling.tolist() == [False, False, False, False, True]


def test_golden_transition_without_hub_penalty(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, p = 0."""
    from_passages = bipartite_transition(golden_graph).to_entities.toarray().T
    assert from_passages[0] == pytest.approx([0.653779, 0.346221, 0, 0], abs=1e-6)


def test_a_title_boost_favours_the_passage_that_the_entity_names(make_graph: Callable[..., BipartiteGraph]) -> None:
    graph = make_graph([{"a": 1}, {"a": 1}], {1: ["a"]})
    matrices = bipartite_transition(graph, title_boost=4.0)
    assert matrices.to_passages.toarray().ravel() == pytest.approx([0.2, 0.8])
    assert matrices.to_entities.toarray().ravel() == pytest.approx([1, 1])


def test_the_joined_walk_puts_entities_before_passages(golden_graph: BipartiteGraph) -> None:
    parts = bipartite_transition(golden_graph, hub_penalty=0.5)
    walk = joined(parts)
    dense = walk.toarray()
    assert np.array_equal(dense[:4, 4:], parts.to_passages.toarray().T)
    assert np.array_equal(dense[4:, :4], parts.to_entities.toarray().T)
    assert (dense.sum(axis=1) > 0).tolist() == [True] * 8 + [False]
    assert all(np.all(np.diff(walk.indices[a:b]) > 0) for a, b in zip(walk.indptr, walk.indptr[1:], strict=False))


def test_one_passage_alone_has_weight_one(make_graph: Callable[..., BipartiteGraph]) -> None:
    """N = 1: ln(2 / 2) * tf + 1."""
    assert edge_weights(make_graph([{"a": 7}])).tolist() == [1.0]


def test_the_graph_s_own_arrays_are_left_alone(golden_graph: BipartiteGraph) -> None:
    before = [golden_graph.indptr.copy(), golden_graph.indices.copy(), golden_graph.tf.copy()]
    joined(bipartite_transition(golden_graph, hub_penalty=1.0, title_boost=3.0))
    for old, new in zip(before, [golden_graph.indptr, golden_graph.indices, golden_graph.tf], strict=True):
        assert np.array_equal(old, new)  # type: ignore[arg-type]


ENTITY_COUNT = 4


def seeds_of(weights: dict[int, float]) -> WalkSeeds:
    """Weights by node, entities before passages, that sum to 1."""
    total = sum(weights.values())
    entities = {node: weight / total for node, weight in weights.items() if node < ENTITY_COUNT}
    passages = {node - ENTITY_COUNT: weight / total for node, weight in weights.items() if node >= ENTITY_COUNT}
    return WalkSeeds(
        *(np.array([*entities], dtype=np.intp), np.array([*entities.values()])),
        *(np.array([*passages], dtype=np.intp), np.array([*passages.values()])),
    )


@pytest.fixture
def golden_walk(golden_graph: BipartiteGraph) -> BipartiteTransition:
    return bipartite_transition(golden_graph, hub_penalty=0.5)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_scores_after_five_steps_and_at_convergence(golden_walk: BipartiteTransition, name: str) -> None:
    """G-SPRIG-2."""
    weights, five, exact = GOLDEN[name]
    scores = walk_passages(golden_walk, seeds_of(weights), 0.15, 5, return_dangling=True)
    assert scores == pytest.approx(five, abs=1e-6)
    converged = walk_passages(golden_walk, seeds_of(weights), 0.15, 200, return_dangling=True)
    assert converged == pytest.approx(exact, abs=1e-6)
    if name in ORDERS:
        assert best(scores, 5).tolist() == ORDERS[name]


def test_the_judge_gives_the_golden_entities_after_five_steps(
    golden_walk: BipartiteTransition, plain_walk: Any
) -> None:
    """G-SPRIG-2, entity part."""
    seeds = np.array([1, 2**-0.5, 0, 0, 0, 0, 0, 0, 0])
    scores = plain_walk(joined(golden_walk), seeds, 0.15).after(5)
    assert scores[:ENTITY_COUNT] == pytest.approx([0.192353, 0.120419, 0.001969, 0.021935], abs=1e-6)


@st.composite
def random_walks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, n) with dangling nodes and no loops, and seeds."""
    n = draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.random((n, n)) * (rng.random((n, n)) < draw(st.sampled_from([0.15, 0.4, 0.8])))
    np.fill_diagonal(weights, 0)
    seeds = rng.random(n) * (rng.random(n) < 0.5)
    seeds[draw(st.integers(0, n - 1))] += 0.5
    return weights, seeds


@given(random_walks(), st.sampled_from([0.1, 0.15, 0.25, 0.55, 0.9]))
def test_the_judge_agrees_with_igraph(plain_walk: Any, case: tuple[np.ndarray, np.ndarray], restart: float) -> None:
    weights, seeds = case
    sources, targets = np.nonzero(weights)
    totals = weights.sum(axis=1, keepdims=True)
    rows = sparse.csr_array(np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0))
    graph = igraph.Graph(n=len(seeds), edges=list(zip(sources.tolist(), targets.tolist(), strict=True)), directed=True)
    expected = graph.personalized_pagerank(
        damping=1 - restart, reset=seeds.tolist(), weights=weights[sources, targets].tolist(), implementation="prpack"
    )
    assert plain_walk(rows, seeds, restart).at_last() == pytest.approx(expected, abs=1e-9)


def test_mass_in_flight_shrinks_with_the_steps(golden_walk: BipartiteTransition) -> None:
    """G-SPRIG-2: .85 ** T is the bound of what later steps can still move."""
    weights, _, exact = GOLDEN["graph"]
    for steps in (5, 10, 20):
        scores = walk_passages(golden_walk, seeds_of(weights), 0.15, steps, return_dangling=True)
        assert 0 < np.abs(scores - exact).sum() <= 2 * 0.85**steps


def test_negative_and_missing_seeds_count_as_zero() -> None:
    assert normalised_seeds(np.array([1.0, -5.0, np.nan, 3.0])).tolist() == [0.25, 0, 0, 0.75]


@pytest.mark.parametrize("seeds", [[0.0] * 9, [-1.0] * 9, [np.nan] * 9, [np.inf] * 9])
def test_seeds_without_a_weight_above_zero_are_refused(seeds: list[float]) -> None:
    with pytest.raises(NoSeedError, match="fallback"):
        normalised_seeds(np.array(seeds))


@given(st.integers(0, 2**32 - 1), st.integers(0, 8))
def test_the_passages_half_is_the_passages_part_of_the_whole_walk(
    make_graph: Any, plain_walk: Any, seed: int, steps: int
) -> None:
    """Also for passages without entity, seeded or not."""
    rng = np.random.default_rng(seed)
    rows = [{key: float(rng.integers(1, 4)) for key in "abcdef" if rng.random() < 0.3} for _ in range(7)]
    graph = make_graph([*rows, {"a": 1.0}])
    parts = bipartite_transition(graph, hub_penalty=0.5)
    n, m = graph.entity_count, graph.passage_count
    passages = rng.choice(m, 3, replace=False)
    total = rng.random(4)
    total /= total.sum()
    seeds = WalkSeeds(np.array([0]), total[:1], passages, total[1:])
    whole = np.zeros(n + m)
    whole[0], whole[n + passages] = total[0], total[1:]
    expected = plain_walk(joined(parts), whole, 0.15).after(steps)[n:]
    assert walk_passages(parts, seeds, 0.15, steps, return_dangling=True) == pytest.approx(expected, abs=1e-13)


def test_without_return_the_mass_of_dangling_passages_is_lost(golden_graph: BipartiteGraph) -> None:
    parts = bipartite_transition(golden_graph)
    seeds = WalkSeeds(np.array([], dtype=np.intp), np.array([]), np.array([4]), np.array([1.0]))
    assert walk_passages(parts, seeds, 0.1, 5, return_dangling=False).tolist() == pytest.approx([0, 0, 0, 0, 0.1])
