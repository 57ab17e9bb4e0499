"""Protocols that separate strategies, readers and stages from the stores.

Implementations live in warehouse/; strategies, readers and stages see only these.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact
from polyhop.schemas.chat import ChatModel
from polyhop.schemas.graph import Entity, Mention
from polyhop.schemas.origins import PassageOrigin
from polyhop.schemas.query import Question, Reading, ReadingItem, Retrieval
from polyhop.schemas.sections import Location
from polyhop.schemas.spreading import Activation, ChainRule, SeedRule, SpreadQuestion, SpreadRule

T = TypeVar("T")


class Encoder(Protocol):
    """Turns texts into vectors of length 1.

    Attributes:
        model: Names all that determines a vector besides the text.
        dimension: Components of a vector; 0 until a server has said it.
        max_tokens: Where texts are cut; 0: only the model's server knows.
    """

    @property
    def model(self) -> str: ...  # noqa: D102 - above

    @property
    def dimension(self) -> int: ...  # noqa: D102 - above

    @property
    def max_tokens(self) -> int: ...  # noqa: D102 - above

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, in input order; safe for threads.

        A text's vector depends on the text alone (in a package that pads, but for last bits). Any text has one: "" too,
        and a lone surrogate, which is read as "?". What lies beyond `max_tokens` is ignored.
        """
        ...


KeepVectors = Callable[[Sequence[int], NDArray[np.float32]], object]
"""Takes places in a list of texts and the vectors of the texts there, shape (places, dimension)."""


@runtime_checkable
class KeepingEncoder(Encoder, Protocol):
    """An encoder whose vectors cost something: each batch is handed over as soon as it is there."""

    def encode_kept(self, texts: Sequence[str], keep: KeepVectors) -> NDArray[np.float32]:
        """As `encode`; `keep` is called with every batch, by any thread, also before an error."""
        ...

    def expect(self, dimension: int) -> None:
        """Every vector from now on must have so many components, unless another number is known."""
        ...


class NameFinding(Protocol):
    """Finds names in passages and questions alike."""

    def find(self, text: str) -> list[Mention]:
        """All mentions, in order of start and end, each once; `surface` is the text between them, no key is empty."""
        ...


class Reranker(Protocol):
    """Judges passages by reading each together with the question; `model` is its name in results."""

    model: str

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Shape (len(passages),), finite, higher is better; a passage's score does not depend on the others.

        Any question and any passage has a score, "" too.
        """
        ...


class SpreadingDatabase(Protocol):
    """A graph database that holds the version that is asked about, and spreads activation in one query."""

    def activate(self, question: SpreadQuestion, seeds: SeedRule, spread: SpreadRule, chains: ChainRule) -> Activation:
        """Seeds, activations and chains of a question; duplicates among the chains are still there."""
        ...

    def named(self, folded: str, name: str) -> list[int]:
        """Numbers of the entities whose key is the folded name, or whose name is `name` (`norm_ws`), in no order."""
        ...

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """Entities as people see them, in the order asked."""
        ...


class Services(Protocol):
    """What a strategy may ask of models and databases while it answers; each is opened when first asked for."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, length 1, by the encoder of the version's passages."""
        ...

    def encode_beside(
        self, questions: Sequence[str], repeated: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As `encode`, bit for bit, for questions, and for texts that come again with others, whose vectors are cached.

        All that have to be encoded are encoded in one call.
        """
        ...

    @property
    def has_two_encoders(self) -> bool:
        """Whether entities, propositions and other short texts have vectors by another encoder than passages."""
        ...

    def encode_entities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode`, by the encoder of entities, propositions and other short texts."""
        ...

    def encode_paths(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode_entities`, bit for bit, for texts of paths, whose vectors are cached."""
        ...

    def chat(self) -> ChatModel | None:
        """The chat model for reading (models.read); None if none is configured."""
        ...

    def reranker(self) -> Reranker | None:
        """The configured cross-encoder (models.rerank), opened once per process; None if none is configured.

        Raises:
            ConfigurationError: If it cannot be had.
            ModelFileError: If its files cannot be used.
        """
        ...

    def graph_database(self) -> SpreadingDatabase:
        """The Neo4j database that the open version was exported to (NEO4J_URI, NEO4J_PASSWORD…), opened once.

        Raises:
            ConfigurationError: If no server is named.
            StoreError: If it cannot be used.
            ContractError: If it holds another version of this index, or none.
        """
        ...


class IndexReader(Protocol):
    """One published version, read-only. Passages are numbered by ascending passage id."""

    name: str
    version: int
    passage_ids: Sequence[str]
    passage_titles: Sequence[str]
    artefacts: frozenset[str]
    """Names of those that the version was built with."""

    @property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        ...

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) of passages by number, in the order asked."""
        ...

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Where passages come from, by number, in the order asked: record, file, offsets, metadata."""
        ...

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        ...

    def locations(self, passage_ids: Collection[str]) -> Mapping[str, Location]:
        """Where passages stand in their files (page, headings…), by id, of those of which anything is known."""
        ...

    def artefact(self, handle: Artefact[T]) -> T:
        """What a handle opens (ours: warehouse/artefacts.py), opened when first asked for, then kept.

        Raises:
            MissingArtefactError: If this version was built without it.
            DamagedStoreError: If its files are not what was published.
        """
        ...


class Strategy(Protocol):
    """Ranks passages for a batch of questions."""

    name: str

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question, in order, at most `limit` passages each.

        A question's result does not depend on the others in the batch. Its `seconds` are its own, and an equal share of
        what was done for all questions at once. Passages are distinct, in descending order of score, equal ones as the
        strategy says, else by ascending id; a strategy that orders them otherwise says so (algorithms.md 0.3).
        """
        ...


@runtime_checkable
class NameSearching(Protocol):
    """A strategy that searches some names by vectors: of the names, or of their search hints."""

    def searched_hints(self, question: Question) -> Sequence[str]:
        """Names or search hints of this question whose vectors it must bring (`hint_vectors`)."""
        ...


@runtime_checkable
class TextComparing(Protocol):
    """A strategy that compares passages with further texts besides the question."""

    def further_texts(self, question: Question) -> Sequence[str]:
        """Texts whose vectors by the encoder of passages this question should bring; none of them is empty.

        The strategy encodes what the question does not bring.
        """
        ...


class Reader(Protocol):
    """Reads a short answer from what was retrieved."""

    @property
    def batches(self) -> bool:
        """Whether it gains from many questions at once (a model is asked concurrently).

        Otherwise each question is read in a turn of its own, which has a time limit.
        """
        ...

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; it does not depend on the other items.

        Any question is read, also one without a passage. Where a model is unavailable the Reading has an `outage` and
        no answer; a reply of no use is none.
        """
        ...
