"""Which faults of a database pass by themselves, how often they are tried, and which errors of ours they become."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from psycopg import errors

from polyhop.schemas.errors import StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.warehouse.queue.schema import Database, Transaction, connect, passes_by_itself, sqlite_url, transact


def wrapped(error: BaseException, *, kind: str = "OperationalError", is_broken: bool = False) -> Any:
    """As SQLAlchemy passes a driver's error on."""
    return getattr(sqlalchemy.exc, kind)("SELECT 1", {}, error, connection_invalidated=is_broken)


def sqlite_fault(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ValueError("not of a database"), False),
        (wrapped(sqlite_fault(sqlite3.SQLITE_BUSY)), True),
        (wrapped(sqlite_fault(sqlite3.SQLITE_BUSY_SNAPSHOT)), True),
        (wrapped(sqlite_fault(sqlite3.SQLITE_LOCKED)), True),
        (wrapped(sqlite_fault(sqlite3.SQLITE_FULL)), False),
        (wrapped(sqlite3.OperationalError("no code")), False),
        (wrapped(sqlite_fault(sqlite3.SQLITE_FULL), is_broken=True), True),
        (wrapped(errors.DeadlockDetected("deadlock")), True),
        (wrapped(errors.SerializationFailure("try again")), True),
        (wrapped(errors.AdminShutdown("restarting")), True),
        (wrapped(errors.UndefinedTable("no table")), False),
        (wrapped(psycopg.OperationalError("connection refused")), True),
        (wrapped(psycopg.OperationalError('FATAL: password authentication failed for user "x"')), False),
        (wrapped(psycopg.OperationalError('FATAL: database "nowhere" does not exist')), False),
        (wrapped(psycopg.ProgrammingError("no state")), False),
    ],
)
def test_only_a_busy_or_restarting_database_is_worth_another_try(error: BaseException, passes: bool) -> None:
    assert passes_by_itself(error) is passes


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return connect(sqlite_url(tmp_path / "queue.sqlite"), 0.1, lambda: 7.0)


def failing(*faults: BaseException) -> Any:
    """Work that fails with each fault in turn, then says which try it is."""
    left = list(faults)

    def work(tx: Transaction) -> tuple[int, float]:
        if left:
            raise left.pop(0)
        return tx.attempt, tx.now

    return work


def test_a_busy_database_is_asked_again_and_tries_are_counted(database: Database) -> None:
    busy = wrapped(sqlite_fault(sqlite3.SQLITE_BUSY))
    assert transact(database, 30, failing(busy, busy)) == (3, 7.0)


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        (wrapped(sqlite_fault(sqlite3.SQLITE_BUSY)), StoreUnavailableError, "busy or"),
        (wrapped(sqlite_fault(sqlite3.SQLITE_FULL)), StoreError, r"^Cannot use the question queue sqlite:///\S+: data"),
        (
            wrapped(sqlite3.DatabaseError("malformed\nmore"), kind="DatabaseError"),
            StoreError,
            "^Cannot use .*malformed.$",
        ),
        (
            wrapped(sqlite3.IntegrityError("UNIQUE"), kind="IntegrityError"),
            StatementRejectedError,
            "refused a statement",
        ),
    ],
)
def test_a_fault_that_lasts_becomes_one_of_our_errors(
    database: Database, fault: BaseException, kind: type[StoreError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        transact(database, 0, failing(*[fault] * 99))
    assert type(caught.value) is kind
    assert caught.value.__cause__ is fault
