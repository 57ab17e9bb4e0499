"""A circuit breaker: stops claiming while a model is unavailable, instead of using up attempts.

Also distinguishes an unavailable model from a question that the model never answers. Pure: the caller brings the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

FIRST_PAUSE_SECONDS = 1.0  # chosen: a restarting server is soon asked again; doubled with every further outage
LONGEST_PAUSE_SECONDS = 30.0  # chosen: bounds how late the end of an outage is noticed
STRIKES_PER_ATTEMPT = 3  # chosen: being left twice may be chance, under load
_MOST_REMEMBERED = 10_000  # chosen: bounds the memory of a worker that runs for months; the oldest are forgotten first


@dataclass(slots=True)
class CircuitBreaker:
    """Open after an outage for a pause that doubles with every further one; closed by the first success."""

    outages: int = 0
    open_until: float = 0.0

    def is_open(self, now: float) -> bool:
        """Whether to wait."""
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

    An outage uses up no attempt. But what is left again and again while others are answered, is left for reasons of
    its own, and would keep the queue waiting for ever.
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
