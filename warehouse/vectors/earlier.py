"""Vectors of the current version by the content hash of what was embedded: what stays in an index is copied in bulk.

Encodes nothing, and checks no file: which files are as they were published is for the caller to know.
Invariant: equal content hashes (encoder, kind, text) mean equal vectors, so that a copy has the bits of the cache's.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.warehouse.graph.arrays import open_array

HASH_BYTES = 32  # of a sha256
_BLOCK = 8192
"""Rows that are copied at a time: 12 MB."""

Hashes = NDArray[np.uint8]
Rows = NDArray[np.int64]


class EarlierVectors:
    """A matrix of vectors with the content hash of every row.

    Args:
        hashes: Shape (n, 32), uint8: sha256 of what each row was made of; the smaller row counts where two are equal.
        open_matrix: Opens the matrix, shape (n, d), float32; it is closed after every use, because its version may be
            removed while this is kept.
    """

    def __init__(self, hashes: Hashes, open_matrix: Callable[[], NDArray[np.float32]]) -> None:
        self._hashes = hashes
        self._open_matrix = open_matrix
        heads = _heads(hashes)
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def rows_of(self, hashes: Hashes) -> Rows:
        """The row of each content hash, -1 where there is none.

        Of two hashes that begin with the same 64 bits only one is found; the other counts as unknown, which is safe.

        Args:
            hashes: Shape (m, 32), uint8.

        Cost: O(m log n).
        """
        if not len(self._heads):
            return np.full(len(hashes), -1, dtype=np.int64)
        found = np.minimum(np.searchsorted(self._heads, _heads(hashes)), len(self._heads) - 1)
        rows = self._order[found].astype(np.int64)
        return np.where((self._hashes[rows] == hashes).all(axis=1), rows, -1)

    def copy_to(self, target: NDArray[np.float32], places: Rows, rows: Rows) -> None:
        """Writes these rows into `target` at `places`."""
        matrix = self._open_matrix()
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            target[places[part]] = matrix[rows[part]]


def hashes_of(keys: Sequence[bytes]) -> Hashes:
    """Content hashes of 32 bytes each as an array of shape (n, 32)."""
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), HASH_BYTES)


def open_earlier(files: Sequence[Path], dimension: int) -> EarlierVectors:
    """The vectors in these files, hashes first, then the matrix; none if there are no files, or they do not fit."""
    return _opened(tuple(files), dimension)


@lru_cache(maxsize=1)
def _opened(files: tuple[Path, ...], dimension: int) -> EarlierVectors:
    try:
        hashes, matrix = (open_array(file.parent, file.stem) for file in files)
    except (DamagedStoreError, ValueError):
        return _nothing(dimension)
    fits = hashes.shape == (len(matrix), HASH_BYTES) and matrix.shape[1:] == (dimension,)
    if not fits or hashes.dtype != np.uint8 or matrix.dtype != np.float32:
        return _nothing(dimension)
    return EarlierVectors(np.array(hashes, np.uint8), partial(_matrix, files[1]))


def _matrix(file: Path) -> NDArray[np.float32]:
    return cast("NDArray[np.float32]", open_array(file.parent, file.stem))


def _nothing(dimension: int) -> EarlierVectors:
    nothing = np.empty((0, dimension), np.float32)
    return EarlierVectors(np.empty((0, HASH_BYTES), np.uint8), lambda: nothing)


def _heads(hashes: Hashes) -> NDArray[np.uint64]:
    """The first 64 bits of each."""
    return np.ascontiguousarray(hashes[:, :8]).view("<u8").ravel().astype(np.uint64, copy=False)
