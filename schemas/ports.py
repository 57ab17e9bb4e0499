"""The few interfaces between the rooms of the house.

Implementations live in warehouse/; strategies, readers and stages see only these.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.graph import BipartiteGraph, Entity, LexicalIndex, Mention, RelationGraph
from schemas.query import ContextPassage, Question, Reading, Retrieval
from schemas.spreading import Activation, ChainRule, SeedRule, SpreadQuestion, SpreadRule


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


class Reranker(Protocol):
    """Judges passages by reading each together with the question; `model` is its name in results."""

    model: str

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Shape (len(passages),), finite, higher is better; a passage's score does not depend on the others."""
        ...


class SpreadingDatabase(Protocol):
    """A graph database that holds the version that is asked about, and spreads activation in one query."""

    def activate(self, question: SpreadQuestion, seeds: SeedRule, spread: SpreadRule, chains: ChainRule) -> Activation:
        """Seeds, activations and chains of a question; doubles among the chains are still there."""
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
    def surfaces(self) -> BipartiteGraph:
        """Passages and the spellings of names in them, before resolution; its keys are the spellings."""
        ...

    @property
    def relations(self) -> RelationGraph:
        """Entities and their labelled relations, in the numbering of `graph`.

        Raises:
            MissingArtefactError: If this version was built without them.
        """
        ...

    def spreading_database(self) -> SpreadingDatabase:
        """The Neo4j database that this version was exported to (NEO4J_URI, NEO4J_PASSWORD…), opened once.

        Raises:
            ConfigurationError: If no server is named.
            StoreError: If it cannot be used.
            ContractError: If it holds another version of this index, or none.
        """
        ...

    def reranker(self) -> Reranker | None:
        """The configured cross-encoder (models.rerank), opened once per process; None if none is configured.

        Raises:
            ConfigurationError: If it cannot be had.
            ModelFileError: If its files cannot be used.
        """
        ...

    @property
    def exact_names(self) -> Mapping[str, Sequence[int]]:
        """Entity numbers by `norm_ws` name, where that is not the entity's key."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Key of its entity by the key of a name that resolution, or a person, made another form of it."""
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

    def nearest_passages(self, vector: NDArray[np.float32], count: int, ef_search: int) -> Sequence[int]:
        """Numbers of about the `count` passages nearest to a vector, by approximate search.

        Raises:
            MissingArtefactError: If this version was built without the graph for it.
        """
        ...

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) of passages by number, in the order asked."""
        ...

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        ...

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """Entities by number, in the order asked.

        Raises:
            MissingArtefactError: If this version was built without relations.
        """
        ...


class Strategy(Protocol):
    """Ranks passages for a batch of questions."""

    name: str

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question, in order, at most `limit` passages each.

        A question's result does not depend on the others in the batch.
        """
        ...


@runtime_checkable
class NameSearching(Protocol):
    """A strategy that searches some names by the vectors of their hints."""

    def searched_hints(self, question: Question) -> Sequence[str]:
        """Search hints whose vectors this question must bring."""
        ...


class Reader(Protocol):
    """Reads a short answer from a context."""

    def read(
        self, questions: Sequence[Question], contexts: Sequence[Sequence[ContextPassage]], notes: Sequence[str] = ()
    ) -> list[Reading]:
        """One Reading per question, in order.

        `notes` are what the strategy says beside the passages (chains of relations), one per question or none at all.
        """
        ...
