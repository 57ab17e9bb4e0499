"""Checksums of a staged version: of its tables, of the file that holds them, and of its arrays.

What is as in the version before, whose checksums are known, is not read again.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import duckdb

from polyhop.schemas.columns import Table
from polyhop.schemas.manifest import Manifest, TableRecord
from polyhop.warehouse.build import Build, latest_manifest
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.tables.checksum import record_since, table_record
from polyhop.warehouse.tables.connection import attached, quoted
from polyhop.warehouse.updated_tables import updated_tables

_EARLIER = "version_before"


@dataclass(frozen=True, slots=True)
class Checksums:
    """Of tables and of files of arrays, by name, and of the file of tables."""

    tables: dict[str, TableRecord]
    arrays: dict[str, str]
    tables_file: str


def staged_checksums(build: Build, tables: Sequence[Table]) -> Checksums:
    """Of all that was staged; nothing writes to it any more."""
    before = latest_manifest(build) if build.earlier is not None else None
    with ThreadPoolExecutor(1) as beside:
        files = beside.submit(_file_checksums, build, before)
        records = _table_records(build, tables, before)
        tables_file, arrays = files.result()
    return Checksums(records, arrays, tables_file)


def _table_records(build: Build, tables: Sequence[Table], before: Manifest | None) -> dict[str, TableRecord]:
    noted = {name: table.record for name, table in updated_tables(build).items()}
    known = _known_records(build, before)
    with build.tables(read_only=True) as connection:
        records = {table.name: noted[table.name] for table in tables if _holds(connection, table, noted)}
        left = [table.name for table in tables if table.name not in records]
        if before is None or not known:
            return records | {name: table_record(connection, name) for name in left}
        with attached(connection, build.folder.version(before.version).tables, _EARLIER):
            return records | {
                name: record_since(connection, name, _EARLIER, known[name])
                if name in known
                else table_record(connection, name)
                for name in left
            }


def _known_records(build: Build, before: Manifest | None) -> dict[str, TableRecord]:
    """Of the version before, its undamaged tables only."""
    if before is None or build.earlier is None:
        return {}
    return {name: record for name, record in before.tables.items() if name in build.earlier.tables}


def _holds(connection: duckdb.DuckDBPyConnection, table: Table, noted: Mapping[str, TableRecord]) -> bool:
    """Whether a table was noted when rows came and went, and has as many rows as were noted."""
    if table.name not in noted:
        return False
    (rows,) = connection.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone() or (0,)
    return bool(rows == noted[table.name].rows)


def _file_checksums(build: Build, before: Manifest | None) -> tuple[str, dict[str, str]]:
    arrays = sorted(build.staging.arrays.iterdir())
    return file_checksum(build.staging.tables), {file.name: _checksum_of(build, file, before) for file in arrays}


def _checksum_of(build: Build, file: Path, before: Manifest | None) -> str:
    """Of one array; a file that the version before has, too, was looked at when the run began."""
    if before is not None:
        for published in build.earlier_files(file.name):
            if published.samefile(file):
                return before.arrays[file.name]
    return file_checksum(file)
