"""Question entities: names in the question that are nodes of the graph, under their own key or their entity's.

Finds no names itself: the index brings the finder that built its graph. Source: algorithms.md 2.3, 2B.1, 1.4 (8).
"""

from collections.abc import Callable, Iterable, Mapping
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


class NodeMatcher:
    """Matches the labels of a question with the nodes of a graph, by equality.

    Args:
        labels: A text to the labels in it, repeated or not; empty ones are passed over.
        number_of: Node number by label.
        is_node: Shape (n,), bool: nodes that still have an edge; a label of another one is unmatched.
    """

    def __init__(
        self, labels: Callable[[str], Iterable[str]], number_of: Mapping[str, int], is_node: NDArray[np.bool_]
    ) -> None:
        self._labels = labels
        self._number_of = number_of
        self._is_node = is_node

    def match(self, text: str) -> QuestionEntities:
        """The question's distinct entities. Source: algorithms.md 2.3, last point; 2.13 (pruned is unmatched)."""
        keys = sorted({label for label in self._labels(text) if label})
        known = sorted((self._number_of[key], key) for key in keys if key in self._number_of)
        mentioned = [(number, key) for number, key in known if self._is_node[number]]
        matched = tuple(key for _, key in mentioned)
        unmatched = tuple(key for key in keys if key not in matched)
        return QuestionEntities(np.array([number for number, _ in mentioned], dtype=np.intp), matched, unmatched)


class EntityMatcher(NodeMatcher):
    """Matches names by equality of their keys; a name that was merged away stands for its entity."""

    def __init__(self, reader: IndexReader) -> None:
        names, entity_of = reader.names, entity_keys(reader)
        super().__init__(
            lambda text: (entity_of(mention.key) for mention in names.find(text)),
            reader.graph.number_of,
            reader.graph.df > 0,
        )


def entity_keys(reader: IndexReader) -> Callable[[str], str]:
    """The key of a name to its entity's; a node of its own comes before every alias."""
    aliases, number_of = reader.aliases, reader.graph.number_of
    return lambda key: key if key in number_of else aliases.get(key, key)
