"""The total order of every ranking: score descending after rounding, then number ascending.

Passages and entities are numbered by ascending id and key, so the smaller number is the smaller id.
Source: algorithms.md 0.3, rules 1 and 2.
"""

import numpy as np
from numpy.typing import NDArray

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
    positive = np.flatnonzero(scores > 0)
    return positive[best(scores[positive], count)]


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
