"""Whether a question queue is whole: the database's own check, its version, and every row read once.

Changes nothing, not even the tables of an older version; repairs nothing.
"""

from dataclasses import dataclass

from polyhop.schemas.stored import DamagedRow
from polyhop.warehouse.queue.dialects import Database, connect
from polyhop.warehouse.queue.migrations import applied_version, newest_version
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.queue.transactions import Transaction, transact

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
        damaged: Rows that cannot be read.
    """

    version: int
    newest: int
    jobs: int = 0
    questions: int = 0
    faults: tuple[str, ...] = ()
    damaged: tuple[DamagedRow, ...] = ()


def examine_queue(url: str, patience_seconds: float = 5.0) -> QueueHealth:
    """Looks at a whole queue.

    Raises:
        ConfigurationError: If the url is malformed or its driver is not installed.
        StoreError: If the database cannot be used.
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
    damaged = tuple(row for job in jobs for row in queue.damaged(job.job_id))
    return QueueHealth(version, newest, len(jobs), sum(job.question_count for job in jobs), faults, damaged)


def _own_check(tx: Transaction) -> tuple[str, ...]:
    """What SQLite finds wrong with its file, at most as much as the statement lists."""
    said = [str(row["quick_check"]) for row in tx.rows("sqlite.quick_check")]
    return () if said == ["ok"] else tuple(said)


def _unmatched(tx: Transaction) -> tuple[str, ...]:
    count = int(tx.rows("health.unmatched")[0]["questions"])
    are, have = ("question is", "has") if count == 1 else ("questions are", "have")
    return (f"{count} {are} finished without an answer, or {have} one without being finished",) if count else ()
