"""One SQLite file in write-ahead mode that many threads and processes share, and the cache of documents in one.

A cache brings its statements. Every call is one transaction: a kill at any moment loses at most that. A damaged file is
set aside.
"""

import fcntl
import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from polyhop.schemas.errors import StoreError, StoreUnavailableError
from polyhop.schemas.records import Document, document_json, document_of
from polyhop.warehouse.files.disk import READ_ONLY, connect_read_only, disk_sentence, is_writable, make_folder, writing
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.statements import read_statements

# chosen: transactions of a cache take milliseconds, so that a longer wait means a process that hangs or is stopped.
BUSY_TIMEOUT_SECONDS = 60
_LOG = logging.getLogger(__name__)
_OPTIONS: Any = {"timeout": BUSY_TIMEOUT_SECONDS, "isolation_level": None, "check_same_thread": False}
_OF_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
"""SQLITE_ERROR is among them: our statements are right, so a table or column that they name no longer exists."""

Change = Callable[[str, Sequence[Mapping[str, object]]], int]
T = TypeVar("T")


class SharedDatabase:
    """A connection that threads share; not to be carried across a fork.

    A file that SQLite finds damaged is renamed (`FILE.damaged-1`) with a warning, and work goes on with an empty one.

    Attributes:
        path: The file.
        is_read_only: It, or its folder, may not be written: what it holds is read, and nothing is added to it.

    `is_durable` decides whether a transaction waits until it has reached the disk: without, a power cut (never a kill)
    may undo the last ones.
    """

    def __init__(self, path: Path, sql_file: Path, *, what: str, is_durable: bool = True) -> None:
        self.path = path
        self._what = what
        self._synchronous = "FULL" if is_durable else "NORMAL"
        self._statements = read_statements(sql_file)
        self._creating = [text for name, text in self._statements.items() if name.startswith("create_")]
        self._lock = RLock()
        self._opened: sqlite3.Connection | None = None
        self._inode: int | None = None
        self.is_read_only = not is_writable(path)
        if self.is_read_only:
            level = logging.WARNING if is_durable else logging.DEBUG
            _LOG.log(level, "%s cannot be written; new entries are not cached", path)
        else:
            with writing(what, path):
                make_folder(path.parent)
        self._do(lambda _: None)

    def require_writable(self) -> None:
        """Makes sure that what is written is kept."""
        if self.is_read_only:
            raise StoreError(f"Cannot write {self._what} {self.path}: {READ_ONLY}.")

    def read(self, name: str, values: Mapping[str, object] | None = None) -> list[Any]:
        """The rows of a statement."""
        return self._do(lambda connection: connection.execute(self._statements[name], values or {}).fetchall())

    def add(self, name: str, values: Mapping[str, object]) -> int:
        """Runs an INSERT … RETURNING as its own transaction; returns the number of the new row (0: not kept)."""

        def added(connection: sqlite3.Connection) -> int:
            with _immediate(connection):
                return int(connection.execute(self._statements[name], values).fetchone()[0])

        return 0 if self.is_read_only else self._do(added)

    def write(self, *steps: tuple[str, Mapping[str, object]]) -> list[int]:
        """Runs statements as one transaction; returns how many rows each changed."""
        return self.transact(lambda change: [change(name, [values]) for name, values in steps])

    def transact(self, work: Callable[[Change], T]) -> T:
        """All or nothing; takes the write lock at once, so that it cannot fail half-way for being busy.

        `work` is given a function that runs a statement once per row of values and returns how many rows it changed,
        none where the file may only be read. It runs again if the file turns out to be damaged.
        """

        def changed(connection: sqlite3.Connection) -> T:
            with _immediate(connection):
                return work(lambda name, rows: connection.executemany(self._statements[name], rows).rowcount)

        return work(lambda _name, _rows: 0) if self.is_read_only else self._do(changed)

    def compact(self) -> None:
        """Gives the room of deleted rows back to the disk."""
        self._do(lambda connection: connection.execute("VACUUM"))

    def close(self) -> None:
        """Closes the file; the last process to do so folds the write-ahead log into it."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Does work with the connection; if the file is damaged, once more with an empty one."""
        with self._lock:
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                if _code(error) not in _OF_DAMAGE:
                    raise self._ours(error) from error
                if self._opened is not None:
                    self._opened.close()
                self._opened = self._empty() if self.is_read_only else None
                if self.is_read_only:
                    _LOG.warning("%s is damaged (%s) and is not read", self.path, error)
                elif kept := set_aside(self.path, self._inode):
                    said = "%s was damaged (%s); it was moved to %s and replaced by an empty one"
                    _LOG.warning(said, self.path, error, kept.name)
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                raise self._ours(error) from error

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._inode = self.path.stat().st_ino if self.path.exists() else None
            if self.is_read_only:
                try:
                    self._opened = connect_read_only(self.path, **_OPTIONS)
                except sqlite3.OperationalError:
                    self._opened = self._empty()
            else:
                self._opened = sqlite3.connect(self.path, **_OPTIONS)
            # Text that is not UTF-8 any more matches no key, and does not stop reading other rows.
            self._opened.text_factory = lambda data: data.decode("utf-8", "replace")
            if not self.is_read_only:
                self._prepare(self._opened)
                self._inode = self._inode or self.path.stat().st_ino
        return self._opened

    def _empty(self) -> sqlite3.Connection:
        empty: sqlite3.Connection = sqlite3.connect(":memory:", **_OPTIONS)
        for statement in self._creating:
            empty.execute(statement)
        return empty

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Write-ahead mode and the tables; SQLite refuses a busy mode change at once, hence the retries."""
        for attempt in Retrying(
            retry=retry_if_exception(_is_busy),
            wait=wait_random_exponential(multiplier=0.02, max=1),
            stop=stop_after_delay(BUSY_TIMEOUT_SECONDS),
            reraise=True,
        ):
            with attempt:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                with _immediate(connection):
                    for statement in self._creating:
                        connection.execute(statement)

    def _ours(self, error: sqlite3.DatabaseError) -> StoreError:
        if _is_busy(error):
            return StoreUnavailableError(f"Other processes keep {self.path} locked; try again later.")
        return StoreError(f"Cannot use {self._what} {self.path}: {disk_sentence(error) or error}.")


def set_aside(path: Path, inode: int | None = None) -> Path | None:
    """Renames a damaged database and its log, and returns its new name.

    If another file than that of the inode, which was found damaged, is there by now, nothing is done. None: any file.
    """
    with writing("the damaged file", path):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if not path.exists() or inode not in (None, path.stat().st_ino):
                return None  # another process was first
            names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
            kept = next(name for name in names if not name.exists())
            path.rename(kept)
            for suffix in ("-wal", "-shm"):
                log = path.with_name(path.name + suffix)
                if log.exists():
                    log.rename(kept.with_name(kept.name + suffix))
            return kept
        finally:
            os.close(folder)


def find_damaged_caches(layout: Layout) -> dict[Path, str]:
    """Damage that SQLite's own check finds in the caches, in sentences by file."""
    caches = (
        *(layout.vector_cache, layout.name_cache, layout.path_cache),
        *(layout.document_cache, layout.reply_cache),
    )
    found = {}
    for path in filter(Path.exists, caches):
        open_file = sqlite3.connect if is_writable(path) else connect_read_only
        try:
            with closing(open_file(path, timeout=5, isolation_level=None)) as connection:
                said = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0]).strip().splitlines()[-1]
        except sqlite3.DatabaseError as error:
            said = str(error)
        if said != "ok":
            found[path] = f"{path} is damaged ({said}); move it away, and a new one is created when needed"
    return found


