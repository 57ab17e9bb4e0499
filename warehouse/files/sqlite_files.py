"""SQLite files: reading one whose folder may not be written, and giving the room of deleted rows back to the disk.

Compacting never waits for others: a file that anybody has open stays as it is.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote


def empty_bytes(path: Path) -> int:
    """Bytes of a file that hold nothing any more; 0 if there is no file.

    Raises:
        sqlite3.DatabaseError: If it is busy, or is not as SQLite wrote it.
    """
    if not path.is_file():
        return 0
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        return _number(connection, "freelist_count") * _number(connection, "page_size")


def compact_file(path: Path) -> bool:
    """Writes a file again without its empty pages; False if another connection has it open: then nothing is done.

    Raises:
        sqlite3.DatabaseError: If it is not as SQLite wrote it, or the disk has no room for a second copy.
    """
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()  # refused while anybody else has it open
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                return False
            raise
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # in a write-ahead log the file shrinks now
        return True


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def is_writable(path: Path) -> bool:
    """Whether a file, and SQLite's two beside it, can be made or changed; by a missing folder's nearest parent."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def connect_read_only(path: Path, **options: Any) -> sqlite3.Connection:
    """A connection that only reads, for a file whose folder may not be written.

    Raises:
        sqlite3.OperationalError: If the file does not exist, or needs what a killed process left in its log.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    connection: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if not path.exists() or (log.exists() and log.stat().st_size):
            raise
        connection = sqlite3.connect(f"{uri}&immutable=1", uri=True, **options)  # else it wants to make a log
    return connection
