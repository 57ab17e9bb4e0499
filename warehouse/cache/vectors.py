"""Embeddings by content hash in one SQLite file, shared by all indexes and processes.

Invariant: a key's vector never changes, so writers need no agreement; a kill at any moment loses at most the rows of
the transaction in flight. Source: algorithms.md 0.6.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError
from polyhop.schemas.text import content_hash

if TYPE_CHECKING:
    from polyhop.warehouse.cache.database import Change, SharedDatabase

_KEYS_PER_PAGE = 10_000  # 64 bytes each; chosen: bounds memory, and any number gives the same keys

# one JSON parameter, so that SQLite's limit of variables is none; 8 MB of MiniLM's vectors. Chosen.
KEYS_PER_READ = 5_000

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
    """One SQLite file (see SharedDatabase); safe for many threads and processes, not to be carried across a fork.

    Args:
        path: The file; created if missing.
        most_rows: Vectors that are kept, the newest; None: all.
    """

    def __init__(self, path: Path, *, most_rows: int | None = None) -> None:
        self.path = path
        self._most_rows = most_rows
        self._opening = Lock()
        self._opened: SharedDatabase | None = None

    @property
    def _database(self) -> "SharedDatabase":
        """The file, opened when something of it is first wanted: who asks a question wants nothing of it."""
        from polyhop.warehouse.cache.database import SharedDatabase

        with self._opening:
            if self._opened is None:
                # A vector lost in a power cut is computed again: no need to wait for the disk after every transaction.
                self._opened = SharedDatabase(self.path, _SQL_FILE, what="the cache of embeddings", is_durable=False)
            return self._opened

    def get_many(self, keys: Sequence[str], dimension: int | None = None) -> dict[str, NDArray[np.float32]]:
        """The known vectors among `keys`, each of shape (d,), float32, read-only; unknown keys are left out.

        Args:
            keys: Any keys.
            dimension: Length of the vectors; one of another length is left out. None: any.
        """
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), KEYS_PER_READ):
            some = list(keys[start : start + KEYS_PER_READ])
            for key, value in self._database.read("read_vectors", {"keys": json.dumps(some)}):
                count, rest = divmod(len(value), _LITTLE_ENDIAN.itemsize)
                if isinstance(value, bytes) and not rest and dimension in (None, count):
                    found[key] = np.frombuffer(value, dtype=_LITTLE_ENDIAN).astype(np.float32, copy=False)
        return found

    def put_many(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Stores vectors in one transaction; a key that is already known keeps its vector.

        Args:
            vectors: Key to vector of shape (d,), of any length but 0.
        """
        rows = [{"key": key, "vector": _checked(key, vector)} for key, vector in vectors.items()]

        def store(change: "Change") -> None:
            change("write_vector", rows)
            if self._most_rows is not None:
                change("forget_oldest", [{"most": self._most_rows}])

        self._database.transact(store)

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
        removed = self._database.transact(lambda change: change("forget_key", [{"key": key} for key in keys]))
        self._database.compact()
        return removed

    def stats(self) -> CacheSize:
        """How many vectors are cached, and how large the file is."""
        row_count, byte_count = self._database.read("measure")[0]
        return CacheSize(row_count=row_count, byte_count=byte_count)

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()


def _checked(key: str, vector: NDArray[np.float32]) -> bytes:
    stored = np.ascontiguousarray(vector, dtype=_LITTLE_ENDIAN)
    if stored.ndim != 1 or not np.isfinite(stored).all() or not stored.any():
        raise InvalidVectorError(f"The embedding of key {key} is empty, zero or not finite; it was not cached.")
    return stored.tobytes()
