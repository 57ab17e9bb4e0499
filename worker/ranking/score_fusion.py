"""Fusion of ranked lists by their scores (fusion.py fuses by ranks). Source: algorithms.md 2.9 (RRF+PPR)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.order import best

Scored = tuple[NDArray[np.intp], NDArray[np.float64]]
"""Distinct item numbers and their scores."""


def min_max(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores stretched to 0 … 1; all 1 if they are equal. Source: algorithms.md 2.9."""
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return np.ones(len(scores)) if low == high else np.asarray((scores - low) / (high - low))


def weighted_fusion(lists: Sequence[Scored], weights: Sequence[float]) -> Scored:
    """Items of all lists by the weighted sum of their stretched scores; a missing one counts 0.

    Args:
        lists: Distinct items with scores.
        weights: One per list.

    Returns:
        All items, in descending order of score, ties by number, and their sums.
    Source: algorithms.md 2.9.
    """
    items = np.unique(np.concatenate([numbers for numbers, _ in lists])).astype(np.intp)
    sums = np.zeros(len(items))
    for (numbers, scores), weight in zip(lists, weights, strict=True):
        sums[np.searchsorted(items, numbers)] += weight * min_max(scores)
    order = best(sums, len(sums))
    return items[order], sums[order]
