"""A question file through the queue: submit, answer, read, explain, replay; and all that can be wrong with it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.queue import FinishedQuestion

INDEX = ("--index", "towns")
LEXICAL = (*INDEX, "--strategy", "bridge-lexical")
QUESTIONS = [
    {
        "id": f"q{n}",
        "question": f"Which river does Town {n} lie on?",
        "answers": [f"River {n % 7}"],
        "supporting": [f"p{n:03d}"],
    }
    for n in (30, 4, 17)
]

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes questions (or raw lines) as a .jsonl file."""

    def put(rows: list[dict[str, object] | str], name: str = "questions.jsonl") -> Path:
        path = tmp_path / name
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return put


def job_row(towns: Any, job: int) -> dict[str, Any]:
    (found,) = [row for row in towns.good("jobs", "--json")[0] if row["job_id"] == job]
    return dict(found)


def counts(towns: Any, job: int) -> dict[str, int]:
    row = job_row(towns, job)
    return {state: row[state] for state in ("queued", "leased", "done", "dead", "cancelled") if row[state]}


def test_a_file_is_submitted_answered_read_explained_and_replayed(towns: Any, write: Write, tmp_path: Path) -> None:
    questions = write(QUESTIONS)
    assert towns.good("submit", questions, *LEXICAL, "--limit", "5", "--json") == [
        {"job_id": 1, "questions": 3, "new": True}
    ]
    before = towns.good("results", "1")
    assert [(row["id"], row["state"], row["answer"]) for row in before] == [
        ("q30", "queued", None),
        ("q4", "queued", None),
        ("q17", "queued", None),
    ]
    (report,) = towns.good("worker", "--until-empty", "--json")
    assert (report["finished"], report["failed"], report["refused"]) == (3, 0, 0)
    assert counts(towns, 1) == {"done": 3}

    rows = towns.good("results", "1")
    assert [row["id"] for row in rows] == ["q30", "q4", "q17"]
    first = rows[0]
    assert (first["question"], first["state"], first["version"], first["strategy"]) == (
        "Which river does Town 30 lie on?",
        "done",
        1,
        "bridge-lexical",
    )
    assert first["passages"][0]["id"] == "p030"
    assert len(first["passages"]) == 5
    assert (first["index"], first["parameters"], first["limit"], first["attempts"]) == ("towns", {}, 5, 1)
    assert first["tokens"] == {"prompt": 0, "completion": 0}
    assert first["worker"] == report["worker_id"]
    assert first["evidence"]["names"]["matched"]
    assert first["error"] is None

    out = tmp_path / "results.parquet"
    assert towns.good("results", "1", "--out", out, "--json") == [{"job_id": 1, "rows": 3, "file": str(out)}]
    table = pq.read_table(out).to_pylist()
    assert [row["id"] for row in table] == ["q30", "q4", "q17"]
    assert json.loads(table[0]["passages"]) == first["passages"]
    assert (table[0]["answer"], table[0]["version"]) == (first["answer"], 1)

    (metrics,) = towns.good("results", "1", "--metrics", "--json")
    assert (metrics["n"], metrics["recall@1"], metrics["recall@5"], metrics["failures"]) == (3, 1.0, 1.0, 0)
    assert set(metrics) >= {"mrr", "em", "f1", "latency_ms"}

    (stored,) = towns.good("explain", "1", "q4", "--json")
    asked = towns.good("ask", "Which river does Town 4 lie on?", *LEXICAL, "--limit", "5", "--json")[0]
    timeless = [{k: v for k, v in one.items() if k != "seconds"} for one in (stored, asked)]
    assert timeless[0].items() >= timeless[1].items()
    drawn = towns.run("explain", "1", "q4")
    assert drawn.returncode == 0, drawn.stderr
    assert "Town 4" in drawn.stdout

    (both,) = towns.good("replay", "1", "q4", "--strategy", "dense", "--json")
    assert both["stored"] == stored
    assert (both["replayed"]["strategy"], both["replayed"]["version"]) == ("dense", 1)
    assert len(both["replayed"]["passages"]) == 5
    beside = towns.run("replay", "1", "q4", "--strategy", "dense")
    assert "stored: bridge-lexical" in beside.stdout
    assert "again: dense (version 1)" in beside.stdout


def test_a_question_replayed_as_it_was_has_the_same_ranking_on_its_old_version(towns: Any, write: Write) -> None:
    towns.good("submit", write(QUESTIONS), *LEXICAL, "--param", "graph_weight=0.3", "--json")
    towns.good("worker", "--until-empty", "--json")
    assert towns.publish(edition=2) == 2
    (both,) = towns.good("replay", "1", "q17", "--json")
    assert both["replayed"]["version"] == 1
    assert both["replayed"]["passages"] == both["stored"]["passages"]
    assert both["stored"]["parameters"] == {"graph_weight": "0.3"}


