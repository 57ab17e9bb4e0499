"""The queue's tables on SQLite and PostgreSQL: dialects, named statements, transactions and migrations."""

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Engine, RowMapping, TextClause, bindparam, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, StaticPool
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from polyhop.schemas.errors import (
    ConfigurationError,
    ManifestMismatchError,
    StatementRejectedError,
    StoreError,
    StoreUnavailableError,
    install_words,
)
from polyhop.warehouse.files.disk import connect_read_only, is_writable, make_folder, writing
from polyhop.warehouse.statements import read_statements, slow_noted

SQL_FOLDER = Path(__file__).parent / "sql"


_LOCKING = re.compile(r"^-- locking: (\w+)$", re.MULTILINE)
_LIST = re.compile(r"\bIN :(\w+)")
_LOCKS = {"skip": "\nFOR UPDATE SKIP LOCKED", "wait": "\nFOR UPDATE"}


@cache
def statement(name: str, *, row_locks: bool) -> TextClause:
    """One statement by "file.name"; `row_locks`: the database locks rows (PostgreSQL), not all (SQLite)."""
    file, _, key = name.partition(".")
    sql = read_statements(SQL_FOLDER / f"{file}.sql")[key]
    locking = _LOCKING.search(sql)
    if locking is not None and row_locks:
        sql += _LOCKS[locking[1]]
    lists = sorted(set(_LIST.findall(sql)))
    return text(sql).bindparams(*(bindparam(each, expanding=True) for each in lists))


Clock = Callable[[], float]

# Connection lost, server starting or stopping, too many connections, serialization failure, deadlock, lock timeout.
_PASSING_STATES = ("08", "57P", "53300", "40001", "40P01", "55P03")
_REFUSED_LOGINS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")


@dataclass(frozen=True, slots=True)
class Database:
    """An engine with what the queue must know about its database."""

    engine: Engine
    where: str  # Its url without a password, for messages.
    clock: Clock | None
    row_locks: bool  # True for PostgreSQL.
    is_read_only: bool = False  # A file that may not be written.

    def now(self, connection: Connection) -> float:
        """The queue's time in seconds since 1970: the server's, or this machine's for a file."""
        if self.clock is not None:
            return self.clock()
        return float(connection.execute(statement("postgresql.clock", row_locks=True)).scalar_one())


def sqlite_url(path: Path) -> str:
    """The url of a queue in a file."""
    return f"sqlite:///{quote(str(path))}"


def connect(url: str, patience_seconds: float, clock: Clock | None = None) -> Database:
    """The database of a URL; nothing is opened before its first use."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        form = "sqlite:///FILE or postgresql://…"
        raise ConfigurationError(f"The queue's url is malformed; it looks like {form}") from error
    parsed = parsed.set(database=unquote(parsed.database)) if parsed.database else parsed  # SQLAlchemy 2.0 does not
    name, where = parsed.get_backend_name(), parsed.render_as_string(hide_password=True)
    if name == "sqlite":
        if parsed.database in {None, "", ":memory:"}:
            raise ConfigurationError(
                "The queue needs a SQLite file (sqlite:///FILE), because workers are separate processes."
            )
        path = Path(str(parsed.database))
        is_read_only = not is_writable(path)
        engine = _reading_engine(path) if is_read_only else _writing_engine(parsed, path, patience_seconds)
        event.listen(engine, "begin", _begin_sqlite)
        return Database(engine, where, clock or time.time, row_locks=False, is_read_only=is_read_only)
    if name in {"postgresql", "postgres"}:
        try:
            engine = create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        except ImportError as error:
            raise ConfigurationError(
                f"A queue on PostgreSQL needs the package psycopg; {install_words('postgres')}."
            ) from error
        return Database(engine, where, clock, row_locks=True)
    raise ConfigurationError(f"The queue runs on sqlite:///FILE or postgresql://…, not on '{name}'.")


def _writing_engine(url: URL, path: Path, patience_seconds: float) -> Engine:
    folder = path.absolute().parent
    with writing("the question queue", folder):
        make_folder(folder, is_root=True)
    # isolation_level None: the driver begins nothing on its own, _begin_sqlite does.
    engine = create_engine(url, connect_args={"timeout": patience_seconds, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA foreign_keys = ON")

    return engine


def _reading_engine(path: Path) -> Engine:
    """For a file that may not be written; a queue without jobs where there is none."""

    def opened() -> sqlite3.Connection:
        options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
        return connect_read_only(path, **options) if path.exists() else sqlite3.connect(":memory:", **options)

    return create_engine("sqlite://", creator=opened, poolclass=NullPool if path.exists() else StaticPool)


def _begin_sqlite(connection: Connection) -> None:
    """Takes the write lock at once (it cannot fail half-way for being busy); only a submission waits for the disk."""
    options = connection.get_execution_options()
    if options.get("reads_only"):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('survives_power_cut') else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def passes_by_itself(error: BaseException) -> bool:
    """Returns whether the same transaction can be expected to succeed a little later."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return str(state).startswith(_PASSING_STATES)
    is_refused = any(words in str(error.orig) for words in _REFUSED_LOGINS)
    is_operational = any(kind.__name__ == "OperationalError" for kind in type(error.orig).__mro__)
    return is_operational and not is_refused


