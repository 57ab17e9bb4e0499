"""What commands log, and the spans that a program with an SDK of OpenTelemetry sees."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import polyhop as polyhop_package
from polyhop.api import open_index
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerOptions
from polyhop.worker.session import IndexPool

Run = Callable[..., Any]
RECORDS: list[dict[str, object]] = [
    {"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo."},
    {"id": "p2", "title": "Cairo", "text": "Cairo is the capital of Egypt."},
]


def rows(stderr: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stderr.splitlines()]


def test_an_index_run_logs_its_stages_and_what_it_published(polyhop: Run, write_corpus: Callable[..., Path]) -> None:
    done = polyhop(
        "--log-level", "info", "--log-json", "index", write_corpus(RECORDS), "--index", "tiny",
        "--set", "strategies=bm25", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == 1
    said = rows(done.stderr)
    assert [row["stage"] for row in said if row["message"] == "stage ended"][:2] == ["ingest", "extract"]
    (published,) = (row for row in said if row["message"] == "version published")
    assert (published["index"], published["version"]) == ("tiny", 1)


def test_a_worker_logs_claims_by_variable_and_no_question(
    polyhop: Run, write_corpus: Callable[..., Path], tmp_path: Path
) -> None:
    polyhop("index", write_corpus(RECORDS), "--index", "tiny", "--set", "strategies=bm25")
    (tmp_path / "questions.jsonl").write_text('{"id": "q1", "question": "Where does the Nile flow?"}\n')
    polyhop("submit", "questions.jsonl", "--index", "tiny", "--strategy", "bm25")
    env = {"POLYHOP_LOG_LEVEL": "debug", "POLYHOP_LOG_JSON": "1"}
    done = polyhop("worker", "--until-empty", env=env)
    said = rows("\n".join(line for line in done.stderr.splitlines() if line.startswith("{")))
    assert {"worker started", "claimed questions", "answered a group", "worker stopped"} <= {
        row["message"] for row in said
    }
    assert "the Nile" not in done.stderr
    assert {row["worker"] for row in said if "worker" in row} == {said[0]["worker"]}


def test_a_wrong_level_is_one_sentence(polyhop: Run) -> None:
    done = polyhop("--log-level", "loud", "versions", "--index", "tiny")
    assert (done.returncode, done.stderr) == (
        2,
        "polyhop: Unknown log level 'loud'; choose debug, info, warning, error.\n",
    )


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The process's spans; an SDK can be set up once in a process."""
    made = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(made))
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


def test_spans_of_a_run_and_of_a_question(
    spans: InMemorySpanExporter, publish: Callable[..., Path], tmp_path: Path
) -> None:
    root = publish(tmp_path, RECORDS) / "root"
    found = {span.name: span for span in spans.get_finished_spans()}
    run = found["polyhop.index"]
    stages = [span for span in spans.get_finished_spans() if span.name == "polyhop.stage"]
    assert run.attributes == {"polyhop.index": "towns"}
    assert [dict(stage.attributes or {})["polyhop.stage"] for stage in stages][:2] == ["ingest", "extract"]
    assert {stage.parent.span_id for stage in stages if stage.parent} == {run.context.span_id}
    spans.clear()
    with open_index("towns", root=root) as index:
        index.ask("Where does the Nile flow?", strategy="bm25")
    (answer,) = spans.get_finished_spans()
    assert (answer.name, dict(answer.attributes or {})) == (
        "polyhop.answer",
        {"polyhop.strategy": "bm25", "polyhop.questions": 1},
    )


def test_spans_of_a_batch_hold_those_of_its_answers(
    spans: InMemorySpanExporter, publish: Callable[..., Path], tmp_path: Path
) -> None:
    root = publish(tmp_path, RECORDS) / "root"
    spans.clear()
    settings = polyhop_package.Settings(root=root)
    questions = [{"id": f"q{n}", "question": f"Where does river {n} flow?"} for n in range(3)]
    polyhop_package.submit(questions, index="towns", strategy="bm25", root=root)
    with open_questions(settings) as queue:
        Worker(queue, IndexPool(settings), WorkerOptions(until_empty=True)).run()
    found = spans.get_finished_spans()
    (batch,) = (span for span in found if span.name == "polyhop.batch")
    answers = [span for span in found if span.name == "polyhop.answer"]
    assert dict(batch.attributes or {}) == {"polyhop.strategy": "bm25", "polyhop.questions": 3}
    assert answers
    assert {answer.parent.span_id for answer in answers if answer.parent} == {batch.context.span_id}


def test_as_a_library_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    handlers = logging.getLogger("polyhop").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
    assert capsys.readouterr().err == ""
