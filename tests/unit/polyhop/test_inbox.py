"""Records that a call adds: all of them are kept for the next run, or none."""

from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed, write_rows

from polyhop.inbox import InboxRun, add_records, run_inbox
from polyhop.schemas.errors import SourceError, UnknownIndexError
from polyhop.schemas.records import SourceRecord
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.inbox import read_waiting, waiting_files

WARSAW = {"id": "w", "title": "Warsaw", "text": "Warsaw lies on the Vistula."}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def waiting(settings: Settings) -> dict[str, str]:
    found = read_waiting(Layout(settings.root).index("towns"))
    return {record.id: record.text for record in found if isinstance(record, SourceRecord)}


def test_records_wait_with_their_ids(settings: Settings) -> None:
    add_records(settings, "towns", [WARSAW, {"id": 7, "text": "Oslo lies on a fjord."}])
    assert waiting(settings) == {"w": WARSAW["text"], "7": "Oslo lies on a fjord."}


def test_a_record_may_stand_without_a_list(settings: Settings) -> None:
    add_records(settings, "towns", WARSAW)
    assert list(waiting(settings)) == ["w"]


def test_a_later_record_of_an_id_replaces_the_first(settings: Settings) -> None:
    add_records(settings, "towns", [WARSAW])
    add_records(settings, "towns", [WARSAW | {"text": "Warsaw is the capital of Poland."}])
    assert waiting(settings) == {"w": "Warsaw is the capital of Poland."}


def test_a_file_of_text_is_a_record(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "oslo.txt").write_text("Oslo lies on a fjord.", encoding="utf-8")
    add_records(settings, "towns", [tmp_path / "oslo.txt"])
    assert list(waiting(settings).values()) == ["Oslo lies on a fjord."]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "There is no record to add"),
        ([WARSAW, {"id": "x"}], "Record 2 .*x.* cannot be added, so no record of this call was added"),
        ([WARSAW, WARSAW | {"text": "Another."}], "has the same id 'w' and another text"),
        ([WARSAW, {"id": "x", "deleted": True}], "it deletes 'x'; put deletions into a file"),
        ([WARSAW, 7], "Record 2 cannot be added.*not an object or a path"),
    ],
)
def test_a_call_with_an_unusable_record_keeps_none(settings: Settings, records: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        add_records(settings, "towns", records)
    assert waiting_files(Layout(settings.root).index("towns")) == []


def test_a_folder_is_no_record(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    with pytest.raises(SourceError, match="it is a folder; index it as a separate source"):
        add_records(settings, "towns", [tmp_path / "texts"])


def test_an_id_of_another_source_is_refused(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write_rows(tmp_path / "c.jsonl", [WARSAW]), "towns")
    with pytest.raises(SourceError, match=r"source '.*' has a record with its id 'w'; edit that source instead"):
        add_records(settings, "towns", [WARSAW])


def test_a_run_without_records_needs_an_index(settings: Settings) -> None:
    with pytest.raises(UnknownIndexError):
        run_inbox(settings, "towns")


def test_a_run_indexes_what_waits_and_empties_the_inbox(settings: Settings) -> None:
    add_records(settings, "towns", [WARSAW])
    assert (run_inbox(settings, "towns").version, waiting(settings)) == (1, {})


def test_a_run_in_progress_is_a_document_without_a_version() -> None:
    assert InboxRun("r", "towns").to_json() == {
        "run": "r", "state": "running", "index": "towns", "version": None, "error": None, "stages": [],
    }  # fmt: skip


def test_a_run_reports_the_rate_of_each_stage() -> None:
    run = InboxRun("r", "towns")
    for stage, done, seconds in (("ingest", 9, 1.0), ("extract", 100, 2.0), ("extract", 160, 4.0)):
        run.note(stage, done, 200, seconds)
    assert run.to_json()["stages"] == [
        {"stage": "ingest", "done": 9, "total": 200, "per_second": None},
        {"stage": "extract", "done": 160, "total": 200, "per_second": 30.0},
    ]


def test_a_wait_ends_after_its_seconds() -> None:
    assert not InboxRun("r", "towns").wait(0.0)
