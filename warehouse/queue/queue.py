"""The question queue as one object: every method is one transaction, retried; and the queue's health.

Invariants: a question is in exactly one state; it is done exactly if it has its one result; a lease that was lost can
neither finish nor fail its question.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial, wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import uuid4

from sqlalchemy import RowMapping

from polyhop.schemas.errors import (
    IdempotencyKeyError,
    QueueFullError,
    RetryRefusedError,
    StoreError,
    UnknownJobError,
    WaitingError,
)
from polyhop.schemas.queue import (
    DEADLINE_ERROR,
    DEATHS_PER_ATTEMPT,
    SUSPECT_AFTER_DEATHS,
    WORKER_DIED_ERROR,
    ClaimedQuestion,
    ErrorCount,
    FailedQuestion,
    FinishedQuestion,
    JobRow,
    JobSpec,
    NewQuestion,
    QuestionState,
    QueueMetrics,
    ResultRow,
    WorkerRow,
    backoff_seconds,
    check_deadline,
    check_submission,
    effective_time,
    storable,
    submission_hash,
    to_json,
)
from polyhop.warehouse.files.disk import READ_ONLY
from polyhop.warehouse.queue.schema import (
    Clock,
    Database,
    Kind,
    Transaction,
    applied_version,
    connect,
    migrate,
    migrations,
    transact,
)

# chosen: a level of priority is a minute's advance
AGEING_SECONDS = 60.0
# chosen: a mistaken submission ends before the disk is full
MAX_DEPTH = 1_000_000
PATIENCE_SECONDS = 60.0  # chosen: a database that restarts is back within it; a longer outage is an error
LEASES_PER_SWEEP = 1_000  # chosen: bounds one transaction; the next sweep takes the rest
ROWS_PER_PAGE = 500  # chosen: bounds the answers in memory, and any number gives the same rows
SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in the queue's units
RETENTION_DAYS = 30.0  # of finished jobs; chosen: a month's accounts can still be read
FORGET_SECONDS = SECONDS_PER_DAY  # of a silent worker; chosen: readers of the list ask for the last minute
WORKER_SILENCE_SECONDS = 60.0  # chosen: two leases of 30 s, which six heartbeats would have renewed
_IDS_PER_LOOK = 500  # each id is a variable of a statement: SQLite before 3.32 takes at most 999

T = TypeVar("T")
P = ParamSpec("P")
_Work = Callable[Concatenate["QuestionQueue", Transaction, P], T]
_Method = Callable[Concatenate["QuestionQueue", P], T]


def open_queue(
    url: str,
    *,
    ageing_seconds: float = AGEING_SECONDS,
    max_depth: int = MAX_DEPTH,
    patience_seconds: float = PATIENCE_SECONDS,
    clock: Clock | None = None,
) -> "QuestionQueue":
    """The queue of a URL, its tables made or brought up to date.

    Args:
        url: sqlite:///FILE (see `sqlite_url`) or postgresql://USER:PASSWORD@HOST/DATABASE.
        ageing_seconds: Waiting so long is worth one level of priority.
        max_depth: Most waiting questions of one queue; a submission beyond is refused.
        patience_seconds: How long to wait for a busy, stopped or restarting database.
        clock: Replaces the database's clock (tests).

    Raises:
        ConfigurationError: If the url is malformed or its driver is not installed.
        StoreUnavailableError: If the database stayed busy or unavailable.
        ManifestMismatchError: If a newer Polyhop made the tables.
        StoreError: If the database cannot be used.
    """
    database = connect(url, patience_seconds, clock)
    try:
        migrate(database, patience_seconds)
    except BaseException:  # Ctrl-C, too, must not leave connections open
        database.engine.dispose()
        raise
    return QuestionQueue(database, ageing_seconds, max_depth, patience_seconds)


def _transaction(kind: Kind) -> Callable[[_Work[P, T]], _Method[P, T]]:
    """Makes a method of one that is called within a transaction, once per try."""

    def decorate(work: _Work[P, T]) -> _Method[P, T]:
        @wraps(work)
        def method(queue: "QuestionQueue", /, *args: P.args, **kwargs: P.kwargs) -> T:
            return queue.run(lambda tx: work(queue, tx, *args, **kwargs), kind)

        return method

    return decorate


class QuestionQueue:
    """Jobs, questions and results; safe for many threads, processes and hosts, not to be carried across a fork.

    Every method raises StoreUnavailableError (retryable) if the database stayed unavailable for `patience_seconds`.
    """

    def __init__(self, database: Database, ageing_seconds: float, max_depth: int, patience_seconds: float) -> None:
        self._database = database
        self._ageing_seconds = ageing_seconds
        self._max_depth = max_depth
        self._patience_seconds = patience_seconds

    def run(self, work: Callable[[Transaction], T], kind: Kind = "write") -> T:
        """Calls `work` with a transaction, once per attempt; returns its result."""
        if self._database.is_read_only and kind != "read":
            raise StoreError(f"Cannot write the question queue {self._database.where}: {READ_ONLY}.")
        return transact(self._database, self._patience_seconds, work, kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._database.engine.dispose()

    def submit(self, spec: JobSpec, questions: Sequence[NewQuestion]) -> int:
        """Queues a job and gives its id; see `submit_or_find`."""
        return self.submit_or_find(spec, questions)[0]

    def submit_or_find(self, spec: JobSpec, questions: Sequence[NewQuestion]) -> tuple[int, bool]:
        """Queues a job, whole or not at all; safely on the disk when it returns.

        Returns:
            The job's id, and whether it is new: if `spec.key` was used before for the same questions, that job's and
            False.

        Raises:
            SubmissionError: If the job could never be answered, or an id is used twice.
            IdempotencyKeyError: If the key was used for something else.
            QueueFullError: If the queue would hold more than `max_depth` waiting questions.
        """
        check_submission(spec, questions)
        # Without a key it gets one, so that an attempt of unknown outcome is not repeated.
        key = f"once:{uuid4().hex}" if spec.key is None else f"key:{storable(spec.key)}"
        hashed = submission_hash(spec, questions)
        return self.run(lambda tx: self._submit(tx, spec, questions, key, hashed), "durable")

    def _submit(
        self, tx: Transaction, spec: JobSpec, questions: Sequence[NewQuestion], key: str, hashed: str
    ) -> tuple[int, bool]:
        # Taking no number locks the counter and lines submitters up: the two checks after it hold until the end of the
        # transaction, and a job that is known already uses no number up.
        tx.rows("submit.next_number", name="jobs", count=0)
        known = tx.rows("submit.job_by_key", submission_key=key)
        if known:
            if known[0]["content_hash"] != hashed:
                raise IdempotencyKeyError(spec.key or "", known[0]["job_id"])
            # Without a key of the asker's own, the job that is there is that of an earlier try of this very submission.
            return int(known[0]["job_id"]), spec.key is None
        waiting = tx.rows("submit.waiting", queue=spec.queue)[0]["waiting"]
        if waiting + len(questions) > self._max_depth:
            raise QueueFullError(spec.queue, waiting, len(questions), self._max_depth)
        job_id = int(tx.rows("submit.next_number", name="jobs", count=1)[0]["first_number"])
        first_number = int(tx.rows("submit.next_number", name="questions", count=len(questions))[0]["first_number"])
        deadline = None if spec.deadline_seconds is None else tx.now + spec.deadline_seconds
        shared = {"job_id": job_id, "queue": spec.queue, "max_attempts": spec.max_attempts, "deadline_at": deadline}
        own = {"submission_key": key, "content_hash": hashed, "name": storable(spec.name), "priority": spec.priority}
        asked = {"index_name": spec.index, "strategy": spec.strategy, "parameters_json": to_json(dict(spec.parameters))}
        where = None if spec.where is None else storable(spec.where)
        limits = {"passage_limit": spec.limit, "min_confidence": spec.min_confidence, "where_text": where}
        times = {"now": tx.now, "deadline_seconds": spec.deadline_seconds}
        numbers = {"first_number": first_number, "question_count": len(questions)}
        tx.run("submit.add_job", **shared, **own, **asked, **limits, **times, **numbers)
        shared |= {"available_at": tx.now, "effective_at": effective_time(tx.now, spec.priority, self._ageing_seconds)}
        rows = (
            {
                **shared,
                "number": first_number + n,
                "ordinal": n,
                "question_id": storable(question.id),
                "question": storable(question.question),
                "topic": None if question.topic is None else storable(question.topic),
                "answers_json": to_json(list(question.answers)),
                "supporting_json": to_json(list(question.supporting)),
                "metadata_json": to_json(dict(question.metadata)),
            }
            for n, question in enumerate(questions)
        )
        tx.run_many("submit.add_question", rows)
        return job_id, True

    @_transaction("read")
    def job_of_key(self, tx: Transaction, key: str) -> int | None:
        """The job that was submitted under an idempotency key, None if there is none."""
        known = tx.rows("submit.job_by_key", submission_key=f"key:{storable(key)}")
        return int(known[0]["job_id"]) if known else None

    def claim(
        self, queues: Sequence[str], worker_id: str, limit: int = 32, lease_seconds: float = 30.0
    ) -> list[ClaimedQuestion]:
        """Leases the next questions of the queues to a worker, by priority with ageing, then as submitted.

        Also takes back leases that ran out and ends questions past their deadline. A question that has lost leases
        and is on its last attempt comes alone, so that one that kills workers takes no others with it. Every claim
        gives every question a new token, and only the holder of the current one can change the question.
        """
        claim_id = uuid4().hex

        def work(tx: Transaction) -> list[ClaimedQuestion]:
            if tx.attempt > 1:
                tx.run("claim.undo_claim", worker_id=worker_id, claim_id=claim_id)
            _sweep(tx)
            # One indexed look per queue; a common ORDER BY over several queues would sort all that waits.
            looks = [tx.rows("claim.candidates", queue=each, now=tx.now, limit=limit) for each in sorted(set(queues))]
            waiting = sorted(chain.from_iterable(looks), key=lambda row: (row["effective_at"], row["number"]))
            chosen = [row for row in waiting if row["lost_leases"] < SUSPECT_AFTER_DEATHS][:limit]
            if waiting and waiting[0]["lost_leases"] >= SUSPECT_AFTER_DEATHS:
                chosen = waiting[:1]  # alone, so it kills no neighbours
            if not chosen:
                return []
            lease: dict[str, Any] = {"worker_id": worker_id, "lease_until": tx.now + lease_seconds}
            leased = [lease | {"number": row["number"], "lease_token": f"{row['number']}.{claim_id}"} for row in chosen]
            rows = tx.rows("claim.job_specs", job_ids=sorted({row["job_id"] for row in chosen}))
            jobs = {row["job_id"]: _decoded(row) for row in rows}
            tx.run_many("claim.lease", leased)
            return [
                _made(ClaimedQuestion, {**row, **jobs[row["job_id"]], **its_lease, "attempt": row["attempts"] + 1})
                for row, its_lease in zip(chosen, leased, strict=True)
            ]

        return self.run(work)

    @_transaction("write")
    def heartbeat(
        self, tx: Transaction, worker_id: str, lease_tokens: Sequence[str], lease_seconds: float = 30.0
    ) -> list[str]:
        """Renews leases and notes that the worker lives; gives the tokens that are no longer held."""
        tx.run("workers.beat", worker_id=worker_id, now=tx.now)
        if not lease_tokens:
            return []
        rows = tx.rows("finish.extend", **_held(lease_tokens), lease_until=tx.now + lease_seconds)
        held = {row["lease_token"] for row in rows}
        return [token for token in lease_tokens if token not in held]

    def finish(self, finished: Sequence[FinishedQuestion]) -> set[str]:
        """Stores answers, each with its question's change of state; gives the tokens that still held.

        Raises:
            ContractError: If a result is not JSON-able; then nothing is stored.
        """
        by_token = {question.lease_token: (question, to_json(dict(question.result))) for question in finished}

        def work(tx: Transaction) -> set[str]:
            before = tx.rows("finish.finished_before", **_held(by_token)) if tx.attempt > 1 else []
            closed = tx.rows("finish.finish", **_held(by_token), now=tx.now)
            if closed:
                results = []
                for row in closed:
                    each, text = by_token[row["lease_token"]]
                    how = {"version": each.version, "strategy": each.strategy, "seconds": each.seconds}
                    how |= {"answer": storable(each.answer), "result_json": text, "now": tx.now}
                    results.append({**row, **how})
                tx.run_many("finish.add_result", results)
            return {row["lease_token"] for row in (*before, *closed)}

        return self.run(work) if finished else set()

    def fail(self, failed: Sequence[FailedQuestion]) -> set[str]:
        """Queues questions again after a growing pause, or ends them; gives the tokens that still held."""
        by_token = {each.lease_token: each for each in failed}

        def change_of(tx: Transaction, row: RowMapping) -> dict[str, Any]:
            its = by_token[row["lease_token"]]
            # Ended if the error is permanent or no attempt is left.
            is_dead = not its.retryable or row["attempts"] - row["lost_leases"] >= row["max_attempts"]
            said = {"number": row["number"], "error": storable(its.error), "error_class": storable(its.error_class)}
            if is_dead:
                return said | {"state": QuestionState.DEAD.value, "available_at": tx.now, "finished_at": tx.now}
            pause = its.delay_seconds
            if pause is None:
                pause = backoff_seconds(row["attempts"], str(row["number"]))
            again = {"state": QuestionState.QUEUED.value, "available_at": tx.now + max(0.0, pause)}
            return said | again | {"finished_at": None}

        def work(tx: Transaction) -> set[str]:
            rows = tx.rows("finish.held", **_held(by_token))
            if rows:
                tx.run_many("finish.fail", [change_of(tx, row) for row in rows])
            return {row["lease_token"] for row in rows}

        return self.run(work) if failed else set()

    def release(self, lease_tokens: Sequence[str], awaited: str | None = None) -> set[str]:
        """Gives leases back without using an attempt; gives the tokens that still held.

        With `awaited`, what they wait for, the questions are not claimed before `wake`, or a day has passed.
        """
        pause, its_class = (0.0, None) if awaited is None else (SECONDS_PER_DAY, WaitingError.__name__)

        def work(tx: Transaction) -> set[str]:
            rows = tx.rows("finish.held", **_held(lease_tokens))
            if rows:
                why = {"awaited": awaited, "awaited_class": its_class}
                tx.run("finish.release", numbers=[row["number"] for row in rows], available_at=tx.now + pause, **why)
            return {row["lease_token"] for row in rows}

        return self.run(work) if lease_tokens else set()

    @_transaction("write")
    def wake(self, tx: Transaction, queues: Sequence[str]) -> int:
        """Lets workers claim the questions that were given back to wait; says how many."""
        return tx.run("finish.wake", queues=list(queues), now=tx.now, awaited_class=WaitingError.__name__)

    @_transaction("read")
    def count_put_off(self, tx: Transaction, queues: Sequence[str]) -> int:
        """Questions that were given back to wait, and were not woken."""
        rows = tx.rows("jobs.put_off", queues=list(queues), now=tx.now, awaited_class=WaitingError.__name__)
        return int(rows[0]["questions"])

    def sweep(self) -> None:
        """Takes back leases that ran out and ends questions past their deadline, as every claim does."""
        if not self._database.is_read_only:  # read-only databases are not swept
            self.run(_sweep)

    @_transaction("write")
    def cancel(self, tx: Transaction, job_id: int) -> int:
        """Ends all open questions of a job and says how many; their leases no longer hold. Raises UnknownJobError."""
        _job(tx, job_id, "jobs.touch", now=tx.now)
        return tx.run("jobs.cancel", job_id=job_id, now=tx.now)

    @_transaction("write")
    def retry(
        self,
        tx: Transaction,
        job_id: int,
        question_ids: Sequence[str] | None = None,
        deadline_seconds: float | None = None,
    ) -> int:
        """Queues dead and cancelled questions of a job again (or only some), with all their attempts; says how many.

        `deadline_seconds` replaces the job's own. Either counts from now: else nothing could be retried after it.

        Raises:
            UnknownJobError: If there is none of this id.
            RetryRefusedError: If a named question does not exist, still waits, or has an answer; nothing is changed.
            SubmissionError: If the deadline does not lie ahead.
        """
        check_deadline(deadline_seconds)
        job = _job(tx, job_id, "jobs.touch", now=tx.now)
        seconds = job["deadline_seconds"] if deadline_seconds is None else deadline_seconds
        again: dict[str, object] = {"now": tx.now, "deadline_at": None if seconds is None else tx.now + seconds}
        if question_ids is None:
            retried = tx.run("jobs.retry", job_id=job_id, **again)
        else:
            looks = [list(question_ids[n : n + _IDS_PER_LOOK]) for n in range(0, len(question_ids), _IDS_PER_LOOK)]
            retried = sum(_retry_named(tx, job_id, look, again) for look in looks)
        if retried:
            tx.run("jobs.move_deadline", job_id=job_id, deadline_at=again["deadline_at"], deadline_seconds=seconds)
        return retried

    @_transaction("read")
    def jobs(self, tx: Transaction, limit: int = 100) -> list[JobRow]:
        """The newest jobs with their counts, the last submitted first."""
        return _with_counts(tx, tx.rows("jobs.newest", limit=limit))

    @_transaction("read")
    def job(self, tx: Transaction, job_id: int) -> JobRow:
        """One job with its counts. Raises UnknownJobError."""
        return _with_counts(tx, [_job(tx, job_id)])[0]

    def results(
        self, job_id: int, states: Collection[QuestionState] = tuple(QuestionState), *, with_evidence: bool = True
    ) -> Iterator[ResultRow]:
        """Questions of a job in submitted order, at any time; read page by page, so memory stays flat.

        Without evidence `result` is empty, and reading quick.

        Raises:
            UnknownJobError: If there is none of this id (before the first row).
        """
        job = self.run(lambda tx: _job(tx, job_id), "read")
        before = int(job["first_number"]) - 1
        last = before + int(job["question_count"])

        def pages(after: int) -> Iterator[ResultRow]:
            page = partial(_page, last=last, states=states, with_evidence=with_evidence)
            while rows := self.run(partial(page, after=after), "read"):
                yield from rows.values()
                after = max(rows)

        return pages(before)

    @_transaction("read")
    def results_page(
        self,
        tx: Transaction,
        job_id: int,
        after: int = 0,
        states: Collection[QuestionState] = tuple(QuestionState),
        words: str = "",
        limit: int = 100,
    ) -> list[ResultRow]:
        """The next questions of a job after so many submitted ones; with words, those with them in question or answer.

        Raises:
            UnknownJobError: If there is none of this id.
        """
        job = _job(tx, job_id)
        before = int(job["first_number"]) - 1
        last = before + int(job["question_count"])
        page = partial(_page, states=states, with_evidence=True, words=words, limit=limit)
        return list(page(tx, after=before + after, last=last).values())

    @_transaction("read")
    def result(self, tx: Transaction, job_id: int, question_id: str) -> ResultRow | None:
        """One question of a job by the asker's own id, or None."""
        for row in tx.rows("results.number", job_id=job_id, question_id=question_id):
            number = row["number"]
            return _page(tx, after=number - 1, last=number, states=QuestionState, with_evidence=True)[number]
        return None

    @_transaction("read")
    def count_open(self, tx: Transaction, queues: Sequence[str]) -> int:
        """Questions of the queues that wait or are being answered."""
        return int(tx.rows("jobs.open", queues=list(queues))[0]["questions"])

    @_transaction("read")
    def names(self, tx: Transaction) -> list[str]:
        """The queues to which jobs were submitted, in order."""
        return [row["queue"] for row in tx.rows("jobs.queues")]

    @_transaction("read")
    def metrics(self, tx: Transaction) -> QueueMetrics:
        """Totals by queue and state."""
        counts: dict[str, dict[QuestionState, int]] = {}
        waits: dict[str, float] = {}
        for row in tx.rows("jobs.totals"):
            state = QuestionState(row["state"])
            counts.setdefault(row["queue"], dict.fromkeys(QuestionState, 0))[state] = int(row["questions"])
            if state is QuestionState.QUEUED:
                waits[row["queue"]] = max(0.0, tx.now - row["oldest"])
        alive = tx.rows("workers.alive", since=tx.now - WORKER_SILENCE_SECONDS)
        return QueueMetrics(counts=counts, oldest_wait_seconds=waits, worker_count=len(alive))

    def count_purgeable(self, older_than_days: float) -> int:
        """Returns the number of jobs that `purge` would delete."""
        return len(self._purgeable(older_than_days))

    def purge(self, older_than_days: float) -> int:
        """Deletes finished jobs idle for `older_than_days`, one transaction each; returns the number deleted."""
        return sum(map(self._purge, self._purgeable(older_than_days)))

    @_transaction("read")
    def _purgeable(self, tx: Transaction, older_than_days: float) -> list[int]:
        rows = tx.rows("jobs.purgeable", before=tx.now - older_than_days * SECONDS_PER_DAY)
        return [row["job_id"] for row in rows]

    @_transaction("write")
    def _purge(self, tx: Transaction, job_id: int) -> bool:
        """Forgets a finished job with its questions and results; False if it was retried or forgotten meanwhile."""
        if not tx.rows("jobs.touch", job_id=job_id, now=tx.now):
            return False
        states = {QuestionState(row["state"]) for row in tx.rows("jobs.counts", job_ids=[job_id])}
        if states & {QuestionState.QUEUED, QuestionState.LEASED}:
            return False
        for statement in ("jobs.purge_results", "jobs.purge_questions", "jobs.purge_job"):
            tx.run(statement, job_id=job_id)
        return True

    @_transaction("write")
    def report_worker(
        self,
        tx: Transaction,
        worker_id: str,
        *,
        host: str,
        process_id: int,
        queues: Sequence[str],
        versions: Mapping[str, int],
        outage: str | None = None,
    ) -> None:
        """Notes a worker, its queues, the index versions it holds and the outage that it waits through, if any.

        Forgets workers silent for a day.
        """
        tx.run("workers.forget", before=tx.now - FORGET_SECONDS)
        held = {"queues_json": to_json(list(queues)), "versions_json": to_json(dict(versions))}
        waits = (None, None) if outage is None else (storable(outage), tx.now)
        about = {"host": host, "process_id": process_id, "outage": waits[0], "outage_since": waits[1]}
        tx.run("workers.report", worker_id=worker_id, now=tx.now, **held, **about)

    @_transaction("read")
    def workers(self, tx: Transaction, seen_within_seconds: float = 60.0) -> list[WorkerRow]:
        """Workers that gave a sign of life lately, the oldest first."""
        rows = tx.rows("workers.alive", since=tx.now - seen_within_seconds)
        return [_made(WorkerRow, _decoded(row)) for row in rows]

    @_transaction("write")
    def remove_worker(self, tx: Transaction, worker_id: str) -> None:
        """Takes a worker that ends off the list."""
        tx.run("workers.leave", worker_id=worker_id)


