"""The raw rows that a version keeps: the same bytes however they came, and the rows of each passage back."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.corpus import Passage
from polyhop.tasks.extraction import kept
from polyhop.tasks.extraction.kept import FILES, RAW, KeptRows, extracted_table, with_kept, write_rows

NAMES = [f"p{number:02d}" for number in range(30)]
ROWS = pa.table({"passage_id": [name for name in NAMES for _ in range(3)], "keys": [["a", str(n)] for n in range(90)]})


def passage(name: str, title: str = "Ada", text: str = "Ada wrote.") -> Passage:
    return Passage(name, name, "d", 0, title, text, 0, len(text))


def parts(folder: Path, size: int) -> list[str]:
    folder.mkdir()
    for start in range(0, len(ROWS), size):
        pq.write_table(ROWS.slice(start, size), folder / f"{start:03d}.parquet")
    return [str(path) for path in sorted(folder.iterdir())]


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files with three rows of every table per passage, in row groups of seven."""
    monkeypatch.setattr(kept, "_ROW_GROUP", 7)
    files = [tmp_path / name for name in FILES]
    pq.write_table(extracted_table(map(passage, NAMES), "recipe"), files[0])
    for file in files[1:]:
        write_rows(file, parts(tmp_path / file.stem, 20))
    return files


def test_the_bytes_of_a_file_do_not_depend_on_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_ROW_GROUP", 7)
    for size in (1, 7, 20, 90):
        write_rows(tmp_path / f"{size}.parquet", parts(tmp_path / str(size), size))
    contents = {(tmp_path / f"{size}.parquet").read_bytes() for size in (1, 7, 20, 90)}
    assert len(contents) == 1
    assert pq.read_table(tmp_path / "7.parquet").equals(ROWS)


def test_a_passage_is_kept_with_the_same_id_title_and_text_only(version: list[Path]) -> None:
    rows = KeptRows(version, "recipe", lambda: ["Ada"])
    assert rows.has(passage("p07"))
    others = [passage("p30"), passage("p07", title="Ida"), passage("p07", text="Ada wrote!")]
    assert not any(map(rows.has, others))
    assert not KeptRows(version, "another recipe", lambda: ["Ada"]).has(passage("p07"))
    assert not KeptRows(version, "recipe", lambda: ["Ada", "Wrote"]).has(passage("p07"))
    assert not KeptRows([], "recipe", lambda: ["Ada"]).has(passage("p07"))


def test_kept_rows_join_new_ones_in_the_order_of_passages(version: list[Path]) -> None:
    rows = KeptRows(version, "recipe", lambda: ["Ada"])
    new = {name: ROWS.slice(0, 3).set_column(0, "passage_id", pa.array(["p05"] * 3)) for name in RAW}
    joined = with_kept(new, rows, [passage("p20"), passage("p04")])
    for table in joined.values():
        assert table.column("passage_id").to_pylist() == ["p04"] * 3 + ["p05"] * 3 + ["p20"] * 3
        assert [keys[1] for keys in table.column("keys").to_pylist()] == [
            str(n) for n in (12, 13, 14, 0, 1, 2, 60, 61, 62)
        ]
    assert with_kept(new, rows, []) == new
