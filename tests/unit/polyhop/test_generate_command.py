"""`polyhop generate` in this process: whole files, the same bytes each time, readable as corpus and questions."""

import json
from pathlib import Path

import pytest

from polyhop.commands.generate import generate
from polyhop.schemas.errors import ConfigurationError, StoreError
from polyhop.warehouse.files.questions import read_questions


def test_the_same_numbers_write_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        generate(tmp_path / name, passages=40, questions=12, seed=5, json=True)
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(report["passage_count"], report["question_count"], report["seed"]) for report in reports] == [
        (40, 12, 5),
        (40, 12, 5),
    ]
    for name in ("corpus.jsonl", "questions.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["corpus.jsonl", "questions.jsonl"]


def test_the_questions_are_read_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    generate(tmp_path, passages=40, questions=12)
    questions, bad = read_questions(tmp_path / "questions.jsonl")
    assert bad == []
    assert sorted(question.hops or 0 for question in questions) == [2] * 5 + [3] * 4 + [4] * 3
    assert {question.type for question in questions} == {"bridge", "comparison"}
    assert all(question.answers and question.supporting for question in questions)


def test_what_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not 19 and 19"):
        generate(tmp_path / "new", passages=19)
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        generate(tmp_path / "file", passages=20, questions=1)