def _sweep(tx: Transaction) -> None:
    """Takes back the leases of dead workers and ends questions whose deadline has passed."""
    changes = []
    for row in tx.rows("claim.expired", now=tx.now, limit=LEASES_PER_SWEEP):
        deaths = row["lost_leases"] + 1
        is_dead = deaths >= DEATHS_PER_ATTEMPT * row["max_attempts"]
        state = QuestionState.DEAD if is_dead else QuestionState.QUEUED
        end = {"number": row["number"], "state": state.value, "finished_at": tx.now if is_dead else None, "now": tx.now}
        said = f"worker died {deaths} {'time' if deaths == 1 else 'times'}"
        changes.append(end | {"error": said, "error_class": WORKER_DIED_ERROR})
    if changes:
        tx.run_many("claim.expire", changes)
    tx.run("claim.pass_deadlines", now=tx.now, error_class=DEADLINE_ERROR)


def _held(lease_tokens: Iterable[str]) -> dict[str, Any]:
    """The tokens and the numbers of their questions; a token that was never given out belongs to none."""
    tokens = list(lease_tokens)
    heads = (token.partition(".")[0] for token in tokens)
    numbers = [int(head) for head in heads if head.isascii() and head.isdecimal() and len(head) < 19]
    return {"numbers": numbers, "lease_tokens": tokens}


