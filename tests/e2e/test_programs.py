"""The public Python API, as a program or a notebook uses it; what commands log, and the spans that a program sees."""

import asyncio
import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from small_indexes import Call, Run, printed, publish, write_rows

import polyhop
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerOptions
from polyhop.worker.session import IndexPool

RECORDS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo."},
    {"id": "p2", "title": "Cairo", "text": "Cairo is the capital of Egypt. <script>alert(1)</script>"},
    {"id": "p3", "title": "Warsaw", "text": "Warsaw lies on the Vistula."},
]
QUESTIONS: list[dict[str, object]] = [
    {"id": "q1", "question": "Where does the Nile flow?", "answers": ["Cairo"], "supporting": ["p1"]},
    {"id": "q2", "question": "On which river does Warsaw lie?", "answers": ["Vistula"], "supporting": ["p3"]},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    settings = polyhop.Settings(root=folder / "root", strategies=("bm25", "bridge-lexical"))
    report = polyhop.index(write_rows(folder / "corpus.jsonl", RECORDS), name="tiny", settings=settings)
    assert (report.version, report.counts["passages"]) == (1, 3)
    return folder / "root"


def work(root: Path) -> None:
    """Answers all that waits."""
    settings = polyhop.Settings(root=root)
    with open_questions(settings) as queue:
        Worker(queue, IndexPool(settings), WorkerOptions(until_empty=True)).run()


def test_an_answer_has_texts_and_its_json_is_the_contract(root: Path) -> None:
    with polyhop.open_index("tiny", root=root) as index:
        answer = index.ask("What is Cairo the capital of?", strategy="bm25")
        assert "version=1, passages=3" in repr(index)
        assert "tiny" in index._repr_html_()
    assert [row["text"] for row in answer.passages][:2] == [RECORDS[1]["text"], RECORDS[0]["text"]]
    assert all("text" not in row for row in answer.to_json()["passages"])
    html = answer._repr_html_()
    assert ("Cairo" in repr(answer), "&lt;script&gt;" in html, "<script>" in html) == (True, True, False)
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("polyhop").handlers)


def test_strategies_are_compared(root: Path) -> None:
    found = polyhop.evaluate(QUESTIONS, index="tiny", strategies=["bm25", "bridge-lexical"], root=root)
    assert found.metrics["bm25"]["recall@5"] == 1.0
    assert found.to_arrow().column("strategy").to_pylist() == ["bm25", "bridge-lexical"]
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(polyhop.errors.ConfigurationError, match="needs pandas: pip install pandas"):
            found.to_pandas()
    else:
        assert found.to_pandas().set_index("strategy").loc["bm25", "mrr"] == 1.0
    assert "<td>bridge-lexical</td>" in found._repr_html_()
    assert ("bm25" in repr(found), len(found.rows)) == (True, 4)


def test_a_job_is_submitted_answered_and_read(root: Path) -> None:
    job = asyncio.run(polyhop.asubmit(QUESTIONS, index="tiny", strategy="bm25", key="one", root=root))
    again = polyhop.submit(QUESTIONS, index="tiny", strategy="bm25", key="one", root=root)
    assert (job.count, job.is_new, again.id, again.is_new) == (2, True, job.id, False)
    assert job.is_open()
    with pytest.raises(TimeoutError, match=f"Job {job.id} is still open after 0.1 s"):
        job.wait(0.1)
    work(root)
    assert [row["id"] for row in job.wait(5)] == ["q1", "q2"]
    assert "q2" in job._repr_html_()
    questions: list[Any] = ["Where does the Nile flow?", {"question": "Where does the Nile flow?"}]
    for question in questions:
        assert polyhop.submit([question], index="tiny", strategy="bm25", root=root).count == 1
    with pytest.raises(polyhop.errors.UnknownIndexError):
        polyhop.evaluate(QUESTIONS, index="nowhere", root=root)
    with pytest.raises(polyhop.errors.SourceError):
        polyhop.submit([], index="tiny", strategy="bm25", root=root)


def test_runs_and_workers_log_what_they_do_and_no_question(polyhop: Run, write_corpus: Call, tmp_path: Path) -> None:
    """By options, and by variables."""

    def rows(stderr: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]

    index = ("index", write_corpus(RECORDS), "--index", "tiny", "--set", "strategies=bm25", "--json")
    done = polyhop("--log-level", "info", "--log-json", *index)
    assert printed(done)["version"] == 1
    said = rows(done.stderr)
    assert len(said) == len(done.stderr.splitlines())
    assert [row["stage"] for row in said if row["message"] == "stage ended"][:2] == ["ingest", "extract"]
    (published,) = (row for row in said if row["message"] == "version published")
    assert (published["index"], published["version"]) == ("tiny", 1)

    questions = write_rows(tmp_path / "questions.jsonl", QUESTIONS)
    polyhop("submit", questions, "--index", "tiny", "--strategy", "bm25")
    done = polyhop("worker", "--until-empty", env={"POLYHOP_LOG_LEVEL": "debug", "POLYHOP_LOG_JSON": "1"})
    said = rows(done.stderr)
    messages = {"worker started", "claimed questions", "answered a group", "worker stopped"}
    assert messages <= {row["message"] for row in said}
    assert "the Nile" not in done.stderr
    assert {row["worker"] for row in said if "worker" in row} == {said[0]["worker"]}


def test_spans_of_a_run_of_a_question_and_of_a_batch(tmp_path: Path) -> None:
    spans, provider = InMemorySpanExporter(), trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):  # an SDK can be set up once in a process
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(spans))

    def named(name: str) -> list[Any]:
        return [span for span in spans.get_finished_spans() if span.name == f"polyhop.{name}"]

    root = publish(tmp_path, RECORDS)
    (run,) = named("index")
    assert run.attributes == {"polyhop.index": "towns"}
    stages = named("stage")
    assert [stage.attributes["polyhop.stage"] for stage in stages][:2] == ["ingest", "extract"]
    assert {stage.parent.span_id for stage in stages} == {run.context.span_id}

    with polyhop.open_index("towns", root=root) as index:
        index.ask("Where does the Nile flow?", strategy="bm25")
    (answer,) = named("answer")
    assert dict(answer.attributes) == {"polyhop.strategy": "bm25", "polyhop.questions": 1}

    polyhop.submit(QUESTIONS, index="towns", strategy="bm25", root=root)
    work(root)
    (batch,) = named("batch")
    assert dict(batch.attributes) == {"polyhop.strategy": "bm25", "polyhop.questions": 2}
    assert {one.parent.span_id for one in named("answer")[1:]} == {batch.context.span_id}
