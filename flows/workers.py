"""Worker processes that a flow run starts and ends, and whether anybody serves a queue at all.

Answers nothing and knows no Prefect: what is to be said goes to a function that the caller brings.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any

from polyhop.schemas.environment import as_environment
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.queue import WorkerRow
from polyhop.warehouse.queue.queue import QuestionQueue

UNSERVED_SECONDS = 30.0
"""Seconds without any worker before that is logged; chosen: a worker that starts needs a few."""

_ALIVE_SECONDS = 30.0
"""A worker not seen for so long is taken for gone: its lease (30 s by default) has ended then, too."""
_MOST_CRASHES = 3
"""Attempts of a question by default: a question that kills workers is given up after so many."""
_DRAIN_SECONDS = 10.0
"""Seconds to finish the batch at work; chosen well below the 30 s after which Prefect kills a run that it cancels."""

_LAST_WORDS_SECONDS = 5.0
"""For the last lines of a worker that has ended; chosen: they are in the pipe already."""

Process = subprocess.Popen[bytes]


def start_worker(queues: str, settings: Mapping[str, Any]) -> Process:
    """Starts `polyhop worker --until-empty`; settings go by its environment, for they may hold passwords.

    What it prints must be read (`follow`), or it stops when the pipe is full.
    """
    command = [sys.executable, "-m", "polyhop.cli", "worker", "--queues", queues, "--until-empty"]
    environment = {**os.environ, **as_environment(settings)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - our own command


def follow(process: Process, say: Callable[[str], None]) -> Thread | None:
    """Hands on what a worker prints, line by line, until it ends; the thread that does so."""
    if process.stdout is None:
        return None
    lines = process.stdout

    def read() -> None:
        with lines:
            for line in lines:
                said = line.decode("utf-8", "replace").strip()
                if said:
                    say(f"worker {process.pid}: {said}")

    thread = Thread(target=read, name=f"output of worker {process.pid}", daemon=True)
    thread.start()
    return thread


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


class Outages:
    """Which outages of models, seen by workers, are new since the last look."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, float | None]] = set()

    def new(self, workers: Sequence[WorkerRow], queues: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The payload of an event for each outage of a worker of these queues that was not there before."""
        for worker in workers:
            if worker.outage is None or not set(queues) & set(worker.queues):
                continue
            if (worker.worker_id, worker.outage_since) not in self._seen:
                self._seen.add((worker.worker_id, worker.outage_since))
                yield {
                    "worker": worker.worker_id,
                    "host": worker.host,
                    "queues": list(worker.queues),
                    "reason": worker.outage,
                    "since": worker.outage_since,
                }


class Crew:
    """The workers of a run: started while nobody else serves the queue, ended with the run.

    `warn` gets what somebody should look at, `say` what the workers print.
    """

    def __init__(
        self,
        queue: QuestionQueue,
        name: str,
        count: int,
        settings: Mapping[str, Any],
        warn: Callable[[str], None],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._queue, self._name, self._count = queue, name, count
        self._settings = settings
        self._warn = warn
        self._say = say or warn
        self._readers: list[Thread] = []
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
            self._start()
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
        for reader in self._readers:
            reader.join(_LAST_WORDS_SECONDS)

    def _start(self) -> None:
        self._running = [start_worker(self._name, self._settings) for _ in range(self._count)]
        readers = [follow(process, self._say) for process in self._running]
        self._readers += [reader for reader in readers if reader is not None]

    def _count_crashes(self) -> None:
        ended = [process for process in self._running if process.poll() is not None]
        self._running = [process for process in self._running if process not in ended]
        codes = [process.returncode for process in ended if process.returncode]
        self._crashes += len(codes)
        if self._crashes >= _MOST_CRASHES:
            raise PolyhopError(
                f"Workers of this run ended with an error {self._crashes} times, the last with code {codes[-1]}; "
                "what they printed is in the log of this run."
            )
