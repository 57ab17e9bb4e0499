"""How fast a model may be asked: requests and tokens per minute, slower after a 429, back to full speed in steps.

Asks nobody and decides on no retry (chat.py does). One limiter serves all threads that ask one model.
Invariant: any 60 s hold at most the limit plus one request, and the limit plus one request's tokens.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

SLOWEST_SHARE = 1 / 64
RECOVERY_PER_SUCCESS = 0.05
LOOK_AGAIN_SECONDS = 0.02
MAX_PAUSE_SECONDS = 300.0


class RateLimiter:
    """Holds calls back until they may go; safe for threads.

    Attributes:
        share: Part of the allowed speed and of the calls in flight that the model has lately accepted, up to 1.
    """

    def __init__(
        self,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        concurrency: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.share = 1.0
        self._seconds_per_request = 60 / requests_per_minute if requests_per_minute else 0.0
        self._seconds_per_token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self._concurrency = concurrency
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._in_flight = 0
        self._next_request = self._next_token = self._paused_until = self._last_slowed = clock()

    @contextmanager
    def call(self, tokens: int) -> Iterator[None]:
        """Waits until a call with a prompt of so many tokens may go, and counts it as in flight while it lasts."""
        while (wait := self._admit(tokens)) > 0:
            self._sleep(wait)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def throttled(self, started: float, retry_after_seconds: float | None = None) -> None:
        """The model said 429: every thread pauses as long as it asks (at most 300 s), and goes on at half the speed.

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

    def succeeded(self, more_tokens: int = 0) -> None:
        """The model answered: a step back to full speed.

        Args:
            more_tokens: Tokens of the call beyond those of its prompt as estimated; may be negative.
        """
        with self._lock:
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
            if self._in_flight >= max(1, int(self._concurrency * self.share)):
                return LOOK_AGAIN_SECONDS
            self._in_flight += 1
            self._next_request = now + self._seconds_per_request / self.share
            self._next_token = now + tokens * self._seconds_per_token / self.share
            return 0.0
