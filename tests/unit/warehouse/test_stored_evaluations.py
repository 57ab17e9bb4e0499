"""Stored evaluations: whole or not there at all, numbered in order, also by many writers at once."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polyhop.schemas.errors import ContractError, SourceError, StoreError, UnknownIdError
from polyhop.warehouse.files import evaluations
from polyhop.warehouse.files.disk import file_hash
from polyhop.warehouse.files.evaluations import check_folder, read_run, run_numbers, store_run

RUN: dict[str, object] = {"index": "i", "version": 1, "questions": {}, "strategies": [], "parameters": {}}
RUN |= {"settings_hash": "x", "results": {}}
TIMINGS = {"started": "2026-01-01", "strategies": {}}
ROW = {"id": "q", "question": "Who?", "strategy": "bm25", "answer": ""}
FILES = {
    "run.json": json.dumps(RUN).encode(),
    "timings.json": json.dumps(TIMINGS).encode(),
    "questions.jsonl": json.dumps(ROW).encode() + b"\n",
}


def test_runs_are_numbered_from_one_and_read_as_they_were_stored(tmp_path: Path) -> None:
    folder = tmp_path / "evaluations"
    assert run_numbers(folder) == []
    assert store_run(folder, FILES) == (1, folder / "000001")
    assert store_run(folder, {**FILES, "plot.png": b"\x89PNG"}) == (2, folder / "000002")
    assert run_numbers(folder) == [1, 2]
    stored = read_run(folder, 2)
    assert (stored.run, stored.timings, stored.question_rows()) == (RUN, TIMINGS, [ROW])
    assert sorted(path.name for path in stored.path.iterdir()) == sorted([*FILES, "plot.png"])
    assert sorted(path.name for path in folder.iterdir()) == ["000001", "000002"]


def test_a_number_is_not_given_twice_where_many_store_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: store_run(tmp_path / "evaluations", FILES)[0], range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert len(list((tmp_path / "evaluations").iterdir())) == 24


def test_what_a_killed_process_left_behind_goes_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".old.tmp", 2 * 86_400), (".new.tmp", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_bytes(b"{")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    store_run(tmp_path, FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.tmp", "000001"]


def test_a_number_that_became_free_in_the_middle_is_not_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        store_run(tmp_path, FILES)
    for path in (tmp_path / "000001").iterdir():
        path.unlink()
    (tmp_path / "000001").rmdir()
    assert store_run(tmp_path, FILES)[0] == 3


def test_nothing_is_seen_of_a_run_whose_writing_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluations, "sync_file", full)
    with pytest.raises(StoreError, match="the disk is full"):
        store_run(tmp_path / "evaluations", FILES)
    assert list((tmp_path / "evaluations").iterdir()) == []


def test_a_run_that_does_not_exist_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownIdError, match=r"no stored evaluation 7 in .*; there is: none yet"):
        read_run(tmp_path, 7)
    store_run(tmp_path, {**FILES, "timings.json": b"{half"})
    with pytest.raises(ContractError, match=r"timings\.json cannot be read"):
        read_run(tmp_path, 1)
    store_run(tmp_path, {name: FILES[name] for name in ("run.json", "timings.json")})
    with pytest.raises(ContractError, match=r"questions\.jsonl cannot be read: No such file or directory; restore"):
        read_run(tmp_path, 2).question_rows()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", b"{}", "it has no 'index'"),
        ("run.json", b"[]", "it is not a JSON object"),
        ("timings.json", b'{"strategies": {}}', "it has no 'started'"),
        ("questions.jsonl", b"[1]\n", "it is not a JSON object"),
        ("questions.jsonl", b'{"id": "q"}\n', "it has no 'answer'"),
    ],
)
def test_a_file_that_is_json_but_no_evaluation_is_named_with_what_to_do(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    store_run(tmp_path, {**FILES, name: content})
    with pytest.raises(ContractError, match=rf"{name} cannot be read: {reason}; restore .* or remove its folder"):
        read_run(tmp_path, 1).question_rows()


def test_a_folder_whose_name_only_looks_like_a_number_is_no_evaluation(tmp_path: Path) -> None:
    store_run(tmp_path, FILES)
    for name in ("²", "٣", "old"):
        (tmp_path / "000001").rename(tmp_path / name)
        assert run_numbers(tmp_path) == []
        (tmp_path / name).rename(tmp_path / "000001")


def test_a_place_where_nothing_can_be_stored_is_refused_beforehand(tmp_path: Path) -> None:
    check_folder(tmp_path / "root" / "evaluations")
    assert list((tmp_path / "root" / "evaluations").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        check_folder(tmp_path / "file")


def test_a_line_separator_within_a_question_ends_no_row(tmp_path: Path) -> None:
    rows = [{**ROW, "question": "one\u2028two\x85three"}, {**ROW, "question": "four\rfive"}]
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    store_run(tmp_path, {**FILES, "questions.jsonl": content})
    assert read_run(tmp_path, 1).question_rows() == rows


def test_the_hash_of_a_question_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"abc")
    assert file_hash(path, "the questions") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(SourceError, match=r"nothere\.jsonl: No such file"):
        file_hash(tmp_path / "nothere.jsonl", "the questions")
