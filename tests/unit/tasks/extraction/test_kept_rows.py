"""The raw rows that a version keeps: the same bytes however they came, and which passages they may be kept of."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.tables import PASSAGES
from polyhop.schemas.text import content_hash
from polyhop.tasks.extraction.rows import arrow_table
from polyhop.tasks.extraction.stage import EXTRACTED, fresh_passages, gone_passages, merged_rows
from polyhop.warehouse import build as kept
from polyhop.warehouse.build import write_rows
from polyhop.warehouse.tables.connection import create_statement

NAMES = [f"p{number:02d}" for number in range(30)]
ROWS = pa.table({"passage_id": [name for name in NAMES for _ in range(3)], "keys": [["a", str(n)] for n in range(90)]})


def parts(size: int) -> Iterator[pa.RecordBatch]:
    return (batch for start in range(0, len(ROWS), size) for batch in ROWS.slice(start, size).to_batches())


@pytest.fixture(autouse=True)
def groups_of_seven_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_ROW_GROUP", 7)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A file with three rows per passage."""
    write_rows(tmp_path / "before.parquet", ROWS.schema, parts(20))
    return tmp_path / "before.parquet"


def rows_of(*names: str) -> pa.Table:
    table = pa.table({"passage_id": [name for name in names for _ in range(2)], "keys": [["n"]] * 2 * len(names)})
    return table.cast(ROWS.schema)


def test_the_bytes_of_a_file_do_not_depend_on_its_parts(tmp_path: Path) -> None:
    for size in (1, 7, 20, 90):
        write_rows(tmp_path / f"{size}.parquet", ROWS.schema, parts(size))
    contents = {(tmp_path / f"{size}.parquet").read_bytes() for size in (1, 7, 20, 90)}
    assert len(contents) == 1
    assert pq.read_table(tmp_path / "7.parquet").equals(ROWS)


@pytest.mark.parametrize(
    ("gone", "coming"),
    [
        ([], []),
        (["p00", "p29"], []),
        (["p07"], [["p07"]]),
        (NAMES[3:20], [["p04", "p05"], ["p11", "p19"]]),
        (["p29"], [["o99", "p00x"], ["p28x", "p29", "q"], ["r"]]),
        (NAMES, [["p02"]]),
        (NAMES, []),
    ],
)
def test_kept_rows_join_new_ones_in_the_order_of_passages(
    before: Path, gone: list[str], coming: list[list[str]]
) -> None:
    new = [name for part in coming for name in part]
    merged = [*merged_rows(before, gone, (rows_of(*part) for part in coming))]
    found = [row for table in merged for row in table.to_pylist()]
    kept_rows = [row for row in ROWS.to_pylist() if row["passage_id"] not in gone]
    expected = sorted([*kept_rows, *rows_of(*new).to_pylist()], key=lambda row: row["passage_id"])
    assert found == expected


def test_without_a_version_before_all_rows_are_those_of_the_parts() -> None:
    assert pa.concat_tables(merged_rows(None, [], [ROWS.slice(0, 20), ROWS.slice(20)])).equals(ROWS)


def corpus(*rows: tuple[str, str, str]) -> duckdb.DuckDBPyConnection:
    """A database with passages of these ids, titles and texts."""
    connection = duckdb.connect()
    connection.execute(create_statement(PASSAGES))
    for id_, title, text in rows:
        values = [id_, id_, "d", 0, title, text, 0, len(text), 1, content_hash(title, text)]
        connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    return connection


TEXT = "Ada wrote."


def test_a_passage_is_kept_with_the_same_id_title_text_and_recipe_only(tmp_path: Path) -> None:
    extracted = tmp_path / "extracted.parquet"
    made = [(name, "Ada", content_hash("Ada", TEXT), "recipe") for name in ("a", "b", "c", "d")]
    pq.write_table(arrow_table(EXTRACTED, made), extracted)
    with corpus(("a", "Ada", TEXT), ("b", "Ada", "Ada wrote!"), ("e", "Ada", TEXT)) as connection:
        assert fresh_passages(connection, extracted, "recipe") == ["b", "e"]
        assert fresh_passages(connection, extracted, "another") == ["a", "b", "e"]
        assert gone_passages(connection, extracted) == ["c", "d"]
    with corpus(("a", "Ada", TEXT), ("b", "Wrote", "")) as connection:  # a title that occurs in the text of a
        assert fresh_passages(connection, extracted, "recipe") == ["a", "b"]
    with corpus(("a", "Ada", TEXT), ("b", "Read", "")) as connection:
        assert fresh_passages(connection, extracted, "recipe") == ["b"]
