"""How fast the models of a run reply, and when the run would end: a line now and then for whoever waits.

Asks no model and prints nothing: a listener gets the lines, in the thread that asks.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ModelTimeoutError
from polyhop.schemas.printable import duration

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
