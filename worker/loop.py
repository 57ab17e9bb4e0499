"""The worker: claim, answer, finish or fail, with heartbeats, a circuit breaker and metrics, until it is stopped.

One process is one worker; a thread of it renews the leases while a batch runs.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from polyhop.schemas import errors
from polyhop.schemas.logs import span
from polyhop.schemas.query import Question
from polyhop.schemas.queue import (
    DEADLINE_ERROR,
    DEADLINE_TEXT,
    ClaimedQuestion,
    FailedQuestion,
    FinishedQuestion,
    to_json,
)
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.remote import has_newer, pull_version
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.answer import AnsweredQuestion, PartialOutageError
from polyhop.worker.session import IndexPool, IndexSession
from polyhop.worker.time_limits import DeadlinePassedError, TimeLimitError, TimeLimits

if TYPE_CHECKING:
    from polyhop.warehouse.models.batches import Batches

T = TypeVar("T")
U = TypeVar("U")

LOOPBACK = "127.0.0.1"


class WorkerMetrics:
    """Counters of one worker, in their own registry: questions by outcome, seconds of batches by strategy."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.questions = Counter("polyhop_questions", "Questions by outcome", ["outcome"], registry=registry)
        self.seconds = Histogram(
            "polyhop_batch_seconds", "Seconds per batch of one strategy", ["strategy"], registry=registry
        )
        self.outages = Counter("polyhop_model_outages", "Times the circuit breaker opened", registry=registry)
        self.heartbeats_failed = Counter(
            "polyhop_heartbeats_failed", "Heartbeats that did not reach the queue", registry=registry
        )


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Does not log requests."""


def serve_metrics(metrics: WorkerMetrics, port: int, address: str = LOOPBACK) -> Callable[[], None]:
    """Serves /metrics and /healthz in a thread; returns what stops it."""
    prometheus = make_wsgi_app(metrics.registry)

    def application(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environment.get("PATH_INFO") == "/healthz":
            start("200 OK", [("Content-Type", "text/plain")])
            return [b"ok\n"]
        page: Iterable[bytes] = prometheus(environment, start)
        return page

    try:
        server = make_server(address, port, application, ThreadingWSGIServer, _Silent)
    except OSError as error:
        raise errors.StoreError(
            f"Cannot serve metrics on {address}:{port}: {error.strerror}; choose another port."
        ) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop


FIRST_PAUSE_SECONDS = 1.0  # chosen: a restarting server is soon asked again; doubled with every further outage
LONGEST_PAUSE_SECONDS = 30.0  # chosen: bounds how late the end of an outage is noticed
STRIKES_PER_ATTEMPT = 3  # chosen: being left twice may be chance, under load
_MOST_REMEMBERED = 10_000  # chosen: bounds the memory of a worker that runs for months; the oldest are forgotten first


@dataclass(slots=True)
class CircuitBreaker:
    """Open after an outage for a pause twice as long after each one; closed by the first success."""

    outages: int = 0
    open_until: float = 0.0

    def is_open(self, now: float) -> bool:
        """Returns True while the breaker is open."""
        return now < self.open_until

    def trip(self, now: float, at_least: float = 0.0) -> float:
        """Notes an outage; returns the pause in seconds (`at_least` is a server's Retry-After)."""
        pause = max(at_least, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self.outages, 20)))
        self.outages += 1
        self.open_until = now + pause
        return pause

    def close(self) -> None:
        """Notes a success."""
        self.outages = 0
        self.open_until = 0.0


@dataclass(slots=True)
class LeftQuestions:
    """Questions that a model left without a reply although it answered others of the same batch.

    An outage uses up no attempt. But a question that keeps failing while others succeed is itself at fault, and would
    block the queue.
    """

    strikes: dict[str, int] = field(default_factory=dict)

    def is_at_fault(self, name: str) -> bool:
        """Notes that a question was left while others were answered; True each third time."""
        count = self.strikes.pop(name, 0) + 1
        if count >= STRIKES_PER_ATTEMPT:
            return True
        self.strikes[name] = count
        while len(self.strikes) > _MOST_REMEMBERED:
            self.strikes.pop(next(iter(self.strikes)))
        return False

    def forget(self, names: Sequence[str]) -> None:
        """Notes that questions were answered."""
        for name in names:
            self.strikes.pop(name, None)