@contextmanager
def _immediate(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:  # Ctrl-C, too, must not leave a transaction open
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _is_busy(error: BaseException) -> bool:
    return _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class DocumentCache:
    """Texts of document files by the content of the file; whatever is wrong with the cache, it only knows nothing.

    The newest are kept, some 10 kB each. A row that cannot be read is as good as none: the file is read again.
    """

    def __init__(self, path: Path, *, most_rows: int = 100_000) -> None:
        self._most_rows = most_rows
        self._database: SharedDatabase | None = None
        sql, what = Path(__file__).parent / "sql" / "documents.sql", "the cache of documents"
        self._database = self._tried(lambda: SharedDatabase(path, sql, what=what, is_durable=False))

    def get(self, key: str) -> Document | None:
        """The document of a key; None if it is not known, or cannot be read."""
        for (content,) in self._read("read_document", {"key": key}):
            with suppress(zlib.error, ValueError, TypeError):
                return document_of(json.loads(zlib.decompress(content)))
        return None

    def put(self, key: str, document: Document) -> None:
        """Keeps a document, and forgets the oldest above the limit."""
        database = self._database
        if database is not None:
            row = {"key": key, "content": zlib.compress(json.dumps(document_json(document)).encode())}
            self._tried(lambda: database.write(("write_document", row), ("forget_oldest", {"most": self._most_rows})))

    def stats(self) -> tuple[int, int]:
        """Number of cached documents, and bytes of the file; zeros if it cannot be used."""
        row_count, byte_count = (self._read("measure") or [(0, 0)])[0]
        return row_count, byte_count

    def close(self) -> None:
        """Closes the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _read(self, name: str, values: Mapping[str, object] | None = None) -> list[Any]:
        database = self._database
        return (database and self._tried(lambda: database.read(name, values))) or []

    def _tried(self, work: Callable[[], T]) -> T | None:
        """Runs a piece of work; if the file cannot be used, returns None and does not use it again."""
        try:
            return work()
        except StoreError as error:
            _LOG.warning("Documents are read without their cache: %s", error)
            self.close()
            return None
