"""Files of JSON lines: the whole file or the one before it, in place where a name leads elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.schemas.errors import StoreError
from polyhop.warehouse.files.disk import require_place, write_json_lines

ROWS: list[dict[str, object]] = [{"a": 1}, {"b": "é\n東京"}]


def test_rows_are_written_one_a_line_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert write_json_lines(path, iter(ROWS), "the rows") == 2
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    assert "東京" in lines[1]
    assert write_json_lines(path, [], "the rows") == 0
    assert path.read_bytes() == b""


def test_an_error_of_a_row_leaves_the_file_before_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_json_lines(path, ROWS, "the rows")

    def broken() -> Iterator[dict[str, object]]:
        yield {"new": 1}
        raise KeyboardInterrupt

    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_json_lines(path, broken(), "the rows")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_json_lines(link, ROWS[:1], "the rows")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == '{"a": 1}\n'


def test_a_folder_that_does_not_exist_is_said_with_what_was_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "rows.jsonl"
    for work in (lambda: write_json_lines(path, ROWS, "the scores"), lambda: require_place(path, "the scores")):
        with pytest.raises(StoreError, match=r"the scores.*there is no folder .*none; create it first"):
            work()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the scores.*that is a folder; name a file"):
        require_place(tmp_path, "the scores")


def test_looking_at_a_place_writes_nothing(tmp_path: Path) -> None:
    require_place(tmp_path / "new.jsonl", "the scores")
    assert list(tmp_path.iterdir()) == []
