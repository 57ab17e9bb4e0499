"""The question queue as one object: every method is one transaction, retried; and the queue's health.

Invariants: a question is in exactly one state; it is done exactly if it has its one result; a lease that was lost can
neither finish nor fail its question.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4

from polyhop.schemas.errors import StoreError
from polyhop.schemas.queue import (
    ClaimedQuestion,
    FailedQuestion,
    FinishedQuestion,
    JobRow,
    JobSpec,
    NewQuestion,
    QuestionState,
    QueueMetrics,
    ResultRow,
    WorkerRow,
)
from polyhop.warehouse.files.disk import READ_ONLY
from polyhop.warehouse.queue import jobs, leases
from polyhop.warehouse.queue.schema import (
    Clock,
    Database,
    Kind,
    Transaction,
    applied_version,
    connect,
    migrate,
    newest_version,
    transact,
)

# default of the setting `queue.ageing_seconds`; chosen: a level of priority is a minute's advance
AGEING_SECONDS = 60.0
# default of the setting `queue.max_depth`; chosen: a mistaken submission ends before the disk is full
MAX_DEPTH = 1_000_000
PATIENCE_SECONDS = 60.0  # chosen: a database that restarts is back within it; a longer outage is an error
T = TypeVar("T")


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


class QuestionQueue:
    """Jobs, questions and results; safe for many threads, processes and hosts, not to be carried across a fork.

    Every method raises StoreUnavailableError (retryable) if the database stayed unavailable for `patience_seconds`.
    """

    def __init__(self, database: Database, ageing_seconds: float, max_depth: int, patience_seconds: float) -> None:
        self._database = database
        self._ageing_seconds = ageing_seconds
        self._max_depth = max_depth
        self._patience_seconds = patience_seconds

    def _do(self, work: Callable[[Transaction], T], kind: Kind = "write") -> T:
        if self._database.is_read_only and kind != "read":
            raise StoreError(f"Cannot write the question queue {self._database.where}: {READ_ONLY}.")
        return transact(self._database, self._patience_seconds, work, kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        prepared = jobs.prepare(spec, questions)
        work = partial(
            jobs.submit,
            job=prepared,
            ageing_seconds=self._ageing_seconds,
            max_depth=self._max_depth,
        )
        return self._do(work, "durable")

    def job_of_key(self, key: str) -> int | None:
        """The job that was submitted under an idempotency key, None if there is none."""
        return self._do(partial(jobs.find_submitted_job, key=key), "read")

    def claim(
        self, queues: Sequence[str], worker_id: str, limit: int = 32, lease_seconds: float = 30.0
    ) -> list[ClaimedQuestion]:
        """Leases the next questions of the queues to a worker, by priority with ageing, then as submitted.

        Also takes back leases that ran out and ends questions past their deadline. A question that has lost leases
        and is on its last attempt comes alone, so that one that kills workers takes no others with it.
        """
        claim_id = uuid4().hex
        return self._do(
            partial(
                leases.claim,
                queues=queues,
                worker_id=worker_id,
                claim_id=claim_id,
                limit=limit,
                lease_seconds=lease_seconds,
            )
        )

    def heartbeat(self, worker_id: str, lease_tokens: Sequence[str], lease_seconds: float = 30.0) -> list[str]:
        """Renews leases and notes that the worker lives; gives the tokens that are no longer held."""
        return self._do(
            partial(leases.heartbeat, worker_id=worker_id, lease_tokens=lease_tokens, lease_seconds=lease_seconds)
        )

    def finish(self, finished: Sequence[FinishedQuestion]) -> set[str]:
        """Stores answers, each with its question's change of state; gives the tokens that still held.

        Raises:
            ContractError: If a result is not JSON-able; then nothing is stored.
        """
        if not finished:
            return set()
        texts = leases.result_texts(finished)
        return self._do(partial(leases.finish, finished=finished, texts=texts))

    def fail(self, failed: Sequence[FailedQuestion]) -> set[str]:
        """Queues questions again after a growing pause, or ends them; gives the tokens that still held."""
        return self._do(partial(leases.fail, failed=failed)) if failed else set()

    def release(self, lease_tokens: Sequence[str]) -> set[str]:
        """Gives leases back without using an attempt; gives the tokens that still held."""
        return self._do(partial(leases.release, lease_tokens=lease_tokens)) if lease_tokens else set()

    def sweep(self) -> None:
        """Takes back leases that ran out and ends questions past their deadline, as every claim does."""
        if not self._database.is_read_only:  # who only looks sees what the last writer left
            self._do(leases.sweep)

    def cancel(self, job_id: int) -> int:
        """Ends all open questions of a job and says how many; their leases no longer hold. Raises UnknownJobError."""
        return self._do(partial(jobs.cancel, job_id=job_id))

    def retry(
        self, job_id: int, question_ids: Sequence[str] | None = None, deadline_seconds: float | None = None
    ) -> int:
        """Queues dead and cancelled questions of a job again and says how many; see `jobs.retry`.

        Raises:
            UnknownJobError: If there is none of this id.
            RetryRefusedError: If a question of `question_ids` cannot be asked again; then nothing is changed.
        """
        return self._do(
            partial(jobs.retry, job_id=job_id, question_ids=question_ids, deadline_seconds=deadline_seconds)
        )

    def jobs(self, limit: int = 100) -> list[JobRow]:
        """The newest jobs with their counts, the last submitted first."""
        return self._do(partial(jobs.list_jobs, limit=limit), "read")

    def job(self, job_id: int) -> JobRow:
        """One job with its counts. Raises UnknownJobError."""
        return self._do(partial(jobs.find_job, job_id=job_id), "read")

    def results(
        self, job_id: int, states: Collection[QuestionState] = tuple(QuestionState), *, with_evidence: bool = True
    ) -> Iterator[ResultRow]:
        """Questions of a job in submitted order, at any time; read page by page, so memory stays flat.

        Args:
            job_id: The job.
            states: Only questions in these states.
            with_evidence: Read what the worker stored as evidence too; without it `result` is empty, and reading quick.

        Raises:
            UnknownJobError: If there is none of this id (before the first row).
        """
        after, last = self._do(partial(jobs.number_range, job_id=job_id), "read")
        return self._pages(after, partial(jobs.page, last=last, states=states, with_evidence=with_evidence))

    def _pages(self, after: int | None, page: Callable[..., tuple[list[ResultRow], int | None]]) -> Iterator[ResultRow]:
        while after is not None:
            rows, after = self._do(partial(page, after=after), "read")
            yield from rows

    def result(self, job_id: int, question_id: str) -> ResultRow | None:
        """One question of a job by the asker's own id, or None."""
        return self._do(partial(jobs.find_result, job_id=job_id, question_id=question_id), "read")

    def count_open(self, queues: Sequence[str]) -> int:
        """Questions of the queues that wait or are being answered."""
        return self._do(partial(jobs.count_open, queues=queues), "read")

    def names(self) -> list[str]:
        """The queues to which jobs were submitted, in order."""
        return self._do(lambda tx: [row["queue"] for row in tx.rows("jobs.queues")], "read")

    def metrics(self) -> QueueMetrics:
        """Totals by queue and state."""
        return self._do(jobs.metrics, "read")

    def count_purgeable(self, older_than_days: float) -> int:
        """How many jobs `purge` would forget."""
        return len(self._do(partial(jobs.purgeable, older_than_days=older_than_days), "read"))

    def purge(self, older_than_days: float) -> int:
        """Forgets jobs of which nothing is open and nothing has happened for so long; says how many. One by one."""
        old = self._do(partial(jobs.purgeable, older_than_days=older_than_days), "read")
        return sum(self._do(partial(jobs.purge, job_id=job_id)) for job_id in old)

    def report_worker(
        self,
        worker_id: str,
        *,
        host: str,
        process_id: int,
        queues: Sequence[str],
        versions: Mapping[str, int],
        outage: str | None = None,
    ) -> None:
        """Notes a worker, its queues, the index versions it holds and the outage that it waits through, if any."""
        self._do(
            partial(
                jobs.report_worker,
                worker_id=worker_id,
                host=host,
                process_id=process_id,
                queues=queues,
                versions=versions,
                outage=outage,
            )
        )

    def workers(self, seen_within_seconds: float = 60.0) -> list[WorkerRow]:
        """Workers that gave a sign of life lately."""
        return self._do(partial(jobs.list_workers, seen_within_seconds=seen_within_seconds), "read")

    def remove_worker(self, worker_id: str) -> None:
        """Takes a worker that ends off the list."""
        self._do(lambda tx: tx.run("workers.leave", worker_id=worker_id))


