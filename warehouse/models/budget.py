"""What a run may spend on models: a call is let through only if it fits beside those in flight.

Calls nobody and knows no history; its caller says how long an output may become.
Invariant: what was spent exceeds a limit by no more than calls in flight took beyond what was reserved for them.
"""

from dataclasses import dataclass, field
from threading import Condition

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError

TOKENS_PER_PRICE = 1_000_000  # prices are in USD per million tokens, as providers list them


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens of prompts and of completions."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """USD of a call."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / TOKENS_PER_PRICE


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call in flight may take at most: tokens, and USD."""

    tokens: int
    cost_usd: float


@dataclass(slots=True)
class _Account:
    """What all models of a run share."""

    tokens: int = 0
    cost_usd: float = 0.0
    in_flight: list[Reservation] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)


class Budget:
    """The limits of a run, at the price of one model; safe for threads.

    Attributes:
        is_limited: There is a limit at all.

    Raises:
        ConfigurationError: If there is a limit in USD, but the price is unknown.
    """

    def __init__(self, max_cost_usd: float | None, max_tokens: int | None, price: Price | None = None) -> None:
        if max_cost_usd is not None and price is None:
            raise ConfigurationError(
                "max_cost_usd is set, but the price of the model is unknown; set models.prompt_price and "
                "models.completion_price (USD per million tokens, 0 if it costs nothing), or use max_tokens."
            )
        self.is_limited = max_cost_usd is not None or max_tokens is not None
        self._max_cost_usd = max_cost_usd
        self._max_tokens = max_tokens
        self._price = price
        self._account = _Account()

    def priced(self, price: Price | None) -> "Budget":
        """The same account for a model of another price.

        Raises:
            ConfigurationError: As for the class.
        """
        other = Budget(self._max_cost_usd, self._max_tokens, price)
        other._account = self._account
        return other

    def reserve(self, prompt_tokens: int, completion_tokens: int) -> Reservation:
        """Sets aside what a call may take; near a limit it waits until calls in flight have shown what they took.

        Raises:
            BudgetExceededError: If the call might exceed a limit even if those in flight took nothing.
        """
        wanted = Reservation(prompt_tokens + completion_tokens, self.cost(prompt_tokens, completion_tokens) or 0.0)
        account = self._account
        with account.changed:
            while not self._fits(wanted, account.in_flight):
                if not self._fits(wanted, []):
                    raise BudgetExceededError(self._sentence(wanted))
                account.changed.wait()
            account.in_flight.append(wanted)
        return wanted

    def settle(self, reservation: Reservation, usage: Usage, own: Usage | None = None) -> None:
        """Replaces what was set aside by what the call took (nothing, if it was not made).

        Args:
            reservation: From `reserve`.
            usage: What the call took.
            own: The same by our own count; the larger of both counts, so that no report of a server lifts a limit.
        """
        account = self._account
        counts = [usage, own or Usage()]
        with account.changed:
            account.in_flight.remove(reservation)
            account.tokens += max(count.prompt_tokens + count.completion_tokens for count in counts)
            account.cost_usd += max(
                count.cost_usd or self.cost(count.prompt_tokens, count.completion_tokens) or 0.0 for count in counts
            )
            account.changed.notify_all()

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """USD of so many tokens; None where their price is unknown."""
        if self._price is None:
            return None if prompt_tokens or completion_tokens else 0.0
        return self._price.cost(prompt_tokens, completion_tokens)

    def _fits(self, wanted: Reservation, others: list[Reservation]) -> bool:
        """Whether the call and others may be made after what is spent."""
        calls, account = [wanted, *others], self._account
        is_few = self._max_tokens is None or account.tokens + sum(call.tokens for call in calls) <= self._max_tokens
        cost = account.cost_usd + sum(call.cost_usd for call in calls)
        return is_few and (self._max_cost_usd is None or cost <= self._max_cost_usd)

    def _sentence(self, wanted: Reservation) -> str:
        account = self._account
        tokens = "" if self._max_tokens is None else f" of {self._max_tokens}"
        cost = "" if self._max_cost_usd is None else f" of {self._max_cost_usd:.4f}"
        return (
            f"The budget of this run is used up: {account.tokens}{tokens} tokens and {account.cost_usd:.4f}{cost} USD "
            f"are spent, and the next call may take {wanted.tokens} tokens and {wanted.cost_usd:.4f} USD. Everything "
            "so far is kept; to continue, run the same command again, or raise max_tokens or max_cost_usd."
        )
