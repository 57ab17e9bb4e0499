"""Caches whose files changed under them: what is damaged, and saving every row that can still be read.

Rows are judged as the caches themselves judge them (vectors.py, replies.py). What cannot be saved is computed, or
asked, again; the damaged file is kept beside the new one.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import StoreUnavailableError
from polyhop.warehouse.cache.database import REPAIR_COMMAND
from polyhop.warehouse.cache.documents import DocumentCache, sound_document
from polyhop.warehouse.cache.replies import RUNGS, ReplyCache, sound_reply, unpacked
from polyhop.warehouse.cache.vectors import VectorCache, sound_vector
from polyhop.warehouse.files.disk import connect_read_only, is_writable, writing
from polyhop.warehouse.files.layout import Layout

_ROWS_PER_READ = 500  # chosen: any number saves the same rows, because a read that fails is done row by row
_LEAST_ROW_BYTES = 32
"""No table of ours has shorter rows: so many bytes bound the number of a row in a file that does not say."""


_HEADER = {
    0: b"SQLite format 3\0" + (4096).to_bytes(2, "big") + bytes([1, 1, 0, 64, 32, 32]),
    44: (4).to_bytes(4, "big"),
    52: (0).to_bytes(4, "big"),
    56: (1).to_bytes(4, "big"),
}
"""By offset, what does not differ between our caches: page size, no log, payload fractions, schema format, no vacuum,
UTF-8. Source: SQLite Database File Format (2004), section 1.3 of sqlite.org/fileformat2.html."""


@dataclass(frozen=True, slots=True)
class SavedCache:
    """What a repair did: rows that were saved and rows that were found but damaged, and where the old file is."""

    path: Path
    saved: int
    damaged: int
    kept: Path


@dataclass(frozen=True, slots=True)
class _Table:
    columns: tuple[str, ...]
    is_sound: Callable[[Sequence[Any]], bool]


_USAGE = ("calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
_REPLY = ("key", "model", "reply", "rung", "attempts", *_USAGE, "checksum")
_TABLES = {
    "vectors": _Table(("key", "vector", "checksum"), lambda row: sound_vector(*row) is not None),
    "documents": _Table(("key", "content", "checksum"), lambda row: sound_document(*row) is not None),
    "replies": _Table(
        (*_REPLY, "task", "prompt_hash", "schema_version", "stored_at"),
        lambda row: sound_reply(row[: len(_REPLY)], RUNGS) is not None,
    ),
    "raw_replies": _Table(
        ("key", "sequence", "model", "text", "error_class", *_USAGE, "stored_at"),
        lambda row: unpacked(row[3]) is not None,
    ),
    "failures": _Table(
        ("key", "model", "task", "attempts", "error_class", "error", "revision", "stored_at"), lambda _: True
    ),
    "calls": _Table(
        ("call_id", "called_at", "key", "task", "model", *_USAGE[1:], "error"),
        lambda _: True,
    ),
}


_MADE_BY: dict[str, Callable[[Path], VectorCache | DocumentCache | ReplyCache]] = {
    "vectors": VectorCache,
    "documents": DocumentCache,
    "replies": ReplyCache,
}
"""Who makes an empty cache, by its first table."""


def find_damaged_caches(layout: Layout) -> list[str]:
    """What is wrong with the files of the caches, in sentences; reads every row."""
    return [
        f"{path} is damaged ({reason}); fix it with: {REPAIR_COMMAND}"
        for path, tables in _caches(layout)
        if (reason := _damage(path, tables))
    ]


def repair_caches(layout: Layout) -> list[SavedCache]:
    """Replaces every damaged cache by one with the rows that can still be read.

    Raises:
        StoreUnavailableError: If another process uses a damaged one.
        StoreError: If the disk refuses.
    """
    return [_repair(path, tables) for path, tables in _caches(layout) if _damage(path, tables)]


def _caches(layout: Layout) -> list[tuple[Path, tuple[str, ...]]]:
    caches = [
        (layout.vector_cache, ("vectors",)),
        (layout.path_cache, ("vectors",)),
        (layout.document_cache, ("documents",)),
        (layout.reply_cache, ("replies", "raw_replies", "failures", "calls")),
    ]
    return [(path, tables) for path, tables in caches if path.exists()]


def _damage(path: Path, tables: Sequence[str]) -> str:
    """The first thing that is wrong, "" if nothing is."""
    try:
        with closing(_opened(path)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                return str(found).strip().splitlines()[-1]
            present = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            for name in tables:
                if name not in present:
                    return f"table '{name}' is missing"
                bad = sum(not _TABLES[name].is_sound(row) for row in _all_rows(connection, name))
                if bad:
                    return f"{bad:,} rows of table '{name}' are not as they were written"
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


def _repair(path: Path, tables: Sequence[str]) -> SavedCache:
    _require_alone(path)
    fresh, kept = path.with_name(f".{path.name}.new"), _free_name(path)
    saved = damaged = 0
    with writing("the repaired cache", path):
        fresh.unlink(missing_ok=True)
        _MADE_BY[tables[0]](fresh).close()
        with closing(_opened_for_saving(path)) as old, closing(sqlite3.connect(fresh)) as new:
            for name in tables:
                for row in _readable_rows(old, path, name):
                    if not _TABLES[name].is_sound(row):
                        damaged += 1
                    else:
                        saved += _inserted(new, name, row)
            new.commit()
        path.replace(kept)
        for file in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"), _scratch(path)):
            file.unlink(missing_ok=True)
        fresh.replace(path)
    return SavedCache(path, saved, damaged, kept)


def _opened_for_saving(path: Path) -> sqlite3.Connection:
    """The file; a copy with the header that all our caches have if SQLite does not know the file's own."""
    connection = _opened(path)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        shutil.copyfile(path, _scratch(path))
        with _scratch(path).open("rb+") as file:
            for offset, content in _HEADER.items():
                file.seek(offset)
                file.write(content)
        connection = _opened(_scratch(path))
    return connection


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.scratch")


