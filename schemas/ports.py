"""Protocols of indexes, models and stores for strategies, readers and stages; warehouse/ implements them."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import ChatModel
from polyhop.schemas.errors import AlgorithmError, ConfigurationError, MissingArtefactError
from polyhop.schemas.graph import (
    Activation,
    ChainRule,
    Entity,
    Mention,
    Positions,
    SeedRule,
    SpreadQuestion,
    SpreadRule,
)
from polyhop.schemas.manifest import HnswRecord, PartitionsRecord
from polyhop.schemas.query import Question, ReaderResult, ReadingItem, Retrieval
from polyhop.schemas.records import Location, PassageOrigin
from polyhop.schemas.settings import PASSAGES, Space

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
"""Takes positions in a list of texts and the vectors of these texts, shape (positions, dimension)."""


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


class Window(NamedTuple):
    """A part of a passage, as the span model reads it with a question."""

    question: str
    bridge: str  # A sentence of another passage that leads to this one, "" without one.
    title: str
    text: str


class SpanLogits(NamedTuple):
    """Scores of a window's tokens as the first and as the last one of an answer."""

    offsets: Sequence[tuple[int, int]]  # Characters of each token in the window's text.
    starts: NDArray[np.float64]  # Shape (tokens,).
    ends: NDArray[np.float64]  # Shape (tokens,).
    absent: float  # Sum of both scores of "no answer here".


class SpanModel(Protocol):
    """Finds the answer to a question in texts."""

    def logits(self, windows: Sequence[Window]) -> list[SpanLogits]:
        """One per window, in order."""
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


class Encode(Protocol):
    """Encodes texts as the vectors of an open version were."""

    def __call__(
        self, texts: Sequence[str], space: Space = PASSAGES, *, is_repeated: bool = False
    ) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), float32, length 1, in input order.

        Args:
            texts: Any texts.
            space: What they are compared with: passages, or entities, propositions and other short texts, which may
                have their own encoder.
            is_repeated: Whether they come again with other questions, so that their vectors are cached; same bits.
        """
        ...


def _no_encoder(texts: Sequence[str], space: Space = PASSAGES, *, is_repeated: bool = False) -> NDArray[np.float32]:
    del space, is_repeated
    raise AlgorithmError(f"No encoder was given to this strategy, which has to encode {len(texts)} texts.")


def _no_database() -> SpreadingDatabase:
    raise ConfigurationError("No graph database was given to this strategy.")


@dataclass(frozen=True, slots=True)
class Services:
    """Models and databases available to a strategy while it answers; each is opened on first use."""

    encode: Encode = _no_encoder  # Encodes texts.
    # Whether entities and other short texts have vectors by another encoder than passages.
    has_two_encoders: bool = False
    # The chat model for reading (models.read); None if none is configured.
    chat: Callable[[], ChatModel | None] = lambda: None
    # The model that finds spans in passages; None if short answers are not read (reader.name).
    spans: Callable[[], SpanModel | None] = lambda: None
    # The cross-encoder (models.rerank), opened once per process; None if none is configured.
    reranker: Callable[[], Reranker | None] = lambda: None
    # The Neo4j database that the open version was exported to (NEO4J_URI, NEO4J_PASSWORD…).
    graph_database: Callable[[], SpreadingDatabase] = _no_database


class IndexReader(Protocol):
    """A published version, or what a filter leaves of it, read-only. Passages are numbered by ascending passage id."""

    name: str
    version: int
    passage_ids: Sequence[str]
    artefacts: frozenset[str]  # Names of those that the version was built with.

    @property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        ...

    @property
    def passage_titles(self) -> Sequence[str]:
        """Titles by passage number."""
        ...

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) of passages by number, in the order asked."""
        ...

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Returns the origins of passages by number, in the given order: record, file, offsets, metadata."""
        ...

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        ...

    def locations(self, passage_ids: Collection[str]) -> Mapping[str, Location]:
        """Returns the known locations of passages in their files (page, headings…), by id."""
        ...

    def artefact(self, handle: "Artefact[T]") -> T:
        """Opens an artefact on first use and keeps it (handles: warehouse/artefacts.py).

        Raises:
            MissingArtefactError: If this version was built without it.
            DamagedStoreError: If its files are not what was published.
        """
        ...


class Stored(IndexReader, Protocol):
    """A whole version, as the openers of artefacts get it: its arrays, and queries on its tables."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the version was built with, as its manifest holds them, by section."""
        ...

    def array(self, prefix: str, name: str) -> NDArray[Any]:
        """The array of the file `<prefix>_<name>.npy`, memory-mapped.

        Raises:
            DamagedStoreError: If a file of this prefix is missing or not what was published.
        """
        ...

    def has_array(self, prefix: str, name: str) -> bool:
        """Returns whether the version has the array."""
        ...

    def lines(self, prefix: str, name: str) -> list[str]:
        """The lines of the file `<prefix>_<name>.txt`, checked like arrays; none if it is empty."""
        ...

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query on the version's tables, those of other packages' stages among them.

        Args:
            sql: One statement; values go into `parameters`, as `$name`.
            parameters: By name.

        Raises:
            DamagedStoreError: If the tables cannot be read.
            StatementRejectedError: If the database refuses the statement.
        """
        ...

    def columns(self, sql: str, parameters: Mapping[str, object] | None = None) -> Mapping[str, NDArray[Any]]:
        """The same by column, each of shape (rows,): for many rows."""
        ...

    def cosine_scale(self, kind: str) -> float:
        """Factor for weights in units of the local encoder's cosine, for vectors of a kind; above 0."""
        ...

    def encoder_name(self, kind: str) -> str:
        """Name of the encoder of a kind of vectors, as the settings have it."""
        ...

    def nearest(self, kind: str, vector: NDArray[Any], count: int, ef_search: int) -> list[str]:
        """Ids of about the `count` things of a kind whose vectors are nearest, nearest first; artefact `ann:<kind>`.

        Args:
            kind: A kind of vectors that the version can search approximately.
            vector: Shape (d,), float32.
            count: Things to find.
            ef_search: Candidates that an HNSW graph is searched with.
        """
        ...

    def nearest_rows(self, kind: str, vector: NDArray[Any], count: int) -> NDArray[np.uint64]:
        """The same by partitions: LanceDB's own ids of the rows, which take half the time, nearest first."""
        ...


