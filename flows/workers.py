"""Worker processes that a flow run starts and ends, and whether anybody serves a queue at all.

Answers nothing and knows no Prefect: what is to be said goes to a function that the caller brings.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from polyhop.schemas.environment import as_environment
from polyhop.schemas.errors import PolyhopError
from polyhop.warehouse.queue.queue import QuestionQueue

UNSERVED_SECONDS = 30.0
"""Seconds without any worker before that is logged; chosen: a worker that starts needs a few."""

_ALIVE_SECONDS = 30.0
"""A worker not seen for so long is taken for gone: its lease (30 s by default) has ended then, too."""
_MOST_CRASHES = 3
"""Attempts of a question by default: a question that kills workers is given up after so many."""
_DRAIN_SECONDS = 10.0
"""Seconds to finish the batch at work; chosen well below the 30 s after which Prefect kills a run that it cancels."""

Process = subprocess.Popen[bytes]


def start_worker(queues: str, settings: Mapping[str, Any]) -> Process:
    """Starts `polyhop worker --until-empty`; settings go by its environment, for they may hold passwords."""
    command = [sys.executable, "-m", "polyhop.cli", "worker", "--queues", queues, "--until-empty"]
    return subprocess.Popen(command, env={**os.environ, **as_environment(settings)})  # noqa: S603 - our own command


def end_worker(process: Process) -> None:
    """Ends a worker: it may finish the batch at work, then gives it back."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_DRAIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # the second signal gives the batch back at once
        process.wait()


class Crew:
    """The workers of a run: started while nobody else serves the queue, ended with the run."""

    def __init__(
        self,
        queue: QuestionQueue,
        name: str,
        count: int,
        settings: Mapping[str, Any],
        warn: Callable[[str], None],
    ) -> None:
        self._queue, self._name, self._count = queue, name, count
        self._settings = settings
        self._warn = warn
        self._running: list[Process] = []
        self._crashes = 0
        self._served_at: float | None = time.monotonic()

    def look_after(self) -> None:
        """Starts workers if nobody serves the queue, or says so if this run is to start none.

        Raises:
            PolyhopError: If workers of this run ended with an error again and again.
        """
        self._count_crashes()
        if self._running or any(self._name in w.queues for w in self._queue.workers(_ALIVE_SECONDS)):
            self._served_at = time.monotonic()
        elif self._count:
            self._running = [start_worker(self._name, self._settings) for _ in range(self._count)]
        elif self._served_at is not None and time.monotonic() - self._served_at >= UNSERVED_SECONDS:
            self._served_at = None  # said once
            self._warn(
                f"No worker has served queue '{self._name}' for {UNSERVED_SECONDS:.0f} s, and this run starts none "
                f"(workers=0); start one with: polyhop worker --queues {self._name}"
            )

    def end(self) -> None:
        """Ends the workers that this run started."""
        for process in self._running:
            end_worker(process)

    def _count_crashes(self) -> None:
        ended = [process for process in self._running if process.poll() is not None]
        self._running = [process for process in self._running if process not in ended]
        codes = [process.returncode for process in ended if process.returncode]
        self._crashes += len(codes)
        if self._crashes >= _MOST_CRASHES:
            raise PolyhopError(
                f"Workers of this run ended with an error {self._crashes} times, the last with code {codes[-1]}; "
                "what they printed is in the log of the process that runs flows."
            )