def test_partial_results_are_readable_while_the_job_is_open(town_hall: Any, write: Write) -> None:
    (job,) = town_hall.good("submit", write(QUESTIONS), *LEXICAL, "--queue", "partial", "--json")
    with town_hall.queue() as queue:
        (held,) = queue.claim(["partial"], "me", limit=1, lease_seconds=600)
        queue.finish([FinishedQuestion(held.lease_token, "River 2", 1, "bridge-lexical", 0.1)])
        queue.claim(["partial"], "me", limit=1, lease_seconds=600)
    rows = town_hall.good("results", str(job["job_id"]))
    assert [(row["id"], row["state"], row["answer"]) for row in rows] == [
        ("q30", "done", "River 2"),
        ("q4", "leased", None),
        ("q17", "queued", None),
    ]


def test_the_same_key_again_submits_nothing_and_other_questions_under_it_are_refused(
    town_hall: Any, write: Write
) -> None:
    first = town_hall.good("submit", write(QUESTIONS), *LEXICAL, "--queue", "key", "--key", "monday", "--json")
    again = town_hall.good("submit", write(QUESTIONS), *LEXICAL, "--queue", "key", "--key", "monday", "--json")
    assert again == [{**first[0], "new": False}]
    assert counts(town_hall, first[0]["job_id"]) == {"queued": 3}
    other = town_hall.run("submit", write(QUESTIONS[:2]), *LEXICAL, "--queue", "key", "--key", "monday")
    assert (other.returncode, other.stdout) == (1, "")
    assert "Key 'monday' already belongs to job" in other.stderr


def test_a_cancelled_job_is_not_answered_and_can_be_asked_again(town_hall: Any, write: Write) -> None:
    own = ("--queue", "cancel")
    job = town_hall.good("submit", write(QUESTIONS), *LEXICAL, *own, "--json")[0]["job_id"]
    assert town_hall.good("cancel", str(job), "--json") == [{"job_id": job, "cancelled": 3}]
    worker = ("worker", "--queues", "cancel", "--until-empty", "--json")
    assert town_hall.good(*worker)[0]["finished"] == 0
    assert counts(town_hall, job) == {"cancelled": 3}
    assert town_hall.good("retry", str(job), "--json") == [{"job_id": job, "requeued": 3, "deadline": None}]
    assert town_hall.good(*worker)[0]["finished"] == 3
    assert counts(town_hall, job) == {"done": 3}


def test_dead_questions_say_why_and_are_answered_after_retry(towns: Any, write: Write) -> None:
    """The index disappears between submission and answer, and comes back."""
    towns.good("submit", write(QUESTIONS), *LEXICAL, "--json")
    index = towns.root / "indexes" / "towns"
    index.rename(index.with_name("elsewhere"))
    assert towns.good("worker", "--until-empty", "--json")[0]["failed"] == 3
    row = job_row(towns, 1)
    assert (row["dead"], row["errors"][0]["class"], row["errors"][0]["count"]) == (3, "UnknownIndexError", 3)
    assert "Unknown index 'towns'" in towns.run("jobs").stdout
    assert {one["error_class"] for one in towns.good("results", "1")} == {"UnknownIndexError"}
    unexplained = towns.run("explain", "1", "q4")
    assert unexplained.returncode == 1
    assert "it is dead (Unknown index 'towns'" in unexplained.stderr
    index.with_name("elsewhere").rename(index)
    assert towns.good("retry", "1", "--json") == [{"job_id": 1, "requeued": 3, "deadline": None}]
    towns.good("worker", "--until-empty", "--json")
    assert counts(towns, 1) == {"done": 3}


