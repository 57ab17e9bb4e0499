"""Jobs of the queue: submitted whole or not at all, shown, cancelled, retried; results; workers.

Each function is a piece of one transaction.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import RowMapping

from polyhop.schemas.errors import IdempotencyKeyError, QueueFullError, RetryRefusedError, UnknownJobError
from polyhop.schemas.queue import (
    ErrorCount,
    JobRow,
    JobSpec,
    NewQuestion,
    QuestionState,
    QueueMetrics,
    ResultRow,
    WorkerRow,
    check_deadline,
    check_submission,
    effective_time,
    storable,
    submission_hash,
    to_json,
)
from polyhop.warehouse.queue.schema import Transaction

SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in the queue's units
WORKER_SILENCE_SECONDS = 60.0  # chosen: two leases of 30 s, which six heartbeats would have renewed
_IDS_PER_LOOK = 500  # each id is a variable of a statement: SQLite before 3.32 takes at most 999


def list_jobs(tx: Transaction, limit: int) -> list[JobRow]:
    """The newest jobs, the last submitted first."""
    return _with_counts(tx, tx.rows("jobs.newest", limit=limit))


def find_job(tx: Transaction, job_id: int) -> JobRow:
    """One job."""
    found = _with_counts(tx, tx.rows("jobs.one", job_id=job_id))
    if not found:
        raise UnknownJobError(job_id)
    return found[0]


def _with_counts(tx: Transaction, jobs: Sequence[RowMapping]) -> list[JobRow]:
    job_ids = [job["job_id"] for job in jobs]
    counts = {job_id: dict.fromkeys(QuestionState, 0) for job_id in job_ids}
    for row in tx.rows("jobs.counts", job_ids=job_ids):
        counts[row["job_id"]][QuestionState(row["state"])] = row["questions"]
    errors: dict[int, list[ErrorCount]] = {job_id: [] for job_id in job_ids}
    for row in tx.rows("jobs.dead_reasons", job_ids=job_ids):
        errors[row["job_id"]].append(ErrorCount(row["error_class"] or "", row["questions"], row["example"] or ""))
    return [_job_row(job, counts[job["job_id"]], errors[job["job_id"]], tx.now) for job in jobs]


def _job_row(job: RowMapping, counts: dict[QuestionState, int], errors: list[ErrorCount], now: float) -> JobRow:
    return JobRow(
        job_id=job["job_id"],
        name=job["name"],
        queue=job["queue"],
        index=job["index_name"],
        strategy=job["strategy"],
        parameters=json.loads(job["parameters_json"]),
        limit=job["passage_limit"],
        priority=job["priority"],
        max_attempts=job["max_attempts"],
        submitted_at=job["submitted_at"],
        deadline=job["deadline_at"],
        question_count=job["question_count"],
        counts=counts,
        oldest_wait_seconds=max(0.0, now - job["submitted_at"]) if counts[QuestionState.QUEUED] else None,
        errors=tuple(errors),
        min_confidence=job["min_confidence"],
        deadline_seconds=job["deadline_seconds"],
        where=job["where_text"],
    )


def cancel(tx: Transaction, job_id: int) -> int:
    """Ends all waiting and leased questions of a job; says how many.

    Raises:
        UnknownJobError: If there is none of this id.
    """
    _touch(tx, job_id)
    return tx.run("jobs.cancel", job_id=job_id, now=tx.now)


def retry(
    tx: Transaction, job_id: int, question_ids: Sequence[str] | None = None, deadline_seconds: float | None = None
) -> int:
    """Queues dead and cancelled questions of a job again, with all their attempts; says how many.

    Args:
        tx: The transaction.
        job_id: The job.
        question_ids: Only these.
        deadline_seconds: Replaces the job's own. Either counts from now: else nothing could be retried after it.

    Raises:
        UnknownJobError: If there is none of this id.
        RetryRefusedError: If a named question does not exist, still waits, or has an answer.
        SubmissionError: If the deadline does not lie ahead.
    """
    check_deadline(deadline_seconds)
    job = _touch(tx, job_id)
    seconds = job["deadline_seconds"] if deadline_seconds is None else deadline_seconds
    again: dict[str, object] = {"now": tx.now, "deadline_at": None if seconds is None else tx.now + seconds}
    if question_ids is None:
        retried = tx.run("jobs.retry", job_id=job_id, **again)
    else:
        retried = sum(
            _retry_named(tx, job_id, list(question_ids[start : start + _IDS_PER_LOOK]), again)
            for start in range(0, len(question_ids), _IDS_PER_LOOK)
        )
    if retried:
        tx.run("jobs.move_deadline", job_id=job_id, deadline_at=again["deadline_at"], deadline_seconds=seconds)
    return retried


def _retry_named(tx: Transaction, job_id: int, question_ids: list[str], again: dict[str, object]) -> int:
    rows = {row["question_id"]: row for row in tx.rows("jobs.stored", job_id=job_id, question_ids=question_ids)}
    for question_id in question_ids:
        refusal = "it does not exist" if question_id not in rows else _refusal(rows[question_id])
        if refusal is not None:
            raise RetryRefusedError(
                f"Question '{question_id}' of job {job_id} is not asked again: {refusal}. Nothing was changed."
            )
    numbers = [row["number"] for row in rows.values()]
    return tx.run("jobs.retry_named", numbers=numbers, **again)


def _refusal(row: RowMapping) -> str | None:
    """Why a question is not asked again; None if it is dead or cancelled."""
    state = QuestionState(row["state"])
    if state in _OPEN:
        return f"it is {state.value}"
    return "it has an answer (polyhop jobs replay asks again and keeps it)" if state is QuestionState.DONE else None


def _touch(tx: Transaction, job_id: int) -> RowMapping:
    rows = tx.rows("jobs.touch", job_id=job_id, now=tx.now)
    if not rows:
        raise UnknownJobError(job_id)
    return rows[0]


def purgeable(tx: Transaction, older_than_days: float) -> list[int]:
    """Jobs of which nothing is open and nothing has happened for so many days."""
    rows = tx.rows("jobs.purgeable", before=tx.now - older_than_days * SECONDS_PER_DAY)
    return [row["job_id"] for row in rows]


def purge(tx: Transaction, job_id: int) -> bool:
    """Forgets a finished job with its questions and results; False if it was retried or forgotten meanwhile."""
    if not tx.rows("jobs.touch", job_id=job_id, now=tx.now):
        return False
    if any(QuestionState(row["state"]) in _OPEN for row in tx.rows("jobs.counts", job_ids=[job_id])):
        return False
    for statement in ("jobs.purge_results", "jobs.purge_questions", "jobs.purge_job"):
        tx.run(statement, job_id=job_id)
    return True


_OPEN = {QuestionState.QUEUED, QuestionState.LEASED}


def count_open(tx: Transaction, queues: Sequence[str]) -> int:
    """Questions of the queues that wait or are being answered."""
    return int(tx.rows("jobs.open", queues=list(queues))[0]["questions"])


def metrics(tx: Transaction) -> QueueMetrics:
    """Totals over all jobs."""
    counts: dict[str, dict[QuestionState, int]] = {}
    waits: dict[str, float] = {}
    for row in tx.rows("jobs.totals"):
        state = QuestionState(row["state"])
        counts.setdefault(row["queue"], dict.fromkeys(QuestionState, 0))[state] = int(row["questions"])
        if state is QuestionState.QUEUED:
            waits[row["queue"]] = max(0.0, tx.now - row["oldest"])
    alive = tx.rows("workers.alive", since=tx.now - WORKER_SILENCE_SECONDS)
    return QueueMetrics(counts=counts, oldest_wait_seconds=waits, worker_count=len(alive))


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


def find_submitted_job(tx: Transaction, key: str) -> int | None:
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


ROWS_PER_PAGE = 500  # chosen: bounds the answers in memory, and any number gives the same rows


def number_range(tx: Transaction, job_id: int) -> tuple[int, int]:
    """The number before a job's first question, and that of its last."""
    rows = tx.rows("jobs.one", job_id=job_id)
    if not rows:
        raise UnknownJobError(job_id)
    before = int(rows[0]["first_number"]) - 1
    return before, before + int(rows[0]["question_count"])


