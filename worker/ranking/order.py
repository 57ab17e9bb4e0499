"""The total order of every ranking: score descending after rounding, then number ascending.

Passages and entities are numbered by ascending id and key, so the smaller number is the smaller id.
Source: algorithms.md 0.3, rules 1 and 2.
"""

import numpy as np
from numpy.typing import NDArray

DECIMALS = 12
"""Scores are compared after rounding to so many decimals, so that summation order never reorders a result."""

_MARGIN = 2e-12


def best(scores: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Numbers of the `count` best scores, best first; equal scores by ascending number.

    Args:
        scores: Shape (n,), no NaN; not modified.
        count: How many; fewer are returned if there are fewer, none if it is not positive.

    Returns:
        Shape (min(count, n),). Equal to sorting everything and cutting.
    Source: algorithms.md 0.3.
    Cost: O(n + count log count); ties at the cut do not enlarge the sort.
    """
    n = len(scores)
    count = min(count, n)
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    if count == n:
        return _sorted(np.arange(n), np.round(scores, DECIMALS))
    cut = np.partition(scores, n - count)[n - count]
    near = np.flatnonzero(scores >= cut - _MARGIN)
    rounded = np.round(scores[near], DECIMALS)
    threshold = np.round(cut, DECIMALS)
    above = rounded > threshold
    first = _sorted(near[above], rounded[above])
    tied = near[rounded == threshold]
    return np.concatenate((first, tied[: count - len(first)]))


def best_positive(scores: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """As `best`, without scores that are not above 0. Source: algorithms.md 2.9."""
    numbers = best(scores, count)
    return numbers[scores[numbers] > 0]


def _sorted(numbers: NDArray[np.intp], rounded: NDArray[np.float64]) -> NDArray[np.intp]:
    """`numbers`, given ascending, by descending score; the stable sort keeps ties ascending."""
    return numbers[np.argsort(-rounded, kind="stable")]
