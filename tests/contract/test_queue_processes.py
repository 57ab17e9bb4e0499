"""Several workers at once, killed ones, restarted databases, commits whose end nobody saw."""

import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from command_processes import line_of
from queue_parts import Make
from sqlalchemy import event

from polyhop.schemas.errors import StoreUnavailableError
from polyhop.schemas.queue import QuestionState
from polyhop.warehouse.queue.queue import QuestionQueue, open_queue
from polyhop.warehouse.queue.schema import Transaction

pytestmark = pytest.mark.slow

ANSWER_ALL = """
import sys
from polyhop.schemas.queue import FinishedQuestion
from polyhop.warehouse.queue.queue import open_queue
queue, me = open_queue(sys.argv[1]), sys.argv[2]
while queue.count_open(["default"]):
    for batch in iter(lambda: queue.claim(["default"], me, 7, lease_seconds=2), []):
        accepted = queue.finish([FinishedQuestion(q.lease_token, me, 1, "bridge", 0.1) for q in batch])
        for q in batch:
            print(q.question_id, q.lease_token in accepted, flush=True)
queue.close()
"""

CLAIM_AND_HANG = """
import sys, time
from polyhop.warehouse.queue.queue import open_queue
queue = open_queue(sys.argv[1])
print(len(queue.claim(["default"], "doomed", 5, lease_seconds=1)), flush=True)
time.sleep(600)
"""


def answer_all(queue: QuestionQueue, make: type[Make], name: str, seen: list[str]) -> None:
    """As a worker thread does, until nothing is open."""
    while queue.count_open(["default"]):
        batch = queue.claim(["default"], name, 7)
        seen.extend(question.question_id for question in batch)
        queue.finish([make.finished(question, name) for question in batch])