LONGEST_ERROR = 2_000  # Characters of an error that are kept.


@dataclass(slots=True)
class BatchOutcome:
    """Result of a batch; `released` questions go back unharmed because of `outage`.

    `left` are the released ones that a model left without a reply while it replied to others of the batch.
    """

    finished: list[FinishedQuestion] = field(default_factory=list)
    failed: list[FailedQuestion] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)  # For replies of a batch.
    left: list[str] = field(default_factory=list)
    outage: errors.ModelUnavailableError | None = None

    def give_back(self, tokens: Sequence[str], error: errors.ModelUnavailableError | errors.WaitingError) -> None:
        """Notes questions that a model did not answer, for an outage or since they wait for a batch."""
        if isinstance(error, errors.WaitingError):
            self.waiting.extend(tokens)
        else:
            self.outage = error
            self.released.extend(tokens)


def grouped(claimed: Iterable[ClaimedQuestion]) -> list[list[ClaimedQuestion]]:
    """Questions that can be answered together (same index, strategy, parameters, filter…), in claimed order."""
    groups: dict[tuple[str, str, str, int, float | None, str | None], list[ClaimedQuestion]] = {}
    for q in claimed:
        key = (q.index, q.strategy, to_json(dict(q.parameters)), q.limit, q.min_confidence, q.where)
        groups.setdefault(key, []).append(q)
    return list(groups.values())


def answer_group(pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome, limits: TimeLimits) -> None:
    """Answers one group; a question that raises is found by asking one by one and fails alone.

    A question that exceeds its time limit, or whose deadline passes before it begins, fails at once; the others go on.
    If the time limit ran out while several were answered together, they are asked one by one, too.
    """
    late = [question.lease_token for question in group if limits.is_late(question.lease_token)]
    outcome.failed.extend(FailedQuestion(token, DEADLINE_TEXT, DEADLINE_ERROR, retryable=False) for token in late)
    group = [question for question in group if question.lease_token not in late]
    if not group:
        return
    first = group[0]
    try:
        session = pool.session(first.index).where(first.where)
        answerer = session.answerer(first.strategy, first.parameters, first.min_confidence)
        asked = [Question(q.question, q.question_id, topic=q.topic) for q in group]
        # The culprit of a failed batch is unknown, so retried questions run one at a time.
        isolated = [index for index, question in enumerate(group) if question.attempt > 1]
        timer = limits.timer([q.lease_token for q in group], isolated)
        answered = answerer.answer(asked, limit=first.limit, timer=timer)
        finished = [_finished(session, q, one) for q, one in zip(group, answered, strict=True)]
    except PartialOutageError as error:
        _take_apart(session, group, error, outcome)
    except (errors.ModelUnavailableError, errors.WaitingError) as error:
        outcome.give_back([question.lease_token for question in group], error)
    except errors.ModelKeyError:
        raise
    except DeadlinePassedError:
        answer_group(pool, group, outcome, limits)
    except TimeLimitError as over:
        limits.clear()
        pool.forget(first.index)
        _answer_others(pool, group, over.tokens, outcome, limits)
    except Exception as error:  # noqa: BLE001 - a strategy, ours or not, may raise anything; the others go on
        if len(group) == 1:
            outcome.failed.append(failed_question(first.lease_token, error))
        else:
            _answer_singly(pool, group, outcome, limits)
    else:
        outcome.finished.extend(finished)


def _answer_others(
    pool: IndexPool, group: Sequence[ClaimedQuestion], slow: Sequence[str], outcome: BatchOutcome, limits: TimeLimits
) -> None:
    """Answers a group after a time limit ran out: without the question at fault, or one by one to find it."""
    if len(slow) > 1:
        _answer_singly(pool, group, outcome, limits)
        return
    outcome.failed.append(failed_question(slow[0], errors.QuestionTimeoutError(limits.limit_seconds)))
    answer_group(pool, [question for question in group if question.lease_token not in slow], outcome, limits)


def _answer_singly(
    pool: IndexPool, group: Sequence[ClaimedQuestion], outcome: BatchOutcome, limits: TimeLimits
) -> None:
    for index, question in enumerate(group):
        answer_group(pool, [question], outcome, limits)
        if outcome.outage is not None:
            outcome.released.extend(later.lease_token for later in group[index + 1 :])
            return


