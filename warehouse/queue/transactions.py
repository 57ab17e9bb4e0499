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
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from polyhop.schemas.errors import StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.warehouse.queue.dialects import Database, passes_by_itself
from polyhop.warehouse.queue.statements import statement
from polyhop.warehouse.slow import slow_noted

Kind = Literal["read", "write", "durable"]
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
ROWS_PER_INSERT = 5_000  # chosen: bounds the rows in memory, and any number inserts the same, within one transaction

_REMEDY = "; stop its workers, then restore it from a backup, or move it away and submit again"

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


def transact(database: Database, patience_seconds: float, work: Callable[[Transaction], T], kind: Kind = "write") -> T:
    """Does `work` in one transaction; a busy or restarting database is asked again until patience ends.

    Args:
        database: Where.
        patience_seconds: How long to keep trying.
        work: Called with the transaction, once per try; must change nothing else.
        kind: "read" changes nothing; "durable" is on the disk when it returns, whatever happens to the machine.

    Raises:
        StoreUnavailableError: If the database stayed busy or unavailable.
        StatementRejectedError: If it refuses a statement.
        StoreError: If it cannot be used at all.
    """
    tries = count(1)
    retrying = Retrying(
        retry=retry_if_exception(passes_by_itself),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=stop_after_delay(patience_seconds),
        reraise=True,
    )
    try:
        return retrying(lambda: _try_once(database, work, kind, next(tries)))
    except DBAPIError as error:
        raise _translated(error, database) from error


def _try_once(database: Database, work: Callable[[Transaction], T], kind: Kind, attempt: int) -> T:
    with database.engine.connect().execution_options(**_OPTIONS[kind]) as connection, connection.begin():
        return work(Transaction(connection, database.row_locks, database.now(connection), attempt))


def _translated(error: DBAPIError, database: Database) -> StoreError:
    where = database.engine.url.render_as_string(hide_password=True)
    said = str(error.orig).strip().split("\n", 1)[0]
    if passes_by_itself(error):
        return StoreUnavailableError(f"The question queue {where} is busy or unavailable ({said}); try again later.")
    if type(error).__name__ in {"OperationalError", "DatabaseError"}:
        is_broken = getattr(error.orig, "sqlite_errorname", "") in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}
        return StoreError(f"Cannot use the question queue {where}: {said}{_REMEDY if is_broken else ''}.")
    return StatementRejectedError(f"The question queue {where} refused a statement: {said}.")
