"""Submitting a job: all of its questions or none, once per idempotency key, within the queue's depth.

Each function is a piece of one transaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from polyhop.schemas.queue import JobSpec, NewQuestion, effective_time, storable, submission_hash, to_json
from polyhop.schemas.queue_errors import IdempotencyKeyError, QueueFullError
from polyhop.schemas.submissions import check_submission
from polyhop.warehouse.queue.transactions import Transaction


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A checked job, with the key that makes its submission harmless to repeat."""

    spec: JobSpec
    questions: Sequence[NewQuestion]
    submission_key: str
    content_hash: str


def prepare(spec: JobSpec, questions: Sequence[NewQuestion]) -> CheckedJob:
    """A submission without a key of its own gets one, so that a try whose end nobody saw is not repeated.

    Raises:
        SubmissionError: If the job could never be answered.
    """
    check_submission(spec, questions)
    key = _submission_key(spec.key) if spec.key is not None else f"once:{uuid4().hex}"
    return CheckedJob(spec, questions, key, submission_hash(spec, questions))


def find_job(tx: Transaction, key: str) -> int | None:
    """The job that a key was used for."""
    known = tx.rows("submit.job_by_key", submission_key=_submission_key(key))
    return int(known[0]["job_id"]) if known else None


def _submission_key(key: str) -> str:
    return f"key:{storable(key)}"


def submit(tx: Transaction, job: CheckedJob, ageing_seconds: float, max_depth: int) -> tuple[int, bool]:
    """Adds the job and its questions.

    Returns:
        The job's id, and whether it is new: False for the earlier job if the key was used before.

    Raises:
        IdempotencyKeyError: If the key was used for something else.
        QueueFullError: If the queue would hold more than `max_depth` waiting questions.
    """
    # Taking no number locks the counter and lines submitters up: the two checks after it hold until the end of the
    # transaction, and a job that is known already uses no number up.
    tx.rows("submit.next_number", name="jobs", count=0)
    known = tx.rows("submit.job_by_key", submission_key=job.submission_key)
    if known:
        if known[0]["content_hash"] != job.content_hash:
            raise IdempotencyKeyError(job.spec.key or "", known[0]["job_id"])
        # Without a key of the asker's own, the job that is there is that of an earlier try of this very submission.
        return int(known[0]["job_id"]), job.spec.key is None
    spec, added = job.spec, len(job.questions)
    waiting = tx.rows("submit.waiting", queue=spec.queue)[0]["waiting"]
    if waiting + added > max_depth:
        raise QueueFullError(spec.queue, waiting, added, max_depth)
    job_id = int(tx.rows("submit.next_number", name="jobs", count=1)[0]["first_number"])
    first_number = int(tx.rows("submit.next_number", name="questions", count=added)[0]["first_number"])
    deadline_at = None if spec.deadline_seconds is None else tx.now + spec.deadline_seconds
    shared = {
        "job_id": job_id,
        "queue": spec.queue,
        "max_attempts": spec.max_attempts,
        "deadline_at": deadline_at,
        "available_at": tx.now,
        "effective_at": effective_time(tx.now, spec.priority, ageing_seconds),
    }
    tx.run("submit.add_job", **_job(job, tx.now, first_number, shared))
    tx.run_many("submit.add_question", _questions(job.questions, first_number, shared))
    return job_id, True


def _job(job: CheckedJob, now: float, first_number: int, shared: dict[str, Any]) -> dict[str, Any]:
    spec = job.spec
    return {
        **{name: shared[name] for name in ("job_id", "queue", "max_attempts", "deadline_at")},
        "submission_key": job.submission_key,
        "content_hash": job.content_hash,
        "name": storable(spec.name),
        "index_name": spec.index,
        "strategy": spec.strategy,
        "parameters_json": to_json(dict(spec.parameters)),
        "passage_limit": spec.limit,
        "min_confidence": spec.min_confidence,
        "where_text": None if spec.where is None else storable(spec.where),
        "priority": spec.priority,
        "deadline_seconds": spec.deadline_seconds,
        "now": now,
        "first_number": first_number,
        "question_count": len(job.questions),
    }


def _questions(
    questions: Sequence[NewQuestion], first_number: int, shared: dict[str, Any]
) -> Iterator[dict[str, object]]:
    for ordinal, question in enumerate(questions):
        yield shared | {
            "number": first_number + ordinal,
            "ordinal": ordinal,
            "question_id": storable(question.id),
            "question": storable(question.question),
            "topic": None if question.topic is None else storable(question.topic),
            "answers_json": to_json(list(question.answers)),
            "supporting_json": to_json(list(question.supporting)),
            "metadata_json": to_json(dict(question.metadata)),
        }
