"""Personalised PageRank by forward push: work bounded by the threshold, not by the graph.

Compiled with numba at the first call, so that only those who push pay for it.
Source: algorithms.md 2.6 (Andersen, Chung, Lang 2006, with a degree-normalised threshold).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.pagerank import normalised_seeds

if TYPE_CHECKING:
    from scipy import sparse

MAX_PUSHES = 1_000_000  # algorithms.md 2.6.

_Edges = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float64]]
_Start = tuple[NDArray[np.integer], NDArray[np.float64], NDArray[np.float64]]
_Result = tuple[NDArray[np.float64], NDArray[np.float64], int]


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
    transition: "sparse.csr_array", seeds: NDArray[np.float64], restart: float, eps: float, max_pushes: int = MAX_PUSHES
) -> Pushed:
    """Personalised PageRank by forward push.

    Args:
        transition: Shape (n, n), rows sum to 1, or 0 for dangling nodes, whose mass goes to the seeds.
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
    seeded = np.flatnonzero(start).astype(transition.indices.dtype)
    scores, residual, pushes = _compiled()(
        (transition.indptr, transition.indices, transition.data),
        (seeded, start[seeded], start),
        restart,
        eps,
        max_pushes,
    )
    return Pushed(scores, residual, int(pushes))


def _push(edges: _Edges, start: _Start, restart: float, eps: float, max_pushes: int) -> _Result:
    """The loop itself. A queued node's residual only grows, so every node taken is still above its threshold."""
    indptr, indices, data = edges
    seeded, seed_weights, residual = start[0], start[1], start[2].copy()
    n = len(residual)
    thresholds = eps * np.maximum(1, indptr[1:] - indptr[:-1])
    scores = np.zeros(n)
    waiting = residual > thresholds
    queue = np.empty(n, dtype=np.int64)
    head, size, pushes = 0, 0, 0
    for node in seeded[waiting[seeded]]:
        queue[size] = node
        size += 1
    while size > 0 and pushes < max_pushes:
        node = queue[head]
        head = (head + 1) % n
        size -= 1
        pushes += 1
        waiting[node] = False
        mass = residual[node]
        residual[node] = 0.0
        scores[node] += restart * mass
        targets, shares = indices[indptr[node] : indptr[node + 1]], data[indptr[node] : indptr[node + 1]]
        if len(targets) == 0:
            targets, shares = seeded, seed_weights
        for place in range(len(targets)):
            target = targets[place]
            residual[target] += (1 - restart) * mass * shares[place]
            if not waiting[target] and residual[target] > thresholds[target]:
                waiting[target] = True
                queue[(head + size) % n] = target
                size += 1
    return scores, residual, pushes


@cache
def _compiled() -> Callable[[_Edges, _Start, float, float, int], _Result]:
    from numba import njit

    compiled: Callable[[_Edges, _Start, float, float, int], _Result] = njit(cache=True)(_push)
    return compiled