def _require_alone(path: Path) -> None:
    """Leaving write-ahead mode, which also folds the log into the file, is for a file's only user."""
    try:
        with closing(_opened(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StoreUnavailableError(
                f"Other processes use {path}; stop index runs and workers, then run the same command again."
            ) from error


def _inserted(connection: sqlite3.Connection, table: str, row: Sequence[Any]) -> int:
    columns = _TABLES[table].columns
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    try:
        return connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})", row).rowcount
    except sqlite3.DatabaseError:
        return 0  # a value that its column does not take


def _readable_rows(connection: sqlite3.Connection, path: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """Rows from both ends, past every page that cannot be read, each once."""
    last = path.stat().st_size // _LEAST_ROW_BYTES
    seen: set[int] = set()
    for number, *row in chain(_scan(connection, table, last), _scan(connection, table, last, is_backward=True)):
        if number not in seen:
            seen.add(number)
            yield tuple(row)


def _scan(
    connection: sqlite3.Connection, table: str, last: int, *, is_backward: bool = False
) -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(_present_columns(connection, table))
    test, order = ("<", "DESC") if is_backward else (">", "ASC")
    query = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid {test} ? ORDER BY rowid {order} LIMIT ?"
    at, step = (last + 1, -1) if is_backward else (0, 1)
    while 0 <= at <= last + 1:
        rows = _rows_at(connection, query, at)
        if rows is None:
            at += step
            continue
        if not rows:
            return
        yield from rows
        at = rows[-1][0] if (rows[-1][0] - at) * step > 0 else at + step


def _rows_at(connection: sqlite3.Connection, query: str, at: int) -> list[tuple[Any, ...]] | None:
    """Some rows, one if more cannot be read, None if not even one can."""
    for count in (_ROWS_PER_READ, 1):
        try:
            return connection.execute(query, (at, count)).fetchall()
        except (sqlite3.DatabaseError, OverflowError):
            continue
    return None


def _present_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns to read; NULL for one that a cache of an older version lacks."""
    try:
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    except sqlite3.DatabaseError:
        present = set()
    return [name if name in present or not present else "NULL" for name in _TABLES[table].columns]


def _all_rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(_present_columns(connection, table))
    yield from connection.execute(f"SELECT {columns} FROM {table}")


def _opened(path: Path) -> sqlite3.Connection:
    open_file = sqlite3.connect if is_writable(path) else connect_read_only
    connection = open_file(path, timeout=5, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return name
