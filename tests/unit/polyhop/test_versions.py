"""Versions that are built on each other, cannot be read or differ; sentences for what an index does not hold."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from real_index import RealIndex, write_lines

import polyhop
from polyhop.commands.ask import print_answer
from polyhop.commands.operate import doctor
from polyhop.commands.stores import versions
from polyhop.doctor import Check
from polyhop.schemas.errors import (
    ConfigurationError,
    ManifestMismatchError,
    MissingArtefactError,
    SourceError,
    UnknownIdError,
)

PAGES = (
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
    {"id": "london", "title": "London", "text": "London lies on the River Thames."},
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index of two versions: words and names, then also relations."""
    strategies = ("bm25-2step", "bm25-rm3", "bm25-ce", "graph", "tfidf-graph")
    small = RealIndex(tmp_path_factory.mktemp("sentences"), "small", strategies=strategies)
    small.read(PAGES)
    small.run(None, add_strategies=("graph-search",))
    return small.root


@pytest.fixture
def index(root: Path) -> Iterator[polyhop.Index]:
    with polyhop.open_index("small", root=root) as opened:
        yield opened


@pytest.fixture
def unreadable(root: Path) -> Iterator[Path]:
    """The first version's manifest, as another Polyhop would have written it."""
    manifest = root / "indexes" / "small" / "versions" / "000001" / "manifest.json"
    kept = manifest.read_bytes()
    manifest.write_text(json.dumps({**json.loads(kept), "from_the_future": 1}))
    yield manifest
    manifest.write_bytes(kept)


def test_a_version_built_on_another_names_the_same_source(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions("small", root=root, json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["source"] for row in rows] == [str(root.parent / "corpus.jsonl")] * 2


def test_versions_lists_the_others_when_one_cannot_be_read(
    root: Path, unreadable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions("small", root=root, json=True)
    printed = capsys.readouterr()
    assert [(row["version"], row.get("passages")) for row in json.loads(printed.out)] == [(1, None), (2, 3)]
    assert f"Version 1 cannot be used: {unreadable}" in printed.err


def test_a_version_that_cannot_be_read_does_not_become_current(root: Path, unreadable: Path) -> None:
    with pytest.raises(ManifestMismatchError, match=str(unreadable)):
        versions("small", use="1", root=root)
    assert (root / "indexes" / "small" / "CURRENT").read_text() == "2\n"


@pytest.mark.parametrize("limit", [0, -1])
def test_fewer_than_one_passage_is_refused(index: polyhop.Index, limit: int) -> None:
    with pytest.raises(ConfigurationError, match=f"limit is {limit}; ask for at least 1"):
        index.ask("Where did Charles Babbage live?", strategy="graph", limit=limit)


def test_a_name_like_no_other_gets_no_suggestion(index: polyhop.Index) -> None:
    with pytest.raises(UnknownIdError, match=r"no entity '東京'; none of its names looks like that\.$"):
        index.graph.connect("東京", "London")


def test_what_needs_relations_says_so_without_naming_a_strategy_nobody_asked_for(root: Path) -> None:
    with (
        polyhop.open_index("small", root=root, version=1) as opened,
        pytest.raises(MissingArtefactError, match=r"^The graph of entities needs 'graph:relations'"),
    ):
        opened.graph.connect("London", "Ada Lovelace")


@pytest.mark.parametrize(
    ("strategy", "question", "line"),
    [
        ("bm25-2step", "Where did Charles Babbage live?", "Entities suggested by the top 2 passages  "),
        ("bm25-rm3", "Where did Charles Babbage live?", "Terms suggested by the top 2 passages  "),
        (
            "bm25-ce",
            "Where did Charles Babbage live?",
            "Re-ranked  the top 2 passages, by shared words (no cross-encoder is set)",
        ),
        ("tfidf-graph", "Where did Charles Babbage live?", "Question terms  unmatched: babbage, "),
        ("graph", "what is this?", "Question names  none found\nFallback  the walk"),
        ("graph-search", "what is this?", "Fallback  nothing was searched"),
    ],
)
def test_the_explanation_says_what_led_the_ranking(
    index: polyhop.Index, capsys: pytest.CaptureFixture[str], strategy: str, question: str, line: str
) -> None:
    print_answer(index.ask(question, strategy=strategy), {}, explain=True)
    assert line in capsys.readouterr().out


def test_a_ranking_led_by_names_mentions_no_stand_in(index: polyhop.Index, capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(index.ask("Where did Charles Babbage live?", strategy="graph"), {}, explain=True)
    assert "No name of the question" not in capsys.readouterr().out


def test_doctor_keeps_long_names_apart_from_what_it_says(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [Check("disk", True, "free"), Check("index of a long name", True, "intact")]
    monkeypatch.setattr("polyhop.doctor.run_checks", lambda settings: checks)
    doctor(root=root)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "ok    disk                  free",
        "ok    index of a long name  intact",
    ]


QUESTION = "Where does Oslo lie?"


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    """An index of two editions of a corpus, with questions beside it."""
    small = RealIndex(tmp_path_factory.mktemp("diff"), "small")
    texts = {"ada": "Ada Lovelace wrote for Charles Babbage.", "oslo": "Oslo lies in Norway."}
    for edition in (texts, {**texts, "oslo": "Oslo lies in Sweden.", "fjord": "Oslo lies on a fjord."}):
        small.read({"id": name, "title": name.title(), "text": text} for name, text in edition.items())
    questions = [{"id": "1", "question": QUESTION}, {"id": "2", "question": "Who wrote for Charles Babbage?"}]
    write_lines(small.folder / "questions.jsonl", questions)
    return small


def test_what_differs_is_said_as_json_and_in_words(edited: RealIndex, capsys: pytest.CaptureFixture[str]) -> None:
    asked = edited.folder / "questions.jsonl"
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=edited.root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["records"]["counts"] == {"added": 1, "changed": 1, "deleted": 0, "renamed": 0}
    assert [one["name"] for one in document["entities"]["first"] if one["kind"] == "removed"] == ["Norway"]
    (changed,) = document["questions"].pop("changed")
    assert document["questions"] == {"asked": 2, "other_answers": 1, "other_passages": 1}
    assert (changed["question"], changed["answer"]) == (QUESTION, {"before": "Norway", "after": "Sweden"})
    assert changed["passages_added"] == ["fjord"]
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=edited.root)
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


def test_a_version_is_like_itself(edited: RealIndex, capsys: pytest.CaptureFixture[str]) -> None:
    versions("small", diff=(2, 2), root=edited.root)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "records: none changed",
        "entities: none changed",
        "relations: none changed",
    ]


def test_what_cannot_be_compared(edited: RealIndex) -> None:
    with pytest.raises(UnknownIdError, match="no version 9"):
        versions("small", diff=(1, 9), root=edited.root)
    with pytest.raises(typer.BadParameter, match="which two versions"):
        versions("small", questions=edited.folder / "questions.jsonl", root=edited.root)
    write_lines(edited.folder / "bad.jsonl", [{"id": 1}])
    with pytest.raises(SourceError, match="no usable question"):
        versions("small", diff=(1, 2), questions=edited.folder / "bad.jsonl", root=edited.root)
