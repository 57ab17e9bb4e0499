"""Polarity: signatures whose values say yes or no in words, and whether a question negates them (pure).

Source: algorithms.md 4B, rule 4.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word

MOST_VALUES = 5  # algorithms.md 4B, rule 4.
LEAST_SHARE, LARGEST_SHARE = 0.02, 0.98  # algorithms.md 4B, rule 4.
REACH = 4
"""Words before a mention in which a negation is looked for."""

_DENIED_TEXT = """
private secret confidential hidden withheld unavailable missing absent undisclosed unpublished unknown
"""
_DENIED = frozenset(_DENIED_TEXT.split())
"""After a mention: what is so is not there for others."""
_REFLEXIVES_TEXT = """
themselves itself himself herself oneself ourselves yourself
"""
_REFLEXIVES = frozenset(_REFLEXIVES_TEXT.split())
"""After `to`: kept to oneself."""

WRONG = 0.1  # algorithms.md 4B, rule 4.
OTHER_WORDS = 0.6  # algorithms.md 4B, rule 4.


class Polarity:
    """What of a version's values is negated.

    Attributes:
        is_polar: Shape (s,): signatures with a polarity.
        is_negated: Shape (d,): documents of such signatures whose value is negated.
    """

    def __init__(self, units: Units) -> None:
        """Of prepared paths. Cost: O(documents)."""
        count = len(units.signatures)
        signatures = units.document_signatures
        negated_labels = np.array([any(word.is_negation for word in words) for words in units.value_words], dtype=bool)
        negated = negated_labels[units.document_values] if len(signatures) else np.empty(0, dtype=bool)
        pairs = np.unique(np.stack((signatures, units.document_labels)), axis=1)
        values = np.bincount(pairs[0], minlength=count)
        paths = np.bincount(signatures, units.copies, count)
        shares = np.bincount(signatures, units.copies * negated, count) / np.maximum(paths, 1)
        self.is_polar = (values <= MOST_VALUES) & (shares >= LEAST_SHARE) & (shares <= LARGEST_SHARE)
        self.is_negated = negated & self.is_polar[signatures]


def is_negated(words: Sequence[Word], start: int, end: int, taken: NDArray[np.int64]) -> bool:
    """Whether a span is negated: by a word inside it, or by one near it, with no other mention between.

    Up to 4 words before it a negation counts, up to 4 after it a word like `private`, and `to themselves`.

    Args:
        words: The question's.
        start: First word of the span.
        end: After its last word.
        taken: Shape (n,): number of the mention of a value or a hub that has each word, -1 without.
    """
    if any(word.is_negation for word in words[start:end]):
        return True
    for place in range(start - 1, max(-1, start - 1 - REACH), -1):
        if taken[place] >= 0:
            break
        if words[place].is_negation:
            return True
    for place in range(end, min(len(words), end + REACH)):
        if taken[place] >= 0:
            return False
        text = words[place].text.lower()
        if text in _DENIED or (text in _REFLEXIVES and words[place - 1].text.lower() == "to"):
            return True
    return False
