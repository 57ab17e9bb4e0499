"""Personalised PageRank by forward push: work bounded by the threshold, not by the graph.

Compiled with numba at the first call, so that only those who push pay for it.
Source: algorithms.md 2.6 (Andersen, Chung, Lang 2006, with a degree-normalised threshold).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.ranking.pagerank import normalised_seeds
from worker.ranking.transitions import Transition

MAX_PUSHES = 1_000_000


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push settled and what it left.

    Attributes:
        scores: Shape (n,): at most the exact PageRank everywhere.
        residual: Shape (n,): its sum is the sum of what is missing from `scores`.
        pushes: Nodes pushed.
    """

    scores: NDArray[np.float64]
    residual: NDArray[np.float64]
    pushes: int


def ppr_push(
    transition: Transition, seeds: NDArray[np.float64], restart: float, eps: float, max_pushes: int = MAX_PUSHES
) -> Pushed:
    """Personalised PageRank by forward push.

    Args:
        transition: The walk; a dangling node's mass goes to the seeds.
        seeds: Shape (n,), see `normalised_seeds`.
        restart: Probability of returning to the seeds, above 0, at most 1.
        eps: A node is pushed while its residual exceeds eps times its number of edges (at least 1); above 0.
        max_pushes: Stop after so many pushes.

    Returns:
        Scores, residual and the number of pushes; scores and residual together sum to 1.

    Raises:
        NoSeedError: If there is no seed.
    Source: algorithms.md 2.6: first in, first out, from ascending nodes, over ascending neighbours.
    Cost: O(n + 1 / (restart * eps)) edge visits.
    """
    start = normalised_seeds(seeds)
    matrix = transition.forward
    scores, residual, pushes = _compiled()(
        (matrix.indptr, matrix.indices, matrix.data), start, restart, eps, max_pushes
    )
    return Pushed(scores, residual, int(pushes))


@cache
def _compiled() -> Callable[..., tuple[NDArray[np.float64], NDArray[np.float64], int]]:
    from numba import njit  # noqa: PLC0415  one second of import, for those who push only

    inline: Any = njit(inline="always")(_spread)
    del inline
    compiled: Callable[..., Any] = njit(cache=True)(_push)
    return compiled
