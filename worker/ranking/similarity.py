"""Cosines of a question with all passages or entities, and what naive-vector makes of them.

Source: algorithms.md 0.1, 1.7, 6.2.
"""

from collections.abc import Iterator, Sequence

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
    passages, places = np.unique(mentions.passages[edges], return_inverse=True)
    values = np.repeat(scores, np.diff(starts))
    largest = np.full(len(passages), -np.inf)
    np.maximum.at(largest, places, values)
    sums = np.bincount(places, values, len(passages))
    order = np.lexsort((passages, -np.round(sums, DECIMALS), -np.round(largest, DECIMALS)))[:count]
    return passages[order].astype(np.intp), largest[order]


def _check_dimension(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> None:
    if vector.shape != matrix.shape[1:]:
        raise AlgorithmError(
            f"The question's vector has shape {vector.shape}, the index has vectors of shape {matrix.shape[1:]}; "
            "encode questions with the model that built the index."
        )
