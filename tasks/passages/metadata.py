"""Metadata of records to typed values, one a row: the tables `metadata_values` and `metadata_columns`.

Reads no source: the table `records` has the metadata as JSON.
"""

import json
from collections import Counter
from collections.abc import Iterable

import duckdb

from polyhop.schemas.metadata import values_of
from polyhop.schemas.record_tables import METADATA_VALUES
from polyhop.tasks.passages.records import table_of_rows
from polyhop.warehouse.statements import statement

_RECORDS_AT_ONCE = 20_000
"""Chosen: a few million values take some 100 MB while they become a table."""


def fill_records(connection: duckdb.DuckDBPyConnection, parts: dict[str, list[str]]) -> None:
    """Fills the tables of records, after passages and documents.

    Args:
        connection: The staging tables; `first_use` says which row of each record counts.
        parts: Part files of passages, under `passages`.
    """
    connection.execute(statement("ingest", "fill_records"), parts)
    last = ""
    while found := connection.execute(
        statement("records", "records_with_metadata"), {"after": last, "limit": _RECORDS_AT_ONCE}
    ).fetchall():
        connection.register("found_values", table_of_rows(METADATA_VALUES.arrow, list(_rows(found))))
        connection.execute(statement("records", "add_values"))
        connection.unregister("found_values")
        last = found[-1][0]
    connection.execute(statement("records", "fill_columns"))


def drop_records(connection: duckdb.DuckDBPyConnection) -> None:
    """Removes records whose passages are all gone."""
    for name in ("drop_records", "drop_values", "drop_columns", "fill_columns"):
        connection.execute(statement("records", name))


def _rows(records: Iterable[tuple[str, str]]) -> Iterable[tuple[object, ...]]:
    for record_id, metadata in records:
        ordinals: Counter[str] = Counter()
        for name, value in values_of(json.loads(metadata)):
            yield record_id, name, ordinals[name], value.kind, value.value, value.number, value.moment
            ordinals[name] += 1
