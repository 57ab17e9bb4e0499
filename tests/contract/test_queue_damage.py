"""A queue whose rows or pages are not what was written says so in one sentence; what may be asked again by name."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from queue_parts import Clock, Make
from sqlalchemy import text

from polyhop.schemas.errors import RetryRefusedError, StoreError, SubmissionError, UnknownJobError
from polyhop.warehouse.queue.queue import QuestionQueue, examine_queue


def damage(queue: QuestionQueue, statement: str) -> None:
    """What a fault of the disk, or a person with a database tool, leaves."""
    with queue._database.engine.begin() as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE results SET result_json = '{'",
        "UPDATE questions SET metadata_json = '[1'",
        "UPDATE jobs SET parameters_json = ''",
    ],
)
def test_a_row_that_cannot_be_read_is_one_sentence(
    queue: QuestionQueue, make: type[Make], url: str, statement: str
) -> None:
    job_id = queue.submit(make.spec, make.questions(2))
    queue.finish([make.finished(queue.claim(["default"], "w")[0])])
    assert examine_queue(url).questions == 2
    damage(queue, statement)
    for read in (lambda: [queue.job(job_id), *queue.results(job_id)], lambda: examine_queue(url)):
        with pytest.raises(StoreError, match=r"a row is damaged .*; stop its workers, then restore it from a backup"):
            read()


def test_a_worker_that_claims_what_cannot_be_read_is_told_in_one_sentence(
    queue: QuestionQueue, make: type[Make]
) -> None:
    queue.submit(make.spec, make.questions(1))
    damage(queue, "UPDATE jobs SET parameters_json = '{'")
    with pytest.raises(StoreError, match="a row is damaged"):
        queue.claim(["default"], "w")


def test_only_the_named_questions_are_asked_again_and_good_answers_never(
    queue: QuestionQueue, make: type[Make]
) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=1), make.questions(4))
    done, dead, gone, _ = queue.claim(["default"], "w")
    queue.finish([make.finished(done)])
    queue.fail([make.failed(dead), make.failed(gone)])
    for question_id, reason in (("q0", "it has an answer"), ("q3", "it is leased"), ("q9", "it does not exist")):
        with pytest.raises(RetryRefusedError, match=f"Question '{question_id}' of job 1 is not asked again: {reason}"):
            queue.retry(job_id, ["q1", question_id])
    assert queue.retry(job_id, ["q1"]) == 1
    assert [row.state.value for row in queue.results(job_id)] == ["done", "queued", "dead", "leased"]
    with pytest.raises(UnknownJobError):
        queue.retry(99, ["q1"])


def test_a_retry_may_bring_a_deadline_of_its_own(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(replace(make.spec, deadline_seconds=5), make.questions(1))
    clock.advance(5)
    queue.sweep()
    assert queue.retry(job_id, deadline_seconds=600) == 1
    clock.advance(599)
    (claimed,) = queue.claim(["default"], "w")
    assert (claimed.deadline, queue.job(job_id).deadline_seconds) == (clock.now + 1, 600)
    for refused in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SubmissionError, match="must be positive"):
            queue.retry(job_id, deadline_seconds=refused)


def test_an_examination_counts_answers_that_belong_to_no_finished_question(
    queue: QuestionQueue, make: type[Make], url: str
) -> None:
    queue.submit(make.spec, make.questions(1))
    queue.finish([make.finished(question) for question in queue.claim(["default"], "w")])
    damage(queue, "DELETE FROM results WHERE question_id = 'q0'")
    assert examine_queue(url).faults == ("1 question is finished without an answer, or has one without being finished",)


def test_an_examination_makes_no_tables(queue: QuestionQueue, url: str) -> None:
    damage(queue, "UPDATE schema_migrations SET version = version + 100")
    found = examine_queue(url)
    assert (found.version > found.newest, found.jobs) == (True, 0)
    damage(queue, "DROP TABLE schema_migrations")
    assert examine_queue(url).version == 0


def test_bytes_that_are_no_text_are_one_sentence(open_one: Callable[..., QuestionQueue], make: type[Make]) -> None:
    """SQLite keeps whatever bytes it is given; PostgreSQL refuses them."""
    queue = open_one()
    if queue._database.row_locks:
        return
    job_id = queue.submit(make.spec, make.questions(1))
    damage(queue, "UPDATE questions SET question = CAST(X'57686FFF' AS TEXT)")
    with pytest.raises(StoreError, match=r"Could not decode to UTF-8 .*restore it from a backup"):
        list(queue.results(job_id))


def test_a_file_whose_pages_are_damaged_is_named_by_the_examination(
    tmp_path: Path, open_one: Callable[..., QuestionQueue], make: type[Make]
) -> None:
    queue = open_one()
    if queue._database.row_locks:
        return
    queue.submit(make.spec, make.questions(500))
    queue.close()
    path = tmp_path / "queue.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'questions_state'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as stream:
        stream.seek((root - 1) * size)
        stream.write(b"\xff" * 64)
    assert examine_queue(f"sqlite:///{path}").faults != ()
