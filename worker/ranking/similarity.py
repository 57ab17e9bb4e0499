"""Cosines of a question with all passages or entities, and what naive-vector makes of them.

Source: algorithms.md 0.1, 1.7, 6.2.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import EdgesByEntity, gathered
from polyhop.schemas.ports import VectorRowsByNumber
from polyhop.worker.ranking.fusion import DECIMALS

_BLOCK_VALUES = 1 << 24  # Cosines computed at once, 64 MB: 800 questions on 20,748 passages, 55 on 300,000.

_BLOCK_ROWS = 512
"""Rows multiplied with all vectors of a block while the cache has them. Measured (decision 0026)."""


def cosines(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosines of one vector with every row.

    One product per question, never a block of questions, whose sums would depend on who else is in the batch.

    Args:
        matrix: Shape (n, d), float32, rows of length 1 (or 0: missing), row-major.
        vector: Shape (d,), length 1.

    Returns:
        Shape (n,), float64.

    Source: algorithms.md 0.1.
    Cost: O(n d) in float32.
    """
    _check_dimension(matrix, vector)
    return np.asarray(matrix @ vector.astype(np.float32, copy=False), dtype=np.float64)


def rough_cosines(matrix: NDArray[np.float32], vectors: Sequence[NDArray[np.float32]]) -> Iterator[NDArray[np.float64]]:
    """Cosines of several vectors with every row, all of a block at once; good for choosing only.

    The last bits of a product depend on how many vectors it has. So only rows are chosen by it, with `cosine_error` to
    spare; what a ranking compares and shows are their `exact_cosines`, which depend on nothing else.

    Args:
        matrix: As of `cosines`.
        vectors: Shape (d,) each.

    Yields:
        Shape (n,), float64, for each vector in order.

    Cost: O(n d) each, in float32; the matrix is read once for a block of `_BLOCK_VALUES` / n vectors.
    """
    for vector in vectors:
        _check_dimension(matrix, vector)
    size = max(1, _BLOCK_VALUES // max(1, len(matrix)))
    for begin in range(0, len(vectors), size):
        some = [vector.astype(np.float32, copy=False) for vector in vectors[begin : begin + size]]
        yield from (row.astype(np.float64) for row in _products(matrix, some))


def _products(matrix: NDArray[np.float32], vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Shape (len(vectors), n): the matrix is read once, and never packed as a whole, which a single product does."""
    if len(vectors) == 1:
        return np.asarray(matrix @ vectors[0])[np.newaxis]
    columns = np.ascontiguousarray(np.stack(vectors, axis=1))
    found = np.empty((len(vectors), len(matrix)), dtype=np.float32)
    for begin in range(0, len(matrix), _BLOCK_ROWS):
        found[:, begin : begin + _BLOCK_ROWS] = (matrix[begin : begin + _BLOCK_ROWS] @ columns).T
    return found


def cosine_error(dimension: int) -> float:
    """The most by which the difference of two rough cosines may be wrong.

    Each is wrong by at most d * 2**-24 in float32, whatever the order of its sum, because the rows have length 1.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition (2002), sec. 3.1.
    """
    return 1.01 * dimension * float(np.finfo(np.float32).eps)


def exact_cosines(
    matrix: VectorRowsByNumber, rows: NDArray[np.intp], vector: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Cosines of one vector with a few rows, in float64: the same bits for a row whatever the others are.

    Args:
        matrix: As of `cosines`.
        rows: Shape (m,): row numbers.
        vector: Shape (d,), length 1.

    Returns:
        Shape (m,), float64.
    Cost: O(m d).
    """
    return np.asarray((matrix[rows].astype(np.float64) * vector.astype(np.float64)).sum(axis=1))


Vector = NDArray[np.float32]  # Shape (d,).


@dataclass(frozen=True, slots=True)
class Near:
    """Passages that may be nearest to a question's vectors, with cosines that are wrong by `cosine_error` at most."""

    rows: NDArray[np.intp]  # Shape (m,): passage numbers, ascending.
    cosines: list[NDArray[np.float64]]  # Shape (m,) for each vector of the question.


class Searches(Protocol):
    """Nearest-neighbour searches of several questions, started together."""

    def near(self, also: NDArray[np.intp]) -> Near:
        """Passages near to the next question's vectors, and these, ascending; to be called once per question."""
        ...


class NoSearches:
    """Searches of questions without vectors."""

    def near(self, also: NDArray[np.intp]) -> Near:
        """These passages, without cosines."""
        return Near(also, [])


class VectorSearch(Protocol):
    """Vectors of passages, and the search of the nearest among them."""

    @property
    def vectors(self) -> VectorRowsByNumber:
        """Rows by passage number."""
        ...

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...

    def start(self, vectors: Sequence[Sequence[Vector]], count: int) -> Searches:
        """Starts the searches of about `count` passages near to each vector of each question."""
        ...


class FullSearch:
    """Compares a vector with all passages.

    Args:
        matrix: Shape (n, d), float32, rows of length 1.
    """

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        self.vectors, self.dimension, self._rows = matrix, matrix.shape[1], np.arange(len(matrix))

    def start(self, vectors: Sequence[Sequence[Vector]], count: int) -> Searches:
        """Starts the searches: the matrix is read once for a block of vectors."""
        return _FullSearches(self.vectors, self._rows, vectors)


class _FullSearches:
    def __init__(
        self, matrix: NDArray[np.float32], rows: NDArray[np.intp], vectors: Sequence[Sequence[Vector]]
    ) -> None:
        self._rows, self._counts = rows, iter([len(own) for own in vectors])
        self._cosines = rough_cosines(matrix, [vector for own in vectors for vector in own])

    def near(self, also: NDArray[np.intp]) -> Near:
        """All passages."""
        return Near(self._rows, list(islice(self._cosines, next(self._counts))))


class PartitionedSearch:
    """Searches partitions of a large version through LanceDB, in the background; the first search opens LanceDB.

    Args:
        search_ahead: Starts the search of about `count` passages near to a vector: their numbers.
        vectors: Reads rows by number.
        first: Any vector, to open LanceDB with.
    """

    def __init__(
        self,
        search_ahead: Callable[[Vector, int], Future[NDArray[np.intp]]],
        vectors: VectorRowsByNumber,
        first: Vector,
    ) -> None:
        self._search_ahead, self.vectors, self.dimension = search_ahead, vectors, len(first)
        search_ahead(first, 1)

    def start(self, vectors: Sequence[Sequence[Vector]], count: int) -> Searches:
        """Starts the searches, one after the other in the order of the questions."""
        found = [[self._search_ahead(vector, count) for vector in own] for own in vectors]
        return _PartitionedSearches(self.vectors, iter(list(zip(vectors, found, strict=True))))


class _PartitionedSearches:
    def __init__(
        self,
        rows: VectorRowsByNumber,
        started: Iterator[tuple[Sequence[Vector], list[Future[NDArray[np.intp]]]]],
    ) -> None:
        self._rows, self._started = rows, started

    def near(self, also: NDArray[np.intp]) -> Near:
        """Passages that LanceDB found for the next question, and `also`."""
        vectors, found = next(self._started)
        first = [exact_cosines(self._rows, also, vector) for vector in vectors]  # while LanceDB searches
        others = np.unique(np.concatenate([each.result() for each in found]))
        others = others[~np.isin(others, also)]
        rows = np.concatenate((also, others))
        order = np.argsort(rows)
        further = [exact_cosines(self._rows, others, vector) for vector in vectors]
        cosines = [np.concatenate(both)[order] for both in zip(first, further, strict=True)]
        return Near(rows[order], cosines)


def passages_of_entities(
    mentions: EdgesByEntity, entities: NDArray[np.intp], scores: NDArray[np.float64], count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Passages that mention some scored entities: by the largest score, then the sum, then number.

    Args:
        mentions: Which passages mention each entity.
        entities: Shape (m,): entity numbers.
        scores: Shape (m,): their scores.
        count: Passages to return at most.

    Returns:
        Passage numbers and their largest entity score, in descending order of score.
    Source: algorithms.md 6.2.
    Cost: O(mentions of these entities, sorted).
    """
    starts, edges = gathered(mentions.indptr, entities)
    passages, inverse = np.unique(mentions.passages[edges], return_inverse=True)
    values = np.repeat(scores, np.diff(starts))
    largest = np.full(len(passages), -np.inf)
    np.maximum.at(largest, inverse, values)
    sums = np.bincount(inverse, values, len(passages))
    order = np.lexsort((passages, -np.round(sums, DECIMALS), -np.round(largest, DECIMALS)))[:count]
    return passages[order].astype(np.intp), largest[order]


def _check_dimension(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> None:
    if vector.shape != matrix.shape[1:]:
        raise AlgorithmError(
            f"The question's vector has shape {vector.shape}, the index has vectors of shape {matrix.shape[1:]}; "
            "encode questions with the model that built the index."
        )