def _take_apart(
    session: IndexSession, group: Sequence[ClaimedQuestion], outage: PartialOutageError, outcome: BatchOutcome
) -> None:
    """Keeps the answers of a group for the rest of which the model was unavailable."""
    outcome.outage = outage
    pairs = list(zip(group, outage.answered, strict=True))
    left = [question.lease_token for question, one in pairs if one is None]
    outcome.finished.extend(_finished(session, question, one) for question, one in pairs if one is not None)
    outcome.released.extend(left)
    # Whether the model replied just now, not some time before.
    uses = [one.reading.use for one in outage.answered if one is not None]
    if any(use is not None and use.spent.calls > 0 for use in uses):
        outcome.left.extend(left)


def _finished(session: IndexSession, question: ClaimedQuestion, answered: AnsweredQuestion) -> FinishedQuestion:
    document = session.document(question.strategy, answered)
    reading: Any = document.get("reading") or {}
    document["index"] = question.index
    document["parameters"] = dict(question.parameters)
    document["limit"] = question.limit
    document["min_confidence"] = question.min_confidence
    document["model"] = reading.get("model") or session.encoder_model
    spent = reading.get("spent") or {}
    document["tokens"] = {"prompt": spent.get("prompt_tokens", 0), "completion": spent.get("completion_tokens", 0)}
    document["cost_usd"] = spent.get("cost_usd", 0.0)
    return FinishedQuestion(
        lease_token=question.lease_token,
        answer=answered.reading.answer,
        version=session.version,
        strategy=question.strategy,
        seconds=answered.total_seconds,
        result=document,
    )


def failed_question(lease_token: str, error: Exception) -> FailedQuestion:
    """A question with what was raised for it, in words of a bounded length."""
    text = (errors.redact(str(error)) or type(error).__name__)[:LONGEST_ERROR]
    is_retryable = isinstance(error, errors.PolyhopError) and error.retryable
    return FailedQuestion(lease_token, text, type(error).__name__, retryable=is_retryable)


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
        limits: TimeLimits,
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
        self._limits = limits
        self._metrics = metrics
        self._queues = queues
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._is_due = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begins to beat."""
        self._thread.start()

    def end(self) -> None:
        """Stops beating; waits one lease at most for the beat at work."""
        self._ended.set()
        self._is_due.set()
        self._thread.join(timeout=self._lease_seconds)

    def report(self, outage: str | None) -> None:
        """Reports that the worker waits for a model, or waits no longer; at once if that is new."""
        if outage != self.outage:
            self.outage = outage
            self._is_due.set()

    def sign_off(self) -> None:
        """Removes the worker from the queue's list of workers."""
        try:
            self._queue.remove_worker(self._worker_id)
        except errors.PolyhopError:
            self._metrics.heartbeats_failed.inc()

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
                self._metrics.heartbeats_failed.inc()
                fields = {"worker": self._worker_id, "error": f"{type(error).__name__}: {error}"}
                _LOG.warning("a heartbeat did not reach the queue", extra={"fields": fields})
            self._is_due.wait(self._lease_seconds / 3)
            self._is_due.clear()

    def _give_up_overdue(self) -> None:
        """Takes the batch away from a question that cannot be interrupted: it is dead, the others go to other workers.

        If several are answered together, the slow one is unknown: their leases run out, and each is retried alone.
        What this worker would still store of the batch is refused, for the leases no longer hold.
        """
        overdue, held = self._limits.overdue(), self.held
        if not set(overdue) & set(held):
            return
        self.held = ()
        if len(overdue) == 1:
            self._queue.fail([failed_question(overdue[0], errors.QuestionTimeoutError(self._limits.limit_seconds))])
        self._queue.release([other for other in held if other not in overdue])


_LOOK_SECONDS = 15.0  # chosen: between two looks at a store; one costs a request or two per index


