"""How fast a model may be asked: requests and tokens per minute, slower after a 429, back to full speed in steps.

Asks nobody and decides on no retry (chat.py does). One limiter serves all threads that ask one model.
Invariant: any 60 s hold at most the limit plus one request, and the limit plus one request's tokens.
Source of `Window`: Jacobson and Karels 1988 (slow start, then additive increase and multiplicative decrease).
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

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
        """The model did not reply in time: half as many calls in flight.

        Args:
            started: When the call began, by the clock; calls under way at the last halving do not halve again.
        """
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
