"""Original files of documents: only those that hold the indexed text, and only below their source."""

import io
from functools import partial
from pathlib import Path

import pytest
from document_files import pdf
from small_indexes import indexed, write_rows

from polyhop.documents import add_files
from polyhop.inbox import add_records, run_inbox
from polyhop.originals import CHANGED, MISSING, NO_FILE, Original, find_original
from polyhop.schemas.settings import Settings
from polyhop.server.source_pages import table_rows
from polyhop.warehouse.files.layout import Layout


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Makes an index of the folder `texts`."""
    chosen = Settings(root=tmp_path / "root", strategies=("bm25",))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "oslo.txt").write_text("Oslo lies on a fjord.")
    pdf(tmp_path / "texts" / "bern.pdf", [["Bern lies on the Aare."]])
    indexed(chosen, tmp_path / "texts", "towns")
    return chosen


def found(settings: Settings, name: str, source: str = "", version: int = 1) -> Original:
    return find_original(settings, "towns", version, name, source or name)


@pytest.mark.parametrize("name", ["oslo.txt", "bern.pdf"])
def test_a_file_of_an_indexed_folder_is_found_where_it_is(settings: Settings, tmp_path: Path, name: str) -> None:
    assert found(settings, name) == Original(tmp_path / "texts" / name)


def test_an_uploaded_file_is_found_until_it_is_replaced(settings: Settings) -> None:
    files = Layout(settings.root).index("towns").files
    for text, expected in ((b"Rome.", Original(files / "rome.txt")), (b"Rome!", Original(None, CHANGED))):
        add_files(settings, "towns", [("rome.txt", partial(io.BytesIO, text))])
        run_inbox(settings, "towns")
        assert found(settings, "rome.txt", version=2) == expected


def test_a_file_that_has_changed_or_is_away_is_not_shown(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "texts" / "oslo.txt").write_text("Oslo is the capital.")
    (tmp_path / "texts" / "bern.pdf").unlink()
    assert [found(settings, name).reason for name in ("oslo.txt", "bern.pdf")] == [CHANGED, MISSING]


def test_a_path_out_of_the_folder_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("Oslo lies on a fjord.")
    for source in ("../secret.txt", str(tmp_path / "secret.txt")):
        assert found(settings, "oslo.txt", source) == Original(None, MISSING)


def test_a_link_out_of_the_folder_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("Oslo lies on a fjord.")
    (tmp_path / "texts" / "oslo.txt").unlink()
    (tmp_path / "texts" / "oslo.txt").symlink_to(tmp_path / "secret.txt")
    assert found(settings, "oslo.txt") == Original(None, MISSING)


def test_locations_of_a_pulled_version_are_not_read(settings: Settings) -> None:
    Layout(settings.root).index("towns").pull_marker.touch()
    assert found(settings, "oslo.txt") == Original(None, NO_FILE)


def test_a_record_of_rows_or_of_a_call_has_no_file_of_its_own(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write_rows(tmp_path / "rows.jsonl", [{"id": "w", "text": "Warsaw."}]), "towns", source_name="b")
    add_records(settings, "towns", [{"id": "r", "text": "Rome."}])
    run_inbox(settings, "towns")
    assert [found(settings, name, "rows.jsonl", 3).reason for name in ("w", "r")] == [NO_FILE, NO_FILE]


TABLE = "Tower | Height\nBell | 42 m\nOld | 30 m\nTower: Bell; Height: 42 m.\nTower: Old; Height: 30 m."


@pytest.mark.parametrize("part", ["Old | 30 m", "Tower: Old; Height: 30 m.", "Height: 30 m"])
def test_the_row_of_a_marked_line_or_sentence_is_marked(part: str) -> None:
    start = TABLE.index(part)
    rows = table_rows(TABLE, start, start + len(part))
    assert rows == [(["Tower", "Height"], False), (["Bell", "42 m"], False), (["Old", "30 m"], True)]


def test_a_text_without_rows_is_no_table() -> None:
    assert table_rows("One line.\nAnother | line.", 0, 3) == []
