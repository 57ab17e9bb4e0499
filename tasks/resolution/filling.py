"""Filling resolution's tables: from all raw rows, or by changing the rows of the version before that differ.

Decides nothing (resolve.py does). Both ways give the same rows; the statements that make rows are the
same (resolve.sql), an update shows them only the raw rows that can give another result (resolve_update.sql).
"""

import duckdb

from polyhop.schemas.columns import Table
from polyhop.schemas.tables import (
    ENTITIES,
    MENTIONS,
    PROPOSITION_ENTITIES,
    PROPOSITION_PASSAGES,
    PROPOSITIONS,
    RELATION_SOURCES,
    RELATIONS,
    TRIPLE_ENTITIES,
    TRIPLE_PASSAGES,
    TRIPLES,
)
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import quoted
from polyhop.warehouse.updated_tables import clear_tables, insert_sorted, replace_rows

_STATED = {
    "propositions": (PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES),
    "triples": (TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES),
}
"""Raw rows and the tables that they fill: texts, passages, entities."""

FILLED = (ENTITIES, MENTIONS, RELATIONS, RELATION_SOURCES, *(table for tables in _STATED.values() for table in tables))
"""Tables that an update takes from the version before, but for what changed."""


def describe_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Name and type of each key of all mentions, while nothing is decided."""
    _run(connection, "resolve", "own_mentions")
    _view(connection, "resolved_mentions", "own_mentions")
    _run(connection, "resolve", "names_of_keys", "types_of_keys")


def fill_all(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    """Fills the tables from all raw rows, once it is decided which names are which entity."""
    clear_tables(build, connection, FILLED)
    _run(connection, "resolve", "keyed_mentions", "drop_deleted_mentions")
    _view(connection, "resolved_mentions", "keyed_mentions")
    _view(connection, "placed_mentions", "keyed_mentions")
    _describe(connection)
    _insert(connection, ENTITIES, "entities")
    _insert(connection, MENTIONS, "mentions")
    _view(connection, "stated_relations", "all_relations")
    _run(connection, "resolve", "raw_relations")
    _insert(connection, RELATIONS, "relations")
    _insert(connection, RELATION_SOURCES, "relation_sources")
    for name, (texts, passages, entities) in _STATED.items():
        for view in ("stated", "naming"):
            _view(connection, view, f"all_{name}")
        _insert(connection, texts, "distinct_propositions")
        _insert(connection, passages, "passages_of_propositions")
        _insert(connection, entities, "entities_of_propositions")


def fill_changed(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    """Changes the rows of the tables that differ: they begin as those of the version before, which is shown.

    Cost: O(rows) to look through, O(rows of what changed) to derive and to write.
    """
    connection.execute("DROP VIEW IF EXISTS resolved_mentions")
    _run(connection, "resolve_update", "remapped_keys", "changed_keys", "touched_entities")
    _run(connection, "resolve_update", "keyed_mentions_of_changes")
    _run(connection, "resolve", "drop_deleted_mentions")
    _run(connection, "resolve_update", "resolved_mentions")
    _describe(connection)
    _replace(build, connection, ENTITIES, "entities", "key IN (FROM touched_entities)")
    _run(connection, "resolve_update", "moved_keys", "moved_entities", "placed_mentions")
    outdated = "unit_id IN (FROM changed_passages) OR entity_id IN (SELECT entity_id FROM moved_entities)"
    _replace(build, connection, MENTIONS, "mentions", outdated)
    _update_relations(build, connection)
    for name, tables in _STATED.items():
        _update_stated(build, connection, name, tables)


def _update_relations(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    _run(connection, "resolve_update", "relations_of_changes")
    _run(connection, "resolve", "raw_relations")
    _run(connection, "resolve_update", "relations_not_stated", "touched_relations", "relations_beside")
    _run(connection, "resolve", "raw_relations")
    _run(connection, "resolve_update", "drop_other_relations")
    for table in (RELATIONS, RELATION_SOURCES):
        _replace(build, connection, table, table.name, "relation_id IN (FROM touched_relations)")


def _update_stated(
    build: Build, connection: duckdb.DuckDBPyConnection, name: str, tables: tuple[Table, Table, Table]
) -> None:
    texts, passages, entities = tables
    _view(connection, "stated_now", f"all_{name}")
    _view(connection, "differing", f"differing_{name}")
    _run(connection, "resolve_update", "touched_texts", "stated", "touched_names", "naming")
    _replace(build, connection, texts, "distinct_propositions", "proposition_id IN (FROM touched_texts)")
    _replace(build, connection, passages, "passages_of_propositions", "proposition_id IN (FROM touched_texts)")
    _replace(build, connection, entities, "entities_of_propositions", "proposition_id IN (FROM touched_names)")


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Name, type and description of the entities that are derived, and which of them occur in propositions."""
    _run(connection, "resolve", "names_of_keys", "types_of_keys", "descriptions_of_keys", "phrases")
    _run(connection, "resolve", "rename_keys", "drop_retyped_keys", "retype_keys")


def _run(connection: duckdb.DuckDBPyConnection, file: str, *names: str) -> None:
    for name in names:
        connection.execute(statement(file, name))


def _view(connection: duckdb.DuckDBPyConnection, name: str, source: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS FROM {quoted(source)}")


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, rows: str) -> None:
    insert_sorted(connection, table, statement("resolve", rows))


def _replace(build: Build, connection: duckdb.DuckDBPyConnection, table: Table, rows: str, outdated: str) -> None:
    replace_rows(build, connection, table, statement("resolve", rows), outdated)
