"""Embeddings by content hash in one SQLite file, shared by all indexes and processes.

Computes no embedding (models/cached.py joins encoder and cache).
Invariant: a key's vector never changes, so writers need no agreement; a kill at any moment loses at most the rows of
the transaction in flight. Source: algorithms.md 0.6.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.database import SharedDatabase

_KEYS_PER_PAGE = 10_000  # 64 bytes each; chosen: bounds memory, and any number gives the same keys

# one JSON parameter, so that SQLite's limit of variables is none; 8 MB of MiniLM's vectors. Chosen.
KEYS_PER_READ = 5_000

_LENGTH_TOLERANCE = 1e-5
"""Encoders give vectors of length 1; float32's rounding of a sum of 384 squares stays below 1e-6."""
_LITTLE_ENDIAN = np.dtype("<f4")
_SQL_FILE = Path(__file__).parent / "sql" / "vectors.sql"


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Number of cached vectors, and bytes of the database without its write-ahead log."""

    row_count: int
    byte_count: int


def vector_key(model: str, kind: str, text: str) -> str:
    """sha256 of model, kind and text, 64 hexadecimal digits. Source: algorithms.md 0.6."""
    return content_hash(model, kind, text)


class VectorCache:
    """One SQLite file in write-ahead mode; safe for many threads and processes, not to be carried across a fork.

    Args:
        path: The file; created if missing.
        most_rows: Vectors that are kept, the newest; None: all.

    Attributes:
        damaged: Rows that were found damaged, and removed, since it was opened.

    Raises:
        StoreError: If the file cannot be created.
        DamagedStoreError: If it is not such a cache.
        StoreUnavailableError: If other processes kept it locked for 60 s.
    """

    def __init__(self, path: Path, *, most_rows: int | None = None) -> None:
        self.path = path
        self._most_rows = most_rows
        self.damaged = 0
        # A vector lost in a power cut is computed again: no need to wait for the disk after every transaction.
        self._database = SharedDatabase(path, _SQL_FILE, what="the cache of embeddings", is_durable=False)

    def get_many(self, keys: Sequence[str], dimension: int | None = None) -> dict[str, NDArray[np.float32]]:
        """The known vectors among `keys`, each of shape (d,), float32, read-only; unknown keys are left out.

        A damaged row is removed, so that its vector is computed again, and counted in `damaged`.

        Args:
            keys: Any keys.
            dimension: Length that every vector must have; None: any.
        """
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), KEYS_PER_READ):
            some = keys[start : start + KEYS_PER_READ]
            damaged, unsealed = [], []
            for key, value, checksum in self._database.read("read_vectors", {"keys": json.dumps(list(some))}):
                vector = sound_vector(key, value, checksum)
                if vector is None or dimension not in (None, len(vector)):
                    damaged.append({"key": key, "vector": value, "checksum": checksum})
                    continue
                found[key] = vector
                if checksum is None:
                    unsealed.append({"key": key, "checksum": row_checksum(key, value)})
            self._tidy(damaged, unsealed)
        return found

    def _tidy(self, damaged: list[dict[str, Any]], unsealed: list[dict[str, Any]]) -> None:
        self.damaged += len(damaged)
        if damaged or unsealed:
            with self._database.transaction() as change:
                change("forget_vector", damaged)
                change("seal_vector", unsealed)

    def put_many(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Stores vectors in one transaction; a key that is already known keeps its vector.

        Args:
            vectors: Key to vector of shape (d,), of any length but 0.

        Raises:
            InvalidVectorError: If a vector is zero or not finite; then none is stored.
        """
        values = {key: _checked(key, vector) for key, vector in vectors.items()}
        rows = [{"key": key, "vector": value, "checksum": row_checksum(key, value)} for key, value in values.items()]
        with self._database.transaction() as change:
            change("write_vector", rows)
            if self._most_rows is not None:
                change("forget_oldest", [{"most": self._most_rows}])

    def known_keys(self) -> Iterator[str]:
        """All keys in order; what others add meanwhile may or may not be among them."""
        after = ""
        while rows := self._database.read("read_keys", {"after": after, "limit": _KEYS_PER_PAGE}):
            after = rows[-1][0]
            yield from (key for (key,) in rows)

    def forget(self, keys: Sequence[str]) -> int:
        """Removes vectors and gives their room back to the disk; returns how many there were."""
        if not keys:
            return 0
        with self._database.transaction() as change:
            removed = change("forget_key", [{"key": key} for key in keys])
        self._database.compact()
        return removed

    def stats(self) -> CacheSize:
        """How many vectors are cached, and how large the file is."""
        row_count, byte_count = self._database.read("measure")[0]
        return CacheSize(row_count=row_count, byte_count=byte_count)

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        self._database.close()


def sound_vector(key: str, value: object, checksum: object) -> NDArray[np.float32] | None:
    """The vector of a row, None if the row is not as it was written.

    Rows of older versions have no checksum: of them, length and finiteness tell.
    """
    if not isinstance(value, bytes) or not value or len(value) % _LITTLE_ENDIAN.itemsize:
        return None
    vector = np.frombuffer(value, dtype=_LITTLE_ENDIAN).astype(np.float32, copy=False)
    if checksum is not None:
        return vector if checksum == row_checksum(key, value) else None
    with np.errstate(over="ignore", invalid="ignore"):
        return vector if abs(float(vector @ vector) - 1) < _LENGTH_TOLERANCE else None  # false for NaN


def row_checksum(key: str, value: bytes) -> bytes:
    """Eight bytes that tell a damaged row."""
    return blake2b(key.encode("utf-8", "replace") + value, digest_size=8).digest()


def _checked(key: str, vector: NDArray[np.float32]) -> bytes:
    stored = np.ascontiguousarray(vector, dtype=_LITTLE_ENDIAN)
    if stored.ndim != 1 or not np.isfinite(stored).all() or not stored.any():
        raise InvalidVectorError(f"The embedding of key {key} is empty, zero or not finite; it was not cached.")
    return stored.tobytes()