@dataclass(frozen=True, slots=True)
class Artefact(Generic[T]):
    """The handle of a value that `reader.artefact(HANDLE)` opens, once per open version.

    Declared once, at the top of a module: handles with the same fields are the same.
    """

    # The artefact that a stage writes and strategies need ("graph", "lexical:stems"…); several handles may read
    # different values of one artefact.
    name: str
    open: Callable[[Stored], T]  # Reads the value; called when it is first asked for.
    strategy: str = "STRATEGY"  # One whose index has the artefact, for the advice of `MissingArtefactError`.
    is_optional: bool = True  # Whether versions are built without it; False for what every version has.
    # Makes of the value what is left under a filter of questions, where only some passages count, numbered from 0
    # without gaps. None: strategies that read it cannot be filtered.
    restrict: "Callable[[T, RestrictedIndex], T] | None" = field(default=None, compare=False)

    def require_in(self, index: IndexReader) -> None:
        """Makes sure that a version was built with it."""
        if self.is_optional and self.name not in index.artefacts:
            raise MissingArtefactError(self.name, index.name, self.strategy)


def unrestricted(value: T, _index: "RestrictedIndex") -> T:
    """`Artefact.restrict` of values that do not depend on which passages count."""
    return value


class RestrictedIndex:
    """The passages of another index that a filter allows, numbered from 0 in the same order.

    Attributes:
        whole: The other index.
        allowed: Shape (n,), int64, ascending: numbers of the passages in the whole version.
        is_allowed: Shape (all passages,), bool: the same as flags.
        seconds: What restricting took so far.

    Source: decisions/0027-filters-of-questions.md.
    """

    def __init__(self, whole: IndexReader, allowed: NDArray[np.int64]) -> None:
        self._opened: dict[Artefact[Any], object] = {}
        self._depth = 0
        self.whole, self.allowed = whole, allowed
        self.is_allowed = np.zeros(len(whole.passage_ids), dtype=np.bool_)
        self.is_allowed[allowed] = True
        self.seconds = 0.0
        self.name, self.version, self.artefacts = whole.name, whole.version, whole.artefacts
        self.record_of, self.locations = whole.record_of, whole.locations
        self.passage_ids: Sequence[str] = [whole.passage_ids[number] for number in allowed.tolist()]
        self.number_of_passage = Positions(self.passage_ids)

    @cached_property
    def passage_titles(self) -> Sequence[str]:
        """Titles by passage number."""
        return [self.whole.passage_titles[number] for number in self.allowed.tolist()]

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked."""
        return self.whole.passages(self.allowed[list(numbers)].tolist())

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Returns the origins of passages by number, in the given order."""
        return self.whole.origins(self.allowed[list(numbers)].tolist())

    def artefact(self, handle: Artefact[T]) -> T:
        """Restricts an artefact on first use and keeps it."""
        handle.require_in(self)
        if handle not in self._opened:
            if handle.restrict is None:
                raise ConfigurationError(
                    f"Strategies that read the artefact '{handle.name}' cannot be filtered: its handle does not say "
                    "what is left of it (Artefact.restrict); leave out the filter, or name another strategy."
                )
            begun, self._depth = time.perf_counter(), self._depth + 1  # restricting one may ask for another
            try:
                self._opened.setdefault(handle, handle.restrict(self.whole.artefact(handle), self))
            finally:
                self._depth -= 1
                self.seconds += 0 if self._depth else time.perf_counter() - begun
        return cast("T", self._opened[handle])


