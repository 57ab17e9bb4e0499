"""An encoder behind the cache of embeddings: no text is encoded twice.

Knows neither the model nor the store; it joins the two. A kill loses at most one chunk of new vectors.
"""

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from schemas.ports import Encoder
from warehouse.cache.vectors import TextKind, VectorCache, vector_key

CHUNK_SIZE = 256


class CachedEncoder:
    """Encodes what the cache does not know, in chunks that are stored as soon as they are computed.

    Attributes:
        hits: Distinct texts per call that were found in the cache, summed over all calls.
        misses: Distinct texts per call that were encoded, summed over all calls.
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

    def key(self, text: str, kind: TextKind) -> str:
        """The content hash under which this text's vector is cached, 64 hexadecimal digits."""
        return vector_key(self.model, kind, text)

    def encode(
        self, texts: Sequence[str], kind: TextKind, *, progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """Vectors of texts, from the cache where it knows them.

        Args:
            texts: Any texts; equal ones are encoded once.
            kind: What the texts are; part of the cache key.
            progress: Called with the number of texts that have a vector: after reading the cache, then per chunk.
        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.
        Raises:
            InvalidVectorError: If the encoder returned a zero or non-finite vector, or one of another dimension.
        """
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(self.key(text, kind), []).append(place)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        done = self._place(vectors, places, self._cache.get_many(list(places)))
        missing = [key for key, where in places.items() if key not in known]
