"""Submitting: whole or nothing, once per key, within the depth."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from command_processes import line_of
from queue_parts import Clock, Make, result_of

from polyhop.schemas.errors import ContractError, IdempotencyKeyError, QueueFullError, SubmissionError, UnknownJobError
from polyhop.schemas.queue import NewQuestion, QuestionState, ResultRow
from polyhop.warehouse.queue import queue as submission
from polyhop.warehouse.queue.queue import QuestionQueue

pytestmark = pytest.mark.slow

SUBMIT_SLOWLY = """
import sys, time
from polyhop.schemas.queue import JobSpec, NewQuestion
from polyhop.warehouse.queue import schema as transactions
from polyhop.warehouse.queue.queue import open_queue
run_many = transactions.Transaction.run_many
def half(self, name, rows):
    rows = list(rows)
    run_many(self, name, rows[: len(rows) // 2])
    print("half of it is written", flush=True)
    time.sleep(600)
transactions.Transaction.run_many = half
open_queue(sys.argv[1]).submit(JobSpec("wiki", key="k"), [NewQuestion(str(n), "Why?") for n in range(12_000)])
"""


def test_a_submitted_question_comes_back_with_all_that_was_said_about_it(
    queue: QuestionQueue, make: type[Make], clock: Clock
) -> None:
    question = NewQuestion("a", "Who?", "Topic", ("Ann", "Änn"), ("p1",), {"hops": 2})
    job_id = queue.submit(replace(make.spec, parameters={"damping": 0.5}), [question])
    assert list(queue.results(job_id)) == [
        ResultRow(
            job_id=job_id,
            question_id="a",
            ordinal=0,
            question="Who?",
            topic="Topic",
            answers=("Ann", "Änn"),
            supporting=("p1",),
            metadata={"hops": 2},
            state=QuestionState.QUEUED,
            attempts=0,
            error=None,
            error_class=None,
            finished_at=None,
            answer=None,
            version=None,
            strategy=None,
            worker_id=None,
            seconds=None,
            result={},
        )
    ]
    job = queue.job(job_id)
    assert (job.index, job.parameters, job.question_count, job.submitted_at) == ("wiki", {"damping": 0.5}, 1, clock.now)


def test_the_least_confidence_of_a_job_reaches_the_worker(queue: QuestionQueue, make: type[Make]) -> None:
    for confidence in (0.3, None):
        job_id = queue.submit(replace(make.spec, min_confidence=confidence), make.questions(1))
        assert queue.job(job_id).min_confidence == confidence
    claimed = queue.claim(["default"], "w", 2)
    assert [question.min_confidence for question in claimed] == [0.3, None]


def test_jobs_are_numbered_as_submitted(queue: QuestionQueue, make: type[Make]) -> None:
    assert [queue.submit(make.spec, make.questions(2)) for _ in range(3)] == [1, 2, 3]
    assert [job.job_id for job in queue.jobs()] == [3, 2, 1]
    assert [job.job_id for job in queue.jobs(limit=1)] == [3]


def test_the_same_key_again_adds_nothing(queue: QuestionQueue, make: type[Make]) -> None:
    spec = replace(make.spec, key="monday")
    first = queue.submit(spec, make.questions(3))
    again = queue.submit(replace(spec, name="other name", priority=5), make.questions(3))
    assert again == first
    assert [job.question_count for job in queue.jobs()] == [3]


def test_a_key_used_for_something_else_is_refused_by_name(queue: QuestionQueue, make: type[Make]) -> None:
    spec = replace(make.spec, key="monday")
    queue.submit(spec, make.questions(3))
    for other, questions in ((spec, make.questions(4)), (replace(spec, strategy="bm25"), make.questions(3))):
        with pytest.raises(IdempotencyKeyError, match="'monday' already belongs to job 1"):
            queue.submit(other, questions)
    assert len(queue.jobs()) == 1


def test_equal_jobs_without_a_key_are_two_jobs(queue: QuestionQueue, make: type[Make]) -> None:
    assert queue.submit(make.spec, make.questions(1)) != queue.submit(make.spec, make.questions(1))


def test_a_key_cannot_meet_the_hidden_one_of_a_job_without_key(
    queue: QuestionQueue, make: type[Make], monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = UUID(int=1)
    monkeypatch.setattr(submission, "uuid4", lambda: hidden)
    assert queue.submit(replace(make.spec, key=hidden.hex), make.questions(1)) == 1
    assert queue.submit(replace(make.spec, key=f"once:{hidden.hex}"), make.questions(1)) == 2
    assert queue.submit(make.spec, make.questions(1)) == 3


def test_a_full_queue_refuses_the_whole_job_and_only_there(
    open_one: Callable[..., QuestionQueue], make: type[Make], clock: Clock
) -> None:
    queue = open_one(max_depth=5, clock=clock)
    queue.submit(make.spec, make.questions(3))
    with pytest.raises(QueueFullError, match="holds 3 waiting questions; 3 more would exceed its limit of 5"):
        queue.submit(make.spec, make.questions(3))
    queue.submit(replace(make.spec, queue="other"), make.questions(3))
    assert queue.count_open(["default"]) == 3
    queue.claim(["default"], "w", 1)
    queue.submit(make.spec, make.questions(3))
    assert queue.count_open(["default"]) == 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"priority": 1001}, "priority 1001"),
        ({"deadline_seconds": 0.0}, "deadline is 0.0 s"),
        ({"deadline_seconds": float("nan")}, "deadline is nan s"),
        ({"min_confidence": 1.5}, "min_confidence 1.5 is not within 0 to 1"),
        ({"min_confidence": float("nan")}, "min_confidence nan"),
        ({"index": ""}, "must not be ''"),
        ({"key": ""}, "must not be ''"),
        ({"queue": "a,b"}, "queue is called 'a,b': a comma separates queues in `polyhop worker --queues`"),
        ({"queue": " a"}, "queue is called ' a': whitespace around it"),
        ({"queue": "a\nb"}, "unprintable characters are not served"),
    ],
)
def test_a_job_that_could_never_be_answered_is_refused(
    queue: QuestionQueue, make: type[Make], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SubmissionError, match=words):
        queue.submit(replace(make.spec, **changes), make.questions(1))
    assert queue.jobs() == []


def test_a_question_above_the_sane_length_is_refused_with_its_place(queue: QuestionQueue, make: type[Make]) -> None:
    fits, long = NewQuestion("fits", "x" * 10_000), NewQuestion("long", "x" * 300_000)
    with pytest.raises(SubmissionError, match="question 2: it is 300,000 characters long; the limit is 10,000"):
        queue.submit(make.spec, [fits, long])
    assert queue.submit(make.spec, [fits]) == 1


def test_ids_are_unique_and_not_empty(queue: QuestionQueue, make: type[Make]) -> None:
    for ids, words in (("aba", "question 3: the id 'a' is used twice"), (("",), "question 1: its id is empty")):
        with pytest.raises(SubmissionError, match=words):
            queue.submit(make.spec, [NewQuestion(each, "Why?") for each in ids])
    with pytest.raises(SubmissionError, match="no question"):
        queue.submit(make.spec, [])
    with pytest.raises(ContractError, match="JSON"):
        queue.submit(make.spec, [NewQuestion("a", "Why?", metadata={"x": float("nan")})])
    assert queue.jobs() == []


def test_texts_that_databases_refuse_are_stored_with_a_replacement_sign(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, [NewQuestion("a\x00", "W\x00hy\ud800? 😀 %s :x", topic="\x00", answers=("\x00",))])
    row = next(queue.results(job_id))
    assert (row.question_id, row.question, row.topic) == ("a\ufffd", "W\ufffdhy\ufffd? 😀 %s :x", "\ufffd")
    assert row.answers == ("\x00",)
    assert queue.claim(["default"], "w")[0].question == row.question


def test_results_keep_the_submitted_order_over_many_pages(queue: QuestionQueue, make: type[Make]) -> None:
    job_id = queue.submit(make.spec, make.questions(1_203))
    queue.submit(make.spec, make.questions(5, "other"))
    rows = list(queue.results(job_id))
    assert [row.question_id for row in rows] == [f"q{n}" for n in range(1_203)]
    assert [row.ordinal for row in rows] == list(range(1_203))


def test_unknown_jobs_and_questions(queue: QuestionQueue, make: type[Make]) -> None:
    for action in (queue.job, queue.results, queue.cancel, queue.retry):
        with pytest.raises(UnknownJobError, match="no job 9 "):
            action(9)
    job_id = queue.submit(make.spec, make.questions(1))
    assert queue.result(job_id, "nobody") is None
    assert queue.result(9, "q0") is None
    assert result_of(queue, job_id, "q0").question == "What is q 0?"


def test_a_submitter_killed_half_way_leaves_nothing(
    open_one: Callable[..., QuestionQueue],
    url: str,
    start_python: Callable[..., subprocess.Popen[str]],
    make: type[Make],
) -> None:
    queue = open_one()
    submitter = start_python(SUBMIT_SLOWLY, url)
    line = line_of(submitter)
    assert line == "half of it is written\n", submitter.communicate()[1]
    assert queue.jobs() == []
    submitter.kill()
    submitter.wait()
    assert queue.jobs() == []
    assert queue.count_open(["default"]) == 0
    job_id = queue.submit(replace(make.spec, key="k"), make.questions(2))
    assert queue.job(job_id).counts[QuestionState.QUEUED] == 2
