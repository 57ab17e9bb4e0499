"""The worker: claim, answer, finish or fail, until it is stopped.

Answers nothing itself (batch.py does) and knows no database (the queue does). One process is one worker; a thread of
it (heartbeat.py) renews the leases while a batch runs.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from uuid import uuid4

from polyhop.schemas.errors import (
    ContractError,
    ModelKeyError,
    ModelUnavailableError,
    PolyhopError,
    StatementRejectedError,
)
from polyhop.schemas.queue import ClaimedQuestion, FailedQuestion, FinishedQuestion
from polyhop.schemas.tracing import span
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.batch import LONGEST_ERROR, BatchOutcome, answer_group, failed_question, grouped
from polyhop.worker.breaker import CircuitBreaker, LeftQuestions
from polyhop.worker.heartbeat import Heartbeat
from polyhop.worker.metrics import WorkerMetrics
from polyhop.worker.model_outcomes import retry_after_seconds
from polyhop.worker.news import WorkerNews
from polyhop.worker.pool import IndexPool
from polyhop.worker.turns import Watch

_LONGEST_SLEEP_SECONDS = 0.1  # chosen: a signal to stop is obeyed without a noticeable delay
_PROBED_QUESTIONS = 8
"""Questions to claim at least after an outage: one that the model never answers shows only beside others."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works; times in seconds.

    Attributes:
        queues: Queues to claim from.
        batch: Questions to claim at once.
        lease_seconds: How long a claim holds without a sign of life.
        poll_seconds: How long to wait when there is nothing to do.
        until_empty: End when nothing in the queues is queued or leased.
        question_seconds: What a question may take of its own; it fails after that, the others of its batch go on.
    """

    queues: tuple[str, ...] = ("default",)
    batch: int = 32
    lease_seconds: float = 30.0
    poll_seconds: float = 0.5
    until_empty: bool = False
    question_seconds: float = 60.0


@dataclass(slots=True)
class WorkerReport:
    """What a worker did until it stopped."""

    worker_id: str
    finished: int = 0
    failed: int = 0
    released: int = 0
    refused: int = 0
    outages: int = 0


class ReleasedError(BaseException):
    """The second signal: give everything back and go. No Exception, so that none takes it for a failed question."""


class Worker:
    """One worker process's loop.

    Args:
        queue: Where questions come from.
        pool: The open indexes that answer them.
        options: How it works.
        metrics: What it counts.
        after_batch: Called after each batch that was answered.
    """

    def __init__(
        self,
        queue: QuestionQueue,
        pool: IndexPool,
        options: WorkerOptions,
        metrics: WorkerMetrics | None = None,
        after_batch: Callable[[], None] | None = None,
    ) -> None:
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._news = WorkerNews(self.worker_id)
        self._queue = queue
        self._pool = pool
        self._options = options
        self._metrics = metrics or WorkerMetrics()
        self._after_batch = after_batch
        self._breaker = CircuitBreaker()
        self._left = LeftQuestions()
        self._watch = Watch(options.question_seconds)
        self._heartbeat = Heartbeat(
            self.worker_id,
            queue,
            pool,
            self._watch,
            self._metrics,
            queues=options.queues,
            lease_seconds=options.lease_seconds,
        )
        # Plain values, for a signal's handler that takes a lock can wait for the very thread that it interrupted.
        self._is_stopping = False
        self._is_interruptible = False
        self._signals = 0
        self._report = WorkerReport(self.worker_id)

    @property
    def report(self) -> WorkerReport:
        """What it has done so far."""
        return self._report

    def stop(self) -> None:
        """Ends the loop after the batch at work."""
        self._is_stopping = True

    def handle_signals(self) -> None:
        """SIGTERM or SIGINT drains; a second one releases the leases and ends at once. SIGALRM ends slow questions."""
        self._watch.interrupt_by_signal()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self._is_stopping = True
        if self._signals > 1 and self._is_interruptible:
            self._is_interruptible = False
            raise ReleasedError

    def run(self) -> WorkerReport:
        """Works until stopped, or with `until_empty` until nothing is left.

        Raises:
            ModelKeyError: If the model's key is missing or refused; the questions at work are given back unharmed.
        """
        self._news.info("worker started", queues=",".join(self._options.queues))
        self._heartbeat.start()
        try:
            self._work_or_release()
        finally:
            self._heartbeat.end()
            self._pool.close()
            self._heartbeat.sign_off()
            report = self._report
            counts = {"finished": report.finished, "failed": report.failed, "released": report.released}
            self._news.info("worker stopped", **counts, refused=report.refused, outages=report.outages)
        return self._report

    def _work_or_release(self) -> None:
        try:
            try:
                self._is_interruptible = True
                self._work()
            finally:
                self._is_interruptible = False
        except ReleasedError:
            self._release_held()
        except ModelKeyError:
            self._release_held()
            raise

    def _release_held(self) -> None:
        self._report.released += self._stored(lambda: self._queue.release(self._heartbeat.held))

    def _work(self) -> None:
        while not self._is_stopping:
            if self._breaker.is_open(time.monotonic()):
                self._wait(self._options.poll_seconds)
                continue
            claimed = self._claim()
            if claimed:
                self._batch(claimed)
                if self._after_batch is not None:
                    self._after_batch()
            elif self._is_done():
                return
            else:
                self._wait(self._options.poll_seconds)

    def _is_done(self) -> bool:
        if not self._options.until_empty:
            return False
        try:
            return not self._queue.count_open(self._options.queues)
        except PolyhopError as error:
            if not self._news.is_passing(error, "questions are counted"):
                raise
            return False

    def _claim(self) -> list[ClaimedQuestion]:
        options = self._options
        count = max(options.batch, _PROBED_QUESTIONS if self._breaker.outages else 0)
        try:
            claimed = self._queue.claim(options.queues, self.worker_id, count, options.lease_seconds)
        except PolyhopError as error:
            if not self._news.is_passing(error, "questions are claimed"):
                raise
            return []
        self._news.claimed(claimed)
        self._heartbeat.held = tuple(question.lease_token for question in claimed)
        self._watch.begin(claimed, options.lease_seconds)
        return claimed

    def _batch(self, claimed: Sequence[ClaimedQuestion]) -> None:
        outcome = BatchOutcome()
        groups = grouped(claimed)
        for place, group in enumerate(groups):
            started = time.perf_counter()
            with span("polyhop.batch", {"polyhop.strategy": group[0].strategy, "polyhop.questions": len(group)}):
                answer_group(self._pool, group, outcome, self._watch)
            seconds = time.perf_counter() - started
            self._metrics.observe_batch(group[0].strategy, len(group), seconds)
            self._news.debug("answered a group", strategy=group[0].strategy, questions=len(group), seconds=seconds)
            if outcome.outage is not None:
                rest = [question.lease_token for later in groups[place + 1 :] for question in later]
                outcome.released.extend(rest)
                break
        names = {q.lease_token: f"{q.job_id}/{q.question_id}" for q in claimed}
        self._blame(outcome, names)
        self._store(outcome, names)
        self._left.forget([names[answer.lease_token] for answer in outcome.finished])
        self._heartbeat.held = ()

    def _blame(self, outcome: BatchOutcome, names: Mapping[str, str]) -> None:
        """A question that a model leaves while it answers others loses an attempt in the end."""
        at_fault = {token for token in outcome.left if self._left.is_at_fault(names[token])}
        outcome.released = [token for token in outcome.released if token not in at_fault]
        outcome.failed.extend(
            FailedQuestion(token, str(outcome.outage)[:LONGEST_ERROR], ModelUnavailableError.__name__, retryable=True)
            for token in sorted(at_fault)
        )

    def _store(self, outcome: BatchOutcome, names: Mapping[str, str]) -> None:
        accepted = self._finish(outcome)
        failed = self._stored(lambda: self._queue.fail(outcome.failed))
        released = self._stored(lambda: self._queue.release(outcome.released))
        self._report.finished += accepted
        self._report.failed += failed
        self._report.released += released
        refused = len(outcome.finished) - accepted + len(outcome.failed) - failed
        self._report.refused += refused
        self._news.lost(refused, outcome.failed, names)
        self._metrics.count(accepted, failed, released)
        self._mind(outcome)

    def _mind(self, outcome: BatchOutcome) -> None:
        """Opens the breaker after an outage, closes it after a success, and has the heartbeat report it."""
        if outcome.left or (outcome.outage is None and outcome.finished):
            if self._breaker.outages:
                self._news.info("the model answers again")
            self._breaker.close()
        if outcome.outage is not None:
            self._report.outages += 1
            self._metrics.outage()
            pause = self._breaker.trip(time.monotonic(), at_least=retry_after_seconds(outcome.outage))
            said = str(outcome.outage)[:LONGEST_ERROR] or type(outcome.outage).__name__
            self._news.warning("the model is unavailable", error=said, pause=pause)
            self._heartbeat.report(said)
        elif outcome.finished:
            self._heartbeat.report(None)

    def _finish(self, outcome: BatchOutcome) -> int:
        """How many answers were stored; one that cannot be stored joins the failed ones and spoils no other."""
        try:
            return self._stored(lambda: self._queue.finish(outcome.finished))
        except (ContractError, StatementRejectedError):
            answers, outcome.finished = outcome.finished, []
            return sum(self._finish_alone(answer, outcome) for answer in answers)

    def _finish_alone(self, answer: FinishedQuestion, outcome: BatchOutcome) -> int:
        try:
            accepted = self._stored(lambda: self._queue.finish([answer]))
        except (ContractError, StatementRejectedError) as error:
            outcome.failed.append(failed_question(answer.lease_token, error))
            return 0
        outcome.finished.append(answer)
        return accepted

    def _stored(self, store: Callable[[], Collection[str]]) -> int:
        """How many leases still held; none if the database stayed unavailable: others then take over the questions."""
        try:
            return len(store())
        except PolyhopError as error:
            if not self._news.is_passing(error, "answers are stored"):
                raise
            return 0

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._is_stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP_SECONDS))
