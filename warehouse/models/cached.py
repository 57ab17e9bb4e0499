"""An encoder with the cache of embeddings: no text is encoded twice.

Knows neither the model nor the store; it joins the two. A kill loses at most one chunk of new vectors.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError
from polyhop.schemas.ports import Encoder
from polyhop.warehouse.cache.vectors import VectorCache, vector_key

CHUNK_SIZE = 256

Vector = NDArray[np.float32]


class CachedEncoder:
    """Encodes what the cache does not know, in chunks that are stored as soon as they are computed.

    Attributes:
        hits: Distinct texts of each call that the cache knew, summed over all calls.
        misses: Distinct texts of each call that were encoded, summed over all calls.
    """

    def __init__(self, encoder: Encoder, cache: VectorCache, *, chunk_size: int = CHUNK_SIZE) -> None:
        self.model = encoder.model
        self.dimension = encoder.dimension
        self.hits = 0
        self.misses = 0
        self._encoder = encoder
        self._cache = cache
        self._chunk_size = chunk_size
        self._counting = Lock()

    @property
    def damaged(self) -> int:
        """Rows of the cache that were found damaged, and whose texts were encoded again."""
        return self._cache.damaged

    def close(self) -> None:
        """Closes the cache; nothing can be encoded for an index any more."""
        self._cache.close()

    def key(self, text: str, kind: str) -> str:
        """The content hash under which this text's vector is cached, 64 hexadecimal digits."""
        return vector_key(self.model, kind, text)

    def encode_questions(self, texts: Sequence[str]) -> Vector:
        """Vectors of questions, always computed: readers write nothing, and the cache is left to the flows.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.
        """
        return self._encoder.encode(texts)

    def encode(self, texts: Sequence[str], kind: str, *, progress: Callable[[int], None] | None = None) -> Vector:
        """Vectors of texts, from the cache where it knows them.

        Args:
            texts: Any texts; equal ones are encoded once.
            kind: What the texts are; part of the cache key.
            progress: Called with the number of texts that have a vector: after reading the cache, then per chunk.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.

        Raises:
            InvalidVectorError: If a vector is zero, not finite or of another dimension.
        """
        keys = [self.key(text, kind) for text in texts]
        text_by_key = dict(zip(keys, texts, strict=True))
        vectors = self._cache.get_many(list(text_by_key), self.dimension)
        missing = [key for key in text_by_key if key not in vectors]
        with self._counting:
            self.hits += len(vectors)
        uses = Counter(keys)
        done = sum(uses[key] for key in vectors)
        report = progress or _ignore
        report(done)
        for start in range(0, len(missing), self._chunk_size):
            chunk = missing[start : start + self._chunk_size]
            vectors.update(self._encode_chunk(chunk, [text_by_key[key] for key in chunk]))
            done += sum(uses[key] for key in chunk)
            report(done)
        return np.array([vectors[key] for key in keys], dtype=np.float32).reshape(len(keys), self.dimension)

    def _encode_chunk(self, keys: Sequence[str], texts: Sequence[str]) -> dict[str, Vector]:
        new = dict(zip(keys, self._encoder.encode(texts), strict=True))
        if any(vector.shape != (self.dimension,) for vector in new.values()):
            raise InvalidVectorError(f"An embedding by {self.model} does not have {self.dimension} dimensions.")
        self._cache.put_many(new)
        with self._counting:
            self.misses += len(new)
        return new


def _ignore(_count: int) -> None:
    """Reports to nobody."""
