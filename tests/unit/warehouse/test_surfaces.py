"""Names as written, read from real tables: every place under its own spelling, whatever resolution merged."""

import duckdb

from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.tables import TABLES
from polyhop.warehouse.artefacts import surface_graph
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import create_statement

Row = tuple[str, str, str, int, bool, str]


def tables(texts: dict[str, str], keys: dict[str, bool], mentions: list[Row]) -> duckdb.DuckDBPyConnection:
    """Passages by id, entities (id: is it named) and mentions; other columns are empty."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(create_statement(table).replace("NOT NULL", ""))
    for passage in texts.items():
        connection.execute("INSERT INTO passages (passage_id, text) VALUES (?, ?)", passage)
    for entity in keys.items():
        connection.execute("INSERT INTO entities (entity_id, is_named) VALUES (?, ?)", entity)
    for mention in mentions:
        connection.execute(
            "INSERT INTO mentions (level, extractor, unit_id, entity_id, surface, tf, is_title, spans_json) "
            "VALUES ('passage', 'rules', ?, ?, ?, ?, ?, ?)",
            mention,
        )
    return connection


def surfaces_in(connection: duckdb.DuckDBPyConnection, passage_count: int) -> BipartiteGraph:
    return surface_graph(connection.execute(statement("read", "surfaces")).fetchnumpy(), passage_count)


def as_rows(graph: BipartiteGraph) -> list[dict[str, tuple[float, bool]]]:
    rows: list[dict[str, tuple[float, bool]]] = [{} for _ in range(graph.passage_count)]
    for row, entity, tf, is_title in zip(graph.rows, graph.indices, graph.tf, graph.is_title, strict=True):
        rows[row][graph.keys[entity]] = (float(tf), bool(is_title))
    return rows


def test_every_place_counts_under_its_own_spelling() -> None:
    """p1: title, then two places spelled differently; p2: 𝄞 is one character; p3 mentions nothing."""
    connection = tables(
        {"p2": "𝄞 Ada met ADA.", "p1": "Lovelace, or Ada King, was here.", "p3": ""},
        {"ada": True, "year": False},
        [
            ("p1", "ada", "Ada Lovelace", 3, True, "[[0,8],[13,21]]"),
            ("p2", "ada", "Ada", 2, False, "[[2,5],[10,13]]"),
            ("p2", "year", "1815", 1, False, "[[0,1]]"),
        ],
    )
    graph = surfaces_in(connection, 3)
    assert graph.keys == ("ADA", "Ada", "Ada King", "Ada Lovelace", "Lovelace")
    assert as_rows(graph) == [
        {"Ada King": (1, True), "Ada Lovelace": (1, True), "Lovelace": (1, True)},
        {"ADA": (1, False), "Ada": (1, False)},
        {},
    ]


def test_mentions_without_a_place_count_under_the_row_s_spelling() -> None:
    """A title that the text never repeats; an imported name that is not in the text; a lone place that is a title."""
    connection = tables(
        {"p1": "It is old.", "p2": "rome is old."},
        {"rome": True, "tiber": True},
        [
            ("p1", "rome", "Rome", 1, True, "[]"),
            ("p1", "tiber", "Tiber", 4, False, "[]"),
            ("p2", "rome", "ROME", 1, True, "[[0,4]]"),
            ("p2", "tiber", "Tiber", 1, False, "[]"),
        ],
    )
    assert as_rows(surfaces_in(connection, 2)) == [
        {"Rome": (1, True), "Tiber": (4, False)},
        {"Tiber": (1, False), "rome": (1, True)},
    ]


def test_entities_that_are_written_alike_are_one_spelling() -> None:
    connection = tables(
        {"p1": "Paris and Paris."},
        {"city": True, "hero": True},
        [("p1", "city", "Paris", 1, False, "[[0,5]]"), ("p1", "hero", "Paris", 1, True, "[[10,15]]")],
    )
    assert as_rows(surfaces_in(connection, 1)) == [{"Paris": (2, True)}]


def test_an_empty_version_has_no_names() -> None:
    graph = surfaces_in(tables({}, {}, []), 0)
    assert (graph.keys, graph.passage_count, len(graph.indices)) == ((), 0, 0)
