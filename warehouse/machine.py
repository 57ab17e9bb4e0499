"""This machine and process: description, memory, owners of processes, garbage collection."""

import gc
import getpass
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from threading import Event, Thread

_STATUS = Path("/proc/self/status")
_CPU = Path("/proc/cpuinfo")


def machine() -> dict[str, str | int]:
    """{system, python, cores, processor}."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "processor": _processor(),
    }


def peak_rss_mb() -> float:
    """The most memory that this process ever held, in MB (10**6 bytes), rounded to .1.

    Linux states it in /proc; elsewhere getrusage does, which also counts what a parent held before it forked.
    Source: algorithms.md 6.4.
    """
    largest = status_bytes("VmHWM") or getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return round(largest / 1e6, 1)


def status_bytes(field: str) -> int | None:
    """Memory of this process by Linux's status file, in bytes; None elsewhere."""
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines() if _STATUS.is_file() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now() -> str:
    """The time, UTC, to the second, as ISO 8601."""
    return datetime.now(tz=UTC).isoformat(timespec="seconds")


def user_name() -> str:
    """User of this process; the number of a user without a name (in a container)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def is_running(host: str, process: int) -> bool | None:
    """Returns whether a process runs, by host name and process id; None for another host."""
    if host != socket.gethostname():
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _processor() -> str:
    if _CPU.is_file():
        for line in _CPU.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        with suppress(OSError):
            asked = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return platform.processor()


def private_bytes(process_id: int | None = None) -> int:
    """Memory that a process (this one by default) shares with no other, in bytes."""
    import psutil

    memory = psutil.Process(process_id).memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))  # macOS does not tell what is shared


WATCH_SECONDS = 0.02  # between two looks at the memory of a process; chosen: memory grows by .5 MB a millisecond


@contextmanager
def watched_memory(megabytes: int, on_excess: Callable[[], None]) -> Iterator[None]:
    """Calls a function in a thread once this process takes more memory within the block than so many MB (10**6)."""
    base, ended = private_bytes(), Event()

    def watch() -> None:
        while not ended.wait(WATCH_SECONDS):
            if private_bytes() - base > megabytes * 1_000_000:
                on_excess()
                return

    Thread(target=watch, name="memory", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disables the garbage collector within the block, unless it is disabled already.

    Of overlapping blocks in several threads the one that disabled it enables it for all, which costs time only.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


GC_SECONDS = 60.0  # Chosen: a full collection takes .15 s, and cycles (errors, closed versions) are few and small.
_YOUNG = 20_000
"""New objects that start a collection of young objects, which is cheap; Python's default, 700, suits small programs."""
_NEVER = 1 << 30  # a threshold that no process reaches: Python starts no full collection


@contextmanager
def gc_throttled() -> Iterator[Callable[[], None]]:
    """Within the block full collections run only when the yielded function is called, at most once in GC_SECONDS.

    Collections of young objects go on. It changes the whole process, so blocks of several threads must not overlap.
    """
    before = gc.get_threshold()
    last = time.monotonic()

    def collect() -> None:
        nonlocal last
        if time.monotonic() - last >= GC_SECONDS:
            gc.collect()
            last = time.monotonic()

    gc.set_threshold(_YOUNG, before[1], _NEVER)
    try:
        yield collect
    finally:
        gc.set_threshold(*before)
