"""Time limits of questions: seconds per question, limits that interrupt slow ones, deadlines."""

import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyhop.schemas.queue import ClaimedQuestion

GRACE_SECONDS = 10.0
"""Seconds after its limit until a question that no signal could interrupt is given up; chosen: one heartbeat."""

_REPEAT_SECONDS = 1.0  # An interruption that a library swallowed is repeated after this long.


class TimeLimitError(BaseException):
    """A question exceeded its time limit.

    Derives from BaseException so that intermediate `except Exception` blocks do not swallow it.

    Attributes:
        tokens: The lease tokens of the questions being answered; of several, the slow one is unknown.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        super().__init__(*tokens)


class DeadlinePassedError(Exception):
    """The deadline of a question passed before work on it began."""


class BatchTimer:
    """Measures the seconds of each question of a batch; a worker's timer also ends those over their limit.

    Attributes:
        seconds: Seconds by question: its own, and its share of work done for several at once.
        isolated: Indexes of the questions that are answered alone.
    """

    def __init__(
        self,
        count: int,
        isolated: Collection[int] = (),
        limits: "TimeLimits | None" = None,
        tokens: Sequence[str] = (),
    ) -> None:
        """Timer of `count` questions; `limits` identifies them by their lease tokens."""
        self.seconds = [0.0] * count
        self.isolated = frozenset(isolated)
        self._limits = limits
        self._tokens = tokens

    @contextmanager
    def shared(self, indexes: Sequence[int]) -> Iterator[None]:
        """Times a block that works for several questions at once; each takes an equal share.

        Raises:
            DeadlinePassedError: If the deadline of one that has not begun has passed.
            TimeLimitError: If the block takes longer than the limits of its questions in sum.
        """
        limited: AbstractContextManager[None] = nullcontext()
        if self._limits is not None:
            tokens = [self._tokens[index] for index in indexes]
            if any(not self.seconds[index] and self._limits.is_late(self._tokens[index]) for index in indexes):
                raise DeadlinePassedError
            left = sum(self._limits.limit_seconds - self.seconds[index] for index in indexes)
            limited = self._limits.limited(tokens, left)
        started = time.perf_counter()
        try:
            with limited:
                yield
        finally:
            share = (time.perf_counter() - started) / len(indexes)
            for index in indexes:
                self.seconds[index] += share

    @contextmanager
    def single(self, index: int) -> Iterator[None]:
        """Times a block that works for one question; raises as `shared`."""
        with self.shared([index]):
            yield

    def totals(self, elapsed_seconds: float) -> list[float]:
        """Seconds by question plus an equal share of the rest of `elapsed_seconds`, which is their sum."""
        rest = max(0.0, elapsed_seconds - sum(self.seconds)) / max(1, len(self.seconds))
        return [own + rest for own in self.seconds]


class TimeLimits:
    """Interrupts questions of a worker that take longer than `limit_seconds`, and detects passed deadlines.

    In a worker process a signal interrupts Python code, regular expressions included. Native code that does not return
    to Python, and a worker in a thread, cannot be interrupted: `overdue` names their questions, so that another thread
    can release the batch.
    """

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._interrupts = False
        self._deadlines: Mapping[str, float] = {}
        # One plain value, because a signal handler and another thread read it.
        self._current: tuple[tuple[str, ...], float] | None = None

    def interrupt_by_signal(self) -> None:
        """Lets SIGALRM interrupt questions; call it in the main thread, which then must answer them."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._on_alarm)
            self._interrupts = True

    def begin(self, claimed: Iterable["ClaimedQuestion"], lease_seconds: float) -> None:
        """Notes the deadlines of a batch that was claimed just now for `lease_seconds`."""
        now = time.monotonic()
        # Deadlines are on the queue's clock; the end of a lease gives its time at the claim.
        self._deadlines = {
            q.lease_token: now + q.deadline - (q.lease_until - lease_seconds) for q in claimed if q.deadline is not None
        }

    def is_late(self, token: str) -> bool:
        """Returns whether a question's deadline has passed."""
        return token in self._deadlines and time.monotonic() >= self._deadlines[token]

    def overdue(self) -> tuple[str, ...]:
        """Lease tokens of the questions that should have been interrupted GRACE_SECONDS ago."""
        current = self._current
        return current[0] if current is not None and time.monotonic() >= current[1] + GRACE_SECONDS else ()

    def timer(self, tokens: Sequence[str], isolated: Collection[int] = ()) -> BatchTimer:
        """Timer of these questions, in this order; those at `isolated` are answered alone."""
        return BatchTimer(len(tokens), isolated, self, tokens)

    @contextmanager
    def limited(self, tokens: Sequence[str], seconds: float) -> Iterator[None]:
        """Interrupts the block after `seconds`."""
        self._current = (tuple(tokens), time.monotonic() + seconds)
        try:
            self._alarm_in(max(seconds, 1e-3))
            yield
        finally:
            self.clear()

    def clear(self) -> None:
        """Stops the clock; also after an interruption between two blocks."""
        self._current = None
        self._alarm_in(0.0)

    def _alarm_in(self, seconds: float) -> None:
        if self._interrupts:
            signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS if seconds else 0.0)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        current = self._current
        if current is not None and time.monotonic() >= current[1]:
            raise TimeLimitError(current[0])
