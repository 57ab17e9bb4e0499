"""Bridge's steps on its golden vectors, and the laws of the cover."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.bridge import cover, relative, seed_passages, walk_part
from polyhop.worker.ranking.pagerank import (
    WalkSeeds,
    bipartite_transition,
    edge_weights,
    entity_weights,
    mix,
    walk_passages,
)

COSINES = np.array([0.60, 0.20, 0.10, 0.58, 0.05, 0.28, 0.12, 0.15, 0.02, 0.01, 0, -0.05])
BM25 = np.array([4.0, 1, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0])


@pytest.fixture
def golden_bridge(make_graph: Callable[..., BipartiteGraph]) -> BipartiteGraph:
    """G-BRIDGE-1: entities a 0, b 1, c 2, d 3, e 4, then t10, t11, t6…t9."""
    mentions: list[dict[str, float]] = [
        {"a": 2, "b": 1},
        {"b": 2, "c": 1},
        {"c": 1},
        {"b": 1, "d": 1},
        {"d": 1},
        {"e": 1, "a": 1},
        {"d": 1, "t6": 1},
        {"c": 2, "t7": 1},
        *({f"t{p}": 1.0} for p in range(8, 12)),
    ]
    titles = {0: ["a"], 1: ["b"], 2: ["c"], 4: ["d"], 5: ["e"], **{p: [f"t{p}"] for p in range(6, 12)}}
    return make_graph(mentions, titles)


def golden_seeds(graph: BipartiteGraph) -> WalkSeeds:
    numbers, passages = seed_passages(COSINES + 0.3 * relative(BM25), 2, 0.03)
    entities = np.array([graph.number_of["a"]])
    mixed = mix(2.0 * entity_weights(graph.df[entities], 0.5), passages)
    return WalkSeeds(entities, mixed[0], numbers, mixed[1])


def test_golden_edge_weights(golden_bridge: BipartiteGraph) -> None:
    """G-BRIDGE-1: 0a, 0b, 1b, then 5a, 5e."""
    weights = edge_weights(golden_bridge)
    assert weights[:3] == pytest.approx([3.932674, 2.178655, 3.35731], abs=1e-6)
    first = golden_bridge.indptr[5]
    assert weights[first : first + 2] == pytest.approx([2.466337, 2.871802], abs=1e-6)


def test_golden_seeds(golden_bridge: BipartiteGraph) -> None:
    """G-BRIDGE-1, before norming: p0 1, p3 .513417, a 1.414214, together 2.927631."""
    seeds = golden_seeds(golden_bridge)
    assert seeds.passages.tolist() == [0, 3]
    assert seeds.passage_weights * 2.927631 == pytest.approx([1, 0.513417], abs=1e-6)
    assert seeds.entity_weights * 2.927631 == pytest.approx([1.414214], abs=1e-6)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [0.420456, 0, 0, 0.017537, 0, 0.048453, 0, 0]),
        (3, [0.296875, 0.10203, 0, 0.031794, 0.005073, 0.052405, 0.001015, 0]),
        (5, [0.243034, 0.122386, 0.021565, 0.035338, 0.012386, 0.047113, 0.002944, 0.006646]),
    ],
)
def test_golden_walk(golden_bridge: BipartiteGraph, steps: int, expected: list[float]) -> None:
    """G-BRIDGE-1."""
    matrices = bipartite_transition(golden_bridge, title_boost=5.0)
    mass = walk_passages(matrices, golden_seeds(golden_bridge), 0.1, steps, return_dangling=False)
    assert mass[:8] == pytest.approx(expected, abs=1e-6)
    assert mass[8:].tolist() == [0.0] * 4


def test_golden_fusion(golden_bridge: BipartiteGraph) -> None:
    """G-BRIDGE-1: fewer than ten passages have mass, so the floor is the reference."""
    matrices = bipartite_transition(golden_bridge, title_boost=5.0)
    mass = walk_passages(matrices, golden_seeds(golden_bridge), 0.1, 5, return_dangling=False)
    expected = [2.6, 1.619262, 0.695758, 1.34264, 0.501502, 1.160576, 0.340141, 0.48074, 0.02, 0.01, 0, -0.05]
    assert COSINES + walk_part(mass, 0.2, 10) == pytest.approx(expected, abs=1e-6)


def test_without_mass_the_walk_adds_nothing() -> None:
    assert walk_part(np.zeros(2), 0.2, 10).tolist() == [0.0, 0.0]


def test_the_mass_of_the_reference_rank_counts_as_one() -> None:
    assert walk_part(np.array([0.4, 0.1, 0.025, 0.0]), 0.2, 2) == pytest.approx([0.4, 0.2, 0.1, 0])


def test_relative_scores_of_nothing_are_zero() -> None:
    assert relative(np.zeros(3)).tolist() == [0, 0, 0]
    assert relative(np.array([2.0, 4.0])).tolist() == [0.5, 1]


def test_golden_cover() -> None:
    """G-BRIDGE-2: stems x (idf 2), y, z (1 each)."""
    contains = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]], dtype=bool)
    assert cover(np.array([0.9, 0.8, 0.75, 0.7]), contains, np.array([2.0, 1, 1]), 1.0, 4) == [0, 3, 1, 2]


def test_after_the_chosen_ones_the_order_is_by_score() -> None:
    contains = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    scores, idf = np.array([0.9, 0.8, 0.2, 0.1]), np.ones(3)
    assert cover(scores, contains, idf, 5.0, 4) == [0, 2, 3, 1]
    assert cover(scores, contains, idf, 5.0, 2) == [0, 2, 1, 3]


def test_an_equal_gain_goes_to_the_larger_score_then_to_the_earlier_place() -> None:
    contains = np.array([[0, 0], [1, 0], [0, 1], [1, 0]], dtype=bool)
    assert cover(np.array([0.9, 0.5, 0.5, 0.5]), contains, np.ones(2), 1.0, 4) == [0, 1, 2, 3]


def test_a_question_without_known_stems_keeps_the_order() -> None:
    assert cover(np.array([0.9, 0.8]), np.zeros((2, 0), dtype=bool), np.array([]), 1.0, 20) == [0, 1]
    assert cover(np.array([]), np.zeros((0, 0), dtype=bool), np.array([]), 1.0, 20) == []


def plain_cover(scores: np.ndarray, contains: np.ndarray, idf: np.ndarray, weight: float, choose: int) -> list[int]:
    """The text of 2B.3 step 4, word by word."""
    order, total = [0], sum(idf)
    while len(order) < min(choose, len(scores)):
        covered = {stem for place in order for stem in np.flatnonzero(contains[place])}
        rest = [place for place in range(len(scores)) if place not in order]
        gain = {p: sum(idf[s] for s in np.flatnonzero(contains[p]) if s not in covered) / total for p in rest}
        order.append(min(rest, key=lambda p: (-round(scores[p] + weight * gain[p], 12), -scores[p], p)))
    return order + [place for place in range(len(scores)) if place not in order]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5), st.integers(1, 14))
def test_the_cover_is_the_specified_one(seed: int, m: int, stems: int, choose: int) -> None:
    rng = np.random.default_rng(seed)
    scores = np.sort(np.round(rng.random(m), 1))[::-1].copy()
    contains, idf = rng.random((m, stems)) < 0.3, rng.integers(1, 4, stems).astype(float)
    assert cover(scores, contains, idf, 1.0, choose) == plain_cover(scores, contains, idf, 1.0, choose)
