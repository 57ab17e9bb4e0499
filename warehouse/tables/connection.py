"""Opening DuckDB files, and turning what DuckDB says into our own errors.

Knows no table. Files are attached to instances of DuckDB that are kept: to make one takes 20 ms of processor time, and
an index run opens its tables forty times; to attach and detach a file takes less than one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from polyhop.schemas.errors import DamagedStoreError, StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.warehouse.files.disk import disk_sentence
from polyhop.warehouse.files.layout import index_of

MEMORY_LIMIT = "1GB"

_OF_DAMAGE = ("corrupt", "not a valid duckdb database", "checksum", "could not read enough bytes", "deserializ")
"""What DuckDB says of a file whose blocks do not have their checksums, or that was cut short."""


@contextmanager
def connect(path: Path, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block.

    Raises:
        DamagedStoreError: If the file is missing, or is not as DuckDB wrote it.
        StoreUnavailableError: If another process is writing it.
        StoreError: If the disk is full or not writable.
        StatementRejectedError: If DuckDB refuses a statement inside the block.
    """
    with translated(path):
        instance = _idle_instance()
        is_reusable = False
        try:
            with instance.cursor() as connection:
                _attach(connection, path, read_only=read_only)
                yield connection
                _detach_all(connection)
            is_reusable = not _spill_folder(path).exists()  # one that used a folder keeps to it
        finally:
            if is_reusable:
                _idle.setdefault(os.getpid(), []).append(instance)
            else:
                instance.close()


_idle: dict[int, list[duckdb.DuckDBPyConnection]] = {}
"""Instances that nobody uses, by process: their threads do not survive a fork."""


def _idle_instance() -> duckdb.DuckDBPyConnection:
    try:
        return _idle.get(os.getpid(), []).pop()
    except IndexError:
        instance = duckdb.connect(":memory:", config={"memory_limit": MEMORY_LIMIT})
        show_no_progress(instance)
        return instance


def show_no_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Switches DuckDB's progress bar off, which would write into what commands print."""
    # In a notebook without ipywidgets DuckDB has no progress bar and rejects the setting.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool) -> None:
    """Makes a file the default database, under the name that DuckDB itself would give it."""
    connection.execute(f"SET temp_directory = {literal(str(_spill_folder(path)))}")
    connection.execute(f"ATTACH {literal(str(path))} AS {quoted(path.stem)}{' (READ_ONLY)' if read_only else ''}")
    connection.execute(f"USE {quoted(path.stem)}")


@contextmanager
def attached(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> Iterator[None]:
    """Another file of tables, read-only and under this name, for the block."""
    connection.execute(f"ATTACH {literal(str(path))} AS {quoted(name)} (READ_ONLY)")
    yield
    connection.execute(f"DETACH {quoted(name)}")


def _detach_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Leaves an instance without files, whatever the block attached besides its own."""
    connection.execute("USE memory")
    attached = "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"
    for (name,) in connection.execute(attached).fetchall():
        connection.execute(f"DETACH {quoted(name)}")


def _spill_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


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
        if not path.exists() or tells_damage(error):
            raise DamagedStoreError(path, index_of(path), first_line(error)) from error
        if isinstance(error, duckdb.IOException):
            raise StoreUnavailableError(f"Cannot open {path}: {first_line(error)}") from error
        raise StatementRejectedError(f"DuckDB refused a statement: {first_line(error)}") from error


def tells_damage(error: duckdb.Error) -> bool:
    """Whether DuckDB says that a file is not as it wrote it."""
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
