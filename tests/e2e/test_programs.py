"""The public Python API, as a program or a notebook uses it."""

import asyncio
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDS), "utf-8")
    settings = polyhop.Settings(root=folder / "root", strategies=("bm25", "bridge-lexical"))
    report = polyhop.index(folder / "corpus.jsonl", name="tiny", settings=settings)
    assert (report.version, report.counts["passages"]) == (1, 3)
    return folder / "root"


def test_completion_shows_what_there_is_and_everything_exists() -> None:
    assert set(dir(polyhop)) == set(polyhop.__all__)
    assert [name for name in polyhop.__all__ if getattr(polyhop, name, None) is None] == []
    assert issubclass(polyhop.errors.UnknownIndexError, polyhop.errors.PolyhopError)
    assert not hasattr(polyhop, "ask")


def test_an_answer_has_texts_and_its_json_is_the_contract(root: Path) -> None:
    with polyhop.open_index("tiny", root=root) as index:
        answer = index.ask("What is Cairo the capital of?", strategy="bm25")
        assert "version=1, passages=3" in repr(index)
        assert "tiny" in index._repr_html_()
    assert [row["text"] for row in answer.passages][:2] == [RECORDS[1]["text"], RECORDS[0]["text"]]
    assert all("text" not in row for row in answer.to_json()["passages"])
    assert "Cairo" in repr(answer)
    html = answer._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


def test_many_questions_of_one_program_wait_for_each_other(root: Path) -> None:
    async def all_of_them() -> list[str]:
        with polyhop.open_index("tiny", root=root) as index:
            answers = await asyncio.gather(*(index.aask(str(row["question"]), strategy="bm25") for row in QUESTIONS))
        return [answer.passages[0]["id"] for answer in answers]

    assert asyncio.run(all_of_them()) == ["p1", "p3"]


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
    assert "bm25" in repr(found)
    assert len(found.rows) == 4


def test_a_job_is_submitted_answered_and_read(root: Path) -> None:
    job = asyncio.run(polyhop.asubmit(QUESTIONS, index="tiny", strategy="bm25", key="one", root=root))
    again = polyhop.submit(QUESTIONS, index="tiny", strategy="bm25", key="one", root=root)
    assert (job.count, job.is_new, again.id, again.is_new) == (2, True, job.id, False)
    assert job.is_open()
    with pytest.raises(TimeoutError, match=f"Job {job.id} is still open after 0.1 s"):
        job.wait(0.1)
    settings = polyhop.Settings(root=root)
    with open_questions(settings) as queue:
        Worker(queue, IndexPool(settings), WorkerOptions(until_empty=True)).run()
    assert [row["id"] for row in job.wait(5)] == ["q1", "q2"]
    assert "q2" in job._repr_html_()


@pytest.mark.parametrize("questions", [["Where does the Nile flow?"], [{"question": "Where does the Nile flow?"}]])
def test_questions_may_be_texts_or_rows(root: Path, questions: list[str]) -> None:
    assert polyhop.submit(questions, index="tiny", strategy="bm25", root=root).count == 1


def test_mistakes_are_the_errors_of_the_commands(root: Path, tmp_path: Path) -> None:
    with pytest.raises(polyhop.errors.UnknownIndexError):
        polyhop.evaluate(QUESTIONS, index="nowhere", root=root)
    with pytest.raises(polyhop.errors.ConfigurationError, match="made from one of them"):
        polyhop.index(tmp_path, name="x", graph="triples.jsonl", root=root)
    with pytest.raises(polyhop.errors.SourceError):
        polyhop.submit([], index="tiny", strategy="bm25", root=root)


def test_a_plan_asks_nobody(root: Path, tmp_path: Path, write_corpus: Callable[..., Path]) -> None:
    settings = polyhop.Settings.model_validate({"root": root, "models": {"extract": "openai/scripted"}})
    planned = polyhop.plan(write_corpus(RECORDS), settings=settings)
    assert planned.to_json()["passages"] == 3
