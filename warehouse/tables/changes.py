"""Two versions of an index compared by SQL: records, entities and relations.

Publishes nothing, and names no version.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from polyhop.schemas.tables import CHANGE_KINDS
from polyhop.warehouse.files.kept_records import kept_files
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect, literal


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


_THINGS = (
    ("entities", ("added", "removed", "merged", "split"), ("changed_entities", "count_entities", "first_entities")),
    ("relations", ("added", "removed"), ("changed_relations", "count_relations", "first_relations")),
)
"""What is compared besides records: its kinds of changes, and the statements of diff.sql that fill, count and list."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How many things of one sort differ between two versions, by kind, and the first of them."""

    counts: dict[str, int]
    first: list[dict[str, Any]]


def compare_versions(before: VersionFolder, after: VersionFolder, limit: int) -> dict[str, Compared]:
    """Records, entities and relations of two published versions, which their caller holds.

    Args:
        before: The version to compare with.
        after: The other.
        limit: How many of each kind are listed.

    Raises:
        StoreError: If a version cannot be read.
    """
    with connect(after.tables, read_only=True) as connection:
        records = compare_records(connection, before.tables, [after.arrays, before.arrays])
        connection.execute(f"ATTACH {literal(str(before.tables))} AS before (READ_ONLY)")
        found = {"records": Compared(records, _rows(connection, "first_records", limit))}
        for what, kinds, (fill, count, first) in _THINGS:
            connection.execute(statement("diff", fill))
            counted = dict(connection.execute(statement("diff", count)).fetchall())
            counts = {kind: counted.get(kind, 0) for kind in kinds}
            found[what] = Compared(counts, _rows(connection, first, limit))
    return found


def _rows(connection: duckdb.DuckDBPyConnection, name: str, limit: int) -> list[dict[str, Any]]:
    found = connection.execute(statement("diff", name), {"limit": limit})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