Kind = Literal["read", "write", "durable"]
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
REFUSED_SECONDS = 5.0  # chosen: a server that is just being started has its port within it
SAID_AFTER_SECONDS = 1.0  # chosen: most waits for another writer are shorter
ROWS_PER_INSERT = 5_000  # chosen: bounds the rows in memory, and any number inserts the same, within one transaction

_REMEDY = "; stop its workers, then restore it from a backup, or move it away and submit again."


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
    """
    is_said = False
    options = {"read": {"reads_only": True}, "write": {}, "durable": {"survives_power_cut": True}}[kind]
    tries = count(1)

    def patience(state: RetryCallState) -> float:
        """Shorter if no server has answered since the queue was opened: that is a wrong address, not a restart."""
        is_refused = is_opening and "connection refused" in _said(state.outcome and state.outcome.exception()).lower()
        return min(patience_seconds, REFUSED_SECONDS) if is_refused else patience_seconds

    def say(state: RetryCallState) -> None:
        """A warning, which the command line shows: once, when the wait takes more than a moment."""
        nonlocal is_said
        if not is_said and (state.seconds_since_start or 0.0) >= SAID_AFTER_SECONDS:
            is_said = True
            seconds, said = patience(state), _said(state.outcome and state.outcome.exception())
            _LOG.warning("waiting up to %.0f s for the question queue %s: %s", seconds, database.where, said)

    def try_once() -> T:
        with database.engine.connect().execution_options(**options) as connection, connection.begin():
            return work(Transaction(connection, database.row_locks, database.now(connection), next(tries)))

    retrying = Retrying(
        retry=retry_if_exception(passes_by_itself),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=lambda state: (state.seconds_since_start or 0.0) >= patience(state),
        before_sleep=say,
        reraise=True,
    )
    try:
        return retrying(try_once)
    except DBAPIError as error:
        raise _translated(error, database) from error
    except (ValueError, KeyError) as error:  # JSON, a state or a job's number that is not what was written
        reason = f"a row is damaged ({error}){_REMEDY}"
        raise StoreError(f"Cannot use the question queue {database.where}: {reason}") from error


def _said(error: object) -> str:
    """The first line of what the driver said."""
    said = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(said).strip().split("\n", 1)[0]


def _sqlite_code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", None) or 0) & 0xFF


def _translated(error: DBAPIError, database: Database) -> StoreError:
    said = _said(error)
    if passes_by_itself(error):
        return StoreUnavailableError(
            f"The question queue {database.where} is busy or unavailable ({said}); try again later."
        )
    if type(error).__name__ in {"OperationalError", "DatabaseError"}:
        is_damage = _sqlite_code(error) in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
        is_broken = is_damage or "Could not decode" in said
        return StoreError(f"Cannot use the question queue {database.where}: {said}{_REMEDY if is_broken else '.'}")
    return StatementRejectedError(f"The question queue {database.where} refused a statement: {said}.")


def migrations() -> dict[int, Path]:
    """{version: file}, by version; a file is called NNNN_name.sql."""
    return {int(path.name.split("_", 1)[0]): path for path in sorted((SQL_FOLDER / "migrations").glob("*.sql"))}


def migrate(database: Database, patience_seconds: float) -> None:
    """Applies what is missing."""
    newest = max(migrations())
    applied = transact(database, patience_seconds, applied_version, "read", is_opening=True)
    if applied < newest:
        applied = transact(database, patience_seconds, _apply, "durable")
    if applied > newest:
        raise ManifestMismatchError(
            f"The question queue {database.where} has tables of version {applied}, newer than version {newest} of this "
            "Polyhop; upgrade Polyhop."
        )


def applied_version(tx: Transaction) -> int:
    """The version of a database's tables, 0 if there are none."""
    if not inspect(tx.connection).has_table("schema_migrations"):
        return 0
    return int(tx.rows("migrate.applied")[0]["version"])


def _apply(tx: Transaction) -> int:
    if tx.row_locks:  # until no other process changes the tables; a SQLite transaction that writes already has
        tx.rows("postgresql.lock_migrations")
    tx.run("migrate.create_migrations")
    applied = int(tx.rows("migrate.applied")[0]["version"])
    for version, path in migrations().items():
        if version > applied:
            for sql in read_statements(path).values():
                tx.connection.execute(text(sql))
            tx.run("migrate.add_migration", version=version, name=path.stem, now=tx.now)
            applied = version
    return applied
