"""The records of a version that are not as in the version before: its table `changes`.

It says how a version came about, so a full build of the same corpus need not repeat it; nothing is derived from it.
"""

from collections.abc import Mapping

import duckdb

from polyhop.schemas.manifest import Manifest
from polyhop.schemas.tables import CHANGES
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.changes import compare_records
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
