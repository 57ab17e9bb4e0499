"""`polyhop eval` on questions with golden triples: judged by id, beside or without passages, with what is not found."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result
from word_triples import NAME, declared

from polyhop.cli import app
from polyhop.flows.evaluate import gold_of, left_out_sentences, run_evaluation
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import EvaluationRequest, IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.page import report_page, report_plots, summary_markdown
from polyhop.warehouse.artefacts import TRIPLES_OF_SUBJECTS
from polyhop.warehouse.open import open_published

pytestmark = pytest.mark.slow

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


def test_the_commands_show_triples_in_tables_of_their_own(command: Command) -> None:
    done = command("eval", "questions.jsonl", "--index", "studies", "--strategies", f"{NAME},graph-search")
    assert done.exception is None, done.exception
    lines = done.stdout.splitlines()
    assert lines[1].split() == [
        "strategy",
        "em",
        "f1",
        "shown",
        "em",
        "of",
        "shown",
        "sentence",
        "hit",
        "p50",
        "ms",
        "p95",
        "ms",
        "failures",
    ]
    head = lines.index("Ranked triples against the golden triples of 10 questions")
    assert lines[head + 1].split() == [
        "strategy",
        "recall@10",
        "recall@30",
        "precision@10",
        "f1@10",
        "hit@10",
        "hit@30",
        "ndcg@10",
        "mrr",
    ]
    assert lines[head + 2].split()[:3] == [NAME, "0.950", "0.950"]
    assert lines[head + 3] == "95 % intervals of these means"
    titles = ["recall@10 of triples by number of hops", "recall@10 of triples by operation"]
    assert [line for line in lines if line.startswith("recall@10 of triples")] == titles
    assert "counting (5)  ranking (5)" in lines[lines.index(titles[1]) + 1]
    listed = command("eval", "--list").stdout.splitlines()
    assert listed[0].split()[-3:] == ["recall@5", "triple_recall@10", "em"]
    assert listed[1].split()[-2:] == ["0.950", "0.000"]


def test_two_evaluations_are_compared_on_triples_and_a_gate_judges_them(command: Command, folder: Path) -> None:
    arguments = ("eval", "questions.jsonl", "--index", "studies", "--strategies", NAME)
    passed = command(*arguments, "--fail-below", "triple_recall@10=.9", "--json")
    assert [gate["passed"] for gate in json.loads(passed.stdout)["gates"]] == [True]
    questions = [{**question, "topic_entity": "R0"} for question in QUESTIONS]  # leads away from most of them
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    assert command(*arguments).exception is None
    changes = command("eval", "--compare", "1", "2").stdout
    assert "triple_mrr" in changes
    assert "em  " not in changes.partition("Questions that changed most")[0]


def test_the_report_shows_triples_and_the_fields_of_the_questions(folder: Path) -> None:
    evaluation = evaluated(folder, NAME, "graph-search")
    plots = report_plots(evaluation.run)
    assert "triple_recall_at_k.png" in plots
    assert "recall_at_k.png" not in plots
    page = report_page(evaluation.run, evaluation.timings, plots)
    for words in (
        "0.950",
        "19 in 10 questions; 1 not in the graph, which count as missed; no triples are ranked by graph-search",
        "triple_recall@10 by operation",
        "By operation",
    ):
        assert words in page, words
    summary = summary_markdown(evaluation.run, evaluation.timings)
    assert "triple\\_recall@10 by operation" in summary
    assert "triple\\_recall@10 by hops" in summary


def test_relations_of_a_text_are_golden_triples_by_the_keys_of_their_entities(tmp_path: Path) -> None:
    record = {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. She knew Charles Babbage."}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(record))
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",))
    run_index(settings, IndexRequest("text", tmp_path / "corpus.jsonl"), DirectRunner())
    opened = open_published(settings.root, "text")
    (row, *_) = opened.artefact(TRIPLES_OF_SUBJECTS)(["ada lovelace"])
    subject, name, predicate, value, _ = row
    assert (subject, name) == ("ada lovelace", "Ada Lovelace")
    questions = [QuestionRecord("q", "Who?", golden_triples=((subject, predicate, value), ("london", "x", "y")))]
    gold = gold_of(questions, opened)
    assert (gold.triple_count, gold.unknown_triples) == (2, 1)
    assert gold.questions[0].triples == {(subject, predicate, value), ("london", "x", "y")}
    opened.close()
