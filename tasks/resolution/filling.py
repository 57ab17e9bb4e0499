"""Filling resolution's tables: from all raw rows, or with what differs from the version before and the rest copied.

Decides nothing (resolve.py does). Both ways give the same rows in the same order; the statements that make rows are the
same (resolve.sql), an update shows them only the raw rows that can give another result (resolve_update.sql).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from polyhop.warehouse.build import insert_sorted
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import attached, literal, quoted

_STATED = {
    "propositions": (PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES),
    "triples": (TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES),
}
"""Raw rows and the tables that they fill: texts, passages, entities."""

FILLED = (ENTITIES, MENTIONS, RELATIONS, RELATION_SOURCES, *(table for tables in _STATED.values() for table in tables))
"""Tables that an update takes from the version before, but for what changed."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an update builds on.

    Attributes:
        tables: File of the tables of the version before.
        raw: Name of raw rows to the version's file of them.
        passages: Ids of passages whose raw rows are others now, removed ones among them.
    """

    tables: Path
    raw: Mapping[str, Path]
    passages: Sequence[str]


def show_raw(connection: duckdb.DuckDBPyConnection, raw: Mapping[str, Sequence[str]], suffix: str = "") -> None:
    """Views of raw rows: `all_mentions` and so on, or with another suffix `mentions_before`."""
    for name, files in raw.items():
        view = f"{name}{suffix}" if suffix else f"all_{name}"
        listed = ", ".join(map(literal, files))
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(view)} AS FROM read_parquet([{listed}])")


def describe_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Name and type of each key of the keyed mentions."""
    _view(connection, "resolved_mentions", "keyed_mentions")
    _run(connection, "resolve", "names_of_keys", "types_of_keys")


def fill_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills the tables from all raw rows; keyed mentions have their entities' keys."""
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


def fill_changed(connection: duckdb.DuckDBPyConnection, before: Before) -> None:
    """Fills the tables with what differs from the version before, and copies the rest.

    Cost: O(rows) to copy and to look through, O(rows of what changed) to derive.
    """
    show_raw(connection, {name: [str(path)] for name, path in before.raw.items()}, "_before")
    connection.execute("DROP VIEW resolved_mentions")
    with attached(connection, before.tables, "published"):
        passages = {"passages": list(before.passages)}
        connection.execute(statement("resolve_update", "changed_passages"), passages)
        found = ("key_map_before", "remapped_keys", "changed_keys", "touched_entities", "resolved_mentions")
        _run(connection, "resolve_update", *found)
        _describe(connection)
        _insert(connection, ENTITIES, "entities", "key NOT IN (FROM touched_entities)")
        _run(connection, "resolve_update", "moved_keys", "moved_entities", "placed_mentions")
        kept = "unit_id NOT IN (FROM changed_passages) AND entity_id NOT IN (SELECT entity_id FROM moved_entities)"
        _insert(connection, MENTIONS, "mentions", kept)
        _update_relations(connection)
        for name, tables in _STATED.items():
            _update_stated(connection, name, tables)


def _update_relations(connection: duckdb.DuckDBPyConnection) -> None:
    _run(connection, "resolve_update", "relations_of_changes")
    _run(connection, "resolve", "raw_relations")
    _run(connection, "resolve_update", "touched_relations", "relations_beside")
    _run(connection, "resolve", "raw_relations")
    _run(connection, "resolve_update", "drop_other_relations")
    for table in (RELATIONS, RELATION_SOURCES):
        _insert(connection, table, table.name, "relation_id NOT IN (FROM touched_relations)")


def _update_stated(connection: duckdb.DuckDBPyConnection, name: str, tables: tuple[Table, Table, Table]) -> None:
    texts, passages, entities = tables
    _view(connection, "stated_now", f"all_{name}")
    _view(connection, "stated_before", f"{name}_before")
    _run(connection, "resolve_update", "touched_texts", "stated", "touched_names", "naming")
    _insert(connection, texts, "distinct_propositions", "proposition_id NOT IN (FROM touched_texts)")
    _insert(connection, passages, "passages_of_propositions", "proposition_id NOT IN (FROM touched_texts)")
    _insert(connection, entities, "entities_of_propositions", "proposition_id NOT IN (FROM touched_names)")


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Name, type and description of the entities that are derived, and which of them occur in propositions."""
    _run(connection, "resolve", "names_of_keys", "types_of_keys", "descriptions_of_keys", "phrases")


def _run(connection: duckdb.DuckDBPyConnection, file: str, *names: str) -> None:
    for name in names:
        connection.execute(statement(file, name))


def _view(connection: duckdb.DuckDBPyConnection, name: str, source: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS FROM {quoted(source)}")


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, rows: str, kept: str = "") -> None:
    insert_sorted(connection, table, statement("resolve", rows), kept)
