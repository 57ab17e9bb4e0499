"""One queue, or one cache of replies, and many at it: threads, killed processes, restarted databases, lost commits."""

import random
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from command_processes import line_of, remaining_output
from queue_parts import SPEC, finished, questions, states
from sqlalchemy import event

from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.errors import QueueFullError, StoreUnavailableError
from polyhop.schemas.queue import QuestionState
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import Transaction

pytestmark = pytest.mark.slow
Start = Callable[..., subprocess.Popen[str]]
Open = Callable[..., QuestionQueue]

ANSWER_ALL = """
queue, me = open_queue(sys.argv[1]), sys.argv[2]
while queue.count_open(["default"]):
    for batch in iter(lambda: queue.claim(["default"], me, 7, lease_seconds=2), []):
        accepted = queue.finish([FinishedQuestion(q.lease_token, me, 1, "bridge", 0.1) for q in batch])
        for q in batch:
            print(q.question_id, q.lease_token in accepted, flush=True)
queue.close()
"""
CLAIM_AND_HANG = """
queue = open_queue(sys.argv[1])
print(len(queue.claim(["default"], "doomed", 5, lease_seconds=1)), flush=True)
time.sleep(600)
"""
SUBMIT_SLOWLY = """
from polyhop.warehouse.queue import schema as transactions
run_many = transactions.Transaction.run_many
def half(self, name, rows):
    rows = list(rows)
    run_many(self, name, rows[: len(rows) // 2])
    print("half of it is written", flush=True)
    time.sleep(600)
transactions.Transaction.run_many = half
open_queue(sys.argv[1]).submit(JobSpec("wiki", key="k"), [NewQuestion(str(n), "Why?") for n in range(12_000)])
"""
CHAT = """
from pydantic import BaseModel
from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import Chat
from polyhop.warehouse.models.endpoints import Completion, EndpointReply

class Reply(BaseModel):
    text: str

TASK = ChatTask("kg.extract", Prompt("p", "{{text}}"), Reply)

class Echo:
    def call(self, messages, name, reply, longest, on_text):
        time.sleep(0.002)
        text = Reply(text=messages[0]["content"]).model_dump_json()
        return EndpointReply(Completion(text, "", False), text, 4, 4)

cache = ReplyCache(Path(sys.argv[1]))
chat = Chat("fake/model", ModelSettings(concurrency=4), cache, Budget(None, None, (2, 3)), completions=Echo())
for start in range(int(sys.argv[2]), int(sys.argv[3]), 10):
    texts = [str(n) for n in range(start, start + 10)]
    outcomes = chat.ask([ChatRequest(TASK, text, (("text", text),)) for text in texts])
    assert [outcome.reply.text for outcome in outcomes] == texts
    print(*texts, sep="\\n", flush=True)
print("calls", chat.spent.calls, flush=True)
"""
HANG = CHAT.replace("time.sleep(0.002)", 'sys.stdout.write("sent\\n"); sys.stdout.flush(); time.sleep(600)')
WRITE_FOR_EVER = """
from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.text import content_hash
cache, n = ReplyCache(Path(sys.argv[1])), 0
while True:
    source = ReplySource(content_hash(f"{sys.argv[2]} {n}"), "m", "t", "p", 1)
    cache.put_call(source, f"raw {n}", Usage(1, 1, 1), "")
    cache.put_reply(source, f'{{"n":{n}}}', Repair.AS_IS, 1, Usage(1, 1, 1))
    print(n, flush=True)
    n += 1
"""


def killed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()


def at_once(count: int, work: Callable[[int], object]) -> list[Any]:
    """What a function gives, or the class of its error, in threads that are numbered."""
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, number) for number in range(count)]
    return [future.result() if future.exception() is None else type(future.exception()) for future in futures]


@pytest.mark.real_time
def test_no_question_goes_to_two_processes(open_one: Open, url: str, start_python: Start) -> None:
    queue = open_one()
    job_id = queue.submit(SPEC, questions(400))
    workers = [start_python(ANSWER_ALL, url, f"w{n}") for n in range(3)]
    printed = [worker.communicate(timeout=300) for worker in workers]
    assert [complaints for _, complaints in printed] == [""] * 3
    assert Counter("".join(out for out, _ in printed).splitlines()) == Counter(f"q{n} True" for n in range(400))
    assert {(row.state, row.attempts) for row in queue.results(job_id)} == {(QuestionState.DONE, 1)}


