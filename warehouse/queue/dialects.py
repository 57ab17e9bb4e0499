"""All that differs between SQLite and PostgreSQL: engine, begin of transactions, clock, errors that pass.

Knows no table of the queue.
"""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.sqlite_files import connect_read_only, is_writable
from polyhop.warehouse.queue.statements import statement

Clock = Callable[[], float]

# Connection lost, server starting or stopping, too many connections, serialization failure, deadlock, lock timeout.
_PASSING_STATES = ("08", "57P", "53300", "40001", "40P01", "55P03")
_REFUSED_LOGINS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")


@dataclass(frozen=True, slots=True)
class Database:
    """An engine with what the queue must know about its database.

    Attributes:
        engine: Opens connections.
        where: Its url without a password, for messages.
        clock: The time; None: the server's.
        row_locks: True for PostgreSQL.
        is_read_only: A file that may not be written.
    """

    engine: Engine
    where: str
    clock: Clock | None
    row_locks: bool
    is_read_only: bool = False

    def now(self, connection: Connection) -> float:
        """The queue's time in seconds since 1970: the server's, or this machine's for a file."""
        if self.clock is not None:
            return self.clock()
        return float(connection.execute(statement("postgresql.clock", row_locks=True)).scalar_one())

    def lock_migrations(self, connection: Connection) -> None:
        """Waits until no other process changes the tables; a SQLite transaction that writes already has."""
        if self.row_locks:
            connection.execute(statement("postgresql.lock_migrations", row_locks=True))


def sqlite_url(path: Path) -> str:
    """The url of a queue in a file."""
    return f"sqlite:///{quote(str(path))}"


def connect(url: str, patience_seconds: float, clock: Clock | None = None) -> Database:
    """The database of a URL; nothing is opened before its first use.

    Args:
        url: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE.
        patience_seconds: How long SQLite waits for other writers.
        clock: Overrides the database's clock (tests).

    Raises:
        ConfigurationError: If the url is malformed or its driver is not installed.
        StoreError: If the folder of a SQLite file cannot be made.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigurationError(
            "The queue's url is malformed; it looks like sqlite:///FILE or postgresql://…"
        ) from error
    parsed = parsed.set(database=unquote(parsed.database)) if parsed.database else parsed  # SQLAlchemy 2.0 does not
    name, where = parsed.get_backend_name(), parsed.render_as_string(hide_password=True)
    if name == "sqlite":
        if parsed.database in {None, "", ":memory:"}:
            raise ConfigurationError(
                "The queue needs a SQLite file (sqlite:///FILE): workers are processes of their own."
            )
        path = Path(str(parsed.database))
        if is_writable(path):
            return Database(_sqlite_engine(parsed, path, patience_seconds), where, clock or time.time, row_locks=False)
        return Database(_reading_engine(path), where, clock or time.time, row_locks=False, is_read_only=True)
    if name in {"postgresql", "postgres"}:
        return Database(_postgresql_engine(parsed), where, clock, row_locks=True)
    raise ConfigurationError(f"The queue runs on sqlite:///FILE or postgresql://…, not on '{name}'.")


def _sqlite_engine(url: URL, path: Path, patience_seconds: float) -> Engine:
    folder = path.absolute().parent
    with writing("the question queue", folder):
        folder.mkdir(parents=True, exist_ok=True)
    # isolation_level None: the driver begins nothing by itself, _begin does.
    engine = create_engine(url, connect_args={"timeout": patience_seconds, "isolation_level": None})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path) -> Engine:
    """For a file that may not be written; a queue without jobs where there is none."""

    def opened() -> sqlite3.Connection:
        options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
        made = connect_read_only(path, **options) if path.exists() else sqlite3.connect(":memory:", **options)
        made.text_factory = _text_of
        return made

    engine = create_engine("sqlite://", creator=opened, poolclass=NullPool if path.exists() else StaticPool)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # A damaged text must not end the reading of those beside it: its bad bytes come as lone surrogates.
    connection.text_factory = _text_of
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA foreign_keys = ON")


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _begin_sqlite(connection: Connection) -> None:
    """Takes the write lock at once (it cannot fail half-way for being busy); only a submission waits for the disk."""
    options = connection.get_execution_options()
    if options.get("reads_only"):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('survives_power_cut') else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql_engine(url: URL) -> Engine:
    try:
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ImportError as error:
        raise ConfigurationError(
            "A queue on PostgreSQL needs the package psycopg: pip install 'polyhop[postgres]'."
        ) from error


def is_connection_refused(error: BaseException) -> bool:
    """Whether nobody listens at the server's address."""
    return isinstance(error, DBAPIError) and "connection refused" in str(error.orig).lower()


def passes_by_itself(error: BaseException) -> bool:
    """Whether the same transaction can be expected to work a little later."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", 0) or 0
        return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return str(state).startswith(_PASSING_STATES)
    is_refused = any(words in str(error.orig) for words in _REFUSED_LOGINS)
    is_operational = any(kind.__name__ == "OperationalError" for kind in type(error.orig).__mro__)
    return is_operational and not is_refused