def test_a_broken_line_is_named_and_nothing_is_submitted_unless_told_so(town_hall: Any, write: Write) -> None:
    path = write([QUESTIONS[0], '{"question": ', QUESTIONS[1], '{"id": "x"}'])
    jobs_before = [row["job_id"] for row in town_hall.good("jobs", "--json")[0]]
    refused = town_hall.run("submit", path, *LEXICAL, "--queue", "broken")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Nothing was submitted: 2 questions" in refused.stderr
    assert "first line 2: not JSON" in refused.stderr
    assert [row["job_id"] for row in town_hall.good("jobs", "--json")[0]] == jobs_before
    done = town_hall.run("submit", path, *LEXICAL, "--queue", "broken", "--skip-bad", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["questions"] == 2
    assert "questions.jsonl line 2 was left out" in done.stderr
    assert "questions.jsonl line 4 was left out" in done.stderr


def test_csv_text_and_parquet_files_are_question_files_too(town_hall: Any, tmp_path: Path) -> None:
    csv, text, parquet = (tmp_path / f"questions.{suffix}" for suffix in ("csv", "txt", "parquet"))
    csv.write_text('id,question,answers\na,"Which river does Town 4 lie on?",River 4|River Four\n', encoding="utf-8")
    text.write_text("Which river does Town 4 lie on?\n\nWhere is Town 5?\n", encoding="utf-8")
    pq.write_table(pa.table({"id": ["x"], "question": ["Where is Town 6?"]}), parquet)
    jobs = [
        town_hall.good("submit", path, *LEXICAL, "--queue", "formats", "--json")[0] for path in (csv, text, parquet)
    ]
    assert [job["questions"] for job in jobs] == [1, 2, 1]
    town_hall.good("worker", "--queues", "formats", "--until-empty", "--json")
    ids = [[row["id"] for row in town_hall.good("results", str(job["job_id"]))] for job in jobs]
    assert ids == [["a"], ["q000001", "q000003"], ["x"]]
    (metrics,) = town_hall.good("results", str(jobs[0]["job_id"]), "--metrics", "--json")
    assert metrics["n"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((*INDEX, "--strategy", "brigde"), 2, "did you mean 'bridge'"),
        (("--index", "none"), 1, "Unknown index 'none'"),
        ((*INDEX, "--strategy", "naive-vector"), 1, "--add-strategy naive-vector"),
        ((*LEXICAL, "--param", "seedz=3"), 2, "seedz"),
        ((*LEXICAL, "--deadline", "-5"), 1, "it must be positive"),
        ((*LEXICAL, "--set", "queue.url=oracle://x"), 2, "not on 'oracle'"),
    ],
)
def test_a_submission_that_cannot_be_answered_is_refused_in_one_sentence(
    town_hall: Any, write: Write, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = town_hall.run("submit", write(QUESTIONS), *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("results", "99999"), 1, "There is no job 99999"),
        (("cancel", "99999"), 1, "There is no job 99999"),
        (("retry", "99999"), 1, "There is no job 99999"),
        (("explain", "99999", "q1"), 1, "There is no job 99999"),
        (("worker", "--queues", " , "), 2, "--queues takes names"),
    ],
)
def test_a_wrong_command_on_the_queue_gives_one_sentence_and_its_exit_code(
    town_hall: Any, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = town_hall.run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_questions_past_their_deadline_are_dead_in_the_list_of_jobs(town_hall: Any, write: Write) -> None:
    job = town_hall.good(
        "submit", write(QUESTIONS), *LEXICAL, "--queue", "late", "--deadline", "0.01", "--json"
    )[0]["job_id"]  # fmt: skip
    row = job_row(town_hall, job)
    assert (row["dead"], row["errors"][0]["class"]) == (3, "DeadlinePassed")
    shown = town_hall.run("jobs").stdout
    assert f"job {job}: 3 dead, DeadlinePassed: deadline passed" in shown


@pytest.mark.real_time
def test_submit_waits_for_a_worker_to_answer_all(town_hall: Any, write: Write) -> None:
    worker = town_hall.start("worker", "--queues", "wait")
    (job,) = town_hall.good("submit", write(QUESTIONS), *LEXICAL, "--queue", "wait", "--wait", "--json")
    assert counts(town_hall, job["job_id"]) == {"done": 3}
    time.sleep(1)
    ((row,),) = town_hall.good("jobs", "--workers", "--json")
    assert (row["process_id"], row["queues"], row["versions"]) == (worker.pid, ["wait"], {"towns": 1})
    worker.terminate()
    assert worker.wait(timeout=60) == 0


def test_stored_answers_can_be_queried_beside_the_tables_of_the_index(towns: Any, write: Write) -> None:
    towns.good("submit", write(QUESTIONS), *LEXICAL, "--json")
    towns.good("worker", "--until-empty", "--json")
    towns.good("submit", write(QUESTIONS[:1]), *INDEX, "--strategy", "bm25", "--json")
    (rows,) = towns.good("sql", "SELECT * FROM Results ORDER BY job_id, id", *INDEX, "--json")
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
    assert towns.good("sql", joined, *INDEX, "--json") == [[{"n": 3}]]


def test_a_query_on_the_results_of_an_empty_queue_finds_none(towns: Any) -> None:
    assert towns.good("sql", "SELECT id FROM results", *INDEX, "--json") == [[]]
