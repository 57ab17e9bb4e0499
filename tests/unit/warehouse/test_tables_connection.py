"""Opening DuckDB files, checksums of their tables, and records of slow or repeated statements."""

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import Retrying, stop_after_attempt, wait_fixed

from polyhop.schemas.errors import DamagedStoreError, StatementRejectedError
from polyhop.schemas.manifest import TableRecord
from polyhop.warehouse import statements as slow
from polyhop.warehouse.statements import noted, slow_noted
from polyhop.warehouse.tables.connection import connect, record_since, table_record, updated_record


def made(path: Path, rows: int = 1) -> Path:
    with connect(path, read_only=False) as connection:
        connection.execute(f"CREATE TABLE numbers AS SELECT range AS number, random() AS key FROM range({rows})")
    return path


def test_what_a_block_wrote_is_a_file_alone_that_duckdb_opens(tmp_path: Path) -> None:
    path = tmp_path / "index.duckdb"
    with connect(path, read_only=False) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT 7 AS number; CREATE VIEW same AS FROM numbers")
    assert list(tmp_path.iterdir()) == [path]
    path.rename(tmp_path / "other.duckdb")
    with duckdb.connect(str(tmp_path / "other.duckdb"), read_only=True) as connection:
        assert connection.execute("FROM same").fetchall() == [(7,)]


def test_blocks_inside_one_another_read_two_files_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made(tmp_path / name / "index.duckdb", rows=len(name) + (name == "two"))
    with (
        connect(tmp_path / "one" / "index.duckdb", read_only=True) as one,
        connect(tmp_path / "two" / "index.duckdb", read_only=True) as two,
    ):
        counts = [block.execute("SELECT count(*) FROM numbers").fetchone() for block in (one, two)]
    assert counts == [(3,), (4,)]


def test_what_a_block_attached_and_made_besides_its_file_is_gone_for_the_next(tmp_path: Path) -> None:
    path, other = made(tmp_path / "index.duckdb"), made(tmp_path / "other.duckdb", rows=5)
    for _ in range(2):
        with connect(path, read_only=True) as connection:
            connection.execute(f"ATTACH '{other}' AS before (READ_ONLY)")
            connection.execute("CREATE TEMP TABLE short AS SELECT 1 AS number")
            assert connection.execute("SELECT count(*) FROM before.numbers").fetchone() == (5,)


def test_after_an_error_the_file_is_free_and_the_next_block_works(tmp_path: Path) -> None:
    path = made(tmp_path / "index.duckdb")
    with pytest.raises(StatementRejectedError, match="no_such_table"), connect(path, read_only=False) as connection:
        connection.execute("FROM no_such_table")
    with pytest.raises(StatementRejectedError, match="read-only"), connect(path, read_only=True) as connection:
        connection.execute("DROP TABLE numbers")
    (tmp_path / "broken.duckdb").write_bytes(b"nothing that DuckDB wrote" * 1000)
    with pytest.raises(DamagedStoreError), connect(tmp_path / "broken.duckdb", read_only=True):
        pass
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP TABLE numbers")


def test_what_did_not_fit_into_memory_goes_with_its_block(tmp_path: Path) -> None:
    path = made(tmp_path / "index.duckdb", rows=4_000_000)
    spilled = tmp_path / "index.duckdb.tmp"
    with connect(path, read_only=True) as connection:
        connection.execute("SET memory_limit = '60MB'; SET threads = 1")
        connection.execute("CREATE TEMP TABLE sorted AS FROM numbers ORDER BY key")
        assert spilled.is_dir()
    assert not spilled.exists()
    asked = "SELECT current_setting('temp_directory'), current_setting('memory_limit')"
    with connect(tmp_path / "other.duckdb", read_only=False) as connection:
        assert connection.execute(asked).fetchone() == (str(tmp_path / "other.duckdb.tmp"), "953.6 MiB")


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


@pytest.mark.parametrize(
    ("columns", "row", "record"),
    [
        ("id BIGINT, name VARCHAR", ("a",), TableRecord(rows=1, checksum="1")),
        ("id BIGINT, title VARCHAR, n BIGINT", ("a", 2), TableRecord(rows=1, checksum="1")),
        ("id BIGINT, name VARCHAR, n BIGINT", ("a", 2), TableRecord(rows=2, checksum="1")),
        ("id BIGINT, name VARCHAR, n BIGINT", ("a", 2), None),
    ],
    ids=["fewer columns", "other columns", "rows that the record does not count", "no record"],
)
def test_a_table_that_does_not_fit_the_one_before_is_read_whole(
    connection: duckdb.DuckDBPyConnection, columns: str, row: Any, record: TableRecord | None
) -> None:
    fill(connection, "old.things", {1: row}, columns)
    fill(connection, "things", {1: ("a", 2)}, "id BIGINT, name VARCHAR, n BIGINT")
    assert record_since(connection, "things", "old", record) == table_record(connection, "things")


LOG = logging.getLogger("polyhop.test")


@pytest.mark.parametrize(("seconds", "error"), [(1.25, None), (30.0, TimeoutError()), (1.0, None)])
def test_a_slow_statement_is_logged_on_one_line_and_cut_whether_it_fails_or_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, seconds: float, error: Exception | None
) -> None:
    ticks = [10.0, 10.0 + seconds]
    monkeypatch.setattr(slow, "perf_counter", lambda: ticks.pop(0))
    with (
        caplog.at_level(logging.INFO, "polyhop.test"),
        pytest.raises(type(error)) if error else nullcontext(),
        slow_noted(LOG, "duckdb", "SELECT\n   id\nFROM passages " + "x" * 200),
    ):
        if error:
            raise error
    expected = {"store": "duckdb", "statement": "SELECT id FROM passages " + "x" * 56, "seconds": seconds}
    assert [vars(record)["fields"] for record in caplog.records] == [expected] * (seconds > 1)


def test_every_pause_is_a_record_without_the_error_s_details(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []
    before = noted(LOG, "a call of the model x")
    retrying = Retrying(
        stop=stop_after_attempt(3), wait=wait_fixed(0.12345), sleep=slept.append, before_sleep=before, reraise=True
    )

    def fail() -> None:
        raise ValueError("sk-secret")

    with caplog.at_level(logging.INFO, LOG.name), pytest.raises(ValueError, match="sk-secret"):
        retrying(fail)
    assert [vars(record)["fields"] for record in caplog.records] == [
        {"attempt": number, "pause": 0.123, "error": "ValueError"} for number in (1, 2)
    ]
    assert {record.getMessage() for record in caplog.records} == {"a call of the model x is tried again"}
    assert "sk-secret" not in caplog.text
    assert len(slept) == 2
