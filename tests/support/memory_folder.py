"""Where a session's tests write: a folder in memory, if there is room, for each commit to a disk waits."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")
PREFIX = "polyhop-tests-"
ROOM = 8 << 30
"""Bytes that must be free, both in the file system and in memory. A session needs less than a third."""
YOUNG_SECONDS = 60
"""A folder without a lock that is younger may just have been made."""


class MemoryFolder:
    """The folder; while it is open, temporary files of this process and of its children lie there."""

    def __init__(self, place: Path = MEMORY) -> None:
        _remove_abandoned(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self.path.chmod(0o755)  # tests of missing rights read below it as another user
        self._lock = _locked(self.path)
        self._before = os.environ.get("TMPDIR")
        _use(str(self.path))

    def close(self, *, keep: bool) -> None:
        """Ends its use; `keep` leaves the files to be looked at, until the next session."""
        _use(self._before)
        if not keep:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def has_room(place: Path = MEMORY, needed: int = ROOM) -> bool:
    """Whether a folder is a file system in memory that takes a session's files, programs among them."""
    try:
        if "TMPDIR" in os.environ or Path("/proc/mounts").read_text(encoding="utf-8").find(f" {place} tmpfs ") < 0:
            return False
        system = os.statvfs(place)
        known = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
        available = int(known["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return False
    is_usable = os.access(place, os.W_OK) and not system.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return is_usable and min(system.f_bavail * system.f_frsize, available) > needed


def _use(folder: str | None) -> None:
    """Sets or removes TMPDIR, and makes `tempfile` read it again."""
    os.environ.pop("TMPDIR", None)
    if folder is not None:
        os.environ["TMPDIR"] = folder
    tempfile.tempdir = None


def _remove_abandoned(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        lock = _locked(folder)
        if lock is not None:
            if time.time() - os.fstat(lock).st_mtime > YOUNG_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """An open, locked handle of a folder; None if it is another's, in use or gone."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
