"""The graph database that tests/contract runs on: a real Neo4j."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graph_fixture import connect_to
from neo4j_process import Neo4jServer

from polyhop.flows.export import row_hash
from polyhop.schemas.ports import GRAPH_KINDS, GraphRow, GraphStore, HeldRow
from polyhop.warehouse.open import open_graph_store

INDEX = "contract"
PROBE = [1.0, 0.0, 0.0]


@dataclass(frozen=True)
class Kept:
    """A database without any row, to be opened as often as processes would, and to be changed without its store."""

    open: Callable[..., GraphStore]
    forge: Callable[[str, str], None]
    """Gives a paragraph another text, and leaves the hash that it was written with."""


@contextmanager
def on_neo4j(server: Neo4jServer) -> Iterator[Kept]:
    """A real server, its database emptied."""
    connection = connect_to(server)
    connection.write([("MATCH (n) DETACH DELETE n", {})])
    opened: list[GraphStore] = []

    def open_one(index: str = INDEX) -> GraphStore:
        opened.append(open_graph_store(connection.address, index))
        return opened[-1]

    def forge(key: str, text: str) -> None:
        statement = "MATCH (p:Paragraph {index: $index, id: $id}) SET p.text = $text"
        connection.write([(statement, {"index": INDEX, "id": key, "text": text})])

    for index in (INDEX, "other"):
        store = open_one(index)
        store.prepare(has_hubs=True)
        store.index_vectors(0, is_new=False)
    yield Kept(open_one, forge)
    for store in opened:
        store.close()
    connection.close()


def claimed(kept: Kept, index: str = INDEX) -> GraphStore:
    """A store that may write."""
    opened = kept.open(index)
    opened.prepare(has_hubs=True)
    opened.claim()
    return opened


def row(key: str, source: str = "", target: str = "", vector: Sequence[float] | None = None, **said: Any) -> GraphRow:
    """A row and its hash."""
    return GraphRow(key, row_hash(said, source, target), said, source, target, vector)


def held(store: GraphStore) -> dict[str, list[HeldRow]]:
    """Everything that a store holds, by kind."""
    return {kind: sorted(store.rows(kind, PROBE), key=lambda each: each.id) for kind in GRAPH_KINDS}
