"""Calls of models that cost money: paced, retried, within the budget, in the journal before they are sent.

litellm could retry and pace on its own, but every single call must be in the journal before it is sent, so that a kill
loses nothing and a retry passes no cap. Source of the number of calls in flight: Jacobson and Karels 1988 (slow start,
then additive increase and multiplicative decrease).
"""

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from polyhop.schemas import errors
from polyhop.schemas.chat import Usage
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource, claims_of
from polyhop.warehouse.models.budget import Budget, count_tokens, plausible_counts
from polyhop.warehouse.models.endpoints import CallFailedError, EndpointReply
from polyhop.warehouse.statements import noted

_LOG = logging.getLogger(__name__)


# chosen: a longer Retry-After means a quota used up, and the request fails instead of waiting
MAX_PAUSE_SECONDS = 300.0

FIRST_WAIT_SECONDS = 0.5  # doubled with every attempt; chosen: most failures pass within a second or two
LONGEST_WAIT_SECONDS = 30.0  # chosen: bounds how late the end of an outage is noticed
MOST_TIMEOUTS_ALONE = 2
"""Calls without a reply in time, though no other was in flight, before a request is given up, or any request of a run
without a reply so far: the first may have waited while the server loaded its model, the second was slow on its own."""

T = TypeVar("T")
R = TypeVar("R")


