"""Reciprocal rank fusion: golden vectors and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.worker.ranking.fusion import reciprocal_rank_fusion

A, B, C, D = range(4)
LISTS = st.lists(st.lists(st.integers(0, 20), max_size=10), max_size=4)


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
    ],
)
def test_golden_fusions(lists: list[list[int]], k: float, expected: list[tuple[int, float]]) -> None:
    """G-RRF."""
    fused = reciprocal_rank_fusion(lists, k)
    assert [item for item, _ in fused] == [item for item, _ in expected]
    assert [score for _, score in fused] == pytest.approx([score for _, score in expected], abs=1e-6)


def test_a_tie_goes_to_the_first_list_and_not_to_the_smaller_number() -> None:
    assert [item for item, _ in reciprocal_rank_fusion([[7], [2]])] == [7, 2]


def test_k_is_60_unless_given_and_items_of_equal_ranks_go_by_number() -> None:
    ((item, score),) = reciprocal_rank_fusion([[7]])
    assert item == 7
    assert score == pytest.approx(1 / 61)
    # 5 is first in one list and missing in the other, 2 the other way round: the first list decides.
    assert [item for item, _ in reciprocal_rank_fusion([[5], [2]])] == [5, 2]


@given(LISTS)
def test_every_item_comes_out_once(lists: list[list[int]]) -> None:
    items = [item for item, _ in reciprocal_rank_fusion(lists)]
    assert sorted(items) == sorted({item for row in lists for item in row})


@given(LISTS)
def test_scores_do_not_depend_on_the_order_of_the_lists(lists: list[list[int]]) -> None:
    forward, backward = (dict(reciprocal_rank_fusion(rows)) for rows in (lists, lists[::-1]))
    assert forward == backward


@given(st.lists(st.integers(0, 30), unique=True, max_size=15), st.integers(1, 4))
def test_equal_lists_keep_their_order(items: list[int], copies: int) -> None:
    assert [item for item, _ in reciprocal_rank_fusion([items] * copies)] == items


@given(LISTS)
def test_scores_descend(lists: list[list[int]]) -> None:
    scores = [round(score, 12) for _, score in reciprocal_rank_fusion(lists)]
    assert scores == sorted(scores, reverse=True)
