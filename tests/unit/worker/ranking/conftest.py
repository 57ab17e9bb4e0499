"""Judges of walks: dense matrices and the definition of PageRank, nothing of the product."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from polyhop.schemas.graph import RelationGraph

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PlainWalk:
    """Personalised PageRank as defined: from a node along its edges, from one without edges to the seeds."""

    transition: sparse.csr_array
    seeds: Vector
    restart: float

    def after(self, steps: int) -> Vector:
        """Scores after so many power steps from the seeds."""
        moves, start = self._moves_and_start()
        scores = start
        for _ in range(steps):
            scores = (1 - self.restart) * scores @ moves + self.restart * start
        return scores

    def at_last(self) -> Vector:
        """Where the steps converge, by solving the equation."""
        moves, start = self._moves_and_start()
        return np.linalg.solve(np.eye(len(start)) - (1 - self.restart) * moves.T, self.restart * start)

    def _moves_and_start(self) -> tuple[Vector, Vector]:
        moves, start = self.transition.toarray(), self.seeds / self.seeds.sum()
        moves[moves.sum(axis=1) == 0] = start
        return moves, start


@pytest.fixture(scope="session")
def plain_walk() -> Callable[..., PlainWalk]:
    return PlainWalk


@pytest.fixture(scope="session")
def qasa_graph(make_relations: Callable[..., RelationGraph]) -> RelationGraph:
    """G-QASA-1: the entities a to h."""
    stated = (
        "a wrote c; c located in d; d capital of e; b studied at c; e part of f; a born in d; c mentions g; d near h"
    )
    triples = [*stated.split("; "), "c written by a"]
    return make_relations("abcdefgh", [(triple[0], triple[2:-2], triple[-1]) for triple in triples])
