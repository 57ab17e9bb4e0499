"""Who is asking for a key just now: a lock per key that the system releases when its process ends, however it ends.

Stores nothing. Between processes a byte of a lock file stands for a key (two keys may share one: they then merely
wait for each other); within a process a set of keys does.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.sqlite_files import is_writable

# chosen: short beside a model's reply of a second or more, and a lock that is tried costs microseconds
POLL_SECONDS = 0.05
_KEY_DIGITS = 15  # hexadecimal: 60 bits, because a lock's offset is a signed number of 64 (fcntl)


class Claims:
    """Claims on keys by this process; get one with `claims_of`, since closing a lock file twice would drop locks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._held: set[int] = set()
        self._descriptor: int | None = None

    @contextmanager
    def held(self, key: str, is_stopped: Callable[[], bool]) -> Iterator[bool]:
        """Waits until nobody else asks for `key`, then holds it for the block.

        Args:
            key: Hexadecimal digits.
            is_stopped: Asked while waiting.

        Yields:
            True; or False, without holding it, if `is_stopped` said so first.

        Raises:
            StoreError: If the lock file cannot be written.
        """
        place = int(key[:_KEY_DIGITS], 16)
        while not (is_held := self._try(place)) and not is_stopped():
            time.sleep(POLL_SECONDS)
        try:
            yield is_held
        finally:
            if is_held:
                self._release(place)

    def _try(self, place: int) -> bool:
        with self._lock:
            if place in self._held:
                return False
            if not is_writable(self._path):  # nothing is kept there, so nobody can wait for what is kept
                self._held.add(place)
                return True
            if self._descriptor is None:
                with writing("the claims on model replies", self._path):
                    self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):
                self._close_if_unused()
                return False
            self._held.add(place)
            return True

    def _release(self, place: int) -> None:
        with self._lock:
            self._held.remove(place)
            if self._descriptor is not None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Closing drops every lock of this process on the file, so only the last claim may."""
        if self._descriptor is not None and not self._held:
            os.close(self._descriptor)
            self._descriptor = None


def claims_of(path: Path) -> Claims:
    """The claims of this process on the keys of the cache at `path`."""
    return _claims(path.resolve().with_name(path.name + ".claims"))


@cache
def _claims(path: Path) -> Claims:
    return Claims(path)
