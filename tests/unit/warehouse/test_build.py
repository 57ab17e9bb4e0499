"""Lists in batches, and rows that come and go in a copy of the tables of the version before."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from polyhop.schemas.errors import InvariantError
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import ENTITIES, RELATION_SOURCES, RELATIONS
from polyhop.warehouse.build import (
    Build,
    Earlier,
    batch_count,
    begin_updates,
    clear_tables,
    read_batch,
    replace_rows,
    row_count,
    start_build,
    updated_tables,
    write_batches,
)
from polyhop.warehouse.tables.connection import connect, create_statement, table_record

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def table(*numbers: int) -> pa.Table:
    return pa.Table.from_pydict({"n": list(numbers), "text": [f"t{n}" for n in numbers]}, schema=SCHEMA)


@pytest.mark.parametrize("batches", [[table(1, 2, 3), table(4), table(5, 6)], []], ids=["three", "none"])
def test_every_batch_comes_back_as_it_was(tmp_path: Path, batches: list[pa.Table]) -> None:
    path = tmp_path / "new" / "list.parquet"
    write_batches(path, SCHEMA, iter(batches))
    assert (batch_count(path), row_count(path)) == (len(batches), sum(len(one) for one in batches))
    assert [read_batch(path, number).equals(one) for number, one in enumerate(batches)] == [True] * len(batches)


def test_a_list_that_breaks_off_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"

    def broken() -> Iterator[pa.Table]:
        yield table(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_batches(path, SCHEMA, broken())
    assert not path.exists()


COUNT = 40

ROWS = "SELECT 'r' || lpad(i::VARCHAR, 3, '0'), 's', 't', 'near', 'near', i, {}, 'rules' FROM range({}) AS x(i)"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The tables of the version before: relations in order, a table that nobody fills any more, a view."""
    (folder := tmp_path / "published").mkdir()
    path = folder / "index.duckdb"
    with connect(path, read_only=False) as connection:
        connection.execute(create_statement(RELATIONS))
        connection.execute(f"INSERT INTO relations {ROWS.format('NULL', COUNT)}")
        connection.execute("CREATE TABLE summaries (id VARCHAR)")
        connection.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM relations")
    return path


@pytest.fixture
def build(tmp_path: Path, published: Path) -> Build:
    made = Build(Settings(root=tmp_path), "one", None, ())
    start_build(made)
    with made.tables() as connection:
        connection.execute("INSERT INTO relation_sources VALUES ('r001', 'p1')")
    with connect(published, read_only=True) as connection:
        records = {"relations": table_record(connection, "relations")}
    begin_updates(made, published, [RELATIONS])
    return replace(made, earlier=Earlier(1, frozenset(), records=records))


@pytest.fixture
def connection(build: Build) -> Iterator[duckdb.DuckDBPyConnection]:
    with build.tables() as connection:
        yield connection


def test_a_copy_has_the_tables_asked_for_and_all_others_as_they_were_staged(
    connection: duckdb.DuckDBPyConnection, build: Build
) -> None:
    assert connection.execute("SELECT count(*) FROM relations").fetchone() == (COUNT,)
    assert connection.execute("FROM relation_sources").fetchall() == [("r001", "p1")]
    names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert "summaries" not in names
    assert {ENTITIES.name, RELATION_SOURCES.name} <= names
    assert not connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert not list(build.staging.path.glob("*.wal"))


@pytest.mark.parametrize("most", [0.0, 1.0])
def test_rows_that_differ_are_replaced_and_the_checksum_is_that_of_the_table(
    build: Build, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, most: float
) -> None:
    monkeypatch.setattr("polyhop.warehouse.build.MOST_APPENDED", most)
    # r000 goes, r001 gets a confidence, r002 stays, r900 comes
    rows = f"SELECT * FROM ({ROWS.format('CASE i WHEN 1 THEN 0.5 END', 3)}) WHERE i > 0".replace(
        "WHERE i", "WHERE col5"
    )
    rows = rows.replace(", i, ", ", i AS col5, ")
    new = "UNION ALL SELECT 'r900', 's', 't', 'far', 'far', 1, NULL, 'rules'"
    replace_rows(build, connection, RELATIONS, f"{rows} {new};", "relation_id < 'r003'")
    note = updated_tables(build)["relations"]
    assert note.record == table_record(connection, "relations")
    assert note.record.rows == COUNT
    assert note.appended == (2 if most else 0)
    in_order = connection.execute("SELECT relation_id FROM relations ORDER BY relation_id").fetchall()
    assert in_order[0] == ("r001",)
    assert in_order[-1] == ("r900",)
    assert connection.execute("SELECT confidence FROM relations WHERE relation_id = 'r001'").fetchone() == (0.5,)
    as_stored = connection.execute("SELECT relation_id FROM relations").fetchall()
    assert (as_stored == in_order) == (not most)
    assert as_stored[0] == (("r002",) if most else ("r001",))


def test_rows_that_are_the_same_stay_where_they_are(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    replace_rows(build, connection, RELATIONS, ROWS.format("NULL", COUNT), "true")
    note = updated_tables(build)["relations"]
    assert note.appended == 0
    assert build.earlier is not None
    assert note.record == build.earlier.records["relations"]


def test_minus_zero_is_another_value(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    for confidence in ("0.0", "-0.0"):
        replace_rows(build, connection, RELATIONS, ROWS.format(f"{confidence}::DOUBLE", 1), "relation_id = 'r000'")
    shown = connection.execute("SELECT confidence::VARCHAR FROM relations WHERE relation_id = 'r000'").fetchone()
    assert shown == ("-0.0",)


@pytest.mark.parametrize("outdated", ["relation_id = 'r000'", "false"])
def test_a_key_that_another_row_has_is_refused(
    build: Build, connection: duckdb.DuckDBPyConnection, outdated: str
) -> None:
    row = "SELECT 'r005', 's', 't', 'far', 'far', 1, NULL, 'rules'"
    with pytest.raises(InvariantError, match="table 'relations' would have 1 rows with a used key"):
        replace_rows(build, connection, RELATIONS, row, outdated)


def test_a_stage_that_derives_all_rows_begins_with_none(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    replace_rows(build, connection, RELATIONS, ROWS.format("NULL", 1), "relation_id = 'r000'")
    clear_tables(build, connection, [RELATIONS])
    assert connection.execute("SELECT count(*) FROM relations").fetchone() == (0,)
    assert not updated_tables(build)


def test_another_run_knows_nothing_of_updates_of_a_killed_one(build: Build) -> None:
    with build.tables() as connection:
        replace_rows(build, connection, RELATIONS, ROWS.format("NULL", 1), "relation_id = 'r000'")
    assert updated_tables(build)
    start_build(build)
    assert not updated_tables(build)
