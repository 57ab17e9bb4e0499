"""Rows of a published version for export, a part at a time.

Knows no target; what a row becomes there is tasks/export's business.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from polyhop.schemas.corpus import SourceKind
from polyhop.warehouse.statements import statements
from polyhop.warehouse.tables.connection import connect

_AT_ONCE = 5000  # chosen: bounds the rows in memory, and any number gives the same
_OWN_IDS: Mapping[SourceKind, str] = {"graph": "own_ids_of_graph", "corpus": "own_ids_of_corpus"}


def export_rows(tables: Path, kind: str, source: SourceKind) -> Iterator[dict[str, Any]]:
    """All rows of a kind (a statement of sql/export.sql), in the order of their keys.

    Args:
        tables: File of the version's tables.
        kind: Name of the statement.
        source: What the version was made from: it decides by which ids paths of hubs name entities.

    Raises:
        StoreUnavailableError: If the file cannot be opened.
    """
    with connect(tables, read_only=True) as connection:
        if kind == "hub_path_entities":
            connection.execute(statements("export")[_OWN_IDS[source]])
        cursor = connection.execute(statements("export")[kind])
        names = [column[0] for column in cursor.description or ()]
        while rows := cursor.fetchmany(_AT_ONCE):
            for row in rows:
                yield dict(zip(names, row, strict=True))
