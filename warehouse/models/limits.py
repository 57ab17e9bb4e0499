"""How fast a model may be asked, whether it replies at all, and when a run would end.

One limiter serves all threads that ask one model. Invariant: any
60 s hold at most the limit plus one request, and the limit plus one request's tokens. Source of `Window`: Jacobson and
Karels 1988 (slow start, then additive increase and multiplicative decrease).
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from polyhop.schemas.chat import ChatOutcome, Usage
from polyhop.schemas.errors import (
    ModelEndpointError,
    ModelError,
    ModelForbiddenError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
)
from polyhop.schemas.text import duration

SLOWEST_SHARE = 1 / 64  # halved six times; chosen: then one call at a time is left of up to 64
RECOVERY_PER_SUCCESS = 0.05  # chosen: up in steps, down by halves, as TCP does (AIMD); twenty successes undo all
LOOK_AGAIN_SECONDS = 0.02  # chosen: short beside a reply, which takes a second or so, and a look costs microseconds
# chosen: a longer Retry-After means a quota used up, and the request fails instead of waiting
MAX_PAUSE_SECONDS = 300.0
IN_TIME_SHARE = 0.8
"""Of timeout_seconds. Chosen: lengths of replies vary, and the next may take a quarter longer than the latest."""
LATEST_REPLIES = 8
"""Replies whose slowest decides on the window. Chosen: the default concurrency, so about one round."""


class Window:
    """How many calls may be in flight: one at first, more while replies come in time, half after a timeout.

    A server with one slot answers calls one after the other, so a reply takes as long as all those before it together.
    The window therefore grows only while so many calls in a row, each as slow as the slowest of the latest ones, would
    still be in time: growing must not cause the next timeout.

    Attributes:
        size: Calls that may be in flight, 1 to `most`.
    """

    def __init__(self, most: int, timeout_seconds: float) -> None:
        self.size = 1.0
        self._most = most
        self._halved_at = float(most)
        self._seconds_in_time = IN_TIME_SHARE * timeout_seconds
        self._latest: deque[float] = deque(maxlen=LATEST_REPLIES)

    def replied(self, seconds: float, in_flight: int) -> None:
        """Grows by one call per reply, beyond half of where replies came late by one call per round.

        Args:
            seconds: How long the reply took.
            in_flight: Calls that were in flight when this one began, itself included.
        """
        self._latest.append(seconds / in_flight)
        if max(self._latest) * (int(self.size) + 1) <= self._seconds_in_time:
            step = 1.0 if self.size < self._halved_at else 1 / self.size
            self.size = min(float(self._most), self.size + step)

    def timed_out(self) -> None:
        """A reply did not come in time: half as many calls."""
        self.size = self._halved_at = max(1.0, self.size / 2)
        self._latest.clear()


class RateLimiter:
    """Holds calls back until they may go; safe for threads.

    Attributes:
        share: Part of the allowed speed and of the calls in flight that the model has lately accepted, up to 1.
        window: How many calls may be in flight by the time that replies take.
    """

    def __init__(
        self,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        concurrency: int = 1,
        timeout_seconds: float = math.inf,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.share = 1.0
        self._seconds_per_request = 60 / requests_per_minute if requests_per_minute else 0.0
        self._seconds_per_token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self.window = Window(concurrency, timeout_seconds)
        self._concurrency = concurrency
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._in_flight = 0
        self._next_request = self._next_token = self._paused_until = self._last_slowed = clock()
        self._last_halved = clock()

    @contextmanager
    def call(self, tokens: int) -> Iterator[int]:
        """Waits until a call with a prompt of so many tokens may go, and counts it as in flight while it lasts.

        Yields:
            Calls in flight, this one included.
        """
        while (wait := self._admit(tokens)) > 0:
            self._sleep(wait)
        in_flight = self._in_flight
        try:
            yield in_flight
        finally:
            with self._lock:
                self._in_flight -= 1

    def throttled(self, started: float, retry_after_seconds: float | None = None) -> None:
        """The model said 429: every thread pauses as long as it asks (at most 300 s), and continues at half the speed.

        Args:
            started: When the call began, by the clock; calls that were under way at the last 429 do not halve again.
            retry_after_seconds: What the model asked for, None if it did not say.
        """
        with self._lock:
            now = self._clock()
            pause = min(retry_after_seconds or 0.0, MAX_PAUSE_SECONDS)
            self._paused_until = max(self._paused_until, now + pause)
            if started >= self._last_slowed:
                self.share = max(self.share / 2, SLOWEST_SHARE)
                self._last_slowed = now

    def timed_out(self, started: float) -> None:
        """The model did not reply in time: half as many calls in flight."""
        with self._lock:
            if started >= self._last_halved:
                self.window.timed_out()
                self._last_halved = self._clock()

    def succeeded(self, more_tokens: int = 0, *, seconds: float = 0.0, in_flight: int = 1) -> None:
        """The model answered: a step back to full speed.

        Args:
            more_tokens: Tokens of the call beyond those of its prompt as estimated; may be negative.
            seconds: How long the reply took.
            in_flight: Calls that were in flight when it was asked for, its own included.
        """
        with self._lock:
            self.window.replied(seconds, in_flight)
            self.share = min(1.0, self.share + RECOVERY_PER_SUCCESS)
            self._next_token += more_tokens * self._seconds_per_token / self.share

    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def _admit(self, tokens: int) -> float:
        """0 if the call may go (it is then counted), else the seconds until it is worth asking again."""
        with self._lock:
            now = self._clock()
            due = max(self._paused_until, self._next_request, self._next_token)
            if due > now:
                return due - now
            if self._in_flight >= max(1, int(min(self._concurrency * self.share, self.window.size))):
                return LOOK_AGAIN_SECONDS
            self._in_flight += 1
            self._next_request = now + self._seconds_per_request / self.share
            self._next_token = now + tokens * self._seconds_per_token / self.share
            return 0.0


FIRST_LINE_SECONDS = 15.0
"""Chosen: a run that is over by then needs no line, and nobody wonders for longer whether anything happens."""
SECONDS_BETWEEN_LINES = 60.0  # chosen: a run of hours leaves some hundred lines
LATEST = 20
"""Replies that a forecast rests on. Chosen: steps differ in length, so the latest tell more than all."""

Listener = Callable[[str], None]


class Pace:
    """What the calls of a run take, by the clock; safe for threads.

    Args:
        listener: Gets each line, None if they are not wanted.
        clock: Seconds that pass.
        now: The time of day.
    """

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._listener = listener
        self._clock, self._now = clock, now
        self._lock = Lock()
        self._expected = 0
        self._in_flight = 0
        self._timeouts = 0
        self._began: float | None = None
        self._next_line = 0.0
        self._replies: deque[Usage] = deque(maxlen=LATEST)
        self._settled: deque[float] = deque(maxlen=LATEST + 1)

    def expect(self, count: int) -> None:
        """So many requests are still to be settled in this run, as far as is known."""
        with self._lock:
            self._expected = count

    def cached(self, count: int) -> None:
        """So many requests were answered without a call."""
        with self._lock:
            self._expected -= count

    def started(self) -> None:
        """A call is about to be sent."""
        with self._lock:
            self._in_flight += 1
            if self._began is None:
                self._began = self._clock()
                self._next_line = self._began + FIRST_LINE_SECONDS
                self._settled.append(self._began)

    def ended(self, usage: Usage, error: str, *, has_text: bool) -> None:
        """A call has ended, with the class of its error or ""; a text that cannot be used is a reply all the same."""
        with self._lock:
            self._in_flight -= 1
            self._timeouts += error == ModelTimeoutError.__name__
            if has_text:
                self._replies.append(usage)

    def settled(self, count: int) -> None:
        """So many requests have an outcome that a call brought."""
        with self._lock:
            self._expected -= count
            self._settled.append(self._clock())

    def note(self, line: str) -> None:
        """A line that does not wait for its time."""
        if self._listener is not None:
            self._listener(line)

    def speak(self, model: str, left: int) -> None:
        """The line about the model that is asked, if its time has come.

        Args:
            model: Provider and model.
            left: Requests to it that are under way; there may be more to come.
        """
        with self._lock:
            if self._listener is None or self._began is None or self._clock() < self._next_line:
                return
            self._next_line = self._clock() + SECONDS_BETWEEN_LINES
            line = f"{model}: {self._speed()}{self._late()}; {self._forecast(max(left, self._expected))}"
        self._listener(line)

    def _speed(self) -> str:
        calls = f"{self._in_flight} in flight"
        if not self._replies:
            return f"no reply after {self._clock() - (self._began or 0.0):.0f} s, {calls}"
        seconds = sum(usage.seconds for usage in self._replies)
        tokens = sum(usage.completion_tokens for usage in self._replies)
        speed = f", {tokens / seconds:.0f} tokens/s" if seconds else ""
        return f"{self._seconds_per_reply():.1f} s per reply{speed}, {calls}"

    def _seconds_per_reply(self) -> float:
        seconds = [usage.seconds for usage in self._replies]
        return sum(seconds) / len(seconds) if seconds else 0.0

    def _late(self) -> str:
        return f", calls that took longer than models.timeout_seconds: {self._timeouts}" if self._timeouts else ""

    def _forecast(self, left: int) -> str:
        rounds = len(self._settled) - 1
        if rounds < 1:
            each = self._seconds_per_reply() or self._clock() - (self._began or 0.0)
            return f"{left:,} requests are left, one at a time they would take more than {duration(left * each)}"
        seconds = left * (self._clock() - self._settled[0]) / rounds
        end = self._now() + timedelta(seconds=seconds)
        return f"{left:,} requests are left, the run would end in about {duration(seconds)}, {end:%d %b %H:%M}"


MOST_FAILURES = 3  # chosen: one or two may be chance; a wrong key or name fails every time
_OUTAGES: dict[str, type[ModelError]] = {
    error.__name__: error
    for error in (ModelUnavailableError, ModelRateLimitError, ModelTimeoutError, ModelUnreachableError)
}
_ADVICE = {
    ModelTimeoutError.__name__: "raise models.timeout_seconds, or lower models.longest_reply",
    ModelRejectedError.__name__: "check the model's name and its key",
}


class FirstReplies:
    """The outcomes of a run until one request was accepted; safe for threads.

    Args:
        must_answer: An outage from the start ends the run too; a worker waits for its end instead.
    """

    def __init__(self, *, must_answer: bool) -> None:
        self._must_answer = must_answer
        self._lock = Lock()
        self._is_accepted = False
        self._failures = 0

    def error_of(self, outcome: ChatOutcome[Any]) -> PolyhopError | None:
        """The error to end the run with, None if it may continue.

        Returns:
            ModelEndpointError if there is no server at the model's address; ModelTimeoutError if it takes too long for
            a single call; else, if each of the first requests failed, a ModelError.
        """
        name = outcome.error_class
        is_failure = name == ModelRejectedError.__name__ or (self._must_answer and name in _OUTAGES)
        with self._lock:
            self._is_accepted = self._is_accepted or not is_failure
            self._failures += is_failure
            if self._is_accepted:
                return None
            if name == ModelUnreachableError.__name__:
                return ModelEndpointError(
                    f"{outcome.error.rstrip('.')}. Nothing was asked; start the server, or correct models.api_base."
                )
            if self._failures < MOST_FAILURES and name != ModelTimeoutError.__name__:
                return None
        advice = _ADVICE.get(name, "run the same command again when the server replies")
        return _OUTAGES.get(name, ModelRejectedError)(
            f"{outcome.error.rstrip('.')}. No request had a reply so far, so nothing is asked any more; {advice}."
        )


class ForbiddenRequests:
    """Requests asked together that the server forbade before it accepted any: the others tell what that means."""

    def __init__(self) -> None:
        self._errors: dict[str, ModelForbiddenError] = {}
        self._is_key_good = False
        self._has_outage = False

    def compare(self, outcome: ChatOutcome[Any]) -> None:
        """Another request's outcome."""
        is_outage = outcome.error_class in _OUTAGES
        self._has_outage = self._has_outage or is_outage
        self._is_key_good = self._is_key_good or not (is_outage or outcome.error_class == ModelRejectedError.__name__)

    def add(self, key: str, error: ModelForbiddenError) -> None:
        """A forbidden request.

        Raises:
            ModelKeyError: If it is one too many, and no other had a reply.
        """
        self._errors[key] = error
        if len(self._errors) >= MOST_FAILURES and not self._is_key_good:
            raise error

    def outcomes(self) -> dict[str, ChatOutcome[Any]]:
        """What became of each: rejected if another had a reply; not answered yet if the server failed all others.

        Raises:
            ModelKeyError: If nothing speaks for the key.
        """
        if self._is_key_good:
            return {key: error.outcome for key, error in self._errors.items()}
        if self._errors and not self._has_outage:
            raise next(iter(self._errors.values()))
        unavailable = ModelUnavailableError.__name__
        return {key: replace(error.outcome, error_class=unavailable) for key, error in self._errors.items()}
