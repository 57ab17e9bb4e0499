"""One SQLite file in write-ahead mode that many threads and processes share.

Knows no table; a cache brings its statements. Every call is one transaction: a kill at any moment loses at most that.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from polyhop.schemas.errors import DamagedStoreError, StoreError, StoreUnavailableError
from polyhop.warehouse.files.disk import READ_ONLY, connect_read_only, disk_sentence, is_writable, writing
from polyhop.warehouse.statements import read_statements

# chosen: transactions of a cache take milliseconds, so that a longer wait means a process that hangs or is stopped.
BUSY_TIMEOUT_SECONDS = 60
_LOG = logging.getLogger(__name__)
_OPTIONS: Any = {"timeout": BUSY_TIMEOUT_SECONDS, "isolation_level": None, "check_same_thread": False}
REPAIR_COMMAND = "polyhop cache repair"

_COLUMNS = """SELECT t.name, c.name, c.type FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
WHERE t.type = 'table'"""
_OF_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
"""SQLITE_ERROR is among them: our statements are right, so a table or column that they name is gone."""

Change = Callable[[str, Sequence[Mapping[str, object]]], int]


class SharedDatabase:
    """A connection that threads share; not to be carried across a fork.

    Attributes:
        path: The file.
        is_read_only: It, or its folder, may not be written: what it holds is read, and nothing is added to it.

    `is_durable` decides whether a transaction waits until it has reached the disk: without, a power cut (never a kill)
    may undo the last ones.

    Raises:
        StoreError: If the file cannot be created.
        DamagedStoreError: If it is not as SQLite wrote it; `polyhop cache repair` saves what can be read.
        StoreUnavailableError: If other processes kept it locked for 60 s.
    """

    def __init__(self, path: Path, sql_file: Path, *, what: str, is_durable: bool = True) -> None:
        self.path = path
        self._what = what
        self._synchronous = "FULL" if is_durable else "NORMAL"
        self._statements = read_statements(sql_file)
        self._lock = RLock()
        self.is_read_only = not is_writable(path)
        if not self.is_read_only:
            with writing(what, path):
                path.parent.mkdir(parents=True, exist_ok=True)
        with self._translated():
            self._connection = self._read_only() if self.is_read_only else sqlite3.connect(path, **_OPTIONS)
            self._connection.text_factory = _text
            if not self.is_read_only:
                self._prepare()

    def _read_only(self) -> sqlite3.Connection:
        """The file where nothing may be written; empty tables where there is none, or none of this version."""
        _LOG.log(
            logging.WARNING if self._synchronous == "FULL" else logging.DEBUG,
            "%s cannot be written: nothing new is kept in it",
            self.path,
        )
        with suppress(sqlite3.OperationalError):
            connection = connect_read_only(self.path, **_OPTIONS)
            if not self._lacking(connection):
                return connection
            connection.close()
        empty: sqlite3.Connection = sqlite3.connect(":memory:", **_OPTIONS)
        for statement in self._creating():
            empty.execute(statement)
        return empty

    def require_writable(self) -> None:
        """Makes sure that what is written is kept.

        Raises:
            StoreError: If the file may only be read.
        """
        if self.is_read_only:
            raise StoreError(f"Cannot write {self._what} {self.path}: {READ_ONLY}.")

    def read(self, name: str, values: Mapping[str, object] | None = None) -> list[Any]:
        """The rows of a statement."""
        with self._lock, self._translated():
            return self._connection.execute(self._statements[name], values or {}).fetchall()

    def add(self, name: str, values: Mapping[str, object]) -> int:
        """Runs an INSERT … RETURNING as a transaction of its own; returns the number of the new row (0: not kept)."""
        if self.is_read_only:
            return 0
        with self._lock, self._translated(), self._immediate():
            return int(self._connection.execute(self._statements[name], values).fetchone()[0])

    def write(self, *steps: tuple[str, Mapping[str, object]]) -> list[int]:
        """Runs statements as one transaction; returns how many rows each changed."""
        with self.transaction() as change:
            return [change(name, [values]) for name, values in steps]

    @contextmanager
    def transaction(self) -> Iterator[Change]:
        """All or nothing; takes the write lock at once, so that it cannot fail half-way for being busy.

        Yields:
            A function that runs a statement once per row of values and returns how many rows it changed; where the
            file may only be read, none.
        """
        if self.is_read_only:
            yield lambda _name, _rows: 0
            return
        with self._lock, self._translated(), self._immediate():
            yield self._change

    def compact(self) -> None:
        """Gives the room of deleted rows back to the disk."""
        with self._lock, self._translated():
            self._connection.execute("VACUUM")

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        with self._lock:
            self._connection.close()

    def _change(self, name: str, rows: Sequence[Mapping[str, object]]) -> int:
        return self._connection.executemany(self._statements[name], rows).rowcount

    @contextmanager
    def _immediate(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:  # Ctrl-C, too, must not leave a transaction open
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _prepare(self) -> None:
        """Write-ahead mode and the tables; SQLite refuses a busy mode change at once, hence the retries."""
        for attempt in Retrying(
            retry=retry_if_exception_type(sqlite3.OperationalError),
            wait=wait_random_exponential(multiplier=0.02, max=1),
            stop=stop_after_delay(BUSY_TIMEOUT_SECONDS),
            reraise=True,
        ):
            with attempt:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                with self._immediate():
                    for statement in self._creating():
                        self._connection.execute(statement)
                    self._add_columns()

    def _creating(self) -> list[str]:
        return [statement for name, statement in self._statements.items() if name.startswith("create_")]

    def _add_columns(self) -> None:
        """Adds the columns, empty, that a file of an older version lacks."""
        for table, column, kind in self._lacking(self._connection):
            self._connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{column}" {kind}')

    def _lacking(self, connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
        """Tables, columns and types that a file of this version would have."""
        with closing(sqlite3.connect(":memory:")) as fresh:
            for statement in self._creating():
                fresh.execute(statement)
            wanted = fresh.execute(_COLUMNS).fetchall()
        return sorted({*wanted} - {*connection.execute(_COLUMNS).fetchall()})

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns SQLite's errors into ours."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise StoreUnavailableError(f"Other processes keep {self.path} locked; try again later.") from error
            if code in _OF_DAMAGE:
                raise DamagedStoreError(self.path, "", str(error), REPAIR_COMMAND) from error
            raise StoreError(f"Cannot use {self._what} {self.path}: {disk_sentence(error) or error}.") from error


def _text(data: bytes) -> str:
    """Text that is not UTF-8 any more is for whoever reads the row to refuse, not for SQLite."""
    return data.decode("utf-8", "replace")