def _job(tx: Transaction, job_id: int, statement: str = "jobs.one", **values: object) -> RowMapping:
    for row in tx.rows(statement, job_id=job_id, **values):
        return row
    raise UnknownJobError(job_id)


def _retry_named(tx: Transaction, job_id: int, question_ids: list[str], again: Mapping[str, object]) -> int:
    rows = {row["question_id"]: row for row in tx.rows("jobs.stored", job_id=job_id, question_ids=question_ids)}
    for question_id in question_ids:
        state = QuestionState(rows[question_id]["state"]) if question_id in rows else None
        refusal = "it does not exist" if state is None else f"it is {state.value}"
        if state is QuestionState.DONE:
            refusal = "it has an answer (polyhop jobs replay answers it again without replacing it)"
        if state not in {QuestionState.DEAD, QuestionState.CANCELLED}:
            raise RetryRefusedError(
                f"Question '{question_id}' of job {job_id} cannot be retried: {refusal}. Nothing was changed."
            )
    return tx.run("jobs.retry_named", numbers=[row["number"] for row in rows.values()], **again)


def _with_counts(tx: Transaction, jobs: Sequence[RowMapping]) -> list[JobRow]:
    job_ids = [job["job_id"] for job in jobs]
    counts = {job_id: dict.fromkeys(QuestionState, 0) for job_id in job_ids}
    for row in tx.rows("jobs.counts", job_ids=job_ids):
        counts[row["job_id"]][QuestionState(row["state"])] = row["questions"]
    errors: dict[int, list[ErrorCount]] = {job_id: [] for job_id in job_ids}
    for row in tx.rows("jobs.dead_reasons", job_ids=job_ids):
        errors[row["job_id"]].append(ErrorCount(row["error_class"] or "", row["questions"], row["example"] or ""))
    made = []
    for job in jobs:
        its = counts[job["job_id"]]
        waited = max(0.0, tx.now - job["submitted_at"]) if its[QuestionState.QUEUED] else None
        more = {"counts": its, "errors": tuple(errors[job["job_id"]]), "oldest_wait_seconds": waited}
        made.append(_made(JobRow, _decoded(job) | more))
    return made


