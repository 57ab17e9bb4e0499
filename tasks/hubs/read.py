"""The graph that hubs are found in, out of the tables of a build: nodes and triples as numbers, and their names.

Decides nothing about hubs. The statements are in warehouse/tables/sql/hubs.sql.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.corpus import SourceKind
from polyhop.schemas.hubs import HubGraph, Numbers
from polyhop.tasks.hubs.flat import NamedGraph
from polyhop.warehouse.statements import statement

_NODES: Mapping[SourceKind, str] = {"graph": "nodes_of_graph", "corpus": "nodes_of_corpus"}


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """A graph with its names, and what other tables call its nodes and triples.

    Attributes:
        named: The graph, own ids, labels and predicates.
        entity_ids: Of the nodes.
        relation_ids: Of the triples.
    """

    named: NamedGraph
    entity_ids: list[str]
    relation_ids: list[str]


def read_hub_graph(connection: duckdb.DuckDBPyConnection, kind: SourceKind) -> ReadGraph:
    """Numbers nodes, predicates and triples; the temporary tables that say how stay in the connection."""
    connection.execute(statement("hubs", _NODES[kind]))
    connection.execute(statement("hubs", "number_predicates"))
    nodes = _table(connection, "nodes")
    triples = _table(connection, "triples")
    subjects, predicates, objects = (_numbers(triples.column(name)) for name in ("subject", "predicate", "object"))
    graph = HubGraph.from_triples(
        subjects,
        predicates,
        objects,
        np.array(nodes.column("is_literal").to_pylist(), dtype=np.bool_),
    )
    named = NamedGraph(
        graph,
        nodes.column("own_id").to_pylist(),
        nodes.column("name").to_pylist(),
        _table(connection, "predicates").column("relation").to_pylist(),
    )
    return ReadGraph(named, nodes.column("entity_id").to_pylist(), triples.column("relation_id").to_pylist())


def passage_pairs(connection: duckdb.DuckDBPyConnection, name: str) -> NDArray[np.int64]:
    """Shape (e, 2): numbers of a triple or a node and of a passage, of the statement of this name."""
    columns = connection.execute(statement("hubs", name)).fetchnumpy()
    return np.stack((columns["thing"], columns["passage"]), axis=1).astype(np.int64)


def numbered(connection: duckdb.DuckDBPyConnection, name: str, values: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """Numbers of nodes with what a statement says of each."""
    return connection.execute(statement("hubs", name), values).fetchall()


def texts_of(connection: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """The only column of a statement."""
    return [row[0] for row in connection.execute(statement("hubs", name)).fetchall()]


def insert(connection: duckdb.DuckDBPyConnection, table: pa.Table, into: str, order: Iterable[str]) -> None:
    """Fills a table with rows of the same columns, in the order of some of them."""
    connection.register("incoming", table)
    connection.execute(f'INSERT INTO "{into}" FROM incoming ORDER BY {", ".join(order)}')
    connection.unregister("incoming")


def _table(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    return connection.sql(statement("hubs", name)).to_arrow_table()  # of execute(), DuckDB copies all rows


def _numbers(column: pa.ChunkedArray) -> Numbers:
    numbers: Numbers = column.to_numpy().astype(np.int32)
    return numbers