class Strategy(Protocol):
    """Ranks passages for a batch of questions."""

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question, in order, at most `limit` passages each.

        A question's result does not depend on the others in the batch. Its `seconds` are its own, and an equal share of
        what was done for all questions at once. Passages are distinct, in descending order of score, equal ones as the
        strategy says, else by ascending id; a strategy that orders them otherwise says so (algorithms.md 0.3).
        """
        ...


class Reader(Protocol):
    """Reads a short answer from what was retrieved."""

    @property
    def batches(self) -> bool:
        """Returns whether batches of questions are faster (a model is called concurrently).

        Otherwise each question is read separately, with a time limit.
        """
        ...

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        """One ReaderResult per item, in order; it does not depend on the other items.

        Any question is read, also one without a passage. Where a model is unavailable the Reading has an `outage` and
        no answer; a reply of no use is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class VectorRows:
    """All rows a table must have."""

    ids: Sequence[str]  # Distinct owner ids.
    texts: Callable[[Sequence[int]], Iterable[str]]  # Of the rows of these numbers, which ascend.
    hashes: Sequence[str]  # Content hash of each row: equal hash means equal vector.
    vectors: NDArray[np.float32]  # Shape (n, d), float32.


class VectorRowsByNumber(Protocol):
    """A matrix of vectors, or what reads rows of one."""

    def __getitem__(self, numbers: NDArray[np.intp], /) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """A table that was brought up to date, and what that took."""

    table: str
    version: int  # The version of the table that holds the rows; equal if nothing had to be changed.
    written: int
    deleted: int
    hnsw: HnswRecord | None = None  # Its graph for approximate search; None if none was wanted.
    partitions: PartitionsRecord | None = None  # Likewise its partitions.
    # Which rows a table with partitions holds: the arrays of `partitions_of` (warehouse/artefacts.py).
    positions: Mapping[str, NDArray[Any]] = field(default_factory=dict, compare=False)


