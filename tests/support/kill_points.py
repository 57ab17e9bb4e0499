"""Kills this process at the n-th change that it makes to files, or some seconds from now, wherever it is then."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate", "shutil.copyfile")

_OF_TREES = ("os.remove", "os.rmdir")
"""A tree is removed by names that are relative to open folders (path, descriptor)."""


def die_at(folder: str, number: int, journal: str) -> None:
    """Dies before the change of that number below the folder; 0: lives. `journal` gets a line per change until then."""
    points = _Points(folder, number, os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
    sys.addaudithook(points.heard)
    _wrap_lance(points.reached)
    _wrap_runner(points.reached)


def die_after(seconds: float) -> None:
    """Dies so many seconds from now, by the hand of another process: nothing in this one can delay it."""
    victim = os.getpid()
    if not os.fork():
        time.sleep(seconds)
        if os.getppid() == victim:
            os.kill(victim, signal.SIGKILL)
        os._exit(0)


class _Points:
    """Counts changes, notes them, and ends the process before one of them."""

    def __init__(self, folder: str, number: int, journal: int) -> None:
        self._folder = os.path.realpath(folder)
        self._number = number
        self._journal = journal
        self._count = 0
        self._begun = time.perf_counter()
        self._lock = threading.Lock()

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook of the interpreter."""
        if event not in _EVENTS or (event == "open" and not arguments[2] & _WRITES):
            return
        paths = [os.fsdecode(path) for path in arguments if isinstance(path, str | bytes | os.PathLike)]
        is_in_tree = event in _OF_TREES and arguments[1] != -1
        if is_in_tree or any(os.path.abspath(path).startswith(self._folder) for path in paths):  # noqa: PTH100
            self.reached(f"{event} {' '.join(paths).replace(self._folder + '/', '')}")

    def reached(self, what: str) -> None:
        """A change that is about to be made."""
        with self._lock:
            self._count += 1
            os.write(self._journal, f"{time.perf_counter() - self._begun:.4f} {what}\n".encode())
            if self._count == self._number:
                os.kill(os.getpid(), signal.SIGKILL)


def _wrap_lance(reached: Callable[[str], None]) -> None:
    from lancedb.db import LanceDBConnection
    from lancedb.merge import LanceMergeInsertBuilder
    from lancedb.table import LanceTable, Tags

    for owner, names in (
        (LanceDBConnection, ("create_table",)),
        (LanceMergeInsertBuilder, ("execute",)),
        (LanceTable, ("create_index", "delete", "optimize")),
        (Tags, ("create", "update", "delete")),
    ):
        for name in names:
            _wrap(owner, name, f"{owner.__name__}.{name}", reached)


def _wrap_runner(reached: Callable[[str], None]) -> None:
    from polyhop.flows.runner import DirectRunner

    step = DirectRunner.step

    @wraps(step)
    def noted(self: Any, name: str, *arguments: Any) -> Any:
        reached(f"begin of {name}")
        result = step(self, name, *arguments)
        reached(f"end of {name}")
        return result

    DirectRunner.step = noted  # type: ignore[assignment, method-assign]


def _wrap(owner: Any, name: str, what: str, reached: Callable[[str], None]) -> None:
    method = getattr(owner, name)

    @wraps(method)
    def noted(*arguments: Any, **named: Any) -> Any:
        reached(what)
        result = method(*arguments, **named)
        reached(f"{what} done")
        return result

    setattr(owner, name, noted)


class Change(NamedTuple):
    """A change that a process noted, and the seconds since its command began."""

    seconds: float
    what: str


def changes_in(journal: Path) -> list[Change]:
    """The changes that a process noted, in order."""
    lines = [line.partition(" ") for line in journal.read_text(encoding="utf-8").splitlines()]
    return [Change(float(seconds), what) for seconds, _, what in lines]
