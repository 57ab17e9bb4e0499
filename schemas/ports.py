"""The few interfaces between the rooms of the house.

Implementations live in warehouse/; strategies, readers and stages see only these.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.graph import BipartiteGraph, LexicalIndex, Mention
from schemas.query import ContextPassage, Question, Reading, Retrieval


class Encoder(Protocol):
    """Turns texts into vectors of length 1."""

    model: str
    dimension: int

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, in input order."""
        ...


class NameFinding(Protocol):
    """Finds names in passages and questions alike."""

    def find(self, text: str) -> list[Mention]:
        """All mentions, ordered by place; offsets into `text`."""
        ...


class IndexReader(Protocol):
    """One published version, read-only. Passages are numbered by ascending passage id."""

    name: str
    version: int
    passage_ids: Sequence[str]
    passage_titles: Sequence[str]
    artefacts: frozenset[str]

    @property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        ...

    @property
    def graph(self) -> BipartiteGraph:
        """Passages and the entities they mention."""
        ...

    @property
    def names(self) -> NameFinding:
        """The same name finder that built the graph."""
        ...

    def lexical(self, analyser: str) -> LexicalIndex:
        """Term statistics under one analyser ("plain" or "stems")."""
        ...

    def vectors(self, owner: str) -> NDArray[np.float32]:
        """Vectors of shape (n, d) of all passages or entities, memory-mapped, in their numbering.

        Raises:
            MissingArtefactError: If this version was built without them.
        """
        ...

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) of passages by number, in the order asked."""
        ...

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        ...

    def entity_descriptions(self, numbers: Sequence[int]) -> list[tuple[str, str]]:
        """(name, description) of entities by number, in the order asked."""
        ...


class Strategy(Protocol):
    """Ranks passages for a batch of questions."""

    name: str

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question, in order, at most `limit` passages each.

        A question's result does not depend on the others in the batch.
        """
        ...


class Reader(Protocol):
    """Reads a short answer from a context."""

    def read(self, questions: Sequence[Question], contexts: Sequence[Sequence[ContextPassage]]) -> list[Reading]:
        """One Reading per question, in order."""
        ...
