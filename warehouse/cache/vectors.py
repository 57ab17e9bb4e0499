"""Embeddings by content hash in one SQLite file, shared by all indexes and processes.

Computes no embedding (models/cached.py joins encoder and cache).
Invariant: a key's vector never changes, so writers need no agreement; a kill at any moment loses at most the rows of
the transaction in flight. Source: algorithms.md 0.6.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from schemas.errors import InvalidVectorError, StoreError, StoreUnavailableError
from schemas.ids import content_hash
from warehouse.files.disk import disk_sentence, writing
from warehouse.sql_files import read_statements

TextKind = Literal["query", "passage", "entity", "proposition", "path"]
BUSY_TIMEOUT_SECONDS = 60
KEYS_PER_READ = 5_000

_LITTLE_ENDIAN = np.dtype("<f4")
_SQL_FILE = Path(__file__).parent / "sql" / "vectors.sql"


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Number of cached vectors, and bytes of the database without its write-ahead log."""

    row_count: int
    byte_count: int


def vector_key(model: str, kind: TextKind, text: str) -> str:
    """sha256 of model, kind and text, 64 hexadecimal digits. Source: algorithms.md 0.6."""
    return content_hash(model, kind, text)


class VectorCache:
    """One SQLite file in write-ahead mode; safe for many threads and processes, not to be carried across a fork.

    Raises:
        StoreError: If the file cannot be created, or is not such a cache.
        StoreUnavailableError: If other processes kept it locked for 60 s.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with writing("the cache of embeddings", path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with _translated(path):
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            _prepare(self._connection)

    def get_many(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The known vectors among `keys`, each of shape (d,), float32, read-only; unknown keys are left out."""
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), KEYS_PER_READ):
            wanted = json.dumps(list(keys[start : start + KEYS_PER_READ]))
            with self._lock, _translated(self.path):
                rows = self._connection.execute(_statements()["read_vectors"], {"keys": wanted}).fetchall()
            for key, value in rows:
                found[key] = np.frombuffer(value, dtype=_LITTLE_ENDIAN).astype(np.float32, copy=False)
        return found

    def put_many(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Stores vectors in one transaction; a key that is already known keeps its vector.

        Args:
            vectors: Key to vector of shape (d,), of any length but 0.

        Raises:
            InvalidVectorError: If a vector is zero or not finite; then none is stored.
        """
        rows = [{"key": key, "vector": _checked(key, vector)} for key, vector in vectors.items()]
        with self._lock, _translated(self.path), _transaction(self._connection) as connection:
            connection.executemany(_statements()["write_vector"], rows)

    def stats(self) -> CacheSize:
        """How many vectors are cached, and how large the file is."""
        with self._lock, _translated(self.path):
            row_count, byte_count = self._connection.execute(_statements()["measure"]).fetchone()
        return CacheSize(row_count=row_count, byte_count=byte_count)

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        with self._lock:
            self._connection.close()


def _checked(key: str, vector: NDArray[np.float32]) -> bytes:
    stored = np.ascontiguousarray(vector, dtype=_LITTLE_ENDIAN)
    if stored.ndim != 1 or not np.isfinite(stored).all() or not stored.any():
        raise InvalidVectorError(f"The embedding of key {key} is empty, zero or not finite; it was not cached.")
    return stored.tobytes()


def _prepare(connection: sqlite3.Connection) -> None:
    """Write-ahead mode and the table; SQLite refuses a busy mode change at once, hence the retries."""
    for attempt in Retrying(
        retry=retry_if_exception_type(sqlite3.OperationalError),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=stop_after_delay(BUSY_TIMEOUT_SECONDS),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            with _transaction(connection):
                connection.execute(_statements()["create_table"])


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; takes the write lock at once, so that it cannot fail half-way for being busy."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StoreUnavailableError(f"Other processes keep {path} locked; try again later.") from error
        raise StoreError(f"Cannot use the cache of embeddings {path}: {disk_sentence(error) or error}.") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is not a readable cache of embeddings ({error}); delete it to start anew.") from error


def _statements() -> dict[str, str]:
    return read_statements(_SQL_FILE)
