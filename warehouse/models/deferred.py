"""An encoder that is opened when the first text comes: who finds all vectors elsewhere need not wait for its weights.

Encodes nothing itself.
"""

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ports import Encoder


class DeferredEncoder:
    """What is known of an encoder before it is open. Safe for many threads.

    Args:
        model: Its name, which is part of the keys of vectors.
        dimension: Length of its vectors.
        max_tokens: Texts are cut after so many.
        open_encoder: Opens it.
    """

    def __init__(self, model: str, dimension: int, max_tokens: int, open_encoder: Callable[[], Encoder]) -> None:
        self.model = model
        self.dimension = dimension
        self.max_tokens = max_tokens
        self._open = open_encoder
        self._encoder: Encoder | None = None
        self._opening = Lock()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, shape (len(texts), dimension), float32.

        Raises:
            ModelFileError: If the model's files are missing, unreadable or not the published ones.
        """
        with self._opening:
            if self._encoder is None:
                self._encoder = self._open()
        return self._encoder.encode(texts)
