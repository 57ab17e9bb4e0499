"""Rows of staged tables: all of them in the order of the key, or few that come and go in a copy of the version before.

Derives no row (stages do). In a copy, rows that stay keep their places, and those that come stand at the end, not in
the order of the key: so every statement whose result needs an order says so. A table of which too much stands at its
end is written whole again, in order.
"""

import shutil
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
from pydantic import BaseModel

from polyhop.schemas.columns import Column, Table
from polyhop.schemas.errors import InvariantError
from polyhop.schemas.manifest import TableRecord
from polyhop.warehouse.build import Build, Earlier
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.checksum import table_record, updated_record
from polyhop.warehouse.tables.connection import attached, connect, quoted
from polyhop.warehouse.tables.definitions import create_statement

MOST_APPENDED = 0.1
"""Share of rows out of order above which a table is written whole; chosen: some ten edits of 1 %."""

_STAGED = "staged"
_OLD, _NEW, _REMOVED, _ADDED = "old_rows", "new_rows", "removed_rows", "added_rows"


class UpdatedTable(BaseModel):
    """Rows and checksum of a table after an update, and how many of its rows stand at its end, not in order."""

    record: TableRecord
    appended: int


def begin_updates(build: Build, published: Path, tables: Iterable[Table]) -> None:
    """Replaces the staged file by a copy of a published one: these tables are its, all others are as they were staged.

    Raises:
        StoreError: If the disk refuses.
    """
    kept, staged = {table.name for table in tables}, build.staging.tables
    copy = build.folder.staging / "copied" / staged.name
    with writing("a copy of the tables", copy.parent):
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir(parents=True)
        shutil.copyfile(published, copy)
    with connect(copy, read_only=False) as connection:
        with attached(connection, staged, _STAGED):
            _keep_only(connection, kept)
            _move_in(connection, kept)
        connection.execute("CHECKPOINT")
    with writing("a copy of the tables", staged):
        copy.replace(staged)
        for file in (copy, staged):
            file.with_name(f"{file.name}.wal").unlink(missing_ok=True)  # of a file that is no more


def insert_sorted(connection: duckdb.DuckDBPyConnection, table: Table, rows: str) -> None:
    """Fills an empty table, in the order of its key.

    Args:
        connection: To the staged tables.
        table: The table.
        rows: A SELECT of its stored columns.
    """
    key = ", ".join(str(table.column_names.index(column) + 1) for column in table.key)
    connection.execute(f"INSERT INTO {quoted(table.name)} ({_stored(table)}) {_bare(rows)} ORDER BY {key}")


