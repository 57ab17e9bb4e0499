"""Size and checksum of a table, as manifests state them.

The checksum is the exclusive-or of the md5 of the rows: their order does not matter, and rows that come and go change
it by their own md5.
"""

import duckdb

from polyhop.schemas.manifest import TableRecord
from polyhop.warehouse.tables.connection import literal, quoted

_HASHED = {"VARCHAR": "{0}", "BIGINT": "{0}", "BOOLEAN": "{0}", "DOUBLE": "{0}, signbit({0})"}
"""What tells apart all values that differ as text: DuckDB has one hash for 0.0 and -0.0, and one for NULL and []."""

_DIFFERENT = """
CREATE OR REPLACE TEMP TABLE different AS
SELECT n.place AS place_now, b.place AS place_before
FROM hashes_now AS n FULL JOIN hashes_before AS b USING (content)
WHERE n.place IS NULL OR b.place IS NULL
"""

_SUMS = "SELECT count(*), coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM"


def table_record(connection: duckdb.DuckDBPyConnection, table: str) -> TableRecord:
    """Rows and checksum of a table."""
    return _record(connection, f"{_SUMS} {quoted(table)} AS t")


def record_since(
    connection: duckdb.DuckDBPyConnection, table: str, earlier: str, before: TableRecord | None
) -> TableRecord:
    """Rows and checksum of a table, from those of an earlier version of it: the md5 of rows in both is not taken.

    Rows are compared by a hash of 64 bits; where the numbers of rows show that two rows share one, all are read.

    Args:
        connection: With the table in the database in use, and the earlier one attached.
        table: Its name; no two rows of it are equal.
        earlier: Name of the attached database, whose table is as `before` says.
        before: Rows and checksum of the earlier one, None if there is no such table.

    Cost: O(rows), half of the time of `table_record` if few rows differ.
    """
    columns = _columns(connection, table, "current_database()")
    if before is None or columns != _columns(connection, table, literal(earlier)):
        return table_record(connection, table)
    now, then = quoted(table), f"{quoted(earlier)}.{quoted(table)}"
    rows = _read_hashes(connection, "hashes_now", now, columns)
    rows_before = _read_hashes(connection, "hashes_before", then, columns)
    connection.execute(_DIFFERENT)
    added = _record(connection, f"{_SUMS} {now} AS t WHERE rowid IN (SELECT place_now FROM different)")
    removed = _record(connection, f"{_SUMS} {then} AS t WHERE rowid IN (SELECT place_before FROM different)")
    found = updated_record(before, removed, added)
    return found if (before.rows, found.rows) == (rows_before, rows) else table_record(connection, table)


def updated_record(before: TableRecord, removed: TableRecord, added: TableRecord) -> TableRecord:
    """Rows and checksum of a table that lost some rows and got others.

    Args:
        before: Of the table as it was.
        removed: Of rows that it had.
        added: Of rows that it had not.
    """
    rows = before.rows - removed.rows + added.rows
    numbers = [int(record.checksum or "0", 16) for record in (before, removed, added)]
    return TableRecord(rows=rows, checksum=f"{numbers[0] ^ numbers[1] ^ numbers[2]:X}" if rows else "")


def _record(connection: duckdb.DuckDBPyConnection, sql: str) -> TableRecord:
    rows, checksum = connection.execute(sql).fetchone() or (0, "")
    return TableRecord(rows=rows, checksum=checksum)


def _columns(connection: duckdb.DuckDBPyConnection, table: str, database: str) -> list[tuple[str, str]]:
    """Names and types; none if there is no such table."""
    found = connection.execute(
        f"SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = {database} AND table_name = $table "
        "ORDER BY column_index",
        {"table": table},
    )
    return [(name, type_) for name, type_ in found.fetchall()]


def _read_hashes(
    connection: duckdb.DuckDBPyConnection, target: str, source: str, columns: list[tuple[str, str]]
) -> int:
    """Fills a temporary table with the hash of each row and where it is; returns how many rows there are."""
    values = (_HASHED.get(type_, "{0}::VARCHAR").format(quoted(name)) for name, type_ in columns)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {target} AS SELECT hash({', '.join(values)}) AS content, rowid AS place "
        f"FROM {source}"
    )
    (rows,) = connection.execute(f"SELECT count(*) FROM {target}").fetchone() or (0,)
    return int(rows)