class Follower:
    """Pulls newer versions of a worker's indexes from a store; the worker goes on with those that it has meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._layout = settings, Layout(settings.root)
        self._thread: threading.Thread | None = None
        self._next = 0.0
        self._failed: set[str] = set()

    def look(self) -> None:
        """Begins a look in a thread, between two batches, unless one is under way or was just made."""
        if time.monotonic() >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._next = time.monotonic() + _LOOK_SECONDS
            self._thread = threading.Thread(target=self._pull, name="versions elsewhere", daemon=True)
            self._thread.start()

    def _pull(self) -> None:
        own = self._settings.index
        for name in self._layout.index_names():
            try:
                if has_newer(self._layout, name, own.remote):
                    moved = pull_version(
                        self._layout, name, own.remote, keep=self._settings.keep_versions, key_file=own.key_file
                    )
                    _LOG.info("pulled a version", extra={"fields": {"index": name, "version": moved.version}})
                self._failed.discard(name)
            except errors.StoreConflictError:
                continue  # another worker of this root pulls it
            except errors.PolyhopError as error:
                if name not in self._failed:  # once, until a look succeeds again
                    self._failed.add(name)
                    fields = {"index": name, "error": str(error)[:LONGEST_ERROR]}
                    _LOG.warning("a look for newer versions failed", extra={"fields": fields})


class WorkerLog:
    """Log records of one worker."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._is_out = False

    def write(self, level: int, message: str, **fields: object) -> None:
        """Writes a record with the worker's name among its fields."""
        _LOG.log(level, message, extra={"fields": {"worker": self._worker_id, **fields}})

    def lost(self, refused: int, failed: Iterable[FailedQuestion], names: Mapping[str, str]) -> None:
        """Answers that came too late, and questions that failed; `names` has job and question of each lease."""
        if refused:
            self.write(logging.WARNING, "leases were lost before their answers were stored", questions=refused)
        for question in failed:
            name = names.get(question.lease_token, "")
            self.write(logging.WARNING, "a question failed", question=name, error=question.error[:LONGEST_ERROR])

    def claimed(self, questions: Sequence[ClaimedQuestion]) -> None:
        """Questions were claimed, or there were none; in any case the queue answers."""
        if self._is_out:
            self._is_out = False
            self.write(logging.INFO, "the queue is available again")
        if questions:
            jobs = sorted({one.job_id for one in questions})
            self.write(logging.DEBUG, "claimed questions", questions=len(questions), jobs=jobs)

    def is_passing(self, error: errors.PolyhopError, doing: str) -> bool:
        """Returns whether the queue is temporarily unavailable (logged once); False if waiting does not help."""
        if error.retryable and not self._is_out:
            self._is_out = True
            self.write(logging.WARNING, f"the queue is unavailable while {doing}", error=str(error)[:LONGEST_ERROR])
        return error.retryable


_LONGEST_SLEEP_SECONDS = 0.1  # chosen: a signal to stop is obeyed without a noticeable delay
_BATCH_LOOK_SECONDS = 60.0  # chosen: negligible compared with a wait of minutes to hours, and a look costs nothing
_PROBED_QUESTIONS = 8
"""Questions to claim at least after an outage: one that the model never answers shows only among others."""


BATCH = 32  # Questions that a worker claims at once; chosen: claiming them costs less than one of them.


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker; times in seconds."""

    queues: tuple[str, ...] = ("default",)  # Queues to claim from.
    batch: int = BATCH  # Questions to claim at once.
    # How long a claim holds without a sign of life; chosen: a worker that is busy gives one every ten seconds.
    lease_seconds: float = 30.0
    poll_seconds: float = 0.5  # How long to wait when there is nothing to do.
    until_empty: bool = False  # End when nothing in the queues is queued or leased.
    # Processing time of a question; it fails after that, the others of its batch go on.
    question_seconds: float = 60.0


@dataclass(slots=True)
class WorkerReport:
    """Result of a worker's run."""

    worker_id: str
    finished: int = 0
    failed: int = 0
    released: int = 0
    waiting: int = 0  # Times that a question was put off until a batch comes back.
    refused: int = 0
    outages: int = 0


class ReleasedError(BaseException):
    """The second signal: give everything back and go. No Exception, so that none takes it for a failed question."""


