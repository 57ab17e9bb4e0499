"""`polyhop eval` on questions with golden triples: judged by id, beside or without passages, with what is not found."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner
from word_triples import NAME, declared

from polyhop.cli import app
from polyhop.flows.evaluate import left_out_sentences
from polyhop.flows.evaluation.run import run_evaluation
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import EvaluationRequest, IndexRequest
from polyhop.schemas.settings import Settings

CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cork")
GRAPH = [
    {
        "subject": {"id": f"R{n}", "name": f"Study {n}, of {city}"},
        "predicate": "is about: city",
        "object": {"id": f"L{n}", "name": city},
    }
    for n, city in enumerate(CITIES * 2)
]
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"q{n}",
        "question": f"Which studies are about {CITIES[n % 5]}?",
        "answers": [CITIES[n % 5]],
        "golden_triples": [
            f"(R{m}:Study {m}, of {CITIES[m % 5]}, is about: city, L{m}:{CITIES[m % 5]})" for m in (n, 9)
        ],
        "topic_entity": f"R{n}",
        "hops": 1 + n % 2,
        "operation": ("counting", "ranking")[n % 2],
    }
    for n in range(10)
]
QUESTIONS[1]["golden_triples"] = ["None", ["R1", "is about: city", "L1"]]
QUESTIONS.append({"id": "q10", "question": "Which studies are about Rome?", "answers": ["Rome"]})
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    for name, rows in (("graph", GRAPH), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = Settings(root=folder / "root", strategies=("graph-search", "bm25"))
    run_index(settings, IndexRequest("studies", folder / "graph.jsonl", kind="graph"), DirectRunner())
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(published, tmp_path / "own")
    with declared(monkeypatch):
        yield tmp_path / "own"


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("POLYHOP_ROOT", str(folder / "root"))
    return lambda *arguments: CliRunner().invoke(app, arguments)


def evaluated(folder: Path, *strategies: str) -> Any:
    request = EvaluationRequest(folder / "questions.jsonl", "studies", strategies=strategies)
    return run_evaluation(Settings(root=folder / "root"), request)


def test_triples_are_judged_by_id_and_what_the_graph_does_not_have_is_counted_and_missed(folder: Path) -> None:
    evaluation = evaluated(folder, NAME, "graph-search")
    report, run = evaluation.report, evaluation.run
    golden = {"questions": 10, "triples": 19, "unknown": 1, "not_ranked_by": ["graph-search"]}
    assert (report["golden_triples"], run["golden_triples"]) == (golden, golden)
    result, other = report["strategies"][NAME], report["strategies"]["graph-search"]
    rows = {row["id"]: row for row in evaluation.rows if row["strategy"] == NAME}
    assert rows["q1"]["triple_recall@30"] == 0.5
    assert rows["q0"]["triple_recall@30"] == 1
    assert rows["q9"]["triple_precision@10"] == 0.1
    assert rows["q10"]["triple_mrr"] is None
    assert rows["q0"]["triples"][0] == ["R0", "is about: city", "L0"]
    assert result["triple_recall@30"] == pytest.approx(9.5 / 10)
    assert result["intervals"]["triple_mrr"]["high"] <= 1
    assert (other["triple_mrr"], other["recall@5"], other["em"]) == (None, None, 0)
    assert [(name, group["n"]) for name, group in run["by_field"]["operation"].items()] == [
        ("counting", 5),
        ("ranking", 5),
    ]
    assert run["by_hops"]["2"]["strategies"][NAME]["triple_recall@30"] == pytest.approx(4.5 / 5)
    assert left_out_sentences(evaluation) == [
        "1 of 19 golden triples is not in the graph of 'studies' and counts as missed.",
        "Not judged by golden triples, because they rank none: graph-search.",
    ]
