"""SQL by people on a published version, with its vectors, the run history and further tables beside it.

Locks nothing itself (sandbox.py does).
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from polyhop.schemas.columns import Column, Table, text
from polyhop.schemas.manifest import VectorRecord
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.open import open_vector_store
from polyhop.warehouse.tables.connection import translated
from polyhop.warehouse.tables.history import history_tables
from polyhop.warehouse.tables.lazy import LazyTable, Wanted, shown_in, wanted
from polyhop.warehouse.tables.sandbox import checked_query, run_query, sandbox

TABLES_QUERY = """SELECT table_name AS name, 'table' AS kind, comment FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"""
"""Lists all tables and views that a query finds, with what they hold."""
COLUMNS_QUERY = """WITH named AS (
    SELECT table_name, column_index, column_name, data_type, comment, CASE
        WHEN table_name = 'relations' AND column_name IN ('source_id', 'target_id') THEN 'entity_id'
        WHEN table_name = 'entities' AND column_name = 'key' THEN 'entity_key'
        WHEN ends_with(column_name, '_id') OR column_name = 'entity_key' THEN column_name
    END AS meaning
    FROM duckdb_columns() WHERE NOT internal
)
SELECT table_name AS "table", column_name AS "column", data_type AS type, comment, coalesce((
    SELECT string_agg(other.table_name || '.' || other.column_name, ', ' ORDER BY other.table_name, other.column_name)
    FROM named AS other WHERE other.meaning = named.meaning AND other.table_name <> named.table_name
), '') AS joins_with
FROM named ORDER BY table_name, column_index"""
"""Lists the columns of all tables and views with what they hold and with which columns they join."""


def query_rows(
    layout: Layout,
    name: str,
    query: str,
    version: int | None = None,
    extra: Sequence[LazyTable] = (),
    allow_files: Sequence[str | Path] = (),
) -> pa.Table:
    """The result of one query on a version's tables; it reads those, `extra` and what `allow_files` names, and no more.

    Vectors, the run history and `extra` (further tables) are read only if the query names them; `allow_files` are
    folders whose files may be read.

    Raises:
        UnknownIndexError: If there is no such index.
        ConfigurationError: If a folder of `allow_files` does not exist.
        DamagedStoreError: If the tables are not as they were written.
        StatementRejectedError: If the query does anything but read, or DuckDB refuses it.
    """
    with hold_version(layout, name, version) as held:
        index, vectors = layout.index(name), read_manifest(held.folder).vectors
        lazy = [*history_tables(index), *(_vector_table(index, kind, vectors[kind]) for kind in vectors), *extra]
        shown, path = shown_in(lazy, query), held.folder.tables
        with translated(path):
            asked = _wanted(path, query, shown, allow_files)
            rows = [(t.described, t.read(asked) if t.is_named_in(query) else t.without_rows) for t in shown]
            with sandbox(path, rows, allow_files) as connection:
                return run_query(connection, query, may_read_files=bool(allow_files))


def _wanted(path: Path, query: str, shown: Sequence[LazyTable], allow_files: Sequence[str | Path]) -> Wanted:
    """What a query asks of large tables: it is planned first, in a sandbox of its own, on tables without rows."""
    large = [table for table in shown if table.is_large and table.is_named_in(query)]
    if not large:
        return Wanted()
    empty = [(table.described, table.without_rows) for table in shown]
    with sandbox(path, empty, allow_files) as connection:
        return wanted(connection, checked_query(connection, query, may_read_files=bool(allow_files)), large)


def _vector_table(index: IndexFolder, kind: str, record: VectorRecord) -> LazyTable:
    """The vectors of a kind."""
    described = Table(
        f"{kind}_vectors",
        f"Vectors of kind '{kind}', {record.dimension} numbers each, by {record.model}.",
        ("id",),
        (
            text("id", "id of what the vector is of"),
            Column("vector", pa.list_(pa.float32(), record.dimension), "the vector"),
        ),
    )

    def read(_: Wanted) -> pa.Table:
        return open_vector_store(index).open(record.table, record.table_version).read()

    return LazyTable(described, read)
