"""What of a published version is no longer what was published: its tables, arrays and vectors against its manifest.

Reads everything and changes nothing; what an index run takes over, and what `polyhop verify` says, rests on it.
"""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.manifest import Manifest, TableRecord
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.files.layout import IndexFolder, VersionFolder
from polyhop.warehouse.files.run_history import find_timing_damage
from polyhop.warehouse.index_reader import open_vector_store
from polyhop.warehouse.tables.connection import connect, table_record


@dataclass(frozen=True, slots=True)
class Damage:
    """What is damaged, in sentences by table, by array file and by kind of vectors; "" for whole timings."""

    tables: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    vectors: Mapping[str, str] = field(default_factory=dict)
    timings: str = ""

    def __bool__(self) -> bool:
        return bool(self.tables or self.arrays or self.vectors or self.timings)

    def sentences(self) -> list[str]:
        """All that is wrong, each sentence once."""
        found = [*self.tables.values(), *self.arrays.values(), *self.vectors.values(), self.timings]
        return [*dict.fromkeys(filter(None, found))]

    def concerns(self, tables: Collection[str], array_prefix: str) -> bool:
        """Whether one of these tables, or an array whose name begins so, is damaged."""
        is_array = bool(array_prefix) and any(name.startswith(f"{array_prefix}_") for name in self.arrays)
        return is_array or any(name in self.tables for name in tables)


def find_damage(
    index: IndexFolder, folder: VersionFolder, manifest: Manifest, *, reads_all_tables: bool = True
) -> Damage:
    """Compares everything that a version consists of with the checksums that were taken when it was published.

    Args:
        index: The index.
        folder: The version.
        manifest: Its manifest.
        reads_all_tables: Whether every table is read even if the file of tables has the bytes that were published.

    Cost: reads every file once; O(rows) for tables that are read, five times as long as reading their file.
    """
    vectors = open_vector_store(index)
    with ThreadPoolExecutor(1) as beside:
        tables = beside.submit(_damaged_tables, folder, manifest, reads_all=reads_all_tables)
        arrays = dict(_arrays(folder, manifest.arrays))
        return Damage(
            tables.result(),
            arrays,
            {
                kind: "; ".join(found)
                for kind, record in manifest.vectors.items()
                if (found := vectors.find_damage(record.table))
            },
            find_timing_damage(folder),
        )


def _damaged_tables(folder: VersionFolder, manifest: Manifest, *, reads_all: bool) -> dict[str, str]:
    """Sentences by table; by the name of the file if its tables are whole, but its bytes (views, say) are others."""
    is_unchanged = manifest.tables_file != "" and _checksum(folder.tables) == manifest.tables_file
    if is_unchanged and not reads_all:
        return {}
    found = dict(_tables(folder, {**manifest.tables, **manifest.history}))
    if found or is_unchanged or not manifest.tables_file:
        return found
    name = folder.tables.name
    return {name: f"file '{name}' has another content than was published; its tables are whole"}


def _checksum(path: Path) -> str:
    """sha256 of a file, "" if it cannot be read."""
    try:
        return file_checksum(path)
    except OSError:
        return ""


def _tables(folder: VersionFolder, stated: Mapping[str, TableRecord]) -> Iterator[tuple[str, str]]:
    try:
        with connect(folder.tables, read_only=True) as connection:
            for name, record in stated.items():
                reason = _difference(connection, name, record)
                if reason:
                    yield name, reason
    except PolyhopError as error:
        for name in stated:
            yield name, str(error)


def _difference(connection: duckdb.DuckDBPyConnection, name: str, stated: TableRecord) -> str | None:
    try:
        held = table_record(connection, name)
    except duckdb.Error as error:
        return f"table '{name}' cannot be read: {str(error).splitlines()[0]}"
    if held == stated:
        return None
    return f"table '{name}' holds {held.rows} rows with another content than the {stated.rows} published"


def _arrays(folder: VersionFolder, stated: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, checksum in stated.items():
        path = folder.arrays / name
        if not path.is_file():
            yield name, f"file '{name}' is missing"
        elif file_checksum(path) != checksum:
            yield name, f"file '{name}' has another content than was published"
