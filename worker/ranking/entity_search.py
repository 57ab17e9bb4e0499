"""Entities by a part of their name, or by similarity to a vector.

Exact names are strategies/lookup.py's business. Names are compared as keys (docs/decisions/0002): lower
case, accents and punctuation dropped. Source: algorithms.md 5.2.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.names import name_tokens
from polyhop.worker.ranking.activation import nearest, seed_scores

_FLOAT32 = 1e-6
"""Vectors are stored in float32: a cosine this close below a threshold is at the threshold."""


class NameSearch:
    """All entity keys as one run of text, searched for fragments."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._text = "\n".join((*keys, ""))
        self._ends = np.cumsum([len(key) + 1 for key in keys], dtype=np.int64)

    def containing(self, name: str) -> list[int]:
        """Numbers of the entities whose key contains the key of `name`, ascending; none for a name without letters.

        Source: algorithms.md 5.2 (find_entities, fuzzy: one direction only).
        Cost: O(characters of all keys).
        """
        fragment = " ".join(name_tokens(name))
        found: list[int] = []
        place = self._text.find(fragment) if fragment else -1
        while place >= 0:
            number = int(np.searchsorted(self._ends, place, side="right"))
            found.append(number)
            place = self._text.find(fragment, int(self._ends[number]))
        return found

    def like(self, name: str) -> list[int]:
        """What `containing` finds, and keys that have every word of `name` in any order; ascending."""
        found = set(self.containing(name))
        words = set(name_tokens(name))
        for number in self.containing(max(words, key=len)) if words else ():
            key = self._text[int(self._ends[number - 1]) if number else 0 : int(self._ends[number])]
            if words.issubset(key.split()):
                found.add(number)
        return sorted(found)


def similar_entities(
    vectors: NDArray[np.float32], vector: NDArray[np.float32], count: int, min_similarity: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Entities by cosine with a vector.

    Args:
        vectors: Shape (n, d), float32: of all entities; a row of zeros is a missing vector.
        vector: Shape (d,).
        count: Entities to return at most.
        min_similarity: Smallest cosine that counts, itself included.

    Returns:
        Entity numbers and cosines, in descending order of cosine, ties by number; none without a vector.

    Raises:
        AlgorithmError: If the dimensions differ.
    Source: algorithms.md 5.2 (find_entities_by_embedding).
    Cost: O(n d) in float32.
    """
    if count <= 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    near = nearest(vectors, vector, count)
    similarities = seed_scores(vectors[near], vector, vector, "entity")
    is_near = similarities >= min_similarity - _FLOAT32
    return near[is_near], similarities[is_near]