class Worker:
    """One worker process's loop.

    Attributes:
        report: What it did so far.
        awaited: The batches for which it ended although questions are open; None if it did not.
    """

    def __init__(
        self,
        queue: QuestionQueue,
        pool: IndexPool,
        options: WorkerOptions,
        metrics: WorkerMetrics | None = None,
        after_batch: Callable[[], None] | None = None,
        follower: Follower | None = None,
        batches: "Batches | None" = None,
    ) -> None:
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._log = WorkerLog(self.worker_id)
        self._queue = queue
        self._pool = pool
        self._options = options
        self._metrics = metrics or WorkerMetrics()
        self._after_batch = after_batch
        self._follower = follower
        self._batches = batches
        self._next_look = 0.0  # at batches
        self._has_put_off = False  # since the last look
        self.awaited: errors.WaitingError | None = None
        self._breaker = CircuitBreaker()
        self._left = LeftQuestions()
        self._limits = TimeLimits(options.question_seconds)
        queues, lease = options.queues, options.lease_seconds
        self._heartbeat = Heartbeat(
            self.worker_id, queue, pool, self._limits, self._metrics, queues=queues, lease_seconds=lease
        )
        # Plain values, for a signal's handler that takes a lock can wait for the very thread that it interrupted.
        self._is_stopping = False
        self._is_interruptible = False
        self._signals = 0
        self.report = WorkerReport(self.worker_id)

    def stop(self) -> None:
        """Ends the loop after the batch at work."""
        self._is_stopping = True

    def handle_signals(self) -> None:
        """SIGTERM or SIGINT drains; a second one releases the leases and ends at once. SIGALRM ends slow questions."""
        self._limits.interrupt_by_signal()
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
        self._log.write(logging.INFO, "worker started", queues=",".join(self._options.queues))
        self._heartbeat.start()
        try:
            try:
                try:
                    self._is_interruptible = True
                    self._work()
                finally:
                    self._is_interruptible = False
            except ReleasedError:
                self._release_held()
            except errors.ModelKeyError:
                self._release_held()
                raise
        finally:
            self._heartbeat.end()
            self._pool.close()
            self._heartbeat.sign_off()
            report = self.report
            counts = {"finished": report.finished, "failed": report.failed, "released": report.released}
            self._log.write(logging.INFO, "worker stopped", **counts, refused=report.refused, outages=report.outages)
        return self.report

    def _release_held(self) -> None:
        self.report.released += self._stored(lambda: self._queue.release(self._heartbeat.held))

    def _work(self) -> None:
        if self._batches is None:  # those of workers that asked in batches
            self._asked(lambda: self._queue.wake(self._options.queues), 0, "questions are woken")
        while not self._is_stopping:
            if self._follower is not None:
                self._follower.look()
            if self._batches is not None and time.monotonic() >= self._next_look:
                self._look_at(self._batches)
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
        """Returns whether to exit: with `until_empty`, if only questions that wait for batches are open."""
        if not self._options.until_empty:
            return False
        if self._batches is not None and self._has_put_off:
            self._look_at(self._batches)
        queues = self._options.queues
        put_off = self._asked(lambda: self._queue.count_put_off(queues), 0, "questions are counted")
        if not put_off:
            self.awaited = None
        others = self._asked(lambda: self._queue.count_open(queues), put_off + 1, "questions are counted") - put_off
        return others <= 0 and (not put_off or self.awaited is not None or self._batches is None)

    def _look_at(self, batches: "Batches") -> None:
        """Submits what questions wait for, and wakes those whose replies came."""
        self._next_look = time.monotonic() + _BATCH_LOOK_SECONDS
        try:
            self.awaited = batches.submit()
            if batches.has_news():
                self.awaited = batches.take_in()
                self._asked(lambda: self._queue.wake(self._options.queues), 0, "questions are woken")
            self._has_put_off = False
        except errors.ModelUnavailableError as error:
            self._log.write(logging.WARNING, "the model is unavailable", error=str(error)[:LONGEST_ERROR])

    def _claim(self) -> list[ClaimedQuestion]:
        options = self._options
        count = max(options.batch, _PROBED_QUESTIONS if self._breaker.outages else 0)
        claimed = self._asked(
            lambda: self._queue.claim(options.queues, self.worker_id, count, options.lease_seconds),
            None,
            "questions are claimed",
        )
        if claimed is None:
            return []
        self._log.claimed(claimed)
        self._heartbeat.held = tuple(question.lease_token for question in claimed)
        self._limits.begin(claimed, options.lease_seconds)
        return claimed

    def _batch(self, claimed: Sequence[ClaimedQuestion]) -> None:
        outcome = BatchOutcome()
        groups = grouped(claimed)
        for number, group in enumerate(groups):
            started = time.perf_counter()
            with span("polyhop.batch", {"polyhop.strategy": group[0].strategy, "polyhop.questions": len(group)}):
                answer_group(self._pool, group, outcome, self._limits)
            seconds = time.perf_counter() - started
            self._metrics.seconds.labels(group[0].strategy).observe(seconds)
            self._log.write(
                logging.DEBUG, "answered a group", strategy=group[0].strategy, questions=len(group), seconds=seconds
            )
            if outcome.outage is not None:
                outcome.released.extend(question.lease_token for later in groups[number + 1 :] for question in later)
                break
        names = {q.lease_token: f"{q.job_id}/{q.question_id}" for q in claimed}
        # A question that a model leaves while it answers others loses an attempt in the end.
        at_fault = {token for token in outcome.left if self._left.is_at_fault(names[token])}
        outcome.released = [token for token in outcome.released if token not in at_fault]
        outcome.failed.extend(
            FailedQuestion(
                token, str(outcome.outage)[:LONGEST_ERROR], errors.ModelUnavailableError.__name__, retryable=True
            )
            for token in sorted(at_fault)
        )
        self._store(outcome, names)
        self._left.forget([names[answer.lease_token] for answer in outcome.finished])
        self._heartbeat.held = ()

    def _store(self, outcome: BatchOutcome, names: Mapping[str, str]) -> None:
        answers, outcome.finished = outcome.finished, []
        accepted = self._finish(answers, outcome)
        failed = self._stored(lambda: self._queue.fail(outcome.failed))
        released = self._stored(lambda: self._queue.release(outcome.released))
        waiting = self._stored(lambda: self._queue.release(outcome.waiting, "waits for replies of a batch"))
        self._has_put_off |= waiting > 0
        self.report.finished += accepted
        self.report.failed += failed
        self.report.released += released
        self.report.waiting += waiting
        refused = len(outcome.finished) - accepted + len(outcome.failed) - failed
        self.report.refused += refused
        self._log.lost(refused, outcome.failed, names)
        counts = {"finished": accepted, "failed": failed, "released": released, "waiting": waiting}
        for outcome_name, count in counts.items():
            self._metrics.questions.labels(outcome_name).inc(count)
        # Opens the breaker after an outage, closes it after a success, and has the heartbeat report it.
        if outcome.left or (outcome.outage is None and outcome.finished):
            if self._breaker.outages:
                self._log.write(logging.INFO, "the model answers again")
            self._breaker.close()
        if outcome.outage is not None:
            self.report.outages += 1
            self._metrics.outages.inc()
            pause = self._breaker.trip(time.monotonic(), at_least=errors.retry_after_seconds(outcome.outage))
            said = str(outcome.outage)[:LONGEST_ERROR] or type(outcome.outage).__name__
            self._log.write(logging.WARNING, "the model is unavailable", error=said, pause=pause)
            self._heartbeat.report(said)
        elif outcome.finished:
            self._heartbeat.report(None)

    def _finish(self, answers: Sequence[FinishedQuestion], outcome: BatchOutcome) -> int:
        """Stores answers; returns their number. One that cannot be stored joins the failed ones."""
        try:
            accepted = self._stored(lambda: self._queue.finish(answers))
        except (errors.ContractError, errors.StatementRejectedError) as error:
            if len(answers) != 1:
                return sum(self._finish([answer], outcome) for answer in answers)
            outcome.failed.append(failed_question(answers[0].lease_token, error))
            return 0
        outcome.finished.extend(answers)
        return accepted

    def _stored(self, store: Callable[[], Collection[str]]) -> int:
        """Number of leases still held; 0 if the database stayed unavailable and others take over the questions."""
        return len(self._asked(store, (), "answers are stored"))

    def _asked(self, ask: Callable[[], T], otherwise: U, doing: str) -> T | U:
        """Calls the queue; returns `otherwise` while it is unavailable, which is logged once."""
        try:
            return ask()
        except errors.PolyhopError as error:
            if not self._log.is_passing(error, doing):
                raise
            return otherwise

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._is_stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP_SECONDS))
