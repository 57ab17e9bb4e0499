"""Jobs as people see them, and what people do to them: cancel, retry, forget.

Each function is a piece of one transaction.
"""

from collections.abc import Sequence

from sqlalchemy import RowMapping

from polyhop.schemas.queue import ErrorCount, JobRow, QuestionState, QueueMetrics
from polyhop.schemas.queue_errors import RetryRefusedError, UnknownJobError
from polyhop.schemas.stored import StoredRow, incomplete
from polyhop.schemas.submissions import check_deadline
from polyhop.warehouse.queue.transactions import Transaction

SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in the queue's units
WORKER_SILENCE_SECONDS = 60.0  # chosen: two leases of 30 s, which six heartbeats would have renewed
_IDS_PER_LOOK = 500  # each id is a variable of a statement: SQLite before 3.32 takes at most 999


def list_jobs(tx: Transaction, limit: int) -> list[JobRow]:
    """The newest jobs, the last submitted first."""
    return _with_counts(tx, tx.rows("jobs.newest", limit=limit))


def find_job(tx: Transaction, job_id: int) -> JobRow:
    """One job.

    Raises:
        UnknownJobError: If there is none of this id.
    """
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
    stored = StoredRow()
    return JobRow(
        job_id=job["job_id"],
        name=stored.text("name", job["name"]),
        queue=stored.text("queue", job["queue"]),
        index=stored.text("index", job["index_name"]),
        strategy=stored.text("strategy", job["strategy"]),
        parameters=stored.mapping("parameters", job["parameters_json"]),
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
        where=None if job["where_text"] is None else stored.text("filter", job["where_text"]),
        damage=stored.fault,
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
        question_ids: Only these; an answer that cannot be read is forgotten, and its question asked again.
        deadline_seconds: Replaces the job's own. Either counts from now: else nothing could be retried after it.

    Raises:
        UnknownJobError: If there is none of this id.
        RetryRefusedError: If a named question does not exist, still waits, or has an answer that can be read.
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
    tx.run("jobs.forget_answers", job_id=job_id, question_ids=question_ids)
    return tx.run("jobs.retry_named", numbers=numbers, **again)


def _refusal(row: RowMapping) -> str | None:
    """Why a question is not asked again; None if it is dead, cancelled, or its answer cannot be read."""
    state = QuestionState(row["state"])
    if state in _OPEN:
        return f"it is {state.value}"
    if state is not QuestionState.DONE or row["result_json"] is None:
        return None
    stored = StoredRow()
    stored.text("answer", row["answer"])
    answer = stored.answer(row["result_json"])
    return None if stored.fault or incomplete(answer) else "it has an answer (polyhop replay asks again and keeps it)"


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
