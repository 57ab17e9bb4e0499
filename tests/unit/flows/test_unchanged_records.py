"""Records that the version before has whole are copied; what splits them is asked about the others only."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.records import Passage, SourceRecord
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import CorpusSettings, Settings
from polyhop.tasks.passages import records as chunks
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest, require_version

pytestmark = pytest.mark.slow

ROWS = {"a": "Ada met Bob.", "b": "Bob went to Rome. " * 15, "c": "Rome is a town.", "d": "Oslo is a town."}


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the records that were split since it was cleared."""
    asked: list[str] = []
    real = chunks.split_record

    def spy(record: SourceRecord, **chosen: int) -> list[Passage]:
        asked.append(record.id)
        return real(record, **chosen)

    monkeypatch.setattr(chunks, "split_record", spy)
    return asked


def read(root: Path, rows: dict[str, str], *, name: str = "wiki", characters: int = 200, **more: Any) -> Manifest:
    path = root / f"{name}.jsonl"
    lines = (json.dumps({"id": id_, "title": id_, "text": text, "of": name}) for id_, text in rows.items())
    path.write_text("\n".join(lines), encoding="utf-8")
    chosen = CorpusSettings(max_passage_characters=characters, max_quarantine_share=0.9)
    settings = Settings(root=root, strategies=("bm25",), corpus=chosen)
    run_index(settings, IndexRequest("i", path, source_name=name, **more), DirectRunner())
    return read_manifest(require_version(Layout(root), "i")[1])


def test_a_whole_source_splits_what_changed_and_what_was_cut(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    assert sorted(split) == ["a", "b", "c", "d"]
    split.clear()
    changed = ROWS | {"c": "Rome is a city.", "e": "Elm is a tree."}
    edited = read(tmp_path, changed)
    assert sorted(split) == ["b", "c", "e"]
    (fresh := tmp_path / "fresh").mkdir()
    assert edited.tables["passages"] == read(fresh, changed).tables["passages"]


def test_a_part_splits_its_records_and_what_was_cut(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    edited = read(tmp_path, {"c": "Rome is a city."}, is_partial=True)
    assert sorted(split) == ["b", "c"]
    (fresh := tmp_path / "fresh").mkdir()
    assert edited.tables["passages"] == read(fresh, ROWS | {"c": "Rome is a city."}).tables["passages"]


def test_other_pieces_are_cut_when_the_longest_passage_changes(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    edited = read(tmp_path, ROWS, characters=300)
    assert sorted(split) == ["a", "b", "c", "d"]
    assert edited.counts["passages"] == 4


def test_a_full_run_splits_everything(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    split.clear()
    read(tmp_path, ROWS, full=True)
    assert sorted(split) == ["a", "b", "c", "d"]


def test_a_record_that_another_source_holds_with_another_text_is_split(tmp_path: Path, split: list[str]) -> None:
    read(tmp_path, ROWS)
    read(tmp_path, {"c": "Rome is in Italy.", "n": "New."}, name="news")
    split.clear()
    edited = read(tmp_path, ROWS | {"d": "Oslo is a city."})
    assert sorted(split) == ["b", "c", "d"]  # passage c is that of `news`, which comes first by name
    (fresh := tmp_path / "fresh").mkdir()
    read(fresh, {"c": "Rome is in Italy.", "n": "New."}, name="news")
    whole = read(fresh, ROWS | {"d": "Oslo is a city."})
    tables = ("passages", "documents", "quarantine")
    assert [edited.tables[name] for name in tables] == [whole.tables[name] for name in tables]


def test_the_excerpt_of_a_long_record_that_another_source_has_depends_on_no_order(tmp_path: Path) -> None:
    long = "".join(f"Town {n} lies near Lake {n}. " for n in range(60))
    read(tmp_path, ROWS | {"c": long})
    edited = read(tmp_path, {"c": "Rome is in Italy."}, name="news")
    (fresh := tmp_path / "fresh").mkdir()
    read(fresh, {"c": "Rome is in Italy."}, name="news")
    assert edited.tables["quarantine"] == read(fresh, ROWS | {"c": long}).tables["quarantine"]
    with duckdb.connect(require_version(Layout(fresh), "i")[1].tables, read_only=True) as connection:
        shown = connection.execute("SELECT excerpt FROM quarantine").fetchall()
    ((excerpt,),) = shown
    assert excerpt in long
    assert excerpt.startswith("Town 0 "), "the smallest of its pieces"


def test_an_index_above_the_limit_splits_every_record(
    tmp_path: Path, split: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(tmp_path, ROWS)
    split.clear()
    monkeypatch.setattr("polyhop.tasks.corpus.stage.MOST_COMPARED", 2)
    read(tmp_path, ROWS | {"c": "Rome is a city."})
    assert sorted(split) == ["a", "b", "c", "d"]
