"""Rows of a published version for export, a part at a time.

Knows no target; what a row becomes there is tasks/export's business.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import connect

_AT_ONCE = 5000


def export_rows(tables: Path, kind: str) -> Iterator[dict[str, Any]]:
    """All rows of a kind (a statement of sql/export.sql), in the order of their keys.

    Raises:
        StoreUnavailableError: If the file cannot be opened.
    """
    with connect(tables, read_only=True) as connection:
        cursor = connection.execute(statements("export")[kind])
        names = [column[0] for column in cursor.description or ()]
        while rows := cursor.fetchmany(_AT_ONCE):
            for row in rows:
                yield dict(zip(names, row, strict=True))
