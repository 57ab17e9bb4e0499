"""Fusion by scores: the golden vector and its corners."""

import numpy as np
import pytest

from polyhop.worker.ranking.fusion import Scored, min_max, weighted_fusion

A, B, C, D = range(4)


def scored(*pairs: tuple[int, float]) -> Scored:
    return np.array([item for item, _ in pairs], dtype=np.intp), np.array([score for _, score in pairs])


def test_golden_fusion_of_rrf_and_ppr() -> None:
    """G-SPRIG-5."""
    items, scores = weighted_fusion(
        (scored((A, 1 / 61), (B, 1 / 62), (C, 1 / 63)), scored((B, 0.4), (A, 0.1), (C, 0.0))), (0.5, 0.5)
    )
    assert items.tolist() == [B, A, C]
    assert scores == pytest.approx([0.745968, 0.625, 0], abs=1e-6)


def test_what_a_list_misses_counts_nothing_and_ties_go_to_the_smaller_number() -> None:
    items, scores = weighted_fusion((scored((D, 2.0), (B, 1.0)), scored((C, 9.0), (A, 1.0))), (0.5, 0.5))
    assert items.tolist() == [C, D, A, B]
    assert scores.tolist() == [0.5, 0.5, 0, 0]


def test_equal_scores_are_all_one() -> None:
    assert min_max(np.array([3.0, 3.0])).tolist() == [1, 1]
    assert min_max(np.array([7.0])).tolist() == [1]


def test_an_empty_list_changes_nothing_but_the_height() -> None:
    items, scores = weighted_fusion((scored(), scored((B, 2.0), (A, 1.0))), (0.25, 0.75))
    assert (items.tolist(), scores.tolist()) == ([B, A], [0.75, 0])
    assert [len(part) for part in weighted_fusion((scored(), scored()), (0.5, 0.5))] == [0, 0]