@pytest.mark.real_time
def test_questions_of_a_killed_worker_are_taken_over(open_one: Open, url: str, start_python: Start) -> None:
    queue = open_one()
    job_id = queue.submit(SPEC, questions(8))
    doomed = start_python(CLAIM_AND_HANG, url)
    assert line_of(doomed) == "5\n"
    killed(doomed)
    assert len(queue.claim(["default"], "w", 8)) == 3
    deadline = time.monotonic() + 30
    while not (taken := queue.claim(["default"], "w", 8)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [(question.question_id, question.attempt) for question in taken] == [(f"q{n}", 2) for n in range(5)]
    assert states(queue, job_id) == ["leased"] * 8


@pytest.mark.rare
def test_a_killed_submitter_leaves_nothing(open_one: Open, url: str, start_python: Start) -> None:
    queue = open_one()
    submitter = start_python(SUBMIT_SLOWLY, url)
    assert line_of(submitter) == "half of it is written\n"
    assert queue.jobs() == []
    killed(submitter)
    assert (queue.jobs(), queue.count_open(["default"])) == ([], 0)
    job_id = queue.submit(replace(SPEC, key="k"), questions(2))
    assert queue.job(job_id).counts[QuestionState.QUEUED] == 2


def test_submitters_at_once_make_one_job_of_a_key_within_the_depth(open_one: Open) -> None:
    queue = open_one(max_depth=100)
    assert at_once(6, lambda _: queue.submit(replace(SPEC, key="same"), questions(10))) == [1] * 6
    assert [job.question_count for job in queue.jobs()] == [10]
    submitted = at_once(6, lambda _: queue.submit(SPEC, questions(30)))
    assert (submitted.count(QueueFullError), queue.count_open(["default"])) == (3, 100)


class LostConfirmation:
    """Lets the next commit happen, then says that the connection broke before it was confirmed."""

    def __init__(self, queue: QuestionQueue) -> None:
        self.dialect = queue._database.engine.dialect
        self.commit = self.dialect.do_commit
        self.dialect.do_commit = self.lose  # type: ignore[assignment, method-assign]

    def lose(self, connection: Any) -> None:
        self.commit(connection)
        self.dialect.do_commit = self.commit  # type: ignore[method-assign]
        if self.dialect.name == "sqlite":
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        connection.dbapi_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_work_whose_commit_was_not_confirmed_is_neither_lost_nor_done_twice(queue: QuestionQueue) -> None:
    LostConfirmation(queue)
    job_id = queue.submit(SPEC, questions(4))
    assert [job.job_id for job in queue.jobs()] == [job_id]
    LostConfirmation(queue)
    batch = queue.claim(["default"], "w", 2)
    assert [(question.question_id, question.attempt) for question in batch] == [("q0", 1), ("q1", 1)]
    LostConfirmation(queue)
    assert queue.finish([finished(question) for question in batch]) == {q.lease_token for q in batch}
    assert states(queue, job_id) == ["done", "done", "queued", "queued"]


@pytest.mark.rare
@pytest.mark.real_time
@pytest.mark.postgres
def test_a_restart_of_postgresql_is_survived_by_itself(postgres_server: Any, postgres_url: str) -> None:
    with open_queue(postgres_url) as queue:
        job_id = queue.submit(SPEC, questions(3000))
        seen: list[Any] = []

        def answer_all() -> None:
            while queue.count_open(["default"]):
                batch = queue.claim(["default"], "w", 7)
                seen.extend(batch)
                queue.finish([finished(question) for question in batch])

        worker = threading.Thread(target=answer_all)
        worker.start()
        while len(seen) < 100:
            time.sleep(0.01)
        postgres_server.stop()
        before = len(seen)
        time.sleep(1)
        assert len(seen) == before
        postgres_server.ensure_postgres_running()
        worker.join(timeout=300)
        assert not worker.is_alive()
        assert queue.job(job_id).counts[QuestionState.DONE] == 3000


@pytest.mark.postgres
def test_a_database_that_stays_away_is_reported_without_its_password(postgres_server: Any, postgres_url: str) -> None:
    queue = open_queue(postgres_url.replace("postgres:@", "postgres:secret@"), patience_seconds=0.5)
    postgres_server.stop()
    try:
        with pytest.raises(StoreUnavailableError, match="busy or unavailable") as caught:
            queue.jobs()
        assert caught.value.retryable
        assert "secret" not in str(caught.value)
    finally:
        postgres_server.ensure_postgres_running()
        queue.close()


@pytest.mark.postgres
def test_a_deadlock_is_tried_again(postgres_url: str) -> None:
    """Two transactions that lock two jobs in opposite order: PostgreSQL ends one, which then succeeds."""
    with open_queue(postgres_url) as queue:
        jobs = [queue.submit(SPEC, questions(1)) for _ in range(2)]
        meeting = threading.Barrier(2, timeout=30)
        tries = []

        def lock_both(number: int) -> None:
            def work(tx: Transaction) -> None:
                tries.append(tx.attempt)
                tx.rows("jobs.touch", job_id=jobs[number], now=tx.now)
                if tx.attempt == 1:
                    meeting.wait()
                tx.rows("jobs.touch", job_id=jobs[1 - number], now=tx.now)

            queue.run(work)

        assert (at_once(2, lock_both), sorted(tries)[:3]) == ([None, None], [1, 1, 2])


def test_a_locked_sqlite_file_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'queue.sqlite'}"
    with open_queue(url, patience_seconds=0.3) as hasty, open_queue(url, patience_seconds=30) as patient:
        blocker = sqlite3.connect(tmp_path / "queue.sqlite", isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        assert hasty.jobs() == []
        with pytest.raises(StoreUnavailableError, match="busy or unavailable"):
            hasty.submit(SPEC, questions(1))
        timer = threading.Timer(0.5, blocker.execute, ["COMMIT"])
        timer.start()
        assert patient.submit(SPEC, questions(1)) == 1
        timer.join()
        blocker.close()


def test_only_a_submission_waits_for_the_disk(tmp_path: Path) -> None:
    with open_queue(f"sqlite:///{tmp_path / 'queue.sqlite'}") as queue:
        said = list[str]()
        event.listen(queue._database.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
        queue.submit(SPEC, questions(1))
        queue.claim(["default"], "w")
        queue.jobs()
        begun = [each for each in said if each.startswith(("PRAGMA", "BEGIN"))]
        writes = ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE", "PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE"]
        assert begun == [*writes, "BEGIN"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def journal(path: Path) -> tuple[int, ...]:
    """(calls that ended, replies, raw replies, failures) as SQLite sees them; the file is whole."""
    tables = ("calls WHERE error NOT IN ('InFlight', 'OutcomeUnknown')", "replies", "raw_replies", "failures")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return tuple(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


@pytest.mark.rare
def test_processes_with_overlapping_requests_lose_and_double_nothing(path: Path, start_python: Start) -> None:
    processes = [start_python(CHAT, path, first, last) for first, last in ((0, 60), (20, 80), (0, 80))]
    printed = [process.communicate(timeout=300) for process in processes]
    assert [errors for _, errors in printed] == [""] * 3
    assert (sum(int(out.split()[-1]) for out, _ in printed), journal(path)) == (80, (80, 80, 80, 0))


def test_an_acknowledged_reply_survives_a_kill_at_any_moment(path: Path, start_python: Start) -> None:
    chance = random.Random(13)
    for run in range(2):
        process = start_python(WRITE_FOR_EVER, path, run)
        first = line_of(process)
        time.sleep(chance.random() * 0.3)
        process.kill()
        rest, errors = remaining_output(process)
        assert errors == ""
        acknowledged = [int(line) for line in (first + rest).split("\n")[:-1]]
        cache = ReplyCache(path)
        replies = cache.replies([content_hash(f"{run} {n}") for n in acknowledged])
        found = [replies[content_hash(f"{run} {n}")] for n in acknowledged]
        assert [reply.text for reply in found] == [f'{{"n":{n}}}' for n in acknowledged]
        assert {(reply.repair, reply.usage) for reply in found} == {(Repair.AS_IS, Usage(1, 1, 1))}
        cache.close()
        calls, reply_count, raw_count, _ = journal(path)
        assert calls == raw_count
        assert 0 <= calls - reply_count <= run + 1


@pytest.mark.rare
def test_after_kills_only_the_calls_in_flight_are_paid_again(path: Path, start_python: Start) -> None:
    chance = random.Random(7)
    kills = 4
    for _ in range(kills):
        process = start_python(CHAT, path, 0, 200)
        line_of(process)
        time.sleep(chance.random() * 0.2)
        killed(process)
    process = start_python(CHAT, path, 0, 200)
    _, errors = process.communicate(timeout=300)
    assert errors == ""
    calls, replies, raw_replies, failures = journal(path)
    assert (replies, failures, calls) == (200, 0, raw_replies)
    assert 200 <= calls <= 200 + 4 * kills


@pytest.mark.rare
def test_calls_of_a_killed_process_alone_are_booked_at_their_worst_case(path: Path, start_python: Start) -> None:
    dead, alive = start_python(HANG, path, 0, 10), start_python(HANG, path, 10, 20)
    for process in (dead, alive):
        assert line_of(process) == "sent\n"  # one call goes alone until there is a reply
    killed(dead)
    cache = ReplyCache(path)
    found = cache.abandon_dead_calls()
    assert (found, cache.abandon_dead_calls()) == (Usage(1, 8, 4096, (8 * 2 + 4096 * 3) / 1e6), Usage())
    killed(alive)
    assert cache.abandon_dead_calls().calls == 1
    (counts,) = cache.by_task()
    assert (counts.spent.calls, counts.unknown_calls, counts.spent.completion_tokens) == (2, 2, 2 * 4096)
    assert cache.answered_calls("fake/model") == {}
    cache.close()
