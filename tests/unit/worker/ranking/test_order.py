"""The total order: score after rounding, then number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polyhop.worker.ranking.fusion import best, best_positive, kth_largest


def sorted_and_cut(scores: np.ndarray, count: int) -> list[int]:
    order = sorted(range(len(scores)), key=lambda number: (-np.round(scores[number], 12), number))
    return order[: max(count, 0)]


def test_ties_go_to_the_smaller_number() -> None:
    assert best(np.array([0.5, 0.9, 0.5, 0.9]), 3).tolist() == [1, 3, 0]


def test_scores_that_differ_by_summation_order_only_are_ties() -> None:
    assert best(np.array([0.3, 0.1 + 0.2, 0.7]), 2).tolist() == [2, 0]


def test_a_tie_across_the_cut_keeps_the_smaller_number_even_if_its_score_is_an_ulp_lower() -> None:
    scores = np.full(1000, 0.1 + 0.2)
    scores[7] = 0.3
    assert best(scores, 8).tolist() == list(range(8))


@pytest.mark.parametrize("count", [-1, 0])
def test_a_count_that_is_not_positive_gives_nothing(count: int) -> None:
    assert best(np.array([1.0, 2.0]), count).tolist() == []
    assert best_positive(np.array([1.0, 2.0]), count).tolist() == []


def test_nothing_is_ordered_if_there_is_nothing() -> None:
    assert best(np.empty(0), 5).tolist() == []
    assert kth_largest(np.empty(0), 1) == 0.0


def test_scores_not_above_zero_are_left_out_on_request() -> None:
    assert best_positive(np.array([0.0, 2.0, -1.0, 3.0, 0.0]), 5).tolist() == [3, 1]


@given(
    hnp.arrays(np.float64, st.integers(0, 700), elements=st.sampled_from([0.0, 0.25, 0.1 + 0.2, 0.3, 7.5, -1.0, 1e5])),
    st.integers(0, 800),
)
def test_the_best_of_many_ties_are_those_of_a_full_sort(scores: np.ndarray, count: int) -> None:
    assert best(scores, count).tolist() == sorted_and_cut(scores, count)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3000), st.integers(0, 100))
def test_the_best_of_distinct_scores_are_those_of_a_full_sort(seed: int, n: int, count: int) -> None:
    scores = np.random.default_rng(seed).standard_normal(n)
    assert best(scores, count).tolist() == sorted_and_cut(scores, count)


@given(hnp.arrays(np.float64, st.integers(1, 700), elements=st.floats(-10, 10)), st.integers(1, 800))
def test_the_kth_largest_is_that_of_a_full_sort(scores: np.ndarray, k: int) -> None:
    assert kth_largest(scores, k) == (np.sort(scores)[-k] if k <= len(scores) else 0.0)