def test_threads_never_get_the_same_question(open_one: Callable[..., QuestionQueue], make: type[Make]) -> None:
    queue = open_one()
    job_id = queue.submit(make.spec, make.questions(300))
    seen: list[Any] = []
    threads = [threading.Thread(target=answer_all, args=(queue, make, f"w{n}", seen)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(seen) == Counter(f"q{n}" for n in range(300))
    assert queue.job(job_id).counts[QuestionState.DONE] == 300
    assert {row.attempts for row in queue.results(job_id)} == {1}


@pytest.mark.real_time
def test_processes_never_get_the_same_question(
    open_one: Callable[..., QuestionQueue],
    url: str,
    start_python: Callable[..., subprocess.Popen[str]],
    make: type[Make],
) -> None:
    queue = open_one()
    job_id = queue.submit(make.spec, make.questions(400))
    workers = [start_python(ANSWER_ALL, url, f"w{n}") for n in range(3)]
    printed = []
    for worker in workers:
        out, complaints = worker.communicate(timeout=120)
        assert worker.returncode == 0, complaints
        printed += out.splitlines()
    assert Counter(printed) == Counter(f"q{n} True" for n in range(400))
    assert {row.state for row in queue.results(job_id)} == {QuestionState.DONE}


@pytest.mark.real_time
def test_questions_of_a_killed_worker_are_taken_over_when_its_leases_end(
    open_one: Callable[..., QuestionQueue],
    url: str,
    start_python: Callable[..., subprocess.Popen[str]],
    make: type[Make],
) -> None:
    queue = open_one()
    job_id = queue.submit(make.spec, make.questions(8))
    doomed = start_python(CLAIM_AND_HANG, url)
    assert line_of(doomed) == "5\n"
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    assert len(queue.claim(["default"], "w", 8)) == 3
    deadline = time.monotonic() + 30
    taken: list[Any] = []
    while not taken and time.monotonic() < deadline:
        time.sleep(0.1)
        taken = queue.claim(["default"], "w", 8)
    assert [(question.question_id, question.attempt) for question in taken] == [(f"q{n}", 2) for n in range(5)]
    assert queue.job(job_id).counts[QuestionState.LEASED] == 8


def test_one_key_from_many_submitters_at_once_is_one_job(
    open_one: Callable[..., QuestionQueue], make: type[Make]
) -> None:
    queue = open_one()
    found = []

    def submit() -> None:
        found.append(queue.submit(replace(make.spec, key="same"), make.questions(50)))

    threads = [threading.Thread(target=submit) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 6
    assert [job.question_count for job in queue.jobs()] == [50]


def test_submitters_at_once_do_not_exceed_the_depth(open_one: Callable[..., QuestionQueue], make: type[Make]) -> None:
    queue = open_one(max_depth=100)
    refused = []

    def submit() -> None:
        try:
            queue.submit(make.spec, make.questions(30))
        except Exception as error:  # noqa: BLE001 - collected for the assertion
            refused.append(type(error).__name__)

    threads = [threading.Thread(target=submit) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["QueueFullError"] * 3
    assert queue.count_open(["default"]) == 90


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


def test_work_whose_commit_was_not_confirmed_is_neither_lost_nor_done_twice(
    queue: QuestionQueue, make: type[Make]
) -> None:
    LostConfirmation(queue)
    job_id = queue.submit(make.spec, make.questions(4))
    assert [job.job_id for job in queue.jobs()] == [job_id]
    LostConfirmation(queue)
    batch = queue.claim(["default"], "w", 2)
    assert [(question.question_id, question.attempt) for question in batch] == [("q0", 1), ("q1", 1)]
    LostConfirmation(queue)
    assert queue.finish([make.finished(question) for question in batch]) == {q.lease_token for q in batch}
    counts = queue.job(job_id).counts
    assert (counts[QuestionState.DONE], counts[QuestionState.QUEUED], counts[QuestionState.LEASED]) == (2, 2, 0)


@pytest.mark.real_time
@pytest.mark.postgres
def test_a_restart_of_postgresql_is_survived_by_itself(
    postgres_server: Any, postgres_url: str, make: type[Make]
) -> None:
    with open_queue(postgres_url) as queue:
        job_id = queue.submit(make.spec, make.questions(3000))
        seen: list[Any] = []
        worker = threading.Thread(target=answer_all, args=(queue, make, "w", seen))
        worker.start()
        while len(seen) < 100:
            time.sleep(0.01)
        postgres_server.stop()
        before = len(seen)
        time.sleep(1)
        assert len(seen) == before
        postgres_server.ensure_postgres_running()
        worker.join(timeout=120)
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
def test_a_deadlock_is_tried_again(postgres_url: str, make: type[Make]) -> None:
    """Two transactions that lock two jobs in opposite order: PostgreSQL ends one, which then succeeds."""
    with open_queue(postgres_url) as queue:
        for _ in range(2):
            queue.submit(make.spec, make.questions(1))
        meeting = threading.Barrier(2, timeout=30)
        tries = []

        def lock_both(first: int, second: int) -> Callable[[Transaction], None]:  # type: ignore[return]
            def work(tx: Transaction) -> None:
                tries.append(tx.attempt)
                tx.rows("jobs.touch", job_id=first, now=tx.now)
                if tx.attempt == 1:
                    meeting.wait()
                tx.rows("jobs.touch", job_id=second, now=tx.now)

            queue.run(work)

        threads = [threading.Thread(target=lock_both, args=pair) for pair in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert sorted(tries)[:3] == [1, 1, 2]


def test_a_locked_sqlite_file_is_waited_for_and_then_reported(tmp_path: Path, make: type[Make]) -> None:
    url = f"sqlite:///{tmp_path / 'queue.sqlite'}"
    with open_queue(url, patience_seconds=0.3) as hasty, open_queue(url, patience_seconds=30) as patient:
        blocker = sqlite3.connect(tmp_path / "queue.sqlite", isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        assert hasty.jobs() == []
        with pytest.raises(StoreUnavailableError, match="busy or unavailable"):
            hasty.submit(make.spec, make.questions(1))
        timer = threading.Timer(0.5, blocker.execute, ["COMMIT"])
        timer.start()
        assert patient.submit(make.spec, make.questions(1)) == 1
        timer.join()
        blocker.close()


def test_only_a_submission_waits_for_the_disk(tmp_path: Path, make: type[Make]) -> None:
    with open_queue(f"sqlite:///{tmp_path / 'queue.sqlite'}") as queue:
        said = []
        event.listen(
            queue._database.engine,
            "before_cursor_execute",
            lambda _connection, _cursor, statement, *_: said.append(statement),
        )
        queue.submit(make.spec, make.questions(1))
        queue.claim(["default"], "w")
        queue.jobs()
        pragmas = [statement for statement in said if statement.startswith(("PRAGMA", "BEGIN"))]
        assert pragmas == [
            "PRAGMA synchronous = FULL",
            "BEGIN IMMEDIATE",
            "PRAGMA synchronous = NORMAL",
            "BEGIN IMMEDIATE",
            "BEGIN",
        ]
