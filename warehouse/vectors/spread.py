"""How far apart an encoder holds texts: what one unit of its cosine is worth in units of MiniLM's (pure).

Weights that are added to cosines were set with all-MiniLM-L6-v2, whose best and 100th passage lie far apart; those of
other encoders may all lie within a tenth. Source: algorithms.md 2B.5.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ids import content_hash
from polyhop.schemas.sentences import split_sentences

RANK = 100
"""The place whose cosine counts as that of a text that has nothing to do with a question."""
DIGITS = 4  # algorithms.md 2B.5.
MOST = 20.0
"""Scales beyond that, either way, say that a sample was too small or texts all alike."""

TEXTS = 1_000
"""Passages of the sample. Chosen: MiniLM encodes them in 14 s, once, and the 100th nearest is on another topic."""
SENTENCES = 200  # algorithms.md 2B.5.
LEAST_WORDS = 4
"""A shorter sentence (a heading, a number) is no question."""

Vectors = NDArray[np.float32]


def sampled_texts(texts: Sequence[str]) -> list[int]:
    """Places of the sample; which texts are in it, only their content decides."""
    return sorted(range(len(texts)), key=lambda number: content_hash(texts[number]))[:TEXTS]


def sampled_sentences(bodies: Sequence[str]) -> list[str]:
    """The sentences of these texts that stand for questions; which ones, only their words decide."""
    found = {body[start:end] for body in bodies for start, end in split_sentences(body)}
    long = [sentence for sentence in found if len(sentence.split()) >= LEAST_WORDS]
    return sorted(long, key=content_hash)[:SENTENCES]


def spread(questions: Vectors, texts: Vectors, rank: int = RANK) -> float:
    """The median gap between the best cosine of a question and that of a given rank, the last one if there are fewer.

    Args:
        questions: Shape (q, d), rows of length 1.
        texts: Shape (n, d), rows of length 1.
        rank: At least 1.

    Returns:
        From 0 to 2; 0 without questions or texts.
    """
    if not len(questions) or not len(texts):
        return 0.0
    cosines = -np.sort(-(questions.astype(np.float64) @ texts.astype(np.float64).T), axis=1)
    return float(np.median(cosines[:, 0] - cosines[:, min(rank, len(texts)) - 1]))


def cosine_scale(own: float, reference: float) -> float:
    """How much a cosine of an encoder is worth beside the reference's, by their spreads over the same texts.

    Args:
        own: Spread of the encoder.
        reference: Spread of the reference; at 0 nothing can be said, and both count alike.

    Returns:
        `own / reference`, from 1/20 to 20, rounded, so that the last bits of vectors do not count.
    """
    if own <= 0 or reference <= 0:
        return 1.0
    return round(min(max(own / reference, 1 / MOST), MOST), DIGITS)
