"""Question entities: names in the question that are nodes of the graph, under their own key or their entity's.

Finds no names itself: the index brings the finder that built its graph. Source: algorithms.md 2.3, 2B.1, 1.4 (8).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.ports import IndexReader


@dataclass(frozen=True, slots=True)
class QuestionEntities:
    """Names of a question.

    Attributes:
        numbers: Entity numbers of the known ones, ascending, distinct.
        matched: Their keys, in the same order.
        unmatched: Keys that no passage mentions, ascending.
    """

    numbers: NDArray[np.intp]
    matched: tuple[str, ...]
    unmatched: tuple[str, ...]


class EntityMatcher:
    """Matches names by equality of their keys; a name that was merged away stands for its entity."""

    def __init__(self, reader: IndexReader) -> None:
        self._names = reader.names
        self._aliases = reader.aliases
        self._number_of = reader.graph.number_of
        self.df = reader.graph.df

    def match(self, text: str) -> QuestionEntities:
        """The question's distinct entities. Source: algorithms.md 2.3, last point."""
        keys = sorted({self._node(mention.key) for mention in self._names.find(text)})
        known = sorted((self._number_of[key], key) for key in keys if key in self._number_of)
        mentioned = [(number, key) for number, key in known if self.df[number] > 0]
        matched = tuple(key for _, key in mentioned)
        unmatched = tuple(key for key in keys if key not in matched)
        return QuestionEntities(np.array([number for number, _ in mentioned], dtype=np.intp), matched, unmatched)

    def _node(self, key: str) -> str:
        """The key of the entity that a name means; a node of its own comes before every alias."""
        return key if key in self._number_of else self._aliases.get(key, key)