def _page(
    tx: Transaction,
    *,
    after: int,
    last: int,
    states: Iterable[QuestionState],
    with_evidence: bool,
    words: str = "",
    limit: int = ROWS_PER_PAGE,
) -> dict[int, ResultRow]:
    """Some rows with `after` < number <= `last`, by number; none at the end."""
    pattern = re.sub(r"([~%_])", r"~\1", words)  # LIKE's own characters are characters like others
    asked = {"states": [state.value for state in states], "limit": limit, "with_evidence": int(with_evidence)}
    rows = tx.rows("results.page", after=after, last=last, words=f"%{pattern}%" if pattern else "", **asked)
    return {row["number"]: _made(ResultRow, _decoded(row) | {"state": QuestionState(row["state"])}) for row in rows}


def _decoded(row: RowMapping) -> dict[str, Any]:
    """The row with what its columns *_json hold, lists as tuples."""
    decoded = {name.removesuffix("_json"): json.loads(v) if name.endswith("_json") else v for name, v in row.items()}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in decoded.items()}


def _made(kind: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass of the values that it has fields for."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})  # type: ignore[arg-type]


_ALL_JOBS = 1_000_000_000  # a limit that no queue reaches: every job is checked


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """Result of an examination of the queue."""

    version: int  # Of the tables, 0 if there are none yet.
    newest: int  # The version that this Polyhop makes of them when it opens the queue.
    jobs: int = 0
    questions: int = 0  # How many there are; both 0 where the tables have another version and were not read.
    # Damage that the database finds in its file, and answers that do not belong to a finished question.
    faults: tuple[str, ...] = ()


def examine_queue(url: str, patience_seconds: float = 5.0) -> QueueHealth:
    """Looks at a whole queue; raises as `open_queue` does, and StoreError if a row cannot be read."""
    database = connect(url, patience_seconds)
    queue = QuestionQueue(database, AGEING_SECONDS, MAX_DEPTH, patience_seconds)
    try:
        checked = [] if database.row_locks else queue.run(lambda tx: tx.rows("sqlite.quick_check"), "read")
        # What SQLite finds wrong with its file, at most as much as the statement lists.
        faults = tuple(str(row["quick_check"]) for row in checked if row["quick_check"] != "ok")
        version, newest = queue.run(applied_version, "read"), max(migrations())
        if faults or version != newest:
            return QueueHealth(version, newest, faults=faults)
        jobs = queue.jobs(_ALL_JOBS)
        (unmatched,) = queue.run(lambda tx: tx.rows("health.unmatched"), "read")
        count = int(unmatched["questions"])
        if count:
            are, have = ("question is", "has") if count == 1 else ("questions are", "have")
            faults = (f"{count} {are} finished without an answer, or {have} one without being finished",)
        for job in jobs:
            deque(queue.results(job.job_id), maxlen=0)  # a row that cannot be read raises
        return QueueHealth(version, newest, len(jobs), sum(job.question_count for job in jobs), faults)
    finally:
        queue.close()
