"""Size and checksum of a table, as manifests state them.

The checksum is the exclusive-or of the md5 of the rows: their order does not matter.
"""

import duckdb

from polyhop.schemas.manifest import TableRecord
from polyhop.warehouse.tables.connection import quoted


def table_record(connection: duckdb.DuckDBPyConnection, table: str) -> TableRecord:
    """Rows and checksum of a table."""
    row = connection.execute(
        f"SELECT count(*), coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM {quoted(table)} AS t"
    ).fetchone()
    rows, checksum = row or (0, "")
    return TableRecord(rows=rows, checksum=checksum)