_ALL_JOBS = 1_000_000_000  # a limit that no queue reaches: every job is checked


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """What an examination found.

    Attributes:
        version: Of the tables, 0 if there are none yet.
        newest: The version that this Polyhop makes of them when it opens the queue.
        jobs: How many there are.
        questions: How many there are; both 0 where the tables have another version and were not read.
        faults: What the database says of its own file, and answers that do not belong to a finished question.
    """

    version: int
    newest: int
    jobs: int = 0
    questions: int = 0
    faults: tuple[str, ...] = ()


def examine_queue(url: str, patience_seconds: float = 5.0) -> QueueHealth:
    """Looks at a whole queue.

    Raises:
        ConfigurationError: If the url is malformed or its driver is not installed.
        StoreError: If the database cannot be used, or a row cannot be read.
    """
    database = connect(url, patience_seconds)
    try:
        return _examine(database, patience_seconds)
    finally:
        database.engine.dispose()


def _examine(database: Database, patience_seconds: float) -> QueueHealth:
    faults = () if database.row_locks else transact(database, patience_seconds, _own_check, "read")
    version = transact(database, patience_seconds, applied_version, "read")
    newest = newest_version()
    if faults or version != newest:
        return QueueHealth(version, newest, faults=faults)
    queue = QuestionQueue(database, ageing_seconds=1.0, max_depth=1, patience_seconds=patience_seconds)
    jobs = queue.jobs(_ALL_JOBS)
    faults = transact(database, patience_seconds, _unmatched, "read")
    for job in jobs:
        deque(queue.results(job.job_id), maxlen=0)  # a row that cannot be read raises
    return QueueHealth(version, newest, len(jobs), sum(job.question_count for job in jobs), faults)


def _own_check(tx: Transaction) -> tuple[str, ...]:
    """What SQLite finds wrong with its file, at most as much as the statement lists."""
    said = [str(row["quick_check"]) for row in tx.rows("sqlite.quick_check")]
    return () if said == ["ok"] else tuple(said)


def _unmatched(tx: Transaction) -> tuple[str, ...]:
    count = int(tx.rows("health.unmatched")[0]["questions"])
    are, have = ("question is", "has") if count == 1 else ("questions are", "have")
    return (f"{count} {are} finished without an answer, or {have} one without being finished",) if count else ()
