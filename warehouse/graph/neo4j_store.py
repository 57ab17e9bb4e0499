"""One index in a Neo4j database: schema, what is there, writing and deleting rows, the record of the version.

Implements polyhop.schemas.stores.GraphStore; compares nothing (tasks/export does). Every write holds the index's
record, so that of two exports only the later one can write. Source: architecture.md section 7, algorithms.md 1.2.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from polyhop.schemas.errors import ContractError, MissingArtefactError, StoreConflictError, StoreError
from polyhop.schemas.stores import GRAPH_KINDS, GraphKind, GraphRecord, GraphRow, HeldRow
from polyhop.warehouse.graph.neo4j_graph import Neo4jGraph
from polyhop.warehouse.graph.neo4j_layout import BATCH_ROWS, entity_label, file_of, vector_index
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.statements import cypher

# chosen: an index of a large graph takes minutes to become online; a server that needs longer is said to be at fault.
AWAIT_SECONDS = 600
_SCHEMA = (
    "documents_unique",
    "paragraphs_unique",
    "entities_unique",
    "indexes_unique",
    "entity_folded_keys",
    "entity_keys",
    "document_titles",
)
_HUB_SCHEMA = ("hubs_unique", "hub_paths_unique")
_DELETED_AT_ONCE = 20_000  # chosen: Neo4j holds a transaction's changes in memory, and any number deletes the same rows
_OWN = frozenset({"index", "id", "row_hash", "embedding", "labelled"})
"""Properties that every row has, or none: not those of `GraphRow.properties`."""


class Neo4jStore:
    """The part of a database that belongs to one index; see `polyhop.schemas.stores.GraphStore`."""

    def __init__(self, connection: Neo4jConnection, index: str) -> None:
        self._connection = connection
        self._index = index
        self._label = entity_label(index)
        self._epoch: int | None = None

    def prepare(self, *, has_hubs: bool) -> None:
        """Makes constraints and indexes, of hubs only where there are any, and waits for them."""
        for name in (*_SCHEMA, *(_HUB_SCHEMA if has_hubs else ())):
            self._connection.alter(cypher("schema", name))
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})

    def recorded(self) -> GraphRecord | None:
        """What the database says it holds of the index; None if nothing, or a part."""
        rows = self._connection.read(cypher("schema", "recorded"), {"index": self._index})
        held = rows[0]["record"] if rows else {}
        if not held.get("complete"):
            return None
        stated = {kind: held.get(f"{kind}_count") for kind in GRAPH_KINDS}
        counts: dict[GraphKind, int] = {kind: count for kind, count in stated.items() if count is not None}
        return GraphRecord(held.get("version", 0), held.get("fingerprint", ""), held.get("dimension", 0), counts)

    def claim(self) -> None:
        """Makes this the only export that can write the index from now on."""
        (rows,) = self._connection.write([(cypher("schema", "claim"), {"index": self._index})])
        self._epoch = int(rows[0]["epoch"])

    def hashes(self, kind: GraphKind) -> list[tuple[str, str]]:
        """(id, recorded hash) of all rows of a kind."""
        rows = self._connection.read(cypher(file_of(kind), f"stored_{kind}"), {"index": self._index})
        return [(row["id"], row["hash"] or "") for row in rows]

    def rows(self, kind: GraphKind, probe: Sequence[float]) -> list[HeldRow]:
        """Everything about all rows of a kind but their vectors, and how similar these are to `probe`."""
        values = {"index": self._index, "label": self._label, "probe": list(probe)}
        return [_held(row) for row in self._connection.read(cypher(file_of(kind), f"read_{kind}"), values)]

    def write(self, kind: GraphKind, rows: Iterable[GraphRow]) -> None:
        """Creates or replaces rows, a transaction per batch.

        Raises:
            StoreConflictError: If another export of the same index has begun since.
        """
        values = (self._values(row) for row in rows)
        while part := list(islice(values, BATCH_ROWS[kind])):
            self._hold_and_run(cypher(file_of(kind), f"write_{kind}"), {"rows": part, "label": self._label})

    def _values(self, row: GraphRow) -> dict[str, Any]:
        """What a writing statement gets of a row; nodes say whose they are."""
        own = {"id": row.id, "row_hash": row.hash} | ({} if row.source else {"index": self._index})
        properties = {**row.properties, **own}
        return {
            "id": row.id,
            "source": row.source,
            "target": row.target,
            "vector": row.vector,
            "properties": properties,
        }

    def delete(self, kind: GraphKind, ids: Sequence[str]) -> None:
        """Deletes rows; nodes with their relationships.

        Raises:
            StoreConflictError: If another export of the same index has begun since.
        """
        for start in range(0, len(ids), _DELETED_AT_ONCE):
            part = list(ids[start : start + _DELETED_AT_ONCE])
            self._hold_and_run(cypher(file_of(kind), f"delete_{kind}"), {"ids": part})

    def index_vectors(self, dimension: int, *, is_new: bool) -> None:
        """Makes the vector index, or rebuilds it, and waits for it; with dimension 0 removes it.

        An index that is filled at once is one segment, which answers four times as fast as one filled batch by batch.

        Raises:
            StoreError: If the index does not come up.
        """
        name = {"name": vector_index(self._index)}
        found = self._connection.read(cypher("schema", "vector_index"), name)
        fits = bool(found) and found[0]["state"] != "FAILED" and _dimension(found[0]) == dimension
        is_kept = fits and not is_new
        if found and not is_kept:
            self._connection.alter(cypher("schema", "drop_vector_index"), name)
        if not dimension:
            return
        if not is_kept:
            text = cypher("schema", "create_vector_index").replace("{label}", self._label)
            self._connection.alter(text, name | {"options": _vector_options(dimension)})
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})
        found = self._connection.read(cypher("schema", "vector_index"), name)
        if not found or found[0]["state"] != "ONLINE":
            raise StoreError(f"Neo4j did not build the vector index of '{self._index}'; check its log.")

    def has_vector_index(self, dimension: int) -> bool:
        """Whether the vector index answers for vectors of this dimension; for 0, whether there is none."""
        found = self._connection.read(cypher("schema", "vector_index"), {"name": vector_index(self._index)})
        if not dimension:
            return not found
        return bool(found) and found[0]["state"] == "ONLINE" and _dimension(found[0]) == dimension

    def record(self, record: GraphRecord) -> None:
        """Says which version the database holds: the last write of an export."""
        said = {
            "version": record.version,
            "fingerprint": record.fingerprint,
            "dimension": record.dimension,
            **{f"{kind}_count": record.counts.get(kind) for kind in GRAPH_KINDS},  # None removes what was said before
        }
        self._hold_and_run(cypher("schema", "record"), {"record": said})

    def spreading(self, version: int, keys: Sequence[str]) -> Neo4jGraph:
        """The index's entities and relations, ready to answer questions.

        Raises:
            ContractError: If another version was exported, none, or one only in part.
            MissingArtefactError: If entities came without vectors.
        """
        record = self.recorded()
        if record is None or record.version != version:
            held = f"version {record.version}" if record is not None else "no complete version"
            uri = self._connection.address.uri
            raise ContractError(
                f"Neo4j at {uri} holds {held} of index '{self._index}', not version {version}; "
                f"run: polyhop export neo4j --index {self._index}"
            )
        if not record.dimension:
            raise MissingArtefactError("vectors:entity", self._index, "qasa")
        return Neo4jGraph(self._connection, self._index, keys)

    def close(self) -> None:
        """Ends all connections to the server."""
        self._connection.close()

    def _hold_and_run(self, text: str, values: Mapping[str, Any]) -> None:
        index = {"index": self._index}
        refusal = StoreConflictError(
            f"Another export of index '{self._index}' to the same database has begun; this one has stopped."
        )
        hold = (cypher("schema", "hold"), index)
        self._connection.write_held(hold, {"epoch": self._epoch}, (text, index | dict(values)), refusal)


def _held(row: Mapping[str, Any]) -> HeldRow:
    stated = row["properties"]
    properties = {name: value for name, value in stated.items() if name not in _OWN}
    ends = row["source"] or "", row["target"] or ""
    is_found = bool(stated.get("labelled", True))
    return HeldRow(row["id"], stated.get("row_hash") or "", properties, *ends, is_found, row["probe"])


def _vector_options(dimension: int) -> dict[str, Any]:
    return {
        "indexConfig": {
            "vector.dimensions": dimension,
            "vector.similarity_function": "cosine",
            "vector.quantization.enabled": False,
        }
    }


def _dimension(row: Mapping[str, Any]) -> int:
    return int(row["options"]["indexConfig"]["vector.dimensions"])
