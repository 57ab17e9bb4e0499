"""`results` and `result_passages`: answers beside the passages, read only as far as a query asks for them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import polyhop
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import StatementRejectedError
from polyhop.schemas.queue import FailedQuestion, FinishedQuestion, JobSpec, NewQuestion
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import RESULTS
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.tables import query as lazy
from polyhop.warehouse.tables.query import LazyTable, Wanted

pytestmark = pytest.mark.slow

READING = {"by": "model", "model": "openai/x", "confidence": 0.75}
PASSAGES = [{"id": "ada", "title": "Ada Lovelace", "score": 2.5, "rank": 1}, {"id": "gone", "score": 1.0, "rank": 2}]
RESULT = {
    "question": "Who?",
    "answer": "Ada",
    "strategy": "bm25",
    "version": 1,
    "passages": PASSAGES,
    "evidence": {},
    "seconds": {},
    "parameters": {},
    "index": "small",
    "limit": 10,
    "reading": READING,
    "tokens": {"prompt": 90, "completion": 7},
    "cost_usd": 0.25,
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[polyhop.Index]:
    """An index with one passage; jobs 1 and 3 are of it (a done and a dead question each), job 2 is of another."""
    folder = tmp_path_factory.mktemp("results")
    settings = Settings(root=folder / "root", strategies=("bm25",))
    corpus = folder / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote."}) + "\n")
    run_index(settings, IndexRequest("small", corpus), DirectRunner())
    with open_questions(settings) as queue:
        for name in ("small", "other", "small"):
            asked = [NewQuestion("q1", "Who?", answers=["Ada"], supporting=["ada"]), NewQuestion("q2", "When?")]
            queue.submit(JobSpec(name, strategy="bm25"), asked)
            done, dead = queue.claim(["default"], "w")
            queue.finish([FinishedQuestion(done.lease_token, "Ada", 1, "bm25", 0.5, RESULT)])
            queue.fail([FailedQuestion(dead.lease_token, "no word", "EmptyQuestionError", retryable=False)])
    with polyhop.open_index("small", settings=settings) as opened:
        yield opened


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(job, with evidence) of each reading of the queue."""
    seen: list[tuple[int, bool]] = []
    read = QuestionQueue.results

    def noted(queue: QuestionQueue, job_id: int, *arguments: Any, with_evidence: bool = True) -> Any:
        seen.append((job_id, with_evidence))
        return read(queue, job_id, *arguments, with_evidence=with_evidence)

    monkeypatch.setattr(QuestionQueue, "results", noted)
    return seen


def test_an_answer_has_its_reader_tokens_cost_and_gold(index: polyhop.Index) -> None:
    (row,) = index.sql("FROM results WHERE job_id = 1 AND id = 'q1'").to_pylist()
    finished_at = row.pop("finished_at")
    assert finished_at.tzinfo is not None
    assert row == {
        "job_id": 1,
        "id": "q1",
        "question": "Who?",
        "answer": "Ada",
        "guess": "Ada",
        "state": "done",
        "version": 1,
        "strategy": "bm25",
        "index": "small",
        "seconds": 0.5,
        "error": None,
        "error_class": None,
        "attempts": 1,
        "topic": None,
        "gold_answers": ["Ada"],
        "gold_passages": ["ada"],
        "confidence": 0.75,
        "read_by": "model",
        "model": "openai/x",
        "prompt_tokens": 90,
        "completion_tokens": 7,
        "cost_usd": 0.25,
        "passage_ids": ["ada", "gone"],
        "worker": "w",
    }


def test_answers_join_their_passages_also_those_that_the_version_no_longer_has(index: polyhop.Index) -> None:
    query = (
        "SELECT r.answer, p.rank, p.passage_id, p.title, t.text FROM results AS r "
        "JOIN result_passages AS p USING (job_id, id) LEFT JOIN passages AS t USING (passage_id) "
        "WHERE job_id = 3 ORDER BY rank"
    )
    assert [tuple(row.values()) for row in index.sql(query).to_pylist()] == [
        ("Ada", 1, "ada", "Ada Lovelace", "Ada Lovelace wrote."),
        ("Ada", 2, "gone", None, None),
    ]


