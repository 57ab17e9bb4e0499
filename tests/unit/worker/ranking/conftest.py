"""The judge of walks: dense matrices and the definition of PageRank, nothing of the product."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

Vector = NDArray[np.float64]


def plain(transition: sparse.csr_array, seeds: Vector, restart: float, steps: int | None = None) -> Vector:
    """Personalised PageRank: from a node along its edges, from one without edges to the seeds."""
    moves, start = transition.toarray(), seeds / seeds.sum()
    moves[moves.sum(axis=1) == 0] = start
    if steps is None:
        return np.linalg.solve(np.eye(len(start)) - (1 - restart) * moves.T, restart * start)
    scores = start
    for _ in range(steps):
        scores = (1 - restart) * scores @ moves + restart * start
    return scores


@pytest.fixture(scope="session")
def plain_walk() -> Callable[..., Vector]:
    return plain
