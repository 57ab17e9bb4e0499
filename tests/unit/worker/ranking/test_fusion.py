"""Total order, fusion by ranks and by scores: golden vectors, and the definitions on random lists."""

from math import fsum, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polyhop.worker.ranking.fusion import (
    Scored,
    best,
    best_positive,
    kth_largest,
    min_max,
    reciprocal_rank_fusion,
    weighted_fusion,
)

A, B, C, D = range(4)


@pytest.mark.parametrize(
    ("lists", "k", "expected"),
    [
        ([[A, B, C], [B, D, A]], 60, [(B, 0.032522), (A, 0.032266), (D, 0.016129), (C, 0.015873)]),
        ([[A, B], [B, A]], 60, [(A, 0.032522), (B, 0.032522)]),
        ([[A], [B]], 60, [(A, 0.016393), (B, 0.016393)]),
        ([[A, B, C], [C, B, A]], 0, [(A, 1.333333), (C, 1.333333), (B, 1.0)]),
        ([[A, B, C, D], [D, C], [C]], 60, [(C, 0.048395), (D, 0.032018), (A, 0.016393), (B, 0.016129)]),
        ([[A, A, B], [B]], 60, [(B, 0.032522), (A, 0.016393)]),
        ([[], []], 60, []),
        ([[A, B], []], 60, [(A, 0.016393), (B, 0.016129)]),
        ([], 60, []),
        ([[7], [2]], 60, [(7, 1 / 61), (2, 1 / 61)]),  # a tie goes to the first list and not to the smaller number
    ],
)
def test_golden_fusions(lists: list[list[int]], k: float, expected: list[tuple[int, float]]) -> None:
    """G-RRF."""
    fused = reciprocal_rank_fusion(lists, k)
    assert [item for item, _ in fused] == [item for item, _ in expected]
    assert [score for _, score in fused] == pytest.approx([score for _, score in expected], abs=1e-6)


@given(st.lists(st.lists(st.integers(0, 20), max_size=10), max_size=4))
def test_fusion_is_that_of_the_definition_with_k_60(lists: list[list[int]]) -> None:
    """Ties by rank in the first list, then in the second…; the order of the lists changes no bit of a score."""
    distinct = [list(dict.fromkeys(row)) for row in lists]
    ranks = {n: [row.index(n) + 1 if n in row else inf for row in distinct] for row in distinct for n in row}
    score = {item: fsum(1 / (60 + rank) for rank in places) for item, places in ranks.items()}
    fused = reciprocal_rank_fusion(lists)
    assert [item for item, _ in fused] == sorted(ranks, key=lambda n: (-round(score[n], 12), ranks[n]))
    assert dict(fused) == dict(reciprocal_rank_fusion(lists[::-1])) == score


def scored(*pairs: tuple[int, float]) -> Scored:
    return np.array([item for item, _ in pairs], dtype=np.intp), np.array([score for _, score in pairs])


SPRIG_5 = [(A, 1 / 61), (B, 1 / 62), (C, 1 / 63)], [(B, 0.4), (A, 0.1), (C, 0.0)]


@pytest.mark.parametrize(
    ("lists", "weights", "items", "scores"),
    [
        (SPRIG_5, (0.5, 0.5), [B, A, C], [0.745968, 0.625, 0]),
        # what a list misses counts nothing, and ties go to the smaller number
        (([(D, 2.0), (B, 1.0)], [(C, 9.0), (A, 1.0)]), (0.5, 0.5), [C, D, A, B], [0.5, 0.5, 0, 0]),
        # an empty list changes nothing but the height
        (([], [(B, 2.0), (A, 1.0)]), (0.25, 0.75), [B, A], [0.75, 0]),
        (([], []), (0.5, 0.5), [], []),
    ],
)
def test_fusion_by_scores(
    lists: tuple[list[tuple[int, float]], ...], weights: tuple[float, ...], items: list[int], scores: list[float]
) -> None:
    found, sums = weighted_fusion([scored(*pairs) for pairs in lists], weights)
    assert found.tolist() == items
    assert sums == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("scores", [[3.0, 3.0], [7.0]])
def test_equal_scores_are_all_one(scores: list[float]) -> None:
    assert min_max(np.array(scores)).tolist() == [1.0] * len(scores)


def sorted_and_cut(scores: np.ndarray, count: int) -> list[int]:
    order = sorted(range(len(scores)), key=lambda number: (-np.round(scores[number], 12), number))
    return order[: max(count, 0)]


@pytest.mark.parametrize(
    ("scores", "count", "expected"),
    [
        ([0.5, 0.9, 0.5, 0.9], 3, [1, 3, 0]),
        ([0.3, 0.1 + 0.2, 0.7], 2, [2, 0]),  # differ by the order of a sum only
        ([0.1 + 0.2] * 7 + [0.3] + [0.1 + 0.2] * 992, 8, [*range(8)]),  # the tie across the cut is an ulp lower
        ([1.0, 2.0], -1, []),
        ([1.0, 2.0], 0, []),
        ([], 5, []),
    ],
)
def test_ties_go_to_the_smaller_number(scores: list[float], count: int, expected: list[int]) -> None:
    assert best(np.array(scores), count).tolist() == expected
    assert best_positive(np.array(scores), count).tolist() == expected


def test_scores_not_above_zero_are_left_out_on_request() -> None:
    assert best_positive(np.array([0.0, 2.0, -1.0, 3.0, 0.0]), 5).tolist() == [3, 1]


@given(
    hnp.arrays(np.float64, st.integers(0, 700), elements=st.sampled_from([0.0, 0.25, 0.1 + 0.2, 0.3, 7.5, -1.0, 1e5]))
    | st.builds(lambda seed, n: np.random.default_rng(seed).standard_normal(n), st.integers(0), st.integers(1, 3000)),
    st.integers(0, 800),
)
def test_the_best_of_many_scores_are_those_of_a_full_sort(scores: np.ndarray, count: int) -> None:
    assert best(scores, count).tolist() == sorted_and_cut(scores, count)


@given(hnp.arrays(np.float64, st.integers(0, 700), elements=st.floats(-10, 10)), st.integers(1, 800))
def test_the_kth_largest_is_that_of_a_full_sort(scores: np.ndarray, k: int) -> None:
    assert kth_largest(scores, k) == (np.sort(scores)[-k] if k <= len(scores) else 0.0)
