"""A worker's heartbeat: a thread that renews the leases of the batch at work and reports the worker to the queue.

Claims, answers and stores nothing (loop.py does).
Invariant: a question that nothing can interrupt loses its lease, never the questions claimed with it.
"""

import logging
import os
import socket
import threading
from collections.abc import Sequence

from polyhop.schemas.errors import PolyhopError, QuestionTimeoutError
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.batch import failed_question
from polyhop.worker.metrics import WorkerMetrics
from polyhop.worker.pool import IndexPool
from polyhop.worker.turns import Watch

_LOG = logging.getLogger(__name__)


class Heartbeat:
    """Three beats per lease, and one at once when an outage begins or ends.

    Attributes:
        held: Lease tokens of the batch at work; the worker sets it, and a batch that is given up empties it.
        outage: Why the worker waits for a model, None while it does not.
    """

    def __init__(
        self,
        worker_id: str,
        queue: QuestionQueue,
        pool: IndexPool,
        watch: Watch,
        metrics: WorkerMetrics,
        *,
        queues: Sequence[str],
        lease_seconds: float,
    ) -> None:
        self.held: tuple[str, ...] = ()
        self.outage: str | None = None
        self._worker_id = worker_id
        self._queue = queue
        self._pool = pool
        self._watch = watch
        self._metrics = metrics
        self._queues = queues
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begins to beat."""
        self._thread.start()

    def end(self) -> None:
        """Stops beating; waits one lease at most for the beat at work."""
        self._ended.set()
        self._news.set()
        self._thread.join(timeout=self._lease_seconds)

    def report(self, outage: str | None) -> None:
        """Reports that the worker waits for a model, or waits no longer; at once if that is new."""
        if outage != self.outage:
            self.outage = outage
            self._news.set()

    def sign_off(self) -> None:
        """Removes the worker from the queue's list of workers."""
        try:
            self._queue.remove_worker(self._worker_id)
        except PolyhopError:
            self._metrics.heartbeat_failed()

    def _beat(self) -> None:
        reported: tuple[dict[str, int], str | None] | None = None
        while not self._ended.is_set():
            try:
                current = dict(self._pool.versions()), self.outage
                if current != reported:
                    self._queue.report_worker(
                        self._worker_id,
                        host=socket.gethostname(),
                        process_id=os.getpid(),
                        queues=self._queues,
                        versions=current[0],
                        outage=current[1],
                    )
                    reported = current
                self._queue.heartbeat(self._worker_id, self.held, self._lease_seconds)
                self._give_up_overdue()
            except Exception as error:  # noqa: BLE001 - anything that ended this thread would cost the worker all its leases
                self._metrics.heartbeat_failed()
                fields = {"worker": self._worker_id, "error": f"{type(error).__name__}: {error}"}
                _LOG.warning("a heartbeat did not reach the queue", extra={"fields": fields})
            self._news.wait(self._lease_seconds / 3)
            self._news.clear()

    def _give_up_overdue(self) -> None:
        """Takes the batch away from a question that cannot be interrupted: it is dead, the others go to other workers.

        If several share the turn, nobody knows which it is: their leases run out, and each is then retrieved alone.
        What this worker would still store of the batch is refused, for the leases no longer hold.
        """
        overdue, held = self._watch.overdue(), self.held
        if not set(overdue) & set(held):
            return
        self.held = ()
        if len(overdue) == 1:
            self._queue.fail([failed_question(overdue[0], QuestionTimeoutError(self._watch.limit_seconds))])
        self._queue.release([other for other in held if other not in overdue])
