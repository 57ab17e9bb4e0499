"""`polyhop diagnose` on a few pages: every number by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.commands.diagnose import diagnose
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import MissingArtefactError, SourceError, UnknownSettingError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

PAGES = {
    "ada": ("Ada Lovelace", "Ada Lovelace wrote for Charles Babbage."),
    "babbage": ("Charles Babbage", "Charles Babbage lived in London."),
    "london": ("London", "London lies on the River Thames."),
    "thames": ("River Thames", "The River Thames flows through Oxford and London."),
    "void": ("", "nothing here has a name."),
}
QUESTIONS = [
    {"id": "none", "question": "who wrote the first program?", "supporting": ["ada"]},
    {"id": "other", "question": "Who knew Charles Babbage?", "supporting": ["ada"]},
    {"id": "gold", "question": "Where did Charles Babbage live?", "supporting": ["babbage", "london"]},
    {"id": "gold too", "question": "Is London on a river?", "supporting": ["london", "unknown"]},
    {"id": "unjudged", "question": "Who was Ada Lovelace?"},
    {"id": "elsewhere", "question": "Who was Ada Lovelace?", "supporting": ["unknown"]},
]
EDGES = 9
"""Ada: herself, Babbage; Babbage: himself, London; London: itself, Thames; Thames: itself, Oxford, London."""


def _lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index that can do all but vectors and one that has no graph, and the questions."""
    path = tmp_path_factory.mktemp("diagnosis")
    pages = [{"id": id_, "title": title, "text": text} for id_, (title, text) in PAGES.items()]
    corpus = _lines(path / "corpus.jsonl", pages)
    for name, strategies in (("small", ("graph", "graph-hybrid")), ("words", ("bm25",))):
        settings = Settings(root=path / "root", strategies=strategies)
        run_index(settings, IndexRequest(name, corpus), DirectRunner())
    _lines(path / "questions.jsonl", QUESTIONS)
    return path


@pytest.fixture
def diagnosed(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(**options: Any) -> dict[str, Any]:
        diagnose("small", folder / "questions.jsonl", root=folder / "root", json=True, **options)
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def test_questions_fall_into_three_buckets(diagnosed: Callable[..., dict[str, Any]]) -> None:
    report = diagnosed(strategies="graph,bm25:k1=1.2")
    assert (report["index"], report["version"], report["n"], report["excluded"]) == ("small", 1, 4, 2)
    buckets = report["buckets"]
    assert {name: (row["n"], row["share"]) for name, row in buckets.items()} == {
        "no_entity": (1, 0.25),
        "entity_no_gold": (1, 0.25),
        "entity_gold": (2, 0.5),
        "all": (4, 1.0),
    }
    assert list(buckets["all"]["strategies"]) == ["graph", "bm25:k1=1.2"]
    graph = {name: row["strategies"]["graph"] for name, row in buckets.items()}
    assert (graph["entity_gold"]["recall@10"], graph["entity_no_gold"]["recall@10"]) == (0.75, 1.0)
    assert graph["all"]["recall@10"] == 0.875
    bm25 = {name: row["strategies"]["bm25:k1=1.2"] for name, row in buckets.items()}
    assert bm25["entity_gold"] == {"recall@10": 0.5, "mrr": 1.0}
    assert bm25["entity_no_gold"] == {"recall@10": 1.0, "mrr": 0.5}


def test_pruning_counts_gold_titles_and_questions(diagnosed: Callable[..., dict[str, Any]]) -> None:
    """London is on three pages, the other hubs on two; a fifth of five entities is London alone."""
    pruning = diagnosed(strategies="graph", hub_top_percent=20)["hub_pruning"]
    assert pruning == {
        "hub_top_percent": 20,
        "hubs": 1,
        "titles": 3,
        "removed": ["london"],
        "questions": 4,
        "touched": 2,
        "title_share": 0.333333,
        "question_share": 0.5,
    }
    assert diagnosed(strategies="graph")["hub_pruning"]["removed"] == []


def test_both_graphs_are_described(diagnosed: Callable[..., dict[str, Any]]) -> None:
    graphs = diagnosed(strategies="graph")["graphs"]
    entity = graphs["entity"]
    assert (entity["nodes"], entity["edges"], entity["entities"], entity["passages"]) == (10, EDGES, 5, 5)
    assert (entity["isolated_passages"], entity["max_entity_degree"], entity["max_passage_degree"]) == (1, 3, 3)
    assert graphs["term"]["passages"] == 5


def test_people_read_the_same_in_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diagnose("small", folder / "questions.jsonl", root=folder / "root", hub_top_percent=20)
    said = capsys.readouterr().out
    assert "4 questions on 'small', version 1\n  2 more name no supporting passage of the index\n" in said
    assert "1 of 3 gold titles gone (33.33 %), 2 of 4 questions touched (50.00 %)" in said
    assert next(line.split() for line in said.splitlines() if line.startswith("edges"))[1] == str(EDGES)


def test_without_questions_the_graphs_are_described_and_a_missing_one_is_said(
    folder: Path, diagnosed: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    diagnose("small", root=folder / "root", json=True)
    report = json.loads(capsys.readouterr().out)
    whole = diagnosed(strategies="graph")
    assert report == {name: whole[name] for name in ("index", "version", "graphs", "propositions")}
    assert report["propositions"] is None
    diagnose("small", root=folder / "root")
    said = capsys.readouterr().out
    assert said.startswith("'small', version 1\n")
    assert next(line.split() for line in said.splitlines() if line.startswith("edges"))[1] == str(EDGES)
    assert "names reach" not in said
    assert "which index 'small' was built without." in said
    assert said.endswith("polyhop index --index small --add-strategy proprag\n")
    diagnose("words", root=folder / "root", json=True)
    assert "entity" not in json.loads(capsys.readouterr().out)["graphs"]


def test_a_question_that_fails_counts_zero_and_is_listed_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [QUESTIONS[2], {"id": "no words", "question": "?!", "supporting": ["ada"]}]
    questions = _lines(folder / "with-empty.jsonl", rows)
    diagnose("small", questions, root=folder / "root", strategies="bm25", json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["buckets"]["no_entity"]["strategies"]["bm25"] == {"recall@10": 0.0, "mrr": 0.0}
    assert report["buckets"]["entity_no_gold"] == {
        "n": 0,
        "share": 0.0,
        "strategies": {"bm25": {"recall@10": None, "mrr": None}},
    }
    (failed,) = report["failed"]["bm25"]
    assert failed["id"] == "no words"
    assert "empty" in failed["error"]
    diagnose("small", questions, root=folder / "root", strategies="bm25")
    assert "bm25 failed on no words, which counts 0: The question is empty" in capsys.readouterr().out


def test_what_cannot_be_diagnosed_is_said_in_a_sentence(folder: Path) -> None:
    root, questions = folder / "root", folder / "questions.jsonl"
    with pytest.raises(UnknownSettingError, match="did you mean 'title_aliases'"):
        diagnose("small", questions, root=root, param=["title_alias=true"])
    with pytest.raises(MissingArtefactError, match="needs 'graph'"):
        diagnose("words", questions, root=root, strategies="bm25")
    unjudged = _lines(folder / "unjudged.jsonl", QUESTIONS[4:])
    with pytest.raises(SourceError, match="a diagnosis needs questions with 'supporting'"):
        diagnose("small", unjudged, root=root)
