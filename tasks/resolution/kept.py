"""What an update of resolution builds on: the version before, its raw rows, and its decisions if no name changed.

Decides nothing (resolve.py does), fills no table of a version (filling.py does).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from polyhop.tasks.raw_rows import RawRows
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import attached, quoted

_DIFFERENCES = (
    "moved_passages",
    "mentions_that_differ",
    "relations_that_differ",
    "propositions_that_differ",
    "triples_that_differ",
    "named_keys",
    "key_map_before",
)
"""Statements that compare the raw rows of changed passages: most of them are as they were."""


@dataclass(frozen=True, slots=True)
class Before:
    """The version before.

    Attributes:
        tables: File of its tables.
        raw: Its raw rows by name.
        passages: Ids of passages whose raw rows are others now, removed ones among them.
        counts: What resolution counted in it.
    """

    tables: Path
    raw: Mapping[str, RawRows]
    passages: Sequence[str]
    counts: Mapping[str, int]


@contextmanager
def showing(connection: duckdb.DuckDBPyConnection, raw: Mapping[str, RawRows], before: Before | None) -> Iterator[None]:
    """For the block: raw rows as `all_mentions` and so on, and what is known of the version before.

    That is its tables as `published`, its raw rows as `mentions_before` and so on, which passages changed since, and
    keys of the names in these.
    """
    _show_raw(connection, {f"all_{name}": rows for name, rows in raw.items()})
    if before is None:
        yield
        return
    with attached(connection, before.tables, "published"):
        _show_raw(connection, {f"{name}_before": rows for name, rows in before.raw.items()})
        passages = {"passages": list(before.passages)}
        connection.execute(statement("resolve_update", "changed_passages"), passages)
        for name in _DIFFERENCES:
            connection.execute(statement("resolve_update", name))
        yield


def _show_raw(connection: duckdb.DuckDBPyConnection, views: Mapping[str, RawRows]) -> None:
    for name, rows in views.items():
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS {rows.query}")


def are_names_kept(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether every name has the spelling, the type and the number of mentions that it had.

    Only names that changed passages mention, before or now, can have others. Rules decide by these alone.

    Cost: O(mentions) to look through.
    """
    for moment, mentions in (("before", "named_before"), ("now", "named_now")):
        connection.execute(statement("resolve_update", mentions))
        for name in ("names_of_keys", "types_of_keys"):
            connection.execute(statement("resolve", name))
        names = statement("resolve", "names_to_resolve")
        connection.execute(f"CREATE OR REPLACE TEMP TABLE names_{moment} AS {names}")
    connection.execute("DROP TABLE resolved_mentions")
    (changed,) = connection.execute(statement("resolve_update", "count_changed_names")).fetchone() or (1,)
    return not changed


def keep_decisions(connection: duckdb.DuckDBPyConnection) -> None:
    """Takes over what was decided about names: the key map, and every decision with its reason."""
    for name in ("keep_key_map", "keep_decisions"):
        connection.execute(statement("resolve_update", name))