NodeKind = Literal["documents", "paragraphs", "entities", "hubs", "hub_paths"]
RelationshipKind = Literal[
    "document_paragraphs", "document_mentions", "paragraph_mentions", "relations", "hub_entities", "paths_of_hubs",
    "hub_path_entities", "hub_candidates",
]  # fmt: skip
GraphKind = NodeKind | RelationshipKind

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
RELATIONSHIP_KINDS: tuple[RelationshipKind, ...] = get_args(RelationshipKind)
GRAPH_KINDS: tuple[GraphKind, ...] = (*NODE_KINDS, *RELATIONSHIP_KINDS)
"""In the order in which they are written: a relationship after both its ends."""
HUB_KINDS: tuple[GraphKind, ...] = tuple(kind for kind in GRAPH_KINDS if "hub" in kind)
"""Those that only a version with hubs has."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A node, or a relationship between two, as it is to be stored."""

    id: str  # Unique in its kind.
    hash: str  # sha256 over everything else but the vector.
    properties: Mapping[str, Any]  # What it says besides its id; nothing that is None.
    source: str = ""  # Id of the node it leaves, "" for a node.
    target: str = ""  # Id of the node it enters, "" for a node.
    vector: Sequence[float] | None = None  # Of an entity, length d; None if it has none.


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A node, or a relationship between two, as a store holds it, regardless of who wrote it."""

    id: str  # "" if a relationship has none.
    hash: str  # As it was written with; "" if it has none.
    properties: Mapping[str, Any]  # All that it says now besides id, hash and vector.
    source: str = ""
    target: str = ""
    is_found: bool = True  # Whether searches for nodes of its kind find it.
    # (1 + cosine) / 2 of its vector and the one asked about, -1 for one of another dimension; None without a vector.
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """Record in a graph store of the version that it holds."""

    version: int  # Number of the version.
    fingerprint: str  # sha256 of all that determines what is written.
    dimension: int  # Length of the entities' vectors, 0 without.
    counts: Mapping[GraphKind, int]  # Rows by kind, of the kinds that the version has.


class GraphStore(Protocol):
    """The part of a graph database that belongs to one index.

    Every method may raise StoreError; those that write raise StoreConflictError if somebody else has claimed the index
    since this store did.
    """

    def prepare(self, *, has_hubs: bool) -> None:
        """Sets up what fast and safe writing needs, with `has_hubs` of hubs too; does nothing where that is there."""
        ...

    def claim(self) -> None:
        """Makes this the only one who can write; from now until `record` the store says that it is incomplete."""
        ...

    def recorded(self) -> GraphRecord | None:
        """Returns the record of the version that the store holds; None if it holds none, or an incomplete one."""
        ...

    def record(self, record: GraphRecord) -> None:
        """Says which version it holds, completely: the last thing to be written."""
        ...

    def hashes(self, kind: GraphKind) -> list[tuple[str, str]]:
        """(id, hash it was written with) of all rows of a kind, each as often as it is there."""
        ...

    def rows(self, kind: GraphKind, probe: Sequence[float]) -> list[HeldRow]:
        """All rows of a kind as they are now; entities with how similar their vectors are to `probe`, length d."""
        ...

    def write(self, kind: GraphKind, rows: Iterable[GraphRow]) -> None:
        """Creates or replaces rows, batch by batch: a failure leaves whole batches written, and the rest not."""
        ...

    def delete(self, kind: GraphKind, ids: Sequence[str]) -> None:
        """Deletes rows; nodes with their relationships; ids that are not there are skipped."""
        ...

    def index_vectors(self, dimension: int, *, is_new: bool) -> None:
        """Makes the entities' vectors searchable, with `is_new` from scratch; with dimension 0 no longer searchable."""
        ...

    def has_vector_index(self, dimension: int) -> bool:
        """Returns whether vectors of this dimension can be searched; for 0, whether none can."""
        ...

    def spreading(self, version: int, keys: Sequence[str]) -> SpreadingDatabase:
        """The index's entities and relations, ready to answer questions.

        Args:
            version: The version that is asked about.
            keys: Keys of its named entities, ascending; an entity's number is its offset here.

        Raises:
            ContractError: If the store holds another version, none, or one only in part.
            MissingArtefactError: If its entities came without vectors.
        """
        ...

    def close(self) -> None:
        """Ends all connections."""
        ...
