"""Opening DuckDB files: what a block leaves behind, for the next block and on the disk."""

from pathlib import Path

import duckdb
import pytest

from polyhop.schemas.errors import DamagedStoreError, StatementRejectedError
from polyhop.warehouse.tables.connection import connect


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


def test_a_block_sees_nothing_of_the_one_before(tmp_path: Path) -> None:
    for name in ("index.duckdb", "index.duckdb", "other.duckdb"):
        with connect(tmp_path / name, read_only=False) as connection:
            connection.execute("CREATE TEMP TABLE short AS SELECT 1 AS number")
            found = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            assert found == [("short",)]


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


def test_what_a_block_attached_besides_its_file_is_gone_for_the_next(tmp_path: Path) -> None:
    path, other = made(tmp_path / "index.duckdb"), made(tmp_path / "other.duckdb", rows=5)
    for _ in range(2):
        with connect(path, read_only=True) as connection:
            connection.execute(f"ATTACH '{other}' AS before (READ_ONLY)")
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
    with connect(tmp_path / "other.duckdb", read_only=False) as connection:
        folder, limit = connection.execute(  # type: ignore[misc]
            "SELECT current_setting('temp_directory'), current_setting('memory_limit')"
        ).fetchone()
    assert (folder, limit) == (str(tmp_path / "other.duckdb.tmp"), "953.6 MiB")
