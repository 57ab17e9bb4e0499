"""Vectors without a model, for corpora of a size that no encoder embeds in an hour: a mixture of names and noise.

A text lies near the sum of the vectors of its capitalised words, the first ones (its title) counting most, with noise
of its own. So a question is near the pages that its names are about, not to those of later hops.
"""

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from polyhop.warehouse.models import encoder_kinds

NAME = "onnx:mixture"
DIMENSION = 384
NOISE = 0.7  # Length of a text's own part beside that of its names; chosen: cosines spread as MiniLM's do
TITLE = 3  # Weight of the first two words
_WORD = re.compile(r"\b[A-Z]\w+")
_CENTRES = 1 << 15


class MixtureEncoder:
    """See schemas/ports.py Encoder."""

    model = f"mixture-{DIMENSION}"
    dimension = DIMENSION
    max_tokens = 0

    def __init__(self) -> None:
        drawn = np.random.default_rng(13).standard_normal((_CENTRES, DIMENSION), dtype=np.float32)
        self._centres = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, shape (len(texts), dimension), float32, rows of length 1."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for number, text in enumerate(texts):
            names = [crc32(word.encode()) % _CENTRES for word in _WORD.findall(text)]
            mixed = self._centres[names].sum(axis=0) + (TITLE - 1) * self._centres[names[:2]].sum(axis=0)
            own = NOISE * self._centres[crc32(text.encode()[::-1]) % _CENTRES]
            vectors[number] = mixed / max(float(np.linalg.norm(mixed)), 1e-9) + own
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def install() -> None:
    """Opens the mixture for every encoder of the kind `onnx:` of this process."""
    known = encoder_kinds._KINDS  # noqa: SLF001
    encoder_kinds._KINDS = {**known, "onnx": lambda _: _opened()}  # type: ignore[assignment]  # noqa: SLF001


def _opened() -> encoder_kinds.OpenedEncoder:
    encoder = MixtureEncoder()
    return encoder_kinds.OpenedEncoder(encoder, encoder)
