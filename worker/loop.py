"""The worker: claim, answer, finish or fail, until told to stop.

Answers nothing itself (batch.py does) and knows no database (the queue does). One process is one worker; a thread of
it renews the leases while a batch runs.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import FrameType
from uuid import uuid4

from schemas.errors import PolyhopError
from schemas.queue import ClaimedQuestion
from warehouse.queue.queue import QuestionQueue
from worker.batch import BatchOutcome, answer_group, grouped
from worker.breaker import CircuitBreaker
from worker.metrics import WorkerMetrics
from worker.pool import IndexPool


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works; times in seconds.

    Attributes:
        queues: Queues to claim from.
        batch: Questions to claim at once.
        lease_seconds: How long a claim holds without a sign of life.
        poll_seconds: How long to wait when there is nothing to do.
        until_empty: End when nothing in the queues is queued or leased.
    """

    queues: tuple[str, ...] = ("default",)
    batch: int = 32
    lease_seconds: float = 30.0
    poll_seconds: float = 0.5
    until_empty: bool = False


@dataclass(slots=True)
class WorkerReport:
    """What a worker did until it stopped."""

    worker_id: str
    finished: int = 0
    failed: int = 0
    released: int = 0
    refused: int = 0
    outages: int = 0


class ReleasedError(Exception):
    """The second signal: give everything back and go."""


@dataclass(slots=True)
class _Held:
    """Lease tokens of the batch at work, shared with the heartbeat's thread."""

    tokens: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def replace(self, tokens: Sequence[str]) -> None:
        with self.lock:
            self.tokens = set(tokens)

    def snapshot(self) -> list[str]:
        with self.lock:
            return sorted(self.tokens)


class Worker:
    """One worker process's loop."""

    def __init__(
        self, queue: QuestionQueue, pool: IndexPool, options: WorkerOptions, metrics: WorkerMetrics | None = None
    ) -> None:
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._queue = queue
        self._pool = pool
        self._options = options
        self._metrics = metrics or WorkerMetrics()
        self._breaker = CircuitBreaker()
        self._held = _Held()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._signals = 0
        self._report = WorkerReport(self.worker_id)

    def stop(self) -> None:
        """Ends the loop after the batch at work."""
        self._stopping.set()

    def handle_signals(self) -> None:
        """SIGTERM or SIGINT drains; a second one releases the leases and ends at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self._stopping.set()
        if self._signals == 2:
            raise ReleasedError

    def run(self) -> WorkerReport:
        """Works until stopped, or with `until_empty` until nothing is left."""
        heartbeat = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        heartbeat.start()
        try:
            self._work()
        except ReleasedError:
            self._report.released += len(self._queue.release(self._held.snapshot()))
        finally:
            self._ended.set()
            heartbeat.join(timeout=self._options.lease_seconds)
            self._pool.close()
            self._sign_off()
        return self._report

    def _work(self) -> None:
        while not self._stopping.is_set():
            if self._breaker.is_open(time.monotonic()):
                self._wait(self._options.poll_seconds)
                continue
            claimed = self._claim()
            if claimed:
                self._batch(claimed)
            elif self._options.until_empty and not self._queue.count_open(self._options.queues):
                return
            else:
                self._wait(self._options.poll_seconds)

    def _claim(self) -> list[ClaimedQuestion]:
        options = self._options
        try:
            claimed = self._queue.claim(options.queues, self.worker_id, options.batch, options.lease_seconds)
        except PolyhopError as error:
            if not error.retryable:
                raise
            return []
        self._held.replace([question.lease_token for question in claimed])
        return claimed

    def _batch(self, claimed: Sequence[ClaimedQuestion]) -> None:
        outcome = BatchOutcome()
        groups = grouped(claimed)
        for place, group in enumerate(groups):
            started = time.perf_counter()
            answer_group(self._pool, group, outcome)
            self._metrics.observe_batch(group[0].strategy, len(group), time.perf_counter() - started)
            if outcome.outage is not None:
                rest = [question.lease_token for later in groups[place + 1 :] for question in later]
                outcome.released.extend(rest)
                break
        self._store(outcome)
        self._held.replace([])

    def _store(self, outcome: BatchOutcome) -> None:
        accepted = self._held_by_queue(lambda: self._queue.finish(outcome.finished))
        failed = self._held_by_queue(lambda: self._queue.fail(outcome.failed))
        released = self._held_by_queue(lambda: self._queue.release(outcome.released))
        self._report.finished += accepted
        self._report.failed += failed
        self._report.released += released
        self._report.refused += len(outcome.finished) - accepted + len(outcome.failed) - failed
        self._metrics.count(accepted, failed, released)
        if outcome.outage is not None:
            self._report.outages += 1
            self._metrics.outage()
            self._breaker.trip(time.monotonic())
        elif outcome.finished:
            self._breaker.close()

    def _held_by_queue(self, store: Callable[[], Collection[str]]) -> int:
        """How many leases still held; none if the database stayed away, for then others take the questions over."""
        try:
            return len(store())
        except PolyhopError as error:
            if not error.retryable:
                raise
            return 0

    def _wait(self, seconds: float) -> None:
        if self._signals:
            time.sleep(min(seconds, 0.1))
        else:
            self._stopping.wait(seconds)

    def _beat(self) -> None:
        """Renews leases and shows that the worker lives, three times per lease."""
        known: dict[str, int] | None = None
        while not self._ended.is_set():
            try:
                versions = dict(self._pool.versions())
                if versions != known:
                    self._queue.report_worker(
                        self.worker_id,
                        host=socket.gethostname(),
                        process_id=os.getpid(),
                        queues=self._options.queues,
                        versions=versions,
                    )
                    known = versions
                self._queue.heartbeat(self.worker_id, self._held.snapshot(), self._options.lease_seconds)
            except PolyhopError:
                self._metrics.heartbeat_failed()
            self._ended.wait(self._options.lease_seconds / 3)

    def _sign_off(self) -> None:
        try:
            self._queue.remove_worker(self.worker_id)
        except PolyhopError:
            self._metrics.heartbeat_failed()