class RateLimiter:
    """Holds calls back until they may go; safe for threads.

    Any 60 s hold at most the limit plus one request. One call is in flight at first, one more with each reply, half as
    many after a 429 or a timeout. A server with one slot answers calls one after the other, so a reply takes as long as
    all those before it together: their number therefore grows only while so many calls in a row, each as slow as the
    slowest of the latest ones, would still be in time. `size` calls may be in flight, 1 to `concurrency`.
    """

    def __init__(
        self,
        requests_per_minute: int = 0,
        concurrency: int = 1,
        timeout_seconds: float = math.inf,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.size = 1.0
        self._seconds_per_request = 60 / requests_per_minute if requests_per_minute else 0.0
        self._most = self._halved_at = float(concurrency)
        # chosen: lengths of replies vary, and the next may take a quarter longer than the latest
        self._seconds_in_time = 0.8 * timeout_seconds
        self._latest: deque[float] = deque(maxlen=8)  # chosen: the default concurrency, so about one round
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._in_flight = 0
        self._next_request = self._paused_until = self._last_halved = clock()

    @contextmanager
    def call(self) -> Iterator[int]:
        """Waits until a call may go; yields how many are in flight with it, while it lasts."""
        while wait := self._admit():
            self._sleep(wait)
        in_flight = self._in_flight
        try:
            yield in_flight
        finally:
            with self._lock:
                self._in_flight -= 1

    def succeeded(self, *, seconds: float = 0.0, in_flight: int = 1) -> None:
        """The model answered: one more call may be in flight, beyond half of where it failed one more per round.

        The reply took so many seconds, asked for with so many calls in flight, its own included.
        """
        with self._lock:
            self._latest.append(seconds / in_flight)
            if max(self._latest) * (int(self.size) + 1) <= self._seconds_in_time:
                self.size = min(self._most, self.size + (1.0 if self.size < self._halved_at else 1 / self.size))

    def failed(self, started: float, error: errors.PolyhopError) -> None:
        """Half as many calls in flight if the model rate-limits (HTTP 429) or did not reply in time.

        Calls that had started, by the clock, at the last halving do not halve again. A rate limit makes every thread
        pause as long as it says (at most 300 s).
        """
        if not isinstance(error, errors.ModelRateLimitError | errors.ModelTimeoutError):
            return
        with self._lock:
            now = self._clock()
            if isinstance(error, errors.ModelRateLimitError):
                pause = min(error.retry_after_seconds or 0.0, MAX_PAUSE_SECONDS)
                self._paused_until = max(self._paused_until, now + pause)
            if started >= self._last_halved:
                self.size = self._halved_at = max(1.0, self.size / 2)
                self._last_halved = now
                self._latest.clear()

    def _admit(self) -> float:
        """0 if the call may go (it is then counted), else the seconds until it is worth asking again."""
        with self._lock:
            now = self._clock()
            due = max(self._paused_until, self._next_request)
            if due > now:
                return due - now
            if self._in_flight >= int(self.size):
                return 0.02  # chosen: short compared with a reply of a second or so, and a look costs microseconds
            self._in_flight += 1
            self._next_request = now + self._seconds_per_request
            return 0.0


class Stop:
    """Stops all threads that work on one task from starting more, and keeps the first reason."""

    def __init__(self) -> None:
        self.reason: BaseException | None = None
        self._lock = Lock()

    def because(self, reason: BaseException) -> None:
        """Stops; only the first reason counts."""
        with self._lock:
            self.reason = self.reason or reason

    def is_set(self) -> bool:
        """Returns whether to start no more calls."""
        return self.reason is not None


def run_all(
    items: Iterable[T], work: Callable[[T, Stop], R], concurrency: int, done: Callable[[T, R], None], name: str
) -> None:
    """Works on all items in threads; after the first error, or Ctrl-C, nothing begins, and what is in flight ends."""
    stop = Stop()

    def one(item: T) -> R:
        try:
            return work(item, stop)
        except BaseException as error:
            stop.because(error)
            raise

    with ThreadPoolExecutor(concurrency, name) as pool:
        try:
            futures = {pool.submit(one, item): item for item in items}
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException as error:  # Ctrl-C, too, must stop the threads
            stop.because(error)
            pool.shutdown(wait=True, cancel_futures=True)
            if stop.reason is not None and stop.reason is not error:
                raise stop.reason from error
            raise


@dataclass(slots=True)
class PaidRequest:
    """One request: what it asks, whether to begin nothing any more, and what its calls took so far in this run."""

    source: ReplySource
    stop: Stop
    usage: Usage = field(default_factory=Usage)
    timeouts_alone: int = 0


class PaidCalls:
    """The calls of one model; safe for threads.

    Attributes:
        spent: What the calls of this instance took, those that failed included.
        cached: Requests that were answered without a call.
        replaced: Calls whose reported token counts were implausible, so that our own were used.
    """

    def __init__(
        self,
        model: str,
        settings: ModelSettings,
        replies: ReplyCache,
        budget: Budget,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.model = model
        self.spent = Usage()
        self.cached = self.replaced = 0
        self._settings = settings
        self._replies = replies
        self._claims = claims_of(replies.path)
        self._budget = budget
        self._clock, self._sleep = clock, sleep
        self._lock = Lock()
        self._is_reached = self._has_replied = False
        self._timeouts_alone = 0
        limits = settings.requests_per_minute, settings.concurrency, settings.timeout_seconds
        self._limiter = RateLimiter(*limits, clock=clock, sleep=sleep)

    def _attempts(self, request: PaidRequest, attempt: Callable[[], R]) -> R:
        """Makes at most `models.max_attempts` attempts; returns the first result."""
        retrying = Retrying(
            retry=retry_if_exception(lambda error: self._is_worth_another(error, request)),
            stop=stop_after_attempt(self._settings.max_attempts),
            wait=wait_seconds,
            sleep=self._sleep,
            before_sleep=noted(_LOG, f"a call of {self.model}"),
            reraise=True,
        )
        return retrying(attempt)

    def _call(
        self,
        request: PaidRequest,
        tokens: int,
        longest: int,
        send: Callable[[], EndpointReply[T]],
        read: Callable[[T], R],
    ) -> R:
        """One call, in the journal at its worst case before it is sent, and at what it took once it has ended.

        The prompt has `tokens` by our own count, the reply at most `longest`. What `read` raises, given the answer,
        becomes the call's error. BudgetExceededError if the call might exceed the budget, or the run is stopping; it is
        not made.
        """
        with self._limiter.call() as in_flight:
            if request.stop.is_set():
                raise errors.BudgetExceededError("The run is stopping, so this call was not made.")
            reserved = self._budget.reserve(tokens, longest)
            usage, own, text, error, call_id = Usage(), None, "", "OutcomeUnknown", None
            started = self._clock()
            try:
                worst = self._usage(tokens, longest, started)
                call_id = self._replies.begin_call(request.source, worst)
                usage = worst
                try:
                    answer = send()
                except CallFailedError as failed:
                    error = type(failed.error).__name__
                    if isinstance(failed.error, errors.ModelKeyError):
                        request.stop.because(failed.error)  # before the limiter lets the next call go
                    usage = self._usage(*((tokens, longest) if failed.may_be_billed else (0, 0)), started)
                    self._is_reached = self._is_reached or not isinstance(failed.error, errors.ModelUnreachableError)
                    self._limiter.failed(started, failed.error)
                    if isinstance(failed.error, errors.ModelTimeoutError) and in_flight == 1:
                        request.timeouts_alone += 1
                        self._timeouts_alone += 1
                    raise failed.error from failed
                text, own_completion = answer.text, count_tokens(answer.text, self.model) if answer.text else 0
                reported = answer.prompt_tokens, answer.completion_tokens
                counted, is_replaced = plausible_counts(reported, (tokens, own_completion), longest)
                usage, own = self._usage(*counted, started), self._usage(tokens, own_completion, started)
                self._is_reached = self._has_replied = True
                self._limiter.succeeded(seconds=usage.seconds, in_flight=in_flight)
                with self._lock:
                    self.replaced += is_replaced
                try:
                    made = read(answer.value)
                except errors.PolyhopError as unread:
                    error = type(unread).__name__
                    raise
                error = ""
                return made
            finally:
                self._budget.settle(reserved, usage, own)
                request.usage += usage
                with self._lock:
                    self.spent += usage
                if call_id is not None:
                    self._replies.end_call(call_id, request.source, text, usage, error)

    def _usage(self, prompt_tokens: int, completion_tokens: int, started: float) -> Usage:
        cost = self._budget.cost(prompt_tokens, completion_tokens)
        return Usage(1, prompt_tokens, completion_tokens, cost, self._clock() - started)

    def _is_worth_another(self, error: BaseException, request: PaidRequest) -> bool:
        """Returns whether another attempt may succeed.

        Not if the run is stopping, nor if we should wait for ever, nor if there never was a server, nor if too many
        calls timed out with the server to themselves: of this request, or of all before a reply.
        """
        if request.stop.is_set() or not isinstance(error, errors.ModelError):
            return False
        if isinstance(error, errors.ModelRateLimitError) and (error.retry_after_seconds or 0) > MAX_PAUSE_SECONDS:
            return False
        if isinstance(error, errors.ModelUnreachableError) and not self._is_reached:
            return False
        timeouts = request.timeouts_alone if self._has_replied else self._timeouts_alone
        return error.retryable and not (isinstance(error, errors.ModelTimeoutError) and timeouts >= MOST_TIMEOUTS_ALONE)


def wait_seconds(state: RetryCallState) -> float:
    """Exponential backoff with full jitter; nothing before a re-ask, and what the server said is the limiter's."""
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, errors.ModelUnavailableError):
        return 0.0
    if isinstance(error, errors.ModelRateLimitError) and error.retry_after_seconds is not None:
        return random.uniform(0, 0.1)  # noqa: S311 - spreads calls, guards no secret
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311 - as above
