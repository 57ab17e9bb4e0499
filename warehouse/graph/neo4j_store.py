"""One index in a Neo4j database: schema, what is there, writing and deleting rows, the record of the version.

Compares nothing (tasks/export does). Every write holds the index's record, so that of two exports only the later one
can write. Source: architecture.md section 7, algorithms.md 1.2.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.errors import StoreConflictError, StoreError
from warehouse.graph.neo4j_layout import Kind, entity_label, vector_index
from warehouse.graph.neo4j_server import Neo4jConnection
from warehouse.graph.statements import cypher

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
_DELETED_AT_ONCE = 20_000


class Neo4jStore:
    """The part of a database that belongs to one index."""

    def __init__(self, connection: Neo4jConnection, index: str) -> None:
        self._connection = connection
        self._index = index
        self._label = entity_label(index)
        self._epoch: int | None = None

    def prepare(self) -> None:
        """Makes constraints and indexes and waits for them."""
        for name in _SCHEMA:
            self._connection.alter(cypher("schema", name))
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})

    def recorded(self) -> dict[str, Any]:
        """What the database says it holds of the index; empty if nothing."""
        rows = self._connection.read(cypher("schema", "recorded"), {"index": self._index})
        return dict(rows[0]["record"]) if rows else {}

    def claim(self) -> None:
        """Makes this the only export that can write the index from now on."""
        (rows,) = self._connection.write([(cypher("schema", "claim"), {"index": self._index})])
        self._epoch = int(rows[0]["epoch"])

    def stored(self, kind: Kind) -> list[tuple[str, str]]:
        """(id, recorded hash) of all rows of a kind."""
        rows = self._connection.read(cypher(kind.file, f"stored_{kind.name}"), {"index": self._index})
        return [(row["id"], row["hash"] or "") for row in rows]

    def rows(self, kind: Kind, probe: Sequence[float]) -> list[dict[str, Any]]:
        """Id, properties, ends of all rows of a kind, and how like `probe` their vectors are."""
        values = {"index": self._index, "label": self._label, "probe": list(probe)}
        return self._connection.read(cypher(kind.file, f"read_{kind.name}"), values)

    def write(self, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> None:
        """Creates or replaces rows, as many at once as the kind allows.

        Raises:
            StoreConflictError: If another export of the same index has begun since.
        """
        for start in range(0, len(rows), kind.batch):
            part = [dict(row) for row in rows[start : start + kind.batch]]
            self._hold_and_run(cypher(kind.file, f"write_{kind.name}"), {"rows": part, "label": self._label})

    def delete(self, kind: Kind, ids: Sequence[str]) -> None:
        """Deletes rows; nodes with their relationships.

        Raises:
            StoreConflictError: If another export of the same index has begun since.
        """
        for start in range(0, len(ids), _DELETED_AT_ONCE):
            part = list(ids[start : start + _DELETED_AT_ONCE])
            self._hold_and_run(cypher(kind.file, f"delete_{kind.name}"), {"ids": part})

    def index_vectors(self, dimension: int, *, is_new: bool) -> None:
        """Makes the vector index, or makes it anew, and waits for it; with dimension 0 removes it.

        An index that is filled at once is one segment, which answers four times as fast as one filled batch by batch.

        Raises:
            StoreError: If the index does not come up.
        """
        name = {"name": vector_index(self._index)}
        found = self._connection.read(cypher("schema", "vector_index"), name)
        fits = bool(found) and found[0]["state"] != "FAILED" and _dimension(found[0]) == dimension
        if found and (is_new or not fits):
            self._connection.alter(cypher("schema", "drop_vector_index"), name)
        if not dimension:
            return
        if is_new or not fits:
            text = cypher("schema", "create_vector_index").replace("{label}", self._label)
            self._connection.alter(text, name | {"options": _vector_options(dimension)})
        self._connection.alter(cypher("schema", "await_indexes"), {"seconds": AWAIT_SECONDS})
        found = self._connection.read(cypher("schema", "vector_index"), name)
        if not found or found[0]["state"] != "ONLINE":
            raise StoreError(f"Neo4j did not build the vector index of '{self._index}'; look into its log.")

    def has_vector_index(self, dimension: int) -> bool:
        """Whether the vector index answers for vectors of this dimension; for 0, whether there is none."""
        found = self._connection.read(cypher("schema", "vector_index"), {"name": vector_index(self._index)})
        if not dimension:
            return not found
        return bool(found) and found[0]["state"] == "ONLINE" and _dimension(found[0]) == dimension

    def record(self, record: Mapping[str, Any]) -> None:
        """Says which version the database holds: the last write of an export."""
        self._hold_and_run(cypher("schema", "record"), {"record": dict(record)})

    def _hold_and_run(self, text: str, values: Mapping[str, Any]) -> None:
        index = {"index": self._index}
        refusal = StoreConflictError(
            f"Another export of index '{self._index}' to the same database has begun; this one has stopped."
        )
        hold = (cypher("schema", "hold"), index)
        self._connection.write_held(hold, {"epoch": self._epoch}, (text, index | dict(values)), refusal)


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
