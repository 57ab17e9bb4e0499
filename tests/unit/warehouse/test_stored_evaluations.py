"""Stored evaluations: whole or not there at all, numbered in order, also by many writers at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import ContractError, SourceError, StoreError, UnknownIdError
from warehouse.files import evaluations
from warehouse.files.evaluations import questions_hash, read_run, run_numbers, store_run

FILES = {"run.json": b'{"format": 1}', "timings.json": b'{"seconds": 2}', "questions.jsonl": b'{"id": "q"}\n'}


def test_runs_are_numbered_from_one_and_read_as_they_were_stored(tmp_path: Path) -> None:
    folder = tmp_path / "evaluations"
    assert run_numbers(folder) == []
    assert store_run(folder, FILES) == (1, folder / "000001")
    assert store_run(folder, {**FILES, "plot.png": b"\x89PNG"}) == (2, folder / "000002")
    assert run_numbers(folder) == [1, 2]
    stored = read_run(folder, 2)
    assert (stored.run, stored.timings, stored.question_rows()) == ({"format": 1}, {"seconds": 2}, [{"id": "q"}])
    assert sorted(path.name for path in stored.path.iterdir()) == sorted([*FILES, "plot.png"])
    assert sorted(path.name for path in folder.iterdir()) == ["000001", "000002"]


def test_a_number_is_not_given_twice_where_many_store_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: store_run(tmp_path / "evaluations", FILES)[0], range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert len(list((tmp_path / "evaluations").iterdir())) == 24


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
    store_run(tmp_path, {"run.json": b"{}", "timings.json": b"{}"})
    with pytest.raises(ContractError, match=r"questions\.jsonl cannot be read"):
        read_run(tmp_path, 2).question_rows()


def test_a_line_separator_within_a_question_ends_no_row(tmp_path: Path) -> None:
    rows = [{"question": "one\u2028two\x85three"}, {"question": "four\rfive"}]
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    store_run(tmp_path, {**FILES, "questions.jsonl": content})
    assert read_run(tmp_path, 1).question_rows() == rows


def test_the_hash_of_a_question_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"abc")
    assert questions_hash(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(SourceError, match=r"nothere\.jsonl: No such file"):
        questions_hash(tmp_path / "nothere.jsonl")
