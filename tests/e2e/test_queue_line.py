"""A question file through the queue: submit, answer, read, explain, replay; and what can be wrong with it."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_indexes import write_rows

SUBMIT = "submit --index towns --strategy bridge-lexical --json"
WORK = "worker --until-empty --json"
QUESTIONS = [
    {"id": f"q{n}", "question": f"Which river does Town {n} lie on?"}
    | {"answers": [f"River {n % 7}"], "supporting": [f"p{n:03d}"]}
    for n in (30, 4, 17)
]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "questions.jsonl", QUESTIONS)


def only_job(towns: Any) -> Any:
    ((row,),) = towns.good("jobs --json")
    return row


def test_a_file_is_submitted_answered_read_queried_and_replayed(towns: Any, questions: Path, tmp_path: Path) -> None:
    (submitted,) = towns.good(f"{SUBMIT} --limit 5 --param graph_weight=0.3", questions)
    assert submitted == {"job_id": 1, "questions": 3, "new": True}
    (report,) = towns.good(WORK)
    assert (report["finished"], report["failed"], report["refused"]) == (3, 0, 0)
    assert only_job(towns)["done"] == 3

    results = towns.good("results 1")
    assert [row["id"] for row in results] == ["q30", "q4", "q17"]
    first = results[0]
    asked = {"question": QUESTIONS[0]["question"], "index": "towns", "strategy": "bridge-lexical", "limit": 5}
    done = {"state": "done", "version": 1, "attempts": 1, "worker": report["worker_id"], "error": None}
    given = {"parameters": {"graph_weight": "0.3"}, "tokens": {"prompt": 0, "completion": 0}}
    assert first.items() >= (asked | done | given).items()
    assert (first["passages"][0]["id"], len(first["passages"])) == ("p030", 5)
    assert first["evidence"]["names"]["matched"]

    out = tmp_path / "results.parquet"
    assert towns.good("results 1 --json --out", out) == [{"job_id": 1, "rows": 3, "file": str(out)}]
    rows = pq.read_table(out).to_pylist()
    assert [row["id"] for row in rows] == ["q30", "q4", "q17"]
    assert (json.loads(rows[0]["passages"]), rows[0]["answer"]) == (first["passages"], first["answer"])
    (metrics,) = towns.good("results 1 --metrics --json")
    assert (metrics["n"], metrics["recall@1"], metrics["recall@5"], metrics["failures"]) == (3, 1.0, 1.0, 0)
    assert set(metrics) >= {"mrr", "em", "f1", "latency_ms"}

    (explained,) = towns.good("explain 1 q4 --json")
    line = "ask --index towns --strategy bridge-lexical --limit 5 --param graph_weight=0.3 --json"
    (answer,) = towns.good(line, QUESTIONS[1]["question"])
    assert {**explained, "seconds": 0}.items() >= {**answer, "seconds": 0}.items()

    (rows,) = towns.good("sql 'SELECT * FROM Results ORDER BY job_id, id' --index towns --json")
    assert [(row["job_id"], row["id"], row["state"]) for row in rows] == [(1, n, "done") for n in ("q17", "q30", "q4")]
    assert list(rows[0]) == [
        "job_id", "id", "question", "answer", "guess", "state", "version", "strategy", "index", "seconds",
        "finished_at", "error", "error_class", "attempts", "topic", "gold_answers", "gold_passages", "confidence",
        "read_by", "model", "prompt_tokens", "completion_tokens", "cost_usd", "passage_ids", "worker",
    ]  # fmt: skip
    joined = "SELECT count(*) AS n FROM results, passages WHERE state = 'done' AND passage_id = 'p000'"
    assert towns.good("sql --index towns --json", joined) == [[{"n": 3}]]

    assert towns.publish(edition=2) == 2
    (both,) = towns.good("replay 1 q4 --json")
    assert (both["stored"], both["replayed"]["version"]) == (explained, 1)
    assert both["replayed"]["passages"] == explained["passages"]
    beside = towns.run("replay 1 q4 --strategy dense").stdout
    assert [part for part in ("stored: bridge-lexical", "again: dense (version 1)") if part not in beside] == []


def test_cancelled_and_dead_questions_say_why_and_are_answered_after_retry(towns: Any, questions: Path) -> None:
    """The index disappears between submission and answer, and comes back."""
    towns.good(SUBMIT, questions)
    assert towns.good("cancel 1 --json") == [{"job_id": 1, "cancelled": 3}]
    assert towns.good(WORK)[0]["finished"] == 0
    assert towns.good("retry 1 --json") == [{"job_id": 1, "requeued": 3, "deadline": None}]
    index = towns.root / "indexes" / "towns"
    index.rename(index.with_name("elsewhere"))
    assert towns.good(WORK)[0]["failed"] == 3
    row = only_job(towns)
    assert (row["dead"], row["errors"][0]["class"], row["errors"][0]["count"]) == (3, "UnknownIndexError", 3)
    assert "Unknown index 'towns'" in towns.run("jobs").stdout
    assert {one["error_class"] for one in towns.good("results 1")} == {"UnknownIndexError"}
    unexplained = towns.run("explain 1 q4")
    assert (unexplained.returncode, "it is dead (Unknown index 'towns'" in unexplained.stderr) == (1, True)
    index.with_name("elsewhere").rename(index)
    towns.good("retry 1 --json")
    towns.good(WORK)
    assert only_job(towns)["done"] == 3


def test_a_broken_line_is_named_and_nothing_is_submitted_unless_told_so(towns: Any, questions: Path) -> None:
    write_rows(questions, QUESTIONS[:1], '{"question": ', json.dumps(QUESTIONS[1]), '{"id": "x"}')
    refused = towns.run(SUBMIT, questions)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.search("Nothing was submitted: 2 questions.*first line 2: not JSON", refused.stderr)
    done = towns.run(f"{SUBMIT} --skip-bad", questions)
    assert json.loads(done.stdout)["questions"] == 2
    assert re.findall(r"questions.jsonl line (\d) was left out", done.stderr) == ["2", "4"]
    assert only_job(towns)["questions"] == 2


@pytest.mark.real_time
def test_submit_waits_for_a_worker_to_answer_all(towns: Any, questions: Path) -> None:
    worker = towns.start("worker --queues wait")
    towns.good(f"{SUBMIT} --queue wait --wait", questions)
    assert only_job(towns)["done"] == 3
    time.sleep(1)
    ((row,),) = towns.good("jobs --workers --json")
    assert (row["process_id"], row["queues"], row["versions"]) == (worker.pid, ["wait"], {"towns": 1})
    worker.terminate()
    assert worker.wait(timeout=60) == 0
