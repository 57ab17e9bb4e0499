"""Questions beside texts that come again with other questions: both in one call of the encoder, the latter cached.

Knows neither the model nor what the texts are. Many processes share the cache, as they do for paths (cached.py).
"""

import logging
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import StoreError
from polyhop.schemas.ports import Encoder
from polyhop.warehouse.cache.vectors import VectorCache, vector_key

REPEATED = "repeated"
"""Kind of texts that come again with other questions, in the cache of path vectors."""

Vector = NDArray[np.float32]
_log = logging.getLogger(__name__)


class QuestionEncoder:
    """Encodes questions, and texts that come again, in one call: the more texts, the fuller its batches.

    Whatever is wrong with the cache, questions are answered.

    Args:
        encoder: Encodes questions.
        open_cache: Opens the cache; called when it is first needed. None: nothing is cached.
        prefix: Put before every text.
    """

    def __init__(self, encoder: Encoder, open_cache: Callable[[], VectorCache] | None, prefix: str = "") -> None:
        self._encoder = encoder
        self._open_cache = open_cache
        self._prefix = prefix
        self._cache: VectorCache | None = None
        self._opening = Lock()

    def encode_beside(self, questions: Sequence[str], repeated: Sequence[str]) -> tuple[Vector, Vector]:
        """Vectors of questions, which are not cached, and of texts that are, from the cache where it has them.

        Args:
            questions: Any texts.
            repeated: Distinct texts.

        Returns:
            Two of shape (n, dimension), float32, rows of length 1, in input order; the same bits, cached or not.
        """
        keys = [vector_key(self._encoder.model, REPEATED, self._prefix + text) for text in repeated]
        known = self._read(keys)
        missing = [place for place, key in enumerate(keys) if key not in known]
        texts = [*questions, *(repeated[place] for place in missing)]
        vectors = self._encoder.encode([self._prefix + text for text in texts])
        new = {keys[place]: vectors[len(questions) + number] for number, place in enumerate(missing)}
        self._keep(new)
        others = [known[key] if key in known else new[key] for key in keys]
        return vectors[: len(questions)], np.array(others, dtype=np.float32).reshape(len(keys), vectors.shape[1])

    def close(self) -> None:
        """Closes the cache, if it was opened; the next use opens it again."""
        with self._opening:
            if self._cache is not None:
                self._cache.close()
            self._cache = None

    def _read(self, keys: Sequence[str]) -> dict[str, Vector]:
        if not keys:
            return {}
        try:
            cache = self._opened()
            return cache.get_many(keys, self._encoder.dimension or None) if cache is not None else {}
        except StoreError as error:
            self._give_up(error)
            return {}

    def _keep(self, vectors: dict[str, Vector]) -> None:
        if not vectors:
            return
        try:
            cache = self._opened()
            if cache is not None:
                cache.put_many(vectors)
        except StoreError as error:
            self._give_up(error)

    def _give_up(self, error: StoreError) -> None:
        self._open_cache = None
        _log.warning("Vectors of masked questions are not cached until this process ends: %s", error)

    def _opened(self) -> VectorCache | None:
        with self._opening:
            if self._open_cache is None:
                return None
            if self._cache is None:
                self._cache = self._open_cache()
            return self._cache
