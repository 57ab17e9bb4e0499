"""`polyhop versions --diff`: what differs between two versions, and how questions are answered from either."""

import json
from pathlib import Path

import pytest
import typer

from polyhop.commands.stores import versions
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import SourceError, UnknownIdError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

PAGES = {"ada": "Ada Lovelace wrote for Charles Babbage.", "oslo": "Oslo lies in Norway."}
QUESTION = "Where does Oslo lie?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diff")
    for pages in (PAGES, {**PAGES, "oslo": "Oslo lies in Sweden.", "fjord": "Oslo lies on a fjord."}):
        rows = ({"id": name, "title": name.title(), "text": text} for name, text in pages.items())
        (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        settings = Settings(root=folder / "root", strategies=("bm25",))
        run_index(settings, IndexRequest("small", folder / "corpus.jsonl"), DirectRunner())
    questions = [{"id": "1", "question": QUESTION}, {"id": "2", "question": "Who wrote for Charles Babbage?"}]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")
    return folder / "root"


def test_records_entities_relations_and_answers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = root.parent / "questions.jsonl"
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["records"]["counts"] == {"added": 1, "changed": 1, "deleted": 0, "renamed": 0}
    assert [one["name"] for one in document["entities"]["first"] if one["kind"] == "removed"] == ["Norway"]
    (changed,) = document["questions"].pop("changed")
    assert document["questions"] == {"asked": 2, "other_answers": 1, "other_passages": 1}
    assert (changed["question"], changed["answer"]) == (QUESTION, {"before": "Norway", "after": "Sweden"})
    assert changed["passages_added"] == ["fjord"]


def test_the_same_in_words(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = root.parent / "questions.jsonl"
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=root)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "Index 'small', version 2 compared with version 1",
        "records: 1 added, 1 changed",
        "  added    fjord [corpus]",
        "  changed  oslo [corpus]",
    ]
    assert lines[-4:] == [
        "questions: 2 asked; other answers: 1, other passages: 1",
        f"  {QUESTION}",
        "    Norway -> Sweden",
        "    + fjord",
    ]


def test_a_version_is_like_itself(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions("small", diff=(2, 2), root=root)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "records: none changed",
        "entities: none changed",
        "relations: none changed",
    ]


def test_what_cannot_be_compared(root: Path) -> None:
    with pytest.raises(UnknownIdError, match="no version 9"):
        versions("small", diff=(1, 9), root=root)
    with pytest.raises(typer.BadParameter, match="which two versions"):
        versions("small", questions=root.parent / "questions.jsonl", root=root)
    (root.parent / "bad.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(SourceError, match="no usable question"):
        versions("small", diff=(1, 2), questions=root.parent / "bad.jsonl", root=root)
