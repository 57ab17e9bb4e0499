"""Forward push: golden vectors and the invariants of algorithms.md 2.6."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from polyhop.schemas.errors import NoSeedError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.pagerank import bipartite_transition, joined, ppr_push

SEEDS = np.array([1, 2**-0.5, 0, 0, 0, 0, 0, 0, 0])


@pytest.fixture
def golden_walk(golden_graph: BipartiteGraph) -> sparse.csr_array:
    return joined(bipartite_transition(golden_graph, hub_penalty=0.5))


@pytest.mark.parametrize(
    ("eps", "pushes", "passages", "left"),
    [
        (1e-1, 10, [0.197349, 0.041586, 0, 0], 0.453303),
        (1e-2, 50, [0.301072, 0.085647, 0.0266, 0.004579], 0.084426),
        (1e-3, 113, [0.31387, 0.094965, 0.037977, 0.008715], 0.007789),
        (1e-4, 176, [0.314977, 0.09595, 0.039077, 0.009142], 0.000601),
    ],
)
def test_golden_pushes(
    golden_walk: sparse.csr_array, eps: float, pushes: int, passages: list[float], left: float
) -> None:
    """G-SPRIG-3."""
    pushed = ppr_push(golden_walk, SEEDS, 0.15, eps)
    assert pushed.pushes == pushes
    assert pushed.scores[4:8] == pytest.approx(passages, abs=1e-6)
    assert pushed.residual.sum() == pytest.approx(left, abs=1e-6)


def test_golden_residual_of_a_coarse_push(golden_walk: sparse.csr_array) -> None:
    """G-SPRIG-3, eps = .1."""
    pushed = ppr_push(golden_walk, SEEDS, 0.15, 0.1)
    assert pushed.residual[[1, 3, 4]] == pytest.approx([0.184388, 0.117827, 0.151089], abs=1e-6)
    assert pushed.scores[:2] == pytest.approx([0.209913, 0.097849], abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.sampled_from([0.1, 0.15, 0.5]))
def test_what_is_settled_and_what_is_left_make_up_the_exact_scores(
    plain_walk: Any, seed: int, n: int, restart: float
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < 0.3)
    np.fill_diagonal(weights, 0)
    totals = weights.sum(axis=1, keepdims=True)
    walk = sparse.csr_array(np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0))
    seeds = rng.random(n) * (rng.random(n) < 0.4)
    seeds[0] += 0.1
    exact = plain_walk(walk, seeds, restart).at_last()
    pushes = []
    for eps in (1e-1, 1e-3, 1e-5):
        pushed = ppr_push(walk, seeds, restart, eps)
        pushes.append(pushed.pushes)
        assert pushed.scores.sum() + pushed.residual.sum() == pytest.approx(1, abs=1e-12)
        assert np.abs(exact - pushed.scores).sum() == pytest.approx(pushed.residual.sum(), abs=1e-9)
        assert np.all(pushed.scores <= exact + 1e-9)
        degrees = np.maximum(1, np.diff(walk.indptr))
        assert np.all(pushed.residual <= eps * degrees)
    assert pushes == sorted(pushes)


def test_mass_of_dangling_nodes_returns_to_the_seeds_as_in_igraph() -> None:
    """algorithms.md 0.4: an edge and an isolated node."""
    walk = sparse.csr_array(np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]]))
    pushed = ppr_push(walk, np.array([1.0, 0, 1]), 0.25, 1e-9)
    assert pushed.scores == pytest.approx([0.457143, 0.342857, 0.2], abs=1e-6)


def test_no_more_is_pushed_than_allowed(golden_walk: sparse.csr_array) -> None:
    pushed = ppr_push(golden_walk, SEEDS, 0.15, 1e-4, max_pushes=7)
    assert pushed.pushes == 7
    assert pushed.scores.sum() + pushed.residual.sum() == pytest.approx(1)


def test_a_push_without_a_seed_is_refused(golden_walk: sparse.csr_array) -> None:
    with pytest.raises(NoSeedError):
        ppr_push(golden_walk, np.zeros(9), 0.15, 1e-4)


def test_the_seeds_are_left_alone(golden_walk: sparse.csr_array) -> None:
    seeds = SEEDS / SEEDS.sum()
    before = seeds.copy()
    ppr_push(golden_walk, seeds, 0.15, 1e-3)
    assert np.array_equal(seeds, before)
