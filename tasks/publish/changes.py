"""The records of a version that are not as in the version before: its table `changes`.

It says how a version came about, so a full build of the same corpus need not repeat it; nothing is derived from it.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import duckdb

from polyhop.schemas.manifest import Manifest
from polyhop.schemas.tables import CHANGE_KINDS, CHANGES
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.kept_records import kept_files
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import literal
from polyhop.warehouse.tables.definitions import create_statement


def fill_changes(
    build: Build, connection: duckdb.DuckDBPyConnection, before: Manifest | None, number: int
) -> Mapping[str, int]:
    """Fills the table of the staged version; returns how many records changed, by kind.

    Where the tables of the version before cannot be read, every record counts as added.

    Args:
        build: The build, its tables filled.
        connection: Its tables.
        before: Manifest of the version before, None if there is none.
        number: The version that is being published.
    """
    connection.execute(create_statement(CHANGES))
    folders = [build.staging.arrays]
    published = build.folder.version(before.version) if before is not None else None
    if published is not None:
        folders.append(published.arrays)
    found = compare_records(connection, published.tables if published is not None else None, folders)
    connection.execute(statement("changes", "fill_changes"), {"version": number})
    return found


def compare_records(connection: duckdb.DuckDBPyConnection, before: Path | None, folders: list[Path]) -> dict[str, int]:
    """Fills the temporary table `changed_records`; returns how many there are of each kind.

    Args:
        connection: Tables of the later version.
        before: Tables of the earlier one, None if there is none.
        folders: Of the arrays of the later version, and of the earlier one if there is one.
    """
    connection.execute(statement("changes", "records_after"))
    if not (before is not None and _read_before(connection, before)):
        connection.execute(statement("changes", "no_records_before"))
    connection.execute(statement("changes", "kept"))
    for number, folder in enumerate(folders):
        files = sorted(map(str, folder.glob(kept_files("*")[0])))
        if files:
            with suppress(duckdb.Error):  # of a damaged file, metadata are unknown and sources unnamed
                connection.execute(statement("changes", "add_kept"), {"is_after": number == 0, "files": files})
    connection.execute(statement("changes", "changed_records"))
    counted = dict(connection.execute(statement("changes", "count_changes")).fetchall())
    return {kind: counted.get(kind, 0) for kind in CHANGE_KINDS}


def _read_before(connection: duckdb.DuckDBPyConnection, tables: Path) -> bool:
    try:
        connection.execute(f"ATTACH {literal(str(tables))} AS before (READ_ONLY)")
    except duckdb.Error:
        return False
    try:
        connection.execute(statement("changes", "records_before"))
    except duckdb.Error:
        return False
    finally:
        connection.execute("DETACH before")
    return True
