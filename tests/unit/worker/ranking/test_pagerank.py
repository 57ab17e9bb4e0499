"""Personalised PageRank: golden vectors, laws, and igraph as the independent judge."""

from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from schemas.errors import NoSeedError
from schemas.graph import BipartiteGraph
from worker.ranking.order import best
from worker.ranking.pagerank import normalised_seeds, ppr_exact, ppr_power, walk_passages
from worker.ranking.seeds import WalkSeeds
from worker.ranking.transitions import Transition, bipartite_transition, joined, transition

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


def dense_seeds(weights: dict[int, float], n: int = 9) -> np.ndarray:
    seeds = np.zeros(n)
    seeds[list(weights)] = list(weights.values())
    return seeds


@pytest.fixture
def golden_walk(golden_graph: BipartiteGraph) -> Transition:
    return joined(bipartite_transition(golden_graph, hub_penalty=0.5))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_scores_after_five_steps_and_at_convergence(golden_walk: Transition, name: str) -> None:
    """G-SPRIG-2."""
    weights, five, exact = GOLDEN[name]
    scores = ppr_power(golden_walk, dense_seeds(weights), 0.15, 5)
    assert scores[4:] == pytest.approx(five, abs=1e-6)
    assert scores.sum() == pytest.approx(1)
    assert ppr_exact(golden_walk, dense_seeds(weights), 0.15)[4:] == pytest.approx(exact, abs=1e-6)
    if name in ORDERS:
        assert best(scores[4:], 5).tolist() == ORDERS[name]


def test_golden_entities_after_five_steps(golden_walk: Transition) -> None:
    """G-SPRIG-2, entity part."""
    scores = ppr_power(golden_walk, dense_seeds(GOLDEN["graph"][0]), 0.15, 5)
    assert scores[:4] == pytest.approx([0.192353, 0.120419, 0.001969, 0.021935], abs=1e-6)


def test_mass_of_dangling_nodes_returns_to_the_seeds_as_in_igraph() -> None:
    """algorithms.md 0.4: an edge and an isolated node."""
    walk = transition(sparse.csr_array(np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]])))
    assert ppr_exact(walk, np.array([1.0, 0, 1]), 0.25) == pytest.approx([0.457143, 0.342857, 0.2], abs=1e-6)


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


def walk_of(weights: np.ndarray) -> Transition:
    totals = weights.sum(axis=1, keepdims=True)
    rows = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    return transition(sparse.csr_array(rows))


@given(random_walks(), st.sampled_from([0.1, 0.15, 0.25, 0.55, 0.9]))
def test_the_exact_scores_are_those_of_igraph(case: tuple[np.ndarray, np.ndarray], restart: float) -> None:
    weights, seeds = case
    sources, targets = np.nonzero(weights)
    judge = igraph.Graph(n=len(seeds), edges=list(zip(sources.tolist(), targets.tolist(), strict=True)), directed=True)
    expected = judge.personalized_pagerank(
        damping=1 - restart, reset=seeds.tolist(), weights=weights[sources, targets].tolist(), implementation="prpack"
    )
    assert ppr_exact(walk_of(weights), seeds, restart) == pytest.approx(expected, abs=1e-9)


@given(random_walks(), st.integers(0, 9))
def test_scores_sum_to_one_after_every_step(case: tuple[np.ndarray, np.ndarray], steps: int) -> None:
    scores = ppr_power(walk_of(case[0]), case[1], 0.15, steps)
    assert scores.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(scores >= 0)


@given(random_walks(), st.sampled_from([0.0, 1e-3, 1e-12]))
def test_a_column_of_a_block_gets_what_it_gets_alone(case: tuple[np.ndarray, np.ndarray], tol: float) -> None:
    weights, seeds = case
    walk = walk_of(weights)
    others = np.eye(len(seeds))
    together = ppr_power(walk, np.column_stack([seeds, others]), 0.15, 60, tol)
    alone = [ppr_power(walk, column, 0.15, 60, tol) for column in (seeds, *others)]
    assert together == pytest.approx(np.column_stack(alone), abs=1e-14)


def test_mass_in_flight_shrinks_with_the_steps(golden_walk: Transition) -> None:
    """G-SPRIG-2: .85 ** T is the bound of what later steps can still move."""
    seeds = dense_seeds(GOLDEN["graph"][0])
    exact = ppr_exact(golden_walk, seeds, 0.15)
    for steps in (5, 10, 20):
        assert np.abs(ppr_power(golden_walk, seeds, 0.15, steps) - exact).sum() <= 2 * 0.85**steps


def test_negative_and_missing_seeds_count_as_zero() -> None:
    assert normalised_seeds(np.array([1.0, -5.0, np.nan, 3.0])).tolist() == [0.25, 0, 0, 0.75]


@pytest.mark.parametrize("seeds", [[0.0] * 9, [-1.0] * 9, [np.nan] * 9])
def test_a_walk_without_a_seed_is_refused(golden_walk: Transition, seeds: list[float]) -> None:
    with pytest.raises(NoSeedError, match="fallback"):
        ppr_power(golden_walk, np.array(seeds), 0.15, 5)


def test_a_block_with_one_empty_column_is_refused(golden_walk: Transition) -> None:
    with pytest.raises(ValueError, match="seed"):
        ppr_power(golden_walk, np.column_stack([np.ones(9), np.zeros(9)]), 0.15, 5)


@given(st.integers(0, 2**32 - 1), st.integers(0, 8))
def test_the_passages_half_is_the_passages_part_of_the_whole_walk(make_graph: Any, seed: int, steps: int) -> None:
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
    expected = ppr_power(joined(parts), whole, 0.15, steps)[n:]
    assert walk_passages(parts, seeds, 0.15, steps, return_dangling=True) == pytest.approx(expected, abs=1e-13)


def test_without_return_the_mass_of_dangling_passages_is_lost(golden_graph: BipartiteGraph) -> None:
    parts = bipartite_transition(golden_graph)
    seeds = WalkSeeds(np.array([], dtype=np.intp), np.array([]), np.array([4]), np.array([1.0]))
    assert walk_passages(parts, seeds, 0.1, 5, return_dangling=False).tolist() == pytest.approx([0, 0, 0, 0, 0.1])
