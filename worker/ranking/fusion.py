"""The total order of every ranking (rounded score, then number), and fusion by ranks or scores.

Passages and entities are numbered by ascending id and key, so the smaller number is the smaller id. Source:
algorithms.md 0.3, rules 1 and 2.
"""

from collections.abc import Sequence
from math import fsum, inf

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import distinct

DECIMALS = 12
"""Scores are compared after rounding to so many decimals, so that summation order never reorders a result."""

_MARGIN = 2e-12  # scores that are equal after rounding differ by 1e-12 at most; twice that
_GROUP = 64  # chosen: the largest of every 64 scores are enough for a bound; any number gives the same ranking


def best(scores: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Numbers of the `count` best scores, in descending order of score; equal scores by ascending number.

    Args:
        scores: Shape (n,), no NaN; not modified.
        count: How many; fewer are returned if there are fewer, none if it is not positive.

    Returns:
        Shape (min(count, n),). Equal to sorting everything and cutting.
    Source: algorithms.md 0.3.
    Cost: O(n + count log count) unless very many scores tie at the cut.
    """
    near = contenders(scores, count)
    return near[np.argsort(-np.round(scores[near], DECIMALS), kind="stable")[: max(count, 0)]]


def best_positive(scores: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """As `best`, without scores that are not above 0. Source: algorithms.md 2.9."""
    near = contenders(scores, count)
    near = near[scores[near] > 0]
    return near[best(scores[near], count)]


def kth_largest(scores: NDArray[np.float64], k: int) -> float:
    """The k-th largest score (k from 1), 0 if there are fewer. Cost: O(n)."""
    if k > len(scores):
        return 0.0
    near = scores[contenders(scores, k)]
    return float(np.partition(near, len(near) - k)[len(near) - k])


def contenders(scores: NDArray[np.float64], count: int, error: float = 0.0) -> NDArray[np.intp]:
    """Ascending numbers of all scores that can be among the best `count`, and few others.

    `error` is the most by which the difference of two scores may be wrong.

    At least `count` scores reach the count-th largest maximum of disjoint groups, which is cheaper than selecting among
    all: selection by numpy is slow where many scores are equal.
    """
    n = len(scores)
    if count >= n or count <= 0:
        return np.arange(n if count > 0 else 0)
    width = n // _GROUP
    tops = scores if count > width else scores[: width * _GROUP].reshape(_GROUP, width).max(axis=0)
    bound = np.partition(tops, len(tops) - count)[len(tops) - count]
    return np.flatnonzero(scores >= bound - _MARGIN - error)


# Source: algorithms.md 0.5 (Cormack et al. 2009, k = 60).


def reciprocal_rank_fusion(lists: Sequence[Sequence[int]], k: float = 60.0) -> list[tuple[int, float]]:
    """Items of all lists by the sum of `1 / (k + rank)`.

    Args:
        lists: Item numbers, in descending order of score; a repeated item keeps its first rank and the rest moves up.
        k: Damping of the first ranks, at least 0.

    Returns:
        (item, score), in descending order of score; ties by rank in the first list, then the second…, then by number.
    Source: algorithms.md 0.5.
    Cost: O(items log items).
    """
    ranks: dict[int, list[float]] = {}
    for list_index, items in enumerate(lists):
        for rank, item in enumerate(dict.fromkeys(items), start=1):
            ranks.setdefault(item, [inf] * len(lists))[list_index] = rank
    scored = [(item, fsum(1 / (k + rank) for rank in in_lists), in_lists) for item, in_lists in ranks.items()]
    scored.sort(key=lambda entry: (-round(entry[1], DECIMALS), entry[2], entry[0]))
    return [(item, score) for item, score, _ in scored]


# Source: algorithms.md 2.9 (RRF+PPR).

Scored = tuple[NDArray[np.intp], NDArray[np.float64]]  # Distinct item numbers and their scores.


def min_max(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores stretched to 0 … 1; all 1 if they are equal. Source: algorithms.md 2.9."""
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return np.ones(len(scores)) if low == high else np.asarray((scores - low) / (high - low))


def weighted_fusion(lists: Sequence[Scored], weights: Sequence[float]) -> Scored:
    """Items of all lists by the weighted sum of their stretched scores; a missing one counts 0.

    Returns:
        All items, in descending order of score, ties by number, and their sums.
    Source: algorithms.md 2.9.
    """
    items = distinct(np.concatenate([numbers for numbers, _ in lists])).astype(np.intp)
    sums = np.zeros(len(items))
    for (numbers, scores), weight in zip(lists, weights, strict=True):
        sums[np.searchsorted(items, numbers)] += weight * min_max(scores)
    order = best(sums, len(sums))
    return items[order], sums[order]
