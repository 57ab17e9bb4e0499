"""Empty pages of SQLite files: how much room deleted rows have left, and giving it back to the disk.

Knows no table. Never waits for others: a file that anybody has open stays as it is.
"""

import sqlite3
from contextlib import closing
from pathlib import Path


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
