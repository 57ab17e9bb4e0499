"""Rows of the queue that can no longer be read: listed with what to do, passed over by workers, asked again."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from queue_parts import Clock, Make, result_of
from sqlalchemy import text

from polyhop.schemas.errors import RetryRefusedError, StoreError, SubmissionError, UnknownJobError
from polyhop.schemas.queue import Damage, QuestionState, ResultRow
from polyhop.warehouse.queue.queue import QuestionQueue, examine_queue

ANSWER = {"question": "Who?", "answer": "yes", "strategy": "bridge", "version": 7}
ANSWER |= {"passages": [], "evidence": {}, "seconds": {}}
BROKEN = ['{"answer": "y', "", "[1]", "null", "\ud800", '{"passages": 5}', "[" * 100_000]


def damage_of(row: ResultRow) -> Damage:
    assert row.damage is not None
    return row.damage


def damage(queue: QuestionQueue, statement: str, **values: object) -> None:
    """What a fault of the disk, or a person with a database tool, leaves."""
    with queue._database.engine.begin() as connection:
        connection.execute(text(statement), values)


def answer_all(queue: QuestionQueue, make: type[Make], result: dict[str, Any] | None = None) -> None:
    claimed = queue.claim(["default"], "w")
    queue.finish([replace(make.finished(question), result=result or ANSWER) for question in claimed])


def spoil_answer(queue: QuestionQueue, question_id: str, stored: object = "{") -> None:
    damage(queue, "UPDATE results SET result_json = :stored WHERE question_id = :id", stored=stored, id=question_id)


@pytest.mark.parametrize("stored", [each for each in BROKEN if each.isprintable()])
def test_one_answer_that_cannot_be_read_is_listed_and_the_others_come(
    queue: QuestionQueue, make: type[Make], stored: object
) -> None:
    job_id = queue.submit(make.spec, make.questions(3))
    answer_all(queue, make)
    spoil_answer(queue, "q1", stored)
    first, bad, last = queue.results(job_id)
    assert (first.damage, last.damage, first.result, last.result) == (None, None, ANSWER, ANSWER)
    assert (bad.state, bad.answer, bad.result) == (QuestionState.DONE, "yes", {})
    assert damage_of(bad).is_of_answer
    assert "its stored answer" in damage_of(bad).fault
    (damaged,) = queue.damaged(job_id)
    assert damaged.sentence() == (
        f"Question 'q1' of job 1 is damaged in the queue: {damage_of(bad).fault}; "
        "polyhop retry 1 --question q1 asks it again."
    )
    assert queue.damaged_answers(job_id) == ["q1"]
    assert result_of(queue, job_id, "q1").damage == bad.damage


def test_a_damaged_answer_is_asked_again_and_then_whole(queue: QuestionQueue, make: type[Make], clock: Clock) -> None:
    job_id = queue.submit(replace(make.spec, deadline_seconds=60), make.questions(3))
    answer_all(queue, make)
    spoil_answer(queue, "q1")
    damage(queue, "DELETE FROM results WHERE question_id = 'q2'")
    clock.advance(600)
    assert queue.damaged_answers(job_id) == ["q1", "q2"]
    assert queue.retry(job_id) == 0
    assert queue.retry(job_id, queue.damaged_answers(job_id)) == 2
    claimed = queue.claim(["default"], "v")
    assert [(q.question_id, q.attempt, q.deadline) for q in claimed] == [
        ("q1", 1, clock.now + 60),
        ("q2", 1, clock.now + 60),
    ]
    assert len(queue.finish([replace(make.finished(q, "again"), result=ANSWER) for q in claimed])) == 2
    assert [(row.answer, row.damage) for row in queue.results(job_id)] == [
        *(("yes", None), ("again", None), ("again", None))
    ]


def test_an_answer_that_lacks_what_redrawing_takes_may_be_asked_again_by_name(
    queue: QuestionQueue, make: type[Make]
) -> None:
    job_id = queue.submit(make.spec, make.questions(1))
    answer_all(queue, make, {name: value for name, value in ANSWER.items() if name != "passages"})
    assert queue.retry(job_id, ["q0"]) == 1
    assert result_of(queue, job_id, "q0").state is QuestionState.QUEUED


def test_only_the_named_questions_are_asked_again_and_good_answers_never(
    queue: QuestionQueue, make: type[Make]
) -> None:
    job_id = queue.submit(replace(make.spec, max_attempts=1), make.questions(4))
    done, dead, gone, _ = queue.claim(["default"], "w")
    queue.finish([replace(make.finished(done), result=ANSWER)])
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


@pytest.mark.parametrize("column", ["answers_json", "supporting_json", "metadata_json"])
def test_what_a_file_said_beside_a_question_may_be_lost_and_it_is_answered_all_the_same(
    queue: QuestionQueue, make: type[Make], column: str
) -> None:
    job_id = queue.submit(make.spec, make.questions(2))
    damage(queue, f"UPDATE questions SET {column} = '[1' WHERE question_id = 'q0'")
    answer_all(queue, make)
    bad, good = queue.results(job_id)
    assert (bad.answer, damage_of(bad).is_of_answer, good.damage) == ("yes", False, None)
    assert "cannot be read" in damage_of(bad).fault
    assert queue.damaged_answers(job_id) == []
    assert [row.advice for row in queue.damaged(job_id)] == ["submit it again"]


def test_questions_whose_job_cannot_be_read_are_dead_and_the_worker_goes_on(
    queue: QuestionQueue, make: type[Make]
) -> None:
    bad = queue.submit(replace(make.spec, priority=1, parameters={"k1": 1.2}), make.questions(3, "bad"))
    good = queue.submit(make.spec, make.questions(2, "good"))
    damage(queue, "UPDATE jobs SET parameters_json = '{\"k1\": ' WHERE job_id = :job_id", job_id=bad)
    claimed = [q.question_id for _ in range(3) for q in queue.claim(["default"], "w", 2)]
    assert claimed == ["good0", "good1"]
    rows = list(queue.results(bad))
    assert {(row.state.value, row.error_class) for row in rows} == {("dead", "DamagedRow")}
    assert str(rows[0].error).startswith("damaged in the queue: its job's parameters cannot be read (")
    job = queue.job(bad)
    assert (job.parameters, job.errors[0].count) == ({}, 3)
    assert str(job.damage).startswith("its parameters cannot be read (")
    assert [job.job_id for job in queue.jobs()] == [good, bad]
    assert queue.job(good).damage is None


def test_a_list_of_a_worker_that_cannot_be_read_hides_no_worker(queue: QuestionQueue) -> None:
    queue.report_worker("w", host="h", process_id=1, queues=["a"], versions={"wiki": 1})
    damage(queue, "UPDATE workers SET queues_json = '[', versions_json = '5'")
    assert [(worker.worker_id, worker.queues, worker.versions) for worker in queue.workers()] == [("w", (), {})]


def test_an_examination_names_what_cannot_be_read(queue: QuestionQueue, make: type[Make], url: str) -> None:
    job_id = queue.submit(make.spec, make.questions(3))
    other = queue.submit(make.spec, make.questions(1))
    answer_all(queue, make)
    found = examine_queue(url)
    assert (found.version, found.jobs, found.questions, found.faults, found.damaged) == (found.newest, 2, 4, (), ())
    spoil_answer(queue, "q2")
    damage(queue, "UPDATE jobs SET parameters_json = '7' WHERE job_id = :job_id", job_id=other)
    damaged = examine_queue(url).damaged
    assert [(row.job_id, row.question_id) for row in damaged] == [(other, None), (job_id, "q2")]
    damage(queue, "DELETE FROM results WHERE question_id = 'q1'")
    assert examine_queue(url).faults == ("1 question is finished without an answer, or has one without being finished",)


def test_an_examination_makes_no_tables(queue: QuestionQueue, url: str) -> None:
    damage(queue, "UPDATE schema_migrations SET version = version + 100")
    found = examine_queue(url)
    assert (found.version > found.newest, found.jobs) == (True, 0)
    damage(queue, "DROP TABLE schema_migrations")
    assert examine_queue(url).version == 0


def test_bytes_that_are_no_text_are_damage_of_one_row_only(
    tmp_path: Path, open_one: Callable[..., QuestionQueue], make: type[Make], url: str
) -> None:
    """SQLite keeps whatever bytes it is given; PostgreSQL refuses them."""
    queue = open_one()
    if queue._database.row_locks:
        with pytest.raises(StoreError):
            queue._do(lambda tx: tx.connection.execute(text("SELECT convert_from('\\xff'::bytea, 'UTF8')")))
        return
    job_id = queue.submit(make.spec, make.questions(3))
    damage(queue, "UPDATE questions SET question = CAST(X'57686FFF' AS TEXT) WHERE question_id = 'q1'")
    answer_all(queue, make)
    damage(queue, "UPDATE results SET result_json = CAST(X'7BFF7D' AS TEXT) WHERE question_id = 'q2'")
    first, second, third = queue.results(job_id)
    assert (first.damage, second.question, second.state) == (None, "Who\ufffd", QuestionState.DEAD)
    assert second.error == "damaged in the queue: its question is not readable text; submit it again"
    assert "bytes that are not text" in damage_of(third).fault
    json.dumps([second.question, second.error, damage_of(third).fault]).encode()


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
    with_fault = examine_queue(f"sqlite:///{path}")
    assert with_fault.faults != ()
    assert with_fault.damaged == ()
