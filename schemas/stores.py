"""Protocols that separate the rest from the vector store and the graph store, and what passes between.

Says nothing of how a store keeps things. One implementation of each lives in warehouse/, opened by warehouse/open.py, a
plain one in tests/contract/.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.manifest import HnswRecord
from polyhop.schemas.ports import SpreadingDatabase
from polyhop.schemas.settings import VectorSettings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class VectorRows:
    """All rows a table must have.

    Attributes:
        ids: Distinct owner ids.
        texts: What full-text search looks into.
        hashes: Content hash of each row: equal hash means equal vector.
        vectors: Shape (n, d), float32.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    hashes: Sequence[str]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """A table that was brought up to date, and what that took.

    Attributes:
        table: Its name.
        version: The version of the table that holds the rows; equal if nothing had to be changed.
        written: Rows added or changed.
        deleted: Rows that vanished.
        hnsw: Its graph for approximate search; None if none was wanted.
    """

    table: str
    version: int
    written: int
    deleted: int
    hnsw: HnswRecord | None = None


class PinnedTable(Protocol):
    """One version of a table of vectors, open for reading; later changes of the table do not show."""

    def read(self) -> "pa.Table":
        """All rows in any order: columns `id` (string) and `vector` (fixed-size list of float32)."""
        ...

    def nearest(self, vector: NDArray[np.float32], count: int, ef_search: int) -> list[str]:
        """Ids of about the `count` rows with the highest cosine similarity to a vector, in descending order of it.

        Args:
            vector: Shape (d,), float32, not 0.
            count: Rows wanted, at least 1.
            ef_search: Candidates that approximate search keeps; more find more of the exact nearest, and take longer.
        """
        ...

    def search_text(self, words: str, limit: int) -> list[str]:
        """Ids of at most `limit` rows whose texts hold some of the words, in descending order of the store's score."""
        ...


class VectorStore(Protocol):
    """The vectors of one index: tables whose versions stay readable as long as somebody pins them.

    One writer at a time, who holds the index's lease. Every method may raise StoreError (the disk is full or not
    writable) and DamagedStoreError (what is stored cannot be used).
    """

    def sync(self, table: str, rows: VectorRows, hnsw: VectorSettings | None = None) -> SyncedTable:
        """Makes a table, new or not, hold exactly `rows`; writes only what differs.

        Args:
            table: Name of the table.
            rows: Everything that it is to hold; at least one row if `hnsw` is given.
            hnsw: How to build a graph for approximate search; None: no graph.
        """
        ...

    def rebuild(self, table: str, rows: VectorRows, hnsw: VectorSettings | None = None) -> SyncedTable:
        """A new table, named after `table`, with these rows; those that are there stay, whatever their state."""
        ...

    def open(self, table: str, version: int) -> PinnedTable:
        """A version of a table.

        Raises:
            DamagedStoreError: If it is not there, or files of it are not those that were written.
        """
        ...

    def pin(self, table: str, version: int, name: str) -> None:
        """Keeps a version of a table readable under a name; the name leaves the version that it pinned before."""
        ...

    def clean(self, pins: Collection[str], tables: Collection[str], *, at_once: bool = False) -> None:
        """Frees what nobody needs any more, at once or later.

        Args:
            pins: Names that still pin; all others are forgotten.
            tables: Tables that still count; all others are removed.
            at_once: Also what killed runs left; only where nobody else writes.
        """
        ...

    def begin_changes(self) -> None:
        """Says that a run has begun which may remove files; until `end_changes` a missing one is not damage."""
        ...

    def is_changing(self) -> bool:
        """Whether changes began and have not ended: before it begins any, a writer learns that another was killed."""
        ...

    def end_changes(self) -> None:
        """Takes checksums of what is new: what differs from its checksum from now on is damaged."""
        ...

    def find_damage(self, table: str) -> list[str]:
        """What of a table is no longer what was written, in sentences; empty if it is whole, or not there."""
        ...


NodeKind = Literal["documents", "paragraphs", "entities", "hubs", "hub_paths"]
RelationshipKind = Literal[
    "document_paragraphs",
    "document_mentions",
    "paragraph_mentions",
    "relations",
    "hub_entities",
    "paths_of_hubs",
    "hub_path_entities",
    "hub_candidates",
]
GraphKind = NodeKind | RelationshipKind

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
RELATIONSHIP_KINDS: tuple[RelationshipKind, ...] = get_args(RelationshipKind)
GRAPH_KINDS: tuple[GraphKind, ...] = (*NODE_KINDS, *RELATIONSHIP_KINDS)
"""In the order in which they are written: a relationship after both its ends."""
HUB_KINDS: tuple[GraphKind, ...] = (
    "hubs",
    "hub_paths",
    "hub_entities",
    "paths_of_hubs",
    "hub_path_entities",
    "hub_candidates",
)
"""Those that only a version with hubs has."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A node, or a relationship between two, as it is to be stored.

    Attributes:
        id: Unique in its kind.
        hash: sha256 over everything else but the vector.
        properties: What it says besides its id; nothing that is None.
        source: Id of the node it leaves, "" for a node.
        target: Id of the node it enters, "" for a node.
        vector: Of an entity, length d; None if it has none.
    """

    id: str
    hash: str
    properties: Mapping[str, Any]
    source: str = ""
    target: str = ""
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A node, or a relationship between two, as a store holds it, whoever wrote it.

    Attributes:
        id: "" if a relationship has none.
        hash: As it was written with; "" if it has none.
        properties: All that it says now besides id, hash and vector.
        source: Id of the node it leaves, "" for a node.
        target: Id of the node it enters, "" for a node.
        is_found: Whether searches for nodes of its kind find it.
        similarity: (1 + cosine) / 2 of its vector and the one asked about, -1 for one of another dimension; None
            without a vector.
    """

    id: str
    hash: str
    properties: Mapping[str, Any]
    source: str = ""
    target: str = ""
    is_found: bool = True
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """Which version of an index a graph store holds.

    Attributes:
        version: Number of the version.
        fingerprint: sha256 of all that determines what is written.
        dimension: Length of the entities' vectors, 0 without.
        counts: Rows by kind, of the kinds that the version has.
    """

    version: int
    fingerprint: str
    dimension: int
    counts: Mapping[GraphKind, int]


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
        """Which version it says it holds; None if none, or one in part."""
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
        """Whether vectors of this dimension can be searched; for 0, whether none can."""
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
