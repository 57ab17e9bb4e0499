"""One writer per index: a lock that the system releases when its process ends, however it ends.

The file shows who holds it. Readers never take it. A version in use is marked by a shared lock on its manifest.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import StoreConflictError
from warehouse.files.disk import writing


@contextmanager
def writer_lease(path: Path, index: str) -> Iterator[None]:
    """Holds the right to write an index for the block.

    Raises:
        StoreConflictError: If another process holds it; the message names that process.
        StoreError: If the folder cannot be written.
    """
    with writing(f"index '{index}'", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise StoreConflictError(
                f"Index '{index}' is being written by {_holder(file.read())}; wait until it has finished."
            ) from error
        file.seek(0)
        file.truncate()
        json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def _holder(content: str) -> str:
    try:
        held = json.loads(content)
        return f"process {held['pid']} on {held['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


@contextmanager
def try_exclusive(path: Path) -> Iterator[bool]:
    """Whether nobody holds a shared lock on `path`; while the block runs nobody can take one."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


class SharedHold:
    """Marks a published version as in use until closed or until the process ends."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def close(self) -> None:
        """Gives the version free."""
        self._file.close()
