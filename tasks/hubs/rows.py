"""The texts that questions are compared with: of paths, their triples and labels, and of hub-facets (pure).

Makes no vector. Source: algorithms.md 4.6 (embedding levels), 4B (units).
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import LEVELS, HubRows
from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.hubs.facets import Signature, signature_texts

_NO_TRIPLE = -1  # in rows of other levels: numbers of triples begin at 0


class DistinctTexts:
    """Texts, numbered as they first come."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number, a new one if it has none."""
        return self._number_of.setdefault(text, len(self._number_of))

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self._number_of)


@dataclass(slots=True)
class RowCollector:
    """Takes paths one after the other and makes their rows.

    Attributes:
        levels: Names in LEVELS.
        texts: Distinct texts of all rows.
    """

    levels: Collection[str]
    texts: DistinctTexts = field(default_factory=DistinctTexts)
    _rows: "array[int]" = field(default_factory=lambda: array("i"))
    _paths: int = 0

    def add(self, numbers: Sequence[int], triples: Sequence[NamedTriple], text: str) -> None:
        """The rows of the next path.

        Args:
            numbers: Of its triples.
            triples: The same in words.
            text: Of the path.
        """
        seen: set[tuple[int, str]] = set()
        for level, triple, row_text in self._level_texts(numbers, triples, text):
            if (level, row_text) not in seen:
                seen.add((level, row_text))
                self._rows.extend((self._paths, self.texts.number(row_text), level, triple))
        self._paths += 1

    def rows(self) -> HubRows:
        """All rows, in the order of their paths."""
        paths, texts, levels, triples = np.ascontiguousarray(np.frombuffer(self._rows, dtype=np.int32).reshape(-1, 4).T)
        return HubRows(paths, texts, levels.astype(np.uint8), triples)

    def _level_texts(
        self, numbers: Sequence[int], triples: Sequence[NamedTriple], text: str
    ) -> Iterator[tuple[int, int, str]]:
        path_level, triple_level, entity_level = range(len(LEVELS))
        if LEVELS[path_level] in self.levels:
            yield path_level, _NO_TRIPLE, text
        if LEVELS[triple_level] in self.levels:
            for number, triple in zip(numbers, triples, strict=True):
                yield triple_level, number, f"({triple.subject_words}, {triple.predicate}, {triple.object_words})"
        if LEVELS[entity_level] in self.levels:
            for triple in triples:
                for label in (triple.subject_words, triple.predicate, triple.object_words):
                    yield entity_level, _NO_TRIPLE, label


def value_texts(signatures: Iterable[Signature], values: Iterable[str], distinct: DistinctTexts) -> NDArray[np.int32]:
    """The number of each path's text for hub-facets, shape (p,): its signature's text, then its value.

    Args:
        signatures: Of each path.
        values: Label of the last object of each path.
        distinct: Takes the texts.
    """
    listed = list(signatures)
    words = signature_texts(set(listed))
    texts = (f"{words[signature]} {value}".strip() for signature, value in zip(listed, values, strict=True))
    return np.fromiter(map(distinct.number, texts), dtype=np.int32, count=len(listed))
