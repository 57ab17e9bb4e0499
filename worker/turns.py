"""The turns of a batch's questions: what each takes of its own, when it must end, and which never begin.

Answers nothing. A turn is the work for one question alone, or a strategy's work for several at once; what else a batch
does at once (encoding, asking a model, fetching texts) is not a turn and has limits of its own.
"""

import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyhop.schemas.queue import ClaimedQuestion

GRACE_SECONDS = 10.0
"""After its limit, a turn that no signal could interrupt is given up after so long; chosen: one heartbeat."""

_AGAIN_SECONDS = 1.0
"""An interruption that some library swallowed is repeated after so long."""


class TurnOverError(BaseException):
    """A turn has taken too long. No Exception, so that nothing on the way takes it for its own.

    Attributes:
        tokens: The lease tokens of the questions whose turn it was; which of several was slow, nobody knows.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        super().__init__(*tokens)


class TooLateError(Exception):
    """The deadline of a question passed before its turn began."""


class Turns:
    """Measures turns.

    Attributes:
        seconds: What each question of a batch has taken of its own, or as its share of a common turn.
        alone: Indexes of the questions that share no turn with others.
    """

    def __init__(self, count: int, alone: Collection[int] = ()) -> None:
        self.seconds = [0.0] * count
        self.alone = frozenset(alone)

    @contextmanager
    def together(self, places: Sequence[int]) -> Iterator[None]:
        """The block works for the questions at `places` at once; each takes an equal share of it."""
        started = time.perf_counter()
        try:
            yield
        finally:
            share = (time.perf_counter() - started) / len(places)
            for place in places:
                self.seconds[place] += share

    @contextmanager
    def turn(self, place: int) -> Iterator[None]:
        """The block works for the question at `place` alone."""
        with self.together([place]):
            yield

    def shares(self, elapsed_seconds: float) -> list[float]:
        """Seconds by question: its own, and an equal share of what the batch took besides; their sum is `elapsed`."""
        shared = max(0.0, elapsed_seconds - sum(self.seconds)) / max(1, len(self.seconds))
        return [own + shared for own in self.seconds]


class Watch:
    """Ends turns of a worker that take longer than `limit_seconds`, and refuses those past their deadline.

    In a worker process a signal interrupts the turn wherever Python runs, regular expressions included. Native code
    that does not come back to Python, and a worker in a thread, cannot be interrupted: `overdue` names their questions,
    so that another thread can take the batch away from them.
    """

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._interrupts = False
        self._ends: Mapping[str, float] = {}
        # One plain value, for the handler of a signal and another thread read it.
        self._current: tuple[tuple[str, ...], float] | None = None

    def interrupt_by_signal(self) -> None:
        """Lets SIGALRM end turns from now on; to be called in the main thread, where turns then must run."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._on_alarm)
            self._interrupts = True

    def begin(self, claimed: Iterable["ClaimedQuestion"], lease_seconds: float) -> None:
        """A batch was claimed just now, for so long."""
        now = time.monotonic()
        # Deadlines are on the queue's clock; the end of a lease says how late it was there at the claim.
        self._ends = {
            q.lease_token: now + q.deadline - (q.lease_until - lease_seconds) for q in claimed if q.deadline is not None
        }

    def is_late(self, token: str) -> bool:
        """Whether a question's deadline has passed."""
        return token in self._ends and time.monotonic() >= self._ends[token]

    def overdue(self) -> tuple[str, ...]:
        """The questions whose turn should have ended a while ago."""
        current = self._current
        return current[0] if current is not None and time.monotonic() >= current[1] + GRACE_SECONDS else ()

    def turns(self, tokens: Sequence[str], alone: Collection[int] = ()) -> "WatchedTurns":
        """Turns of these questions, in this order; those at `alone` share none."""
        return WatchedTurns(self, tokens, alone)

    @contextmanager
    def watching(self, tokens: Sequence[str], seconds: float) -> Iterator[None]:
        """The block is interrupted after so long."""
        self._current = (tuple(tokens), time.monotonic() + seconds)
        try:
            self._alarm_in(max(seconds, 1e-3))
            yield
        finally:
            self.clear()

    def clear(self) -> None:
        """No turn is going on; also after an interruption that came between two of them."""
        self._current = None
        self._alarm_in(0.0)

    def _alarm_in(self, seconds: float) -> None:
        if self._interrupts:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS if seconds else 0.0)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        current = self._current
        if current is not None and time.monotonic() >= current[1]:
            raise TurnOverError(current[0])


class WatchedTurns(Turns):
    """Turns that a watch ends; the limit counts for all turns of a question, and a common turn may take the sum."""

    def __init__(self, watch: Watch, tokens: Sequence[str], alone: Collection[int] = ()) -> None:
        super().__init__(len(tokens), alone)
        self._watch = watch
        self._tokens = tokens

    @contextmanager
    def together(self, places: Sequence[int]) -> Iterator[None]:
        """The block works for the questions at `places` at once; each takes an equal share of it.

        Raises:
            TooLateError: If it would be the first turn of one of them and its deadline has passed.
            TurnOverError: If it takes longer than what is left to all of them.
        """
        tokens = [self._tokens[place] for place in places]
        if any(not self.seconds[place] and self._watch.is_late(self._tokens[place]) for place in places):
            raise TooLateError
        seconds_left = sum(self._watch.limit_seconds - self.seconds[place] for place in places)
        with super().together(places), self._watch.watching(tokens, seconds_left):
            yield
