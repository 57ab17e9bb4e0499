"""Opening DuckDB files, defining and checking their tables, and DuckDB's errors in our words.

Files are attached to instances of DuckDB that are kept: to make one takes 20 ms of processor time, and an index run
opens its tables forty times; to attach and detach a file takes less than one.
"""

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from polyhop.schemas.errors import DamagedStoreError, StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.schemas.manifest import TableRecord
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.disk import disk_sentence
from polyhop.warehouse.files.layout import index_folder_of, index_of
from polyhop.warehouse.statements import statement, statements

if TYPE_CHECKING:
    from polyhop.schemas.tables import Table, View

MEMORY_MB: int = Settings.model_fields["memory_mb"].default  # without settings

_OF_DAMAGE = ("corrupt", "not a valid duckdb database", "checksum", "could not read enough bytes", "deserializ")
"""What DuckDB says of a file whose blocks do not have their checksums, or that was cut short."""


@contextmanager
def connect(
    path: Path, *, read_only: bool, memory_mb: int = MEMORY_MB, threads: int = 0
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block, whose statements spill what exceeds `memory_mb` (10**6 bytes) to disk.

    They run on `threads`, 0: as many as cores.

    Raises:
        DamagedStoreError: If the file is missing, or is not as DuckDB wrote it.
        StoreUnavailableError: If another process is writing it.
        StoreError: If the disk is full or not writable, or a statement cannot do with so much memory.
        StatementRejectedError: If DuckDB refuses a statement inside the block.
    """
    path = path.resolve()
    with translated(path):
        instance = _take_instance(key := (os.getpid(), path, memory_mb, threads))
        spill_folder, is_reusable = path.with_name(f"{path.name}.tmp"), False
        try:
            with instance.cursor() as connection:
                # makes the file the default database, under the name that DuckDB itself would give it
                name, mode = quoted(path.stem), " (READ_ONLY)" if read_only else ""
                connection.execute(f"ATTACH {literal(str(path))} AS {name}{mode}")
                connection.execute(f"USE {name}")
                yield connection
                # leaves the instance without files, whatever the block attached besides its own
                connection.execute("USE memory")
                for (other,) in connection.execute(_ATTACHED).fetchall():
                    connection.execute(f"DETACH {quoted(other)}")
            is_reusable = not spill_folder.exists()  # one that used a folder keeps to it
        finally:
            if is_reusable:
                _give_back(key, instance)
            else:
                instance.close()


CLOSED: Mapping[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,  # otherwise FROM finds variables of the Python program
}
"""Configuration of DuckDB that keeps a file's own SQL (views, macros) from files, extensions, the network and Python.

A published file may come from a store that others write (SECURITY.md)."""

_Key = tuple[int, Path, int, int]
_MOST_IDLE_FILES = 4  # chosen: a run works on its staging file, the version before and the version that it publishes

_idle: dict[_Key, list[duckdb.DuckDBPyConnection]] = {}
"""Unused instances by process (their threads do not survive a fork), file, memory limit and threads, the file that was
used last at the end. An instance reads the folder of its file's index alone, and its configuration is locked.
"""


def _take_instance(key: _Key) -> duckdb.DuckDBPyConnection:
    """Returns an unused instance for a file, or a new one that may access the folder of the file's index only."""
    try:
        return _idle.get(key, []).pop()
    except IndexError:
        pass
    _, path, memory_mb, threads = key
    limits = {"memory_limit": f"{memory_mb}MB", "temp_directory": f"{path}.tmp"}
    own = {**CLOSED, **limits, "enable_external_access": True, **({"threads": threads} if threads else {})}
    instance = duckdb.connect(":memory:", config=own)
    show_no_progress(instance)
    instance.execute("SET allowed_directories = $folders", {"folders": [str(index_folder_of(path))]})
    instance.execute("SET enable_external_access = false")  # directories can be allowed only before
    instance.execute("SET lock_configuration = true")
    return instance


def _give_back(key: _Key, instance: duckdb.DuckDBPyConnection) -> None:
    """Keeps an instance for the next use of its file, and closes those of files that were not used for longest."""
    instances = _idle.pop(key, [])
    instances.append(instance)
    _idle[key] = instances
    for old in list(_idle)[:-_MOST_IDLE_FILES]:
        _close_all(_idle.pop(old, []))


def _close_all(instances: list[duckdb.DuckDBPyConnection]) -> None:
    with suppress(IndexError):  # another thread may take the last one
        while True:
            instances.pop().close()


@atexit.register  # DuckDB prints what an interpreter leaves open
def close_idle() -> None:
    """Closes the unused instances, each of which keeps the memory that its statements took."""
    for key in list(_idle):
        if key[0] == os.getpid():
            _close_all(_idle.pop(key, []))


_ATTACHED = "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"


def show_no_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Switches DuckDB's progress bar off, which would write into what commands print."""
    # In a notebook without ipywidgets DuckDB has no progress bar and rejects the setting.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


@contextmanager
def lent_cursor(
    connection: duckdb.DuckDBPyConnection, path: Path, idle: list[duckdb.DuckDBPyConnection]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Lends a cursor for the block, from `idle` or a new one: a cursor inherits no USE, which takes .3 ms."""
    with translated(path):
        try:
            cursor = idle.pop()
        except IndexError:
            cursor = connection.cursor()
            cursor.execute(f"USE {quoted(path.stem)}")
        with ExitStack() as on_error:
            on_error.callback(cursor.close)
            yield cursor
            on_error.pop_all()
        idle.append(cursor)


@contextmanager
def attached(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> Iterator[None]:
    """Another file of tables, read-only and under this name, for the block."""
    connection.execute(f"ATTACH {literal(str(path))} AS {quoted(name)} (READ_ONLY)")
    yield
    connection.execute(f"DETACH {quoted(name)}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns DuckDB's errors inside the block into ours."""
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.ConnectionException) and "closed" in str(error):
            name = index_of(path)
            raise StoreError(f"Index '{name}' is closed; open it again: polyhop.open_index('{name}').") from error
        reason = disk_sentence(error)
        if reason is not None:
            raise StoreError(f"Cannot write tables to {path.parent}: {reason}.") from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise StoreError(f"Tables in {path.parent} take more memory than memory_mb allows; raise it.") from error
        if not path.exists() or means_damage(error):
            raise DamagedStoreError(path, index_of(path), first_line(error)) from error
        if isinstance(error, duckdb.IOException) and "could not set lock" in str(error).lower():
            raise StoreUnavailableError(
                f"Another process holds {path} open for writing; close it there, or open it with duckdb -readonly."
            ) from error
        if isinstance(error, duckdb.IOException):
            raise StoreUnavailableError(f"Cannot open {path}: {first_line(error)}") from error
        raise StatementRejectedError(f"DuckDB refused a statement: {first_line(error)}") from error


def means_damage(error: duckdb.Error) -> bool:
    """Returns whether DuckDB's error means that a file is damaged."""
    text = str(error).lower()
    broken = (duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
    return isinstance(error, broken) or any(sign in text for sign in _OF_DAMAGE)


def first_line(error: Exception) -> str:
    """The first line of what DuckDB says: the rest repeats the statement."""
    return str(error).strip().split("\n", 1)[0]


def quoted(identifier: str) -> str:
    """An identifier for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string for the few statements that take no parameters (comments, attach)."""
    return "'" + text.replace("'", "''") + "'"


_TYPES = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "timestamp[us]": "TIMESTAMP",
    "list<item: string>": "VARCHAR[]",
}


def create_statement(table: "Table") -> str:
    """CREATE OR REPLACE TABLE for a table of schemas/tables.py."""
    columns = [f"{quoted(c.name)} {_TYPES[str(c.type)]}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    derived = [
        f"{quoted(d.column.name)} {_TYPES[str(d.column.type)]} GENERATED ALWAYS AS ({d.expression}) VIRTUAL"
        for d in table.derived
    ]
    return f"CREATE OR REPLACE TABLE {quoted(table.name)} ({', '.join([*columns, *derived])})"


def comment_statements(described: "Table | View", schema: str = "") -> list[str]:
    """COMMENT ON for a table or a view and each of its columns; `schema` is a prefix of its name in SQL."""
    from polyhop.schemas.tables import Table

    name = f"{schema}{quoted(described.name)}"
    derived = [d.column for d in described.derived] if isinstance(described, Table) else []
    return [
        f"COMMENT ON {'TABLE' if isinstance(described, Table) else 'VIEW'} {name} IS {literal(described.comment)}",
        *(f"COMMENT ON COLUMN {name}.{quoted(c.name)} IS {literal(c.comment)}" for c in (*described.columns, *derived)),
    ]


_HASHED = {"VARCHAR": "{0}", "BIGINT": "{0}", "BOOLEAN": "{0}", "DOUBLE": "{0}, signbit({0})"}
"""What distinguishes all values that differ as text: DuckDB has one hash for 0.0 and -0.0, and one for NULL and []."""

_DIFFERENT = """
CREATE OR REPLACE TEMP TABLE different AS
SELECT n.row AS row_now, b.row AS row_before
FROM hashes_now AS n FULL JOIN hashes_before AS b USING (content)
WHERE n.row IS NULL OR b.row IS NULL
"""


def foreign_objects(path: Path) -> list[str]:
    """Lists the views, macros, types and sequences of a published file that Polyhop did not create, like "view 'x'".

    A view counts as Polyhop's if it has the name and the SQL of one in sql/views.sql.
    """
    own = _own_views()
    with connect(path, read_only=True) as connection:
        found = connection.execute(statement("objects", "objects_besides_tables")).fetchall()
    return [
        f"{kind} '{name}'"
        for kind, schema, name, sql in found
        if (kind, schema, own.get(name)) != ("view", "main", sql)
    ]


@cache
def _own_views() -> Mapping[str, str]:
    """SQL of Polyhop's views by name, as DuckDB writes it."""
    from polyhop.schemas.tables import TABLES

    with duckdb.connect(":memory:", config=dict(CLOSED)) as connection:
        for table in TABLES:
            connection.execute(create_statement(table))
        for name in statements("views"):
            connection.execute(statement("views", name))
        found = connection.execute(statement("objects", "objects_besides_tables")).fetchall()
    return {name: sql for _, _, name, sql in found}


def table_record(connection: duckdb.DuckDBPyConnection, table: str) -> TableRecord:
    """Rows and checksum of a table."""
    return rows_record(connection, f"FROM {quoted(table)}")


def rows_record(connection: duckdb.DuckDBPyConnection, rows: str) -> TableRecord:
    """Rows and checksum of what a statement without a semicolon selects."""
    sums = f"SELECT count(*), coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM ({rows}) AS t"
    count, checksum = connection.execute(sums).fetchone() or (0, "")
    return TableRecord(rows=count, checksum=checksum)


def record_since(
    connection: duckdb.DuckDBPyConnection, table: str, earlier: str, before: TableRecord | None
) -> TableRecord:
    """Rows and checksum of a table, from those of an earlier version of it: the md5 of rows in both is not taken.

    Rows are compared by a hash of 64 bits; where the numbers of rows show that two rows share one, all are read.

    No two rows of the table are equal; in the attached database `earlier` it is as `before` says (None: it has none).
    Cost: O(rows), half of the time of `table_record` if few rows differ.
    """
    now, then = quoted(table), f"{quoted(earlier)}.{quoted(table)}"
    columns = _columns(connection, now)
    if before is None or columns != _columns(connection, then):
        return table_record(connection, table)
    rows = _read_hashes(connection, "hashes_now", now, columns)
    rows_before = _read_hashes(connection, "hashes_before", then, columns)
    connection.execute(_DIFFERENT)
    added = rows_record(connection, f"FROM {now} WHERE rowid IN (SELECT row_now FROM different)")
    removed = rows_record(connection, f"FROM {then} WHERE rowid IN (SELECT row_before FROM different)")
    found = updated_record(before, removed, added)
    return found if (before.rows, found.rows) == (rows_before, rows) else table_record(connection, table)


def updated_record(before: TableRecord, removed: TableRecord, added: TableRecord) -> TableRecord:
    """Rows and checksum of a table that lost some rows and got others."""
    rows = before.rows - removed.rows + added.rows
    numbers = [int(record.checksum or "0", 16) for record in (before, removed, added)]
    return TableRecord(rows=rows, checksum=f"{numbers[0] ^ numbers[1] ^ numbers[2]:X}" if rows else "")


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    """Names and types: `duckdb_columns()` looks at all tables, which takes thirty times as long."""
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {table}").fetchall()]


def _read_hashes(
    connection: duckdb.DuckDBPyConnection, target: str, source: str, columns: list[tuple[str, str]]
) -> int:
    """Fills a temporary table with the hash of each row and where it is; returns how many rows there are."""
    values = (_HASHED.get(type_, "{0}::VARCHAR").format(quoted(name)) for name, type_ in columns)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {target} AS SELECT hash({', '.join(values)}) AS content, rowid AS row "
        f"FROM {source}"
    )
    (rows,) = connection.execute(f"SELECT count(*) FROM {target}").fetchone() or (0,)
    return int(rows)
