"""Runs a piece of work as one transaction, again if the database was busy or unavailable; errors in our own words.

Knows no table: statements come by name, values as parameters.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import DBAPIError
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from polyhop.schemas.errors import StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.warehouse.queue.dialects import Database, is_connection_refused, passes_by_itself
from polyhop.warehouse.queue.statements import statement
from polyhop.warehouse.slow import slow_noted

Kind = Literal["read", "write", "durable"]
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
REFUSED_SECONDS = 5.0  # chosen: a server that is just being started has its port within it
SAID_AFTER_SECONDS = 1.0  # chosen: most waits for another writer are shorter
ROWS_PER_INSERT = 5_000  # chosen: bounds the rows in memory, and any number inserts the same, within one transaction

_REMEDY = "; stop its workers, then restore it from a backup, or move it away and submit again."

_OPTIONS: Mapping[Kind, Mapping[str, bool]] = {
    "read": {"reads_only": True},
    "write": {},
    "durable": {"survives_power_cut": True},
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in progress; `now` is the queue's time at its begin, `attempt` counts from 1."""

    connection: Connection
    row_locks: bool
    now: float
    attempt: int

    def rows(self, name: str, /, **values: object) -> Sequence[RowMapping]:
        """All rows of a statement that returns rows; an empty list as a value matches nothing."""
        # An empty list has no type that PostgreSQL could compare; NULL equals nothing.
        bound = {key: [None] if value == [] else value for key, value in values.items()}
        with slow_noted(_LOG, "queue", name):
            return self.connection.execute(statement(name, row_locks=self.row_locks), bound).mappings().all()

    def run(self, name: str, /, **values: object) -> int:
        """Runs a statement and says how many rows it touched."""
        with slow_noted(_LOG, "queue", name):
            return self.connection.execute(statement(name, row_locks=self.row_locks), values).rowcount

    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Runs a statement for each of many rows."""
        clause = statement(name, row_locks=self.row_locks)
        remaining = iter(rows)
        while chunk := list(islice(remaining, ROWS_PER_INSERT)):
            with slow_noted(_LOG, "queue", name):
                self.connection.execute(clause, chunk)


def transact(
    database: Database,
    patience_seconds: float,
    work: Callable[[Transaction], T],
    kind: Kind = "write",
    *,
    is_opening: bool = False,
) -> T:
    """Does `work` in one transaction; a busy or restarting database is asked again until patience ends.

    Args:
        database: Where.
        patience_seconds: How long to keep trying.
        work: Called with the transaction, once per try; must change nothing else.
        is_opening: Nothing was read so far; then a refused connection is waited for 5 s only.
        kind: "read" changes nothing; "durable" is on the disk when it returns, whatever happens to the machine.

    Raises:
        StoreUnavailableError: If the database stayed busy or unavailable.
        StatementRejectedError: If it refuses a statement.
        StoreError: If it cannot be used at all.
    """
    tries, waiting = count(1), _Waiting(database, patience_seconds, is_opening=is_opening)
    retrying = Retrying(
        retry=retry_if_exception(passes_by_itself),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=waiting.is_over,
        before_sleep=waiting.say,
        reraise=True,
    )
    try:
        return retrying(lambda: _try_once(database, work, kind, next(tries)))
    except DBAPIError as error:
        raise _translated(error, database) from error


class _Waiting:
    """How long a database is waited for, and what is said of it: once, when it takes more than a moment."""

    def __init__(self, database: Database, patience_seconds: float, *, is_opening: bool) -> None:
        self._database = database
        self._patience_seconds = patience_seconds
        self._is_opening = is_opening
        self._is_said = False

    def is_over(self, state: RetryCallState) -> bool:
        """Whether to give up."""
        return (state.seconds_since_start or 0.0) >= self._seconds(state)

    def say(self, state: RetryCallState) -> None:
        """A warning, which the command line shows."""
        if self._is_said or (state.seconds_since_start or 0.0) < SAID_AFTER_SECONDS:
            return
        self._is_said = True
        error = state.outcome.exception() if state.outcome is not None else None
        said = first_line(error.orig) if isinstance(error, DBAPIError) and error.orig is not None else error
        _LOG.warning(
            "waiting up to %.0f s for the question queue %s: %s", self._seconds(state), self._database.where, said
        )

    def _seconds(self, state: RetryCallState) -> float:
        """Shorter where nobody has listened since the queue was opened: that is a wrong address, not a restart."""
        error = state.outcome.exception() if state.outcome is not None else None
        is_refused = self._is_opening and error is not None and is_connection_refused(error)
        return min(self._patience_seconds, REFUSED_SECONDS) if is_refused else self._patience_seconds


def _try_once(database: Database, work: Callable[[Transaction], T], kind: Kind, attempt: int) -> T:
    with database.engine.connect().execution_options(**_OPTIONS[kind]) as connection, connection.begin():
        return work(Transaction(connection, database.row_locks, database.now(connection), attempt))


def first_line(error: object) -> str:
    """The first line of what a driver says."""
    return str(error).strip().split("\n", 1)[0]


def _translated(error: DBAPIError, database: Database) -> StoreError:
    said = first_line(error.orig)
    if passes_by_itself(error):
        return StoreUnavailableError(
            f"The question queue {database.where} is busy or unavailable ({said}); try again later."
        )
    if type(error).__name__ in {"OperationalError", "DatabaseError"}:
        is_broken = getattr(error.orig, "sqlite_errorname", "") in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}
        return StoreError(f"Cannot use the question queue {database.where}: {said}{_REMEDY if is_broken else '.'}")
    return StatementRejectedError(f"The question queue {database.where} refused a statement: {said}.")
