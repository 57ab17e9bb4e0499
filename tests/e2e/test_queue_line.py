"""A question file through the queue: submit, answer, read, explain, replay; and all that can be wrong with it."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_indexes import write_rows

SUBMIT = "submit --index towns --strategy bridge-lexical --json"
WORK = "worker --until-empty --json"
QUESTIONS = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 7}"],
        "supporting": [f"p{n:03d}"],
    }
    for n in (30, 4, 17)
]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "questions.jsonl", QUESTIONS)


def submitted(towns: Any, questions: Path, options: str = "") -> Any:
    """The number of a new job."""
    (row,) = towns.good(f"{SUBMIT} {options}", questions)
    return row["job_id"]


def job_row(towns: Any, job: int) -> dict[str, Any]:
    (found,) = [row for row in towns.good("jobs --json")[0] if row["job_id"] == job]
    return dict(found)


def counts(towns: Any, job: int) -> dict[str, int]:
    row = job_row(towns, job)
    return {state: row[state] for state in ("queued", "leased", "done", "dead", "cancelled") if row[state]}


def states(towns: Any, job: int) -> list[tuple[Any, ...]]:
    return [(row["id"], row["state"], row["answer"]) for row in towns.good(f"results {job}")]


def test_a_file_is_submitted_answered_read_explained_and_replayed(towns: Any, questions: Path, tmp_path: Path) -> None:
    assert towns.good(f"{SUBMIT} --limit 5", questions) == [{"job_id": 1, "questions": 3, "new": True}]
    assert states(towns, 1) == [(name, "queued", None) for name in ("q30", "q4", "q17")]
    (report,) = towns.good(WORK)
    assert (report["finished"], report["failed"], report["refused"]) == (3, 0, 0)
    assert counts(towns, 1) == {"done": 3}

    first, *others = towns.good("results 1")
    assert [row["id"] for row in (first, *others)] == ["q30", "q4", "q17"]
    assert {name: first[name] for name in ("question", "state", "version", "strategy", "index", "limit")} == {
        "question": "Which river does Town 30 lie on?",
        "state": "done",
        "version": 1,
        "strategy": "bridge-lexical",
        "index": "towns",
        "limit": 5,
    }
    assert (first["passages"][0]["id"], len(first["passages"])) == ("p030", 5)
    assert (first["parameters"], first["attempts"], first["worker"]) == ({}, 1, report["worker_id"])
    assert (first["tokens"], first["error"]) == ({"prompt": 0, "completion": 0}, None)
    assert first["evidence"]["names"]["matched"]

    out = tmp_path / "results.parquet"
    assert towns.good("results 1 --json --out", out) == [{"job_id": 1, "rows": 3, "file": str(out)}]
    table = pq.read_table(out).to_pylist()
    assert [row["id"] for row in table] == ["q30", "q4", "q17"]
    assert json.loads(table[0]["passages"]) == first["passages"]
    assert (table[0]["answer"], table[0]["version"]) == (first["answer"], 1)

    (metrics,) = towns.good("results 1 --metrics --json")
    assert (metrics["n"], metrics["recall@1"], metrics["recall@5"], metrics["failures"]) == (3, 1.0, 1.0, 0)
    assert set(metrics) >= {"mrr", "em", "f1", "latency_ms"}

    (explained,) = towns.good("explain 1 q4 --json")
    (asked,) = towns.good("ask --index towns --strategy bridge-lexical --limit 5 --json", QUESTIONS[1]["question"])
    assert {**explained, "seconds": 0}.items() >= {**asked, "seconds": 0}.items()
    drawn = towns.run("explain 1 q4")
    assert drawn.returncode == 0, drawn.stderr
    assert "Town 4" in drawn.stdout

    (both,) = towns.good("replay 1 q4 --strategy dense --json")
    assert both["stored"] == explained
    assert (both["replayed"]["strategy"], both["replayed"]["version"]) == ("dense", 1)
    assert len(both["replayed"]["passages"]) == 5
    beside = towns.run("replay 1 q4 --strategy dense").stdout
    assert "stored: bridge-lexical" in beside
    assert "again: dense (version 1)" in beside


def test_a_question_replayed_as_it_was_has_the_same_ranking_on_its_old_version(towns: Any, questions: Path) -> None:
    submitted(towns, questions, "--param graph_weight=0.3")
    towns.good(WORK)
    assert towns.publish(edition=2) == 2
    (both,) = towns.good("replay 1 q17 --json")
    assert both["replayed"]["version"] == 1
    assert both["replayed"]["passages"] == both["stored"]["passages"]
    assert both["stored"]["parameters"] == {"graph_weight": "0.3"}


def test_a_cancelled_job_is_not_answered_and_can_be_asked_again(town_hall: Any, questions: Path) -> None:
    job, worker = submitted(town_hall, questions, "--queue cancel"), f"{WORK} --queues cancel"
    assert town_hall.good(f"cancel {job} --json") == [{"job_id": job, "cancelled": 3}]
    assert town_hall.good(worker)[0]["finished"] == 0
    assert counts(town_hall, job) == {"cancelled": 3}
    assert town_hall.good(f"retry {job} --json") == [{"job_id": job, "requeued": 3, "deadline": None}]
    assert town_hall.good(worker)[0]["finished"] == 3
    assert counts(town_hall, job) == {"done": 3}


def test_dead_questions_say_why_and_are_answered_after_retry(towns: Any, questions: Path) -> None:
    """The index disappears between submission and answer, and comes back."""
    submitted(towns, questions)
    index = towns.root / "indexes" / "towns"
    index.rename(index.with_name("elsewhere"))
    assert towns.good(WORK)[0]["failed"] == 3
    row = job_row(towns, 1)
    assert (row["dead"], row["errors"][0]["class"], row["errors"][0]["count"]) == (3, "UnknownIndexError", 3)
    assert "Unknown index 'towns'" in towns.run("jobs").stdout
    assert {one["error_class"] for one in towns.good("results 1")} == {"UnknownIndexError"}
    unexplained = towns.run("explain 1 q4")
    assert unexplained.returncode == 1
    assert "it is dead (Unknown index 'towns'" in unexplained.stderr
    index.with_name("elsewhere").rename(index)
    assert towns.good("retry 1 --json") == [{"job_id": 1, "requeued": 3, "deadline": None}]
    towns.good(WORK)
    assert counts(towns, 1) == {"done": 3}


def test_a_broken_line_is_named_and_nothing_is_submitted_unless_told_so(town_hall: Any, questions: Path) -> None:
    write_rows(questions, QUESTIONS[:1], '{"question": ', json.dumps(QUESTIONS[1]), '{"id": "x"}')
    before = [row["job_id"] for row in town_hall.good("jobs --json")[0]]
    refused = town_hall.run(f"{SUBMIT} --queue broken", questions)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Nothing was submitted: 2 questions" in refused.stderr
    assert "first line 2: not JSON" in refused.stderr
    assert [row["job_id"] for row in town_hall.good("jobs --json")[0]] == before
    done = town_hall.run(f"{SUBMIT} --queue broken --skip-bad", questions)
    assert json.loads(done.stdout)["questions"] == 2
    for line in (2, 4):
        assert f"questions.jsonl line {line} was left out" in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("submit --index towns --strategy brigde", 2, "did you mean 'bridge'"),
        ("submit --index none", 1, "Unknown index 'none'"),
        ("submit --index towns --strategy naive-vector", 1, "--add-strategy naive-vector"),
        (f"{SUBMIT} --param seedz=3", 2, "seedz"),
        (f"{SUBMIT} --deadline -5", 1, "it must be positive"),
        (f"{SUBMIT} --set queue.url=oracle://x", 2, "not on 'oracle'"),
        ("results 99999", 1, "There is no job 99999"),
        ("cancel 99999", 1, "There is no job 99999"),
        ("retry 99999", 1, "There is no job 99999"),
        ("explain 99999 q1", 1, "There is no job 99999"),
        ("worker --queues ' , '", 2, "--queues takes names"),
    ],
)
def test_a_wrong_command_on_the_queue_gives_one_sentence_and_its_exit_code(
    town_hall: Any, questions: Path, line: str, code: int, sentence: str
) -> None:
    done = town_hall.run(line, *([questions] if line.startswith("submit") else []))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.real_time
def test_submit_waits_for_a_worker_to_answer_all(town_hall: Any, questions: Path) -> None:
    worker = town_hall.start("worker --queues wait")
    job = submitted(town_hall, questions, "--queue wait --wait")
    assert counts(town_hall, job) == {"done": 3}
    time.sleep(1)
    ((row,),) = town_hall.good("jobs --workers --json")
    assert (row["process_id"], row["queues"], row["versions"]) == (worker.pid, ["wait"], {"towns": 1})
    worker.terminate()
    assert worker.wait(timeout=60) == 0


def test_stored_answers_can_be_queried_beside_the_tables_of_the_index(towns: Any, questions: Path) -> None:
    assert towns.good("sql 'SELECT id FROM results' --index towns --json") == [[]]
    submitted(towns, questions)
    towns.good(WORK)
    towns.good("submit --index towns --strategy bm25 --json", write_rows(questions, QUESTIONS[:1]))
    (rows,) = towns.good("sql 'SELECT * FROM Results ORDER BY job_id, id' --index towns --json")
    assert [(row["job_id"], row["id"], row["state"], row["strategy"], row["version"]) for row in rows] == [
        (1, "q17", "done", "bridge-lexical", 1),
        (1, "q30", "done", "bridge-lexical", 1),
        (1, "q4", "done", "bridge-lexical", 1),
        (2, "q30", "queued", "bm25", None),
    ]
    assert list(rows[0]) == [
        "job_id", "id", "question", "answer", "guess", "state", "version", "strategy", "index", "seconds",
        "finished_at", "error", "error_class", "attempts", "topic", "gold_answers", "gold_passages", "confidence",
        "read_by", "model", "prompt_tokens", "completion_tokens", "cost_usd", "passage_ids", "worker",
    ]  # fmt: skip
    assert {row["index"] for row in rows} == {"towns"}
    joined = "SELECT count(*) AS n FROM results, passages WHERE state = 'done' AND passage_id = 'p000'"
    assert towns.good("sql --index towns --json", joined) == [[{"n": 3}]]
