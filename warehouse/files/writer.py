"""The one writer of an index: the lease that it holds, which a file shows to everybody, and waiting for it.

On one host the system's lock on that file decides: it ends with its process, however that ends. The file says who
writes, where, since when and until when; a thread renews the last. A host that does not see another's locks (a
shared disk without them) goes by what the file says. Readers never take the lock.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

from polyhop.schemas.errors import StoreConflictError
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.machine import is_running, user_name

LEASE_SECONDS = 60
"""How long a lease counts that nobody renews; chosen: a writer renews it every 20 s, and clocks differ by seconds."""

_POLL_SECONDS = 0.5  # chosen: short beside the runs that are waited for, which take seconds to hours


@dataclass(frozen=True, slots=True)
class Lease:
    """Who writes an index: user, host and process; since when, and until when without another sign of life (UTC)."""

    user: str
    host: str
    pid: int
    since: datetime
    until: datetime

    def __str__(self) -> str:
        return (
            f"process {self.pid} of {self.user}@{self.host} (since {_words(self.since)}; unless renewed until "
            f"{_words(self.until)})"
        )

    @property
    def is_held(self) -> bool:
        """Whether its process lives; of another host's, whether it has not run out."""
        is_alive = is_running(self.host, self.pid)
        return datetime.now(UTC) < self.until if is_alive is None else is_alive


def read_lease(index: IndexFolder) -> Lease | None:
    """Who is writing an index now, None if nobody is, or does not say; takes no lock."""
    try:
        lease = _parsed(index.lease.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return lease if lease is not None and lease.is_held else None


@contextmanager
def writer_lease(
    path: Path, index: str, *, wait_seconds: float = 0.0, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Holds the right to write an index for the block.

    Args:
        path: The file of the lease.
        index: Name of the index, for messages.
        wait_seconds: How long to wait for another writer to end; infinite: as long as it takes.
        on_wait: Gets one sentence when the wait begins.

    Raises:
        StoreConflictError: If another process holds it, and still does after the wait; the message says who.
        StoreError: If the folder cannot be written.
    """
    with writing(f"index '{index}'", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # not for appending: Linux would ignore offsets
    try:
        end, is_said = time.monotonic() + wait_seconds, False
        while not _is_taken(descriptor):
            holder = f"Index '{index}' is being written by {_holder(path)}"
            if time.monotonic() >= end:
                advice = "wait until it has finished, or let the command wait (--wait)"
                raise StoreConflictError(f"{holder}; {advice}.")
            if on_wait is not None and not is_said:
                on_wait(f"{holder}; waiting for it…")
                is_said = True
            time.sleep(_POLL_SECONDS)
        with _renewed(descriptor):
            yield
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    """Takes the lock unless another process holds it, or a writer on another host, whose lock is not seen here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    left = _parsed(os.pread(descriptor, 4_096, 0).decode("utf-8", "replace"))
    if left is None or left.host == socket.gethostname() or not left.is_held:
        return True  # a writer of this host would hold the lock if it lived
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


@contextmanager
def _renewed(descriptor: int) -> Iterator[None]:
    """Writes this process's lease, renews it while the block runs, and removes it."""
    since, is_over = datetime.now(UTC), Event()

    def renew() -> None:
        while not is_over.wait(LEASE_SECONDS / 3):
            _write(descriptor, since)

    _write(descriptor, since)
    thread = Thread(target=renew, name="writer's lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        os.ftruncate(descriptor, 0)


def _write(descriptor: int, since: datetime) -> None:
    until = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
    document = {
        "user": user_name(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": since.isoformat(timespec="seconds"),
        "until": until.isoformat(timespec="seconds"),
    }
    content = json.dumps(document).encode()
    try:
        os.pwrite(descriptor, content, 0)  # always of one length, so that a reader never sees two mixed
        os.ftruncate(descriptor, len(content))
    except OSError:
        pass  # a full disk: the lock counts on this host, and the run will say what the disk refuses


def _holder(path: Path) -> str:
    try:
        lease = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        lease = None
    return str(lease) if lease is not None else "another process"


def _parsed(content: str) -> Lease | None:
    try:
        held = json.loads(content)
        since, until = (datetime.fromisoformat(held[name]) for name in ("since", "until"))
        return Lease(str(held["user"]), str(held["host"]), int(held["pid"]), since, until)
    except (ValueError, KeyError, TypeError):
        return None


def _words(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