def page(
    tx: Transaction,
    after: int,
    last: int,
    states: Collection[QuestionState],
    *,
    limit: int = ROWS_PER_PAGE,
    with_evidence: bool = True,
) -> tuple[list[ResultRow], int | None]:
    """Rows with `after` < number <= `last`, and the number to go on after (None at the end)."""
    rows = tx.rows(
        "results.page",
        after=after,
        last=last,
        states=[state.value for state in states],
        limit=limit,
        with_evidence=int(with_evidence),
    )
    read = [_result_row(row) for row in rows]
    return read, rows[-1]["number"] if len(rows) == limit else None


def find_result(tx: Transaction, job_id: int, question_id: str) -> ResultRow | None:
    """One question of a job by the asker's own id, or None."""
    rows = tx.rows("results.number", job_id=job_id, question_id=question_id)
    if not rows:
        return None
    number = int(rows[0]["number"])
    found, _ = page(tx, number - 1, number, tuple(QuestionState), limit=1)
    return found[0] if found else None


def _result_row(row: RowMapping) -> ResultRow:
    return ResultRow(
        job_id=row["job_id"],
        question_id=row["question_id"],
        ordinal=row["ordinal"],
        question=row["question"],
        topic=row["topic"],
        answers=tuple(json.loads(row["answers_json"])),
        supporting=tuple(json.loads(row["supporting_json"])),
        metadata=json.loads(row["metadata_json"]),
        state=QuestionState(row["state"]),
        attempts=row["attempts"],
        error=row["error"],
        error_class=row["error_class"],
        finished_at=row["finished_at"],
        answer=row["answer"],
        version=row["version"],
        strategy=row["strategy"],
        worker_id=row["answered_by"] or row["worker_id"],
        seconds=row["seconds"],
        result={} if row["result_json"] is None else json.loads(row["result_json"]),
    )


FORGET_SECONDS = 86_400.0  # a day; chosen: readers of the list ask for the last minute


def report_worker(
    tx: Transaction,
    worker_id: str,
    host: str,
    process_id: int,
    queues: Sequence[str],
    versions: Mapping[str, int],
    outage: str | None = None,
) -> None:
    """Notes a worker with its queues, the versions it holds and the outage it waits through.

    Forgets workers silent for a day.
    """
    tx.run("workers.forget", before=tx.now - FORGET_SECONDS)
    tx.run(
        "workers.report",
        worker_id=worker_id,
        host=host,
        process_id=process_id,
        queues_json=to_json(list(queues)),
        versions_json=to_json(dict(versions)),
        outage=None if outage is None else storable(outage),
        outage_since=None if outage is None else tx.now,
        now=tx.now,
    )


def list_workers(tx: Transaction, seen_within_seconds: float) -> list[WorkerRow]:
    """Workers that gave a sign of life lately, the oldest first."""
    return [
        WorkerRow(
            worker_id=row["worker_id"],
            host=row["host"],
            process_id=row["process_id"],
            queues=tuple(json.loads(row["queues_json"])),
            versions=json.loads(row["versions_json"]),
            started_at=row["started_at"],
            seen_at=row["seen_at"],
            outage=row["outage"],
            outage_since=row["outage_since"],
        )
        for row in tx.rows("workers.alive", since=tx.now - seen_within_seconds)
    ]
