"""Checksums of tables: from scratch, and from those of an earlier version."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.manifest import TableRecord
from polyhop.warehouse.tables.connection import record_since, table_record, updated_record

COLUMNS = "id BIGINT, name VARCHAR, share DOUBLE, words VARCHAR[], is_good BOOLEAN"
values = st.tuples(
    st.none() | st.sampled_from(["", "a", "b"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.sampled_from([None, [], ["a"], ["a", None], ["", "a"]]),
    st.none() | st.booleans(),
)
tables = st.dictionaries(st.integers(0, 5), values)
Rows = dict[int, Any]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS old")
        yield connection


def fill(connection: duckdb.DuckDBPyConnection, table: str, rows: Rows, columns: str = COLUMNS) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
    for key, row in rows.items():
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", [key, *row])


def record_of(connection: duckdb.DuckDBPyConnection, rows: Rows) -> TableRecord:
    fill(connection, "whole", rows)
    return table_record(connection, "whole")


@given(before=tables, after=tables)
def test_a_record_from_the_one_before_is_that_from_scratch(
    connection: duckdb.DuckDBPyConnection, before: Rows, after: Rows
) -> None:
    """Also where DuckDB's own hash does not tell two values apart: 0.0 and -0.0, no list and an empty one."""
    fill(connection, "old.things", before)
    fill(connection, "things", after)
    found = record_since(connection, "things", "old", record_of(connection, before))
    assert found == record_of(connection, after)


def test_rows_that_come_and_go_change_a_record_by_their_own(connection: duckdb.DuckDBPyConnection) -> None:
    a, b, c = ((f"row {n}", 1.0, None, True) for n in range(3))
    before, removed, added = ({0: a, 1: b}, {0: a}, {2: c})
    records = [record_of(connection, rows) for rows in (before, removed, added)]
    assert updated_record(*records) == record_of(connection, {1: b, 2: c})
    assert updated_record(records[0], records[0], record_of(connection, {})) == TableRecord(rows=0, checksum="")


@pytest.mark.parametrize("columns", ["id BIGINT, name VARCHAR", "id BIGINT, title VARCHAR, n BIGINT"])
def test_a_table_of_other_columns_is_read_whole(connection: duckdb.DuckDBPyConnection, columns: str) -> None:
    rows: Rows = {1: ("a",) if columns.count(",") == 1 else ("a", 2)}
    fill(connection, "old.things", rows, columns)
    fill(connection, "things", {1: ("a", 2)}, "id BIGINT, name VARCHAR, n BIGINT")
    wrong = TableRecord(rows=1, checksum="1")
    assert record_since(connection, "things", "old", wrong) == table_record(connection, "things")


def test_a_table_that_the_version_before_has_not_is_read_whole(connection: duckdb.DuckDBPyConnection) -> None:
    fill(connection, "new_things", {1: ("a", 1.0, None, None)})
    assert record_since(connection, "new_things", "old", None) == table_record(connection, "new_things")


def test_rows_that_the_record_does_not_count_make_it_useless(connection: duckdb.DuckDBPyConnection) -> None:
    row = ("a", 1.0, None, None)
    fill(connection, "old.things", {1: row})
    fill(connection, "things", {1: row})
    wrong = TableRecord(rows=2, checksum="1")
    assert record_since(connection, "things", "old", wrong) == table_record(connection, "things")
