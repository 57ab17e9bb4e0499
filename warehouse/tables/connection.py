"""Opening DuckDB files, and turning what DuckDB says into our own errors.

Knows no table.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schemas.columns import Table
from schemas.errors import StatementRejectedError, StoreError, StoreUnavailableError
from warehouse.files.disk import disk_sentence

MEMORY_LIMIT = "1GB"


@contextmanager
def connect(path: Path, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block.

    Raises:
        StoreUnavailableError: If the file is missing or another process is writing it.
        StoreError: If the disk is full or not writable.
        StatementRejectedError: If DuckDB refuses a statement inside the block.
    """
    with translated(path):
        connection = duckdb.connect(str(path), read_only=read_only)
        try:
            connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            connection.execute("SET enable_progress_bar = false")
            yield connection
        finally:
            connection.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns DuckDB's errors inside the block into ours."""
    try:
        yield
    except duckdb.Error as error:
        reason = disk_sentence(error)
        if reason is not None:
            raise StoreError(f"Cannot write tables to {path.parent}: {reason}.") from error
        if isinstance(error, duckdb.IOException):
            raise StoreUnavailableError(f"Cannot open {path}: {_first_line(error)}") from error
        raise StatementRejectedError(f"DuckDB refused a statement: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
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
    "list<item: string>": "VARCHAR[]",
}


def create_statement(table: Table) -> str:
    """CREATE OR REPLACE TABLE for a table of schemas/tables.py."""
    columns = ", ".join(
        f"{quoted(c.name)} {_TYPES[str(c.type)]}{'' if c.nullable else ' NOT NULL'}" for c in table.columns
    )
    return f"CREATE OR REPLACE TABLE {quoted(table.name)} ({columns})"


def comment_statements(table: Table) -> list[str]:
    """COMMENT ON for the table and each of its columns."""
    name = quoted(table.name)
    return [
        f"COMMENT ON TABLE {name} IS {literal(table.comment)}",
        *(f"COMMENT ON COLUMN {name}.{quoted(c.name)} IS {literal(c.comment)}" for c in table.columns),
    ]