def clear_tables(build: Build, connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> None:
    """Makes staged tables empty, for a stage that derives all of their rows."""
    for table in tables:
        connection.execute(create_statement(table))
        _note(build, table.name).unlink(missing_ok=True)


def replace_rows(build: Build, connection: duckdb.DuckDBPyConnection, table: Table, rows: str, outdated: str) -> None:
    """Replaces rows of a table that began as that of the version before; notes its rows and checksum.

    Args:
        build: The build, with what is known of the version before.
        connection: To the staged tables.
        table: The table.
        rows: A SELECT of its stored columns: those that take the places of the outdated ones.
        outdated: Condition on the rows of the table.

    Raises:
        InvariantError: If two rows have one key now.
    Cost: O(rows) to look through, O(rows that differ) to write.
    """
    earlier = build.earlier or Earlier(0, frozenset())
    _find_changes(connection, table, rows, outdated)
    removed, added = table_record(connection, _REMOVED), table_record(connection, _ADDED)
    _replace(connection, table)
    record = updated_record(earlier.records[table.name], removed, added)
    appended = earlier.appended.get(table.name, 0) + added.rows
    if appended > MOST_APPENDED * record.rows:
        _put_in_order(connection, table)
        appended = 0
    with writing("what was updated", build.updates):
        build.updates.mkdir(parents=True, exist_ok=True)
        write_whole(_note(build, table.name), UpdatedTable(record=record, appended=appended).model_dump_json().encode())


def updated_tables(build: Build) -> dict[str, UpdatedTable]:
    """What is known of the staged tables that began as those of the version before."""
    return {file.stem: UpdatedTable.model_validate_json(file.read_bytes()) for file in build.updates.glob("*.json")}


def _note(build: Build, table: str) -> Path:
    return build.updates / f"{table}.json"


def _keep_only(connection: duckdb.DuckDBPyConnection, kept: Collection[str]) -> None:
    for (view,) in connection.execute(statement("updates", "views")).fetchall():
        connection.execute(f"DROP VIEW {quoted(view)}")
    (own,) = connection.execute(statement("updates", "database")).fetchone() or ("",)
    for name, _ in connection.execute(statement("updates", "tables_of_database"), {"database": own}).fetchall():
        if name not in kept:
            connection.execute(f"DROP TABLE {quoted(name)}")


def _move_in(connection: duckdb.DuckDBPyConnection, kept: Collection[str]) -> None:
    held = connection.execute(statement("updates", "tables_of_database"), {"database": _STAGED}).fetchall()
    for name, definition in held:
        if name in kept:
            continue
        connection.execute(definition)
        of_table = {"database": _STAGED, "name": name}
        columns = connection.execute(statement("updates", "stored_columns"), of_table).fetchall()
        stored = ", ".join(quoted(column) for (column,) in columns)
        rows = f"SELECT {stored} FROM {_STAGED}.{quoted(name)}"
        connection.execute(f"INSERT INTO {quoted(name)} ({stored}) {rows}")


def _find_changes(connection: duckdb.DuckDBPyConnection, table: Table, rows: str, outdated: str) -> None:
    """Fills tables of the same columns: rows that go, and rows that come."""
    for name in (_OLD, _NEW, _REMOVED, _ADDED):
        made = create_statement(replace(table, name=name))
        connection.execute(made.replace("TABLE", "TEMP TABLE", 1))
    stored, name = _stored(table), quoted(table.name)
    same = " AND ".join(map(_is_same, table.columns))
    connection.execute(f"INSERT INTO {_NEW} ({stored}) {_bare(rows)}")
    connection.execute(f"INSERT INTO {_OLD} ({stored}) SELECT {stored} FROM {name} WHERE {outdated}")
    for target, whole, other in ((_REMOVED, f"{_OLD} AS o", f"{_NEW} AS n"), (_ADDED, f"{_NEW} AS n", f"{_OLD} AS o")):
        connection.execute(f"INSERT INTO {target} ({stored}) SELECT {stored} FROM {whole} ANTI JOIN {other} ON {same}")


def _is_same(column: Column) -> str:
    name, text = quoted(column.name), "::VARCHAR" if pa.types.is_floating(column.type) else ""  # 0.0 = -0.0
    return f"o.{name}{text} {'IS NOT DISTINCT FROM' if column.nullable else '='} n.{name}{text}"


def _replace(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Takes out the rows that go, and appends those that come."""
    stored, name, key = _stored(table), quoted(table.name), ", ".join(map(quoted, table.key))
    connection.execute(f"DELETE FROM {name} WHERE ({key}) IN (SELECT ({key}) FROM {_REMOVED})")
    twice = f"SELECT count(*) FROM {name} SEMI JOIN {_ADDED} USING ({key})"
    within = f"SELECT count(*) - count(DISTINCT ({key})) FROM {_ADDED}"
    (surplus,) = connection.execute(f"SELECT ({twice}) + ({within})").fetchone() or (0,)
    if surplus:
        raise InvariantError(f"Not published: table '{table.name}' would have {surplus} rows with a used key.")
    connection.execute(f"INSERT INTO {name} ({stored}) SELECT {stored} FROM {_ADDED} ORDER BY {key}")


def _put_in_order(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Writes the table again."""
    stored = _stored(table)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE all_rows AS SELECT {stored} FROM {quoted(table.name)}")
    connection.execute(create_statement(table))
    insert_sorted(connection, table, f"SELECT {stored} FROM all_rows")
    connection.execute("DROP TABLE all_rows")


def _stored(table: Table) -> str:
    return ", ".join(map(quoted, table.column_names))


def _bare(rows: str) -> str:
    """A SELECT of which a statement can be made."""
    return f"SELECT * FROM ({rows.strip().removesuffix(';')})"
