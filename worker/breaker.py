"""A circuit breaker: stops claiming while a model is away, instead of using up attempts.

Pure: the caller brings the time.
"""

from dataclasses import dataclass

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


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
