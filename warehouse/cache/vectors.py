"""Embeddings by content hash in one SQLite file that all indexes and processes share, and the encoders that use it.

Invariant: a key's vector never changes, so writers need no agreement; a kill at any moment loses at most the rows of
the transaction in flight (one chunk of new vectors; of an encoder that costs something, the calls in flight).
Source: algorithms.md 0.6.
"""

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError, StoreError
from polyhop.schemas.ports import Encoder, KeepingEncoder
from polyhop.schemas.text import content_hash

if TYPE_CHECKING:
    from polyhop.warehouse.cache.database import Change, SharedDatabase

# one JSON parameter, so that SQLite's limit of variables is none; 8 MB of MiniLM's vectors. Chosen.
KEYS_PER_READ = 5_000

CHUNK_SIZE = 256  # chosen: a killed run loses some seconds of encoding at most
PATH = "path"  # Kind of the joined texts of a path. Source: algorithms.md 0.6.
QUESTION = "question"  # Kind of the sentences that stand for questions when an encoder is measured.
PROBE = "probe"  # Kind of the one text that shows how long the vectors of a server are, and that text.

Vector = NDArray[np.float32]
_log = logging.getLogger(__name__)
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
    """One SQLite file (see SharedDatabase); safe for many threads and processes, not to be carried across a fork."""

    def __init__(self, path: Path, *, most_rows: int | None = None) -> None:
        self.path = path
        self._most_rows = most_rows
        self._opening = Lock()
        self._opened: SharedDatabase | None = None

    @property
    def _database(self) -> "SharedDatabase":
        """Opens the file on first use; questions never need this file."""
        from polyhop.warehouse.cache.database import SharedDatabase

        with self._opening:
            if self._opened is None:
                # A vector lost in a power cut is computed again: no need to wait for the disk after every transaction.
                self._opened = SharedDatabase(self.path, _SQL_FILE, what="the cache of embeddings", is_durable=False)
            return self._opened

    def get_many(self, keys: Sequence[str], dimension: int | None = None) -> dict[str, NDArray[np.float32]]:
        """The known vectors among `keys`, each of shape (d,), float32, read-only; unknown keys are left out."""
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), KEYS_PER_READ):
            some = list(keys[start : start + KEYS_PER_READ])
            for key, value in self._database.read("read_vectors", {"keys": json.dumps(some)}):
                count, rest = divmod(len(value), _LITTLE_ENDIAN.itemsize)
                if isinstance(value, bytes) and not rest and dimension in (None, count):
                    found[key] = np.frombuffer(value, dtype=_LITTLE_ENDIAN).astype(np.float32, copy=False)
        return found

    def put_many(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Stores vectors in one transaction; a key that is already known keeps its vector."""
        rows = []
        for key, vector in vectors.items():
            stored = np.ascontiguousarray(vector, dtype=_LITTLE_ENDIAN)
            if stored.ndim != 1 or not np.isfinite(stored).all() or not stored.any():
                raise InvalidVectorError(f"The embedding of key {key} is empty, zero or not finite; it was not cached.")
            rows.append({"key": key, "vector": stored.tobytes()})

        def store(change: "Change") -> None:
            change("write_vector", rows)
            if self._most_rows is not None:
                change("forget_oldest", [{"most": self._most_rows}])

        self._database.transact(store)

    def known_keys(self) -> Iterator[str]:
        """All keys in order; what others add meanwhile may or may not be among them."""
        after = ""
        # 64 bytes each; chosen: bounds memory, and any number gives the same keys
        while rows := self._database.read("read_keys", {"after": after, "limit": 10_000}):
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
        """Number of cached vectors, and the size of the file."""
        return CacheSize(*self._database.read("measure")[0])

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()


class CachedEncoder:
    """Encodes what the cache does not know, in chunks of texts that are stored as soon as they are computed.

    A prefix is put before every text, and part of what the cache knows it by. Questions may have an encoder of their
    own (None: that of what is indexed), and a prefix.

    Attributes:
        hits: Distinct texts of each call that the cache knew, summed over all calls.
        misses: Distinct texts of each call that were encoded, summed over all calls.
    """

    def __init__(
        self,
        encoder: Encoder,
        cache: VectorCache,
        *,
        prefix: str = "",
        questions: Encoder | None = None,
        query_prefix: str = "",
        chunk_size: int = CHUNK_SIZE,
    ) -> None:
        self.model = encoder.model
        self.encoder = encoder
        self.hits = self.misses = 0
        self._cache = cache
        self._prefix = prefix
        self._questions = questions or encoder
        self._query_prefix = query_prefix
        self._chunk_size = sys.maxsize if isinstance(encoder, KeepingEncoder) else chunk_size
        self._counting = Lock()

    @property
    def dimension(self) -> int:
        """Components of a vector; of a server that did not say it yet, one short text shows it, once for ever."""
        if not self.encoder.dimension and isinstance(self.encoder, KeepingEncoder):
            key = vector_key(self.model, PROBE, PROBE)
            known = self._cache.get_many([key])
            if key not in known:
                known = {key: self.encoder.encode([PROBE])[0]}
                self._cache.put_many(known)
            self.encoder.expect(len(known[key]))
        return self.encoder.dimension

    def close(self) -> None:
        """Closes the cache; nothing can be encoded for an index any more."""
        self._cache.close()

    def key(self, text: str, kind: str) -> str:
        """The content hash under which this text's vector is cached, 64 hexadecimal digits."""
        return vector_key(self.model, kind, self._prefix + text)

    def known(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys whose vectors are cached."""
        return set(self._cache.get_many(keys))

    def keep_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Stores vectors by key that its encoder made for another purpose, too; those that are cached stay."""
        known = self.known(list(vectors))
        new = [key for key in vectors if key not in known]
        if new:
            self._keep(new, range(len(new)), np.array([vectors[key] for key in new], np.float32))

    def encode_questions(self, texts: Sequence[str]) -> Vector:
        """Vectors of questions as rows, always computed: readers write nothing, and the cache is left to the flows."""
        return self._questions.encode([self._query_prefix + text for text in texts])

    def encode_cached_questions(self, texts: Sequence[str]) -> Vector:
        """Vectors of questions that come again with every version; as `encode_questions`, but from the cache."""
        return self._asking.encode(texts, QUESTION)

    def question_key(self, text: str) -> str:
        """The content hash under which such a question's vector is cached."""
        return self._asking.key(text, QUESTION)

    @property
    def _asking(self) -> "CachedEncoder":
        return CachedEncoder(self._questions, self._cache, prefix=self._query_prefix)

    def encode(self, texts: Sequence[str], kind: str, *, progress: Callable[[int], None] | None = None) -> Vector:
        """Vectors of texts, from the cache where it knows them.

        Args:
            texts: Any texts; equal ones are encoded once.
            kind: What the texts are; part of the cache key.
            progress: Called with the number of texts that have a vector: after reading the cache, then per chunk.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.
        """
        keys = [self.key(text, kind) for text in texts]
        text_by_key = dict(zip(keys, texts, strict=True))
        vectors = self._cache.get_many(list(text_by_key), self.dimension)
        missing = [key for key in text_by_key if key not in vectors]
        with self._counting:
            self.hits += len(vectors)
        uses = Counter(keys)
        done = sum(uses[key] for key in vectors)
        report = progress or (lambda _count: None)
        report(done)
        for start in range(0, len(missing), self._chunk_size):
            chunk = missing[start : start + self._chunk_size]
            new = [self._prefix + text_by_key[key] for key in chunk]
            if isinstance(self.encoder, KeepingEncoder):
                found = self.encoder.encode_kept(new, partial(self._keep, chunk))
            else:
                found = self.encoder.encode(new)
                self._keep(chunk, range(len(chunk)), found)
            vectors.update(zip(chunk, found, strict=True))
            done += sum(uses[key] for key in chunk)
            report(done)
        return np.array([vectors[key] for key in keys], dtype=np.float32).reshape(len(keys), self.dimension)

    def _keep(self, keys: Sequence[str], numbers: Sequence[int], vectors: Vector) -> None:
        new = {keys[number]: vector for number, vector in zip(numbers, vectors, strict=True)}
        if any(vector.shape != (self.encoder.dimension,) for vector in new.values()):
            raise InvalidVectorError(f"An embedding by {self.model} does not have {self.encoder.dimension} dimensions.")
        self._cache.put_many(new)
        with self._counting:
            self.misses += len(new)


class PathEncoder:
    """An encoder of texts that questions bring up, with a small cache that it can do without.

    Many processes share the cache, readers of an index among them: a write adds a few rows to its own file, which
    no index run touches. Whatever is wrong with that file, questions are answered.
    """

    def __init__(self, encoder: Encoder, open_cache: Callable[[], VectorCache], prefix: str = "") -> None:
        self._encoder = encoder
        self._open_cache = open_cache
        self._prefix = prefix
        self._cached: CachedEncoder | None = None
        self._is_given_up = False
        self._opening = Lock()

    def encode(self, texts: Sequence[str]) -> Vector:
        """Vectors of texts, those that are not cached in one call of the encoder.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order; the same bits, cached or not.
        """
        if not self._is_given_up:
            try:
                with self._opening:
                    if self._cached is None:
                        # One chunk: the more texts, the fuller the encoder's batches of equal length.
                        cache, size = self._open_cache(), sys.maxsize
                        self._cached = CachedEncoder(self._encoder, cache, prefix=self._prefix, chunk_size=size)
                    cached = self._cached
                return cached.encode(texts, PATH)
            except StoreError as error:
                self._is_given_up = True
                _log.warning("Vectors of paths and masked questions are not cached until this process ends: %s", error)
        return self._encoder.encode([self._prefix + text for text in texts])

    def close(self) -> None:
        """Closes the cache, if it was opened; the next use opens it again."""
        with self._opening:
            if self._cached is not None:
                self._cached.close()
            self._cached = None