def test_only_jobs_of_the_index_are_in_it(index: polyhop.Index) -> None:
    states = index.sql("SELECT job_id, state, error_class FROM results ORDER BY ALL").to_pylist()
    assert [tuple(row.values()) for row in states] == [
        (1, "dead", "EmptyQuestionError"),
        (1, "done", None),
        (3, "dead", "EmptyQuestionError"),
        (3, "done", None),
    ]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT count(*) FROM passages", []),
        ("SELECT comment FROM duckdb_views() WHERE view_name LIKE 'res%'", []),
        ("SELECT count(*) FROM results", [(1, False), (3, False)]),
        ("SELECT answer FROM results WHERE job_id = 3", [(3, False)]),
        ("SELECT answer, cost_usd FROM results WHERE job_id = 3", [(3, True)]),
        ("FROM results WHERE job_id IN (3, 4) AND state = 'done'", [(3, True)]),
        ("WITH r AS (FROM results) SELECT id FROM r WHERE job_id = 1", [(1, False)]),
        ("SELECT id FROM results WHERE job_id = 1 OR id = 'q1'", [(1, False), (3, False)]),
        ("SELECT id FROM results WHERE answer = ') AND (job_id = 1'", [(1, False), (3, False)]),
        ("SELECT id FROM results WHERE (job_id = 1) = (id = 'q1')", [(1, False), (3, False)]),
        ("SELECT id FROM results WHERE NOT job_id = 1", [(1, False), (3, False)]),
        ("SELECT a.id FROM results a, results b WHERE a.job_id = 1", [(1, False), (3, False)]),
        ("SELECT max(run), max(job_id) FROM results, index_runs WHERE job_id = 3", [(3, False)]),
        ("SELECT score FROM result_passages WHERE job_id = 3", [(3, True)]),
        ("SELECT id FROM results WHERE job_id > 1 LIMIT 1", [(1, False), (3, False)]),
    ],
)
def test_a_query_reads_what_it_asks_for(
    index: polyhop.Index, readings: list[tuple[int, bool]], query: str, read: list[tuple[int, bool]]
) -> None:
    index.sql(query)
    assert readings == read


@pytest.mark.parametrize(
    "condition",
    [
        "job_id = 1",
        "job_id IN (1, 3)",
        "job_id = 1 AND id = 'q1'",
        "job_id = 1 OR id = 'q1'",
        "NOT (job_id = 1)",
        "(job_id = 1) IS DISTINCT FROM (id = 'q1')",
        "job_id = 1 AND (job_id = 1 OR job_id = 3)",
        "CASE WHEN job_id = 1 THEN id = 'q1' ELSE true END",
        "job_id = (SELECT max(job_id) FROM results)",
        "answer = '(job_id = 1)'",
    ],
)
def test_the_rows_are_those_of_reading_everything(
    index: polyhop.Index, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    query = f"SELECT job_id, id, confidence FROM results WHERE {condition} ORDER BY ALL"
    found = index.sql(query).to_pylist()
    monkeypatch.setattr("polyhop.warehouse.tables.query.wanted", lambda *_: Wanted())
    assert found == index.sql(query).to_pylist()


def test_a_pivot_reads_everything_and_is_right(index: polyhop.Index) -> None:
    found = index.sql("PIVOT (SELECT job_id, state FROM results) ON state USING count(*) ORDER BY job_id")
    assert found.to_pylist() == [{"job_id": 1, "dead": 1, "done": 1}, {"job_id": 3, "dead": 1, "done": 1}]


def test_a_statement_that_writes_is_refused_before_the_queue_is_read(
    index: polyhop.Index, readings: list[tuple[int, bool]], tmp_path: Path
) -> None:
    for query in ("SELECT 1 FROM results; COPY (SELECT 1) TO '{0}'", "COPY (FROM results) TO '{0}'"):
        with pytest.raises(StatementRejectedError):
            index.sql(query.format(tmp_path / "new.csv"))
    assert list(tmp_path.iterdir()) == []
    assert readings == []


def test_tables_are_found_by_whole_words() -> None:
    table = LazyTable(RESULTS, lambda wanted: pa.table({}))
    assert table.is_named_in('select * from "Results"')
    assert not table.is_named_in("FROM my_results")
    assert list(lazy.shown_in([table], "SELECT 1")) == []
    assert list(lazy.shown_in([table], "SHOW TABLES")) == [table]
