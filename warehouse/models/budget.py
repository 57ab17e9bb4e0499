"""Budget of a run, prices of models, and plausibility of token counts.

Its caller says how long an output may become. Invariant: what was spent exceeds a limit by
no more than calls in flight took beyond what was reserved for them.
"""

import importlib.util
import json
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any

from polyhop.schemas.chat import Usage, cost_words
from polyhop.schemas.errors import BudgetExceededError, ConfigurationError
from polyhop.schemas.settings import ModelSettings

if TYPE_CHECKING:
    from tiktoken import Encoding

TOKENS_PER_PRICE = 1_000_000  # prices are in USD per million tokens, as providers list them
EMBED_TASK = "embed"  # name of calls for embeddings in the journal of calls
Price = tuple[float, float]  # USD per million tokens of prompts and of completions.


@dataclass(frozen=True, slots=True)
class Reservation:
    """Maximum cost of a call in flight: tokens, and USD."""

    tokens: int
    cost_usd: float


@dataclass(slots=True)
class _Account:
    """State shared by all models of a run."""

    tokens: int = 0
    cost_usd: float = 0.0
    has_unknown_cost: bool = False  # `cost_usd` leaves out calls of an unknown price
    in_flight: list[Reservation] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)


class Budget:
    """The limits of a run, at the price of one model; safe for threads."""

    def __init__(self, max_cost_usd: float | None, max_tokens: int | None, price: Price | None = None) -> None:
        if max_cost_usd is not None and price is None:
            raise ConfigurationError(
                "max_cost_usd is set, but the price of the model is unknown; set models.price (USD per million "
                "tokens of prompts and of replies, 0,0 if it costs nothing), or use max_tokens."
            )
        self._max_cost_usd = max_cost_usd
        self._max_tokens = max_tokens
        self._price = price
        self._account = _Account()

    def priced(self, price: Price | None) -> "Budget":
        """The same account for a model of another price."""
        other = Budget(self._max_cost_usd, self._max_tokens, price)
        other._account = self._account
        return other

    def reserve(self, prompt_tokens: int, completion_tokens: int) -> Reservation:
        """Sets aside what a call may take; near a limit it waits until calls in flight have shown what they took.

        Raises:
            BudgetExceededError: If the call might exceed a limit even if those in flight took nothing.
        """
        cost = self.cost(prompt_tokens, completion_tokens)
        wanted = Reservation(prompt_tokens + completion_tokens, cost or 0.0)
        account = self._account
        with account.changed:
            while not self._fits(wanted, account.in_flight):
                if not self._fits(wanted, []):
                    raise BudgetExceededError(self._used_up(wanted.tokens, cost))
                account.changed.wait()
            account.in_flight.append(wanted)
        return wanted

    def _used_up(self, tokens: int, cost_usd: float | None) -> str:
        """The sentence of a budget without room for a call of so many tokens."""
        account = self._account
        spent = cost_words(None if account.has_unknown_cost else account.cost_usd)
        most_tokens = "" if self._max_tokens is None else f" of {self._max_tokens}"
        most_usd = "" if self._max_cost_usd is None else f" of {cost_words(self._max_cost_usd)}"
        return (
            f"The budget of this run is used up: {account.tokens}{most_tokens} tokens are spent ({spent}{most_usd}), "
            f"and the next call may take {tokens} tokens ({cost_words(cost_usd)}). Finished work is kept; to "
            "continue, run the same command again, or raise max_tokens or max_cost_usd."
        )

    def settle(self, reservation: Reservation, usage: Usage, own: Usage | None = None) -> None:
        """Replaces what was set aside by what the call took (nothing, if it was not made).

        `own` is the same by our own count; the larger of both counts, so that no report of a server lifts a limit.
        """
        account = self._account
        counts = [usage, own or Usage()]
        with account.changed:
            account.in_flight.remove(reservation)
            account.tokens += max(count.prompt_tokens + count.completion_tokens for count in counts)
            costs = [self.cost(c.prompt_tokens, c.completion_tokens) if not c.cost_usd else c.cost_usd for c in counts]
            account.has_unknown_cost |= None in costs
            account.cost_usd += max(cost or 0.0 for cost in costs)
            account.changed.notify_all()

    def book(self, usage: Usage, instead_of: Usage | None = None) -> None:
        """Counts unreserved costs: batches at their worst case when they are submitted, then what they took."""
        before = instead_of or Usage()
        with self._account.changed:
            self._account.tokens += usage.prompt_tokens + usage.completion_tokens
            self._account.tokens -= before.prompt_tokens + before.completion_tokens
            self._account.has_unknown_cost |= usage.cost_usd is None
            self._account.cost_usd += (usage.cost_usd or 0.0) - (before.cost_usd or 0.0)
            self._account.changed.notify_all()

    def has_room_for(self, usage: Usage) -> bool:
        """Returns whether this amount could be spent now."""
        wanted = Reservation(usage.prompt_tokens + usage.completion_tokens, usage.cost_usd or 0.0)
        with self._account.changed:
            return self._fits(wanted, self._account.in_flight)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """USD of so many tokens; None where their price is unknown."""
        if self._price is None:
            return None if prompt_tokens or completion_tokens else 0.0
        return (prompt_tokens * self._price[0] + completion_tokens * self._price[1]) / TOKENS_PER_PRICE

    def _fits(self, wanted: Reservation, others: list[Reservation]) -> bool:
        """Returns whether the budget allows the call and others in addition to what is spent."""
        calls, account = [wanted, *others], self._account
        is_few = self._max_tokens is None or account.tokens + sum(call.tokens for call in calls) <= self._max_tokens
        cost = account.cost_usd + sum(call.cost_usd for call in calls)
        return is_few and (self._max_cost_usd is None or cost <= self._max_cost_usd)


# frame of a chat with one message: three, one for the role, three before the reply, as OpenAI's cookbook counts for its
# models.
MESSAGE_TOKENS = 7

_OLDER = re.compile(r"(?:^|/)(?:gpt-4(?:-|$)|gpt-3\.5|text-embedding)")
_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]")
# characters, some 50,000 tokens; chosen: requests of ours are shorter, and an odd text must not hold up the estimate.
_LONG_TEXT = 200_000


_PRICES = "model_prices_and_context_window_backup.json"


def price_of(model: str, settings: ModelSettings) -> Price | None:
    """USD per million prompt and completion tokens: as set, else by litellm's table; None if neither knows."""
    if settings.price is not None:
        return settings.price[:2]
    entry = table_entry(model)
    prompt, reply = _listed(entry, "input_cost_per_token"), _listed(entry, "output_cost_per_token")
    return None if prompt is None or reply is None else (prompt, reply)


def batch_price_of(model: str, settings: ModelSettings) -> Price | None:
    """USD per million prompt and completion tokens in batches: as set, else by litellm's table; None: unknown.

    Most providers take half of the price of single calls, which is not assumed of any.
    """
    if settings.batch_price is not None or settings.price is not None:
        return settings.batch_price
    entry = table_entry(model)
    prompt, reply = _listed(entry, "input_cost_per_token_batches"), _listed(entry, "output_cost_per_token_batches")
    return None if prompt is None or reply is None else (prompt, reply)


def embedding_price(model: str, settings: ModelSettings) -> float | None:
    """USD per million tokens of texts for an encoder: as set (third of models.price), else by litellm's table."""
    if settings.price is not None and len(settings.price) == 3:
        return settings.price[2]
    return _listed(table_entry(model), "input_cost_per_token")


def table_entry(model: str) -> dict[str, Any]:
    """The row of litellm's table for a model, under its full name or without its provider; empty without one."""
    table = _table()
    entry = table.get(model) or table.get(model.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


def count_tokens(text: str, model: str) -> int:
    """Tokens of a text by OpenAI's tokenizer for the model, which other providers' resemble."""
    encoding = _encoding(is_older=bool(_OLDER.search(model)))
    if encoding is None or len(text) > _LONG_TEXT:
        return estimated_tokens(text)
    return len(encoding.encode_ordinary(text))


def cut_text(text: str, most: int, model: str) -> str:
    """The beginning of a text, at most so many tokens as `count_tokens` counts them; 0: all of it."""
    if not most or len(text) <= most:  # a token is a character at least
        return text
    encoding = _encoding(is_older=bool(_OLDER.search(model)))
    if encoding is None:
        return text[: most * 4]  # characters per token of English text
    tokens = encoding.encode_ordinary(text[:_LONG_TEXT])
    return text if len(tokens) <= most else encoding.decode(tokens[:most]).rstrip("\ufffd")


def count_prompt_tokens(text: str, model: str) -> int:
    """Tokens of a request with one message of this text, its frame included."""
    return count_tokens(text, model) + MESSAGE_TOKENS


def estimated_tokens(text: str) -> int:
    """Tokens by words alone: one for a short word, more for long ones, half for a digit, one for any other sign."""
    total = 0.0
    for piece in _PIECE.findall(text):
        if piece[0].isdigit():
            total += 0.5
        elif piece[0].isascii() and piece[0].isalpha():
            total += max(1.0, len(piece) / 6)
        else:
            total += 0.9
    return round(total)


def _listed(entry: dict[str, Any], column: str) -> float | None:
    value = entry.get(column)
    return value * TOKENS_PER_PRICE if isinstance(value, int | float) else None


@cache
def _table() -> dict[str, Any]:
    table = json.loads((_litellm_folder() / _PRICES).read_text(encoding="utf-8"))
    return table if isinstance(table, dict) else {}


@cache
def _encoding(*, is_older: bool) -> "Encoding | None":
    """A tokenizer from litellm's files, None where they are missing: it would be fetched over the network."""
    folder = _litellm_folder() / "litellm_core_utils" / "tokenizers"
    newer = "o200k_base", "fb374d419588a4632f3f557e76b4b70aebbca790"
    name, file = ("cl100k_base", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4") if is_older else newer
    if not (folder / file).is_file():
        return None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken

    return tiktoken.get_encoding(name)


def _litellm_folder() -> Path:
    """The folder of the package, which is not imported: that takes seconds."""
    spec = importlib.util.find_spec("litellm")
    return Path(spec.origin if spec and spec.origin else "litellm").parent


TRUSTED_FACTOR = 4
"""A reported count up to 4 times ours, or down to a quarter, is plausible. Chosen: vocabularies differ by a factor
of up to 1.5 on English and about 3 on scripts that one of them hardly knows; a wider gap is not due to tokenizers."""
FRAME_TOKENS = 1_000
"""Prompt tokens that a provider may add to what we send. Chosen: Anthropic documents some 300 to 700 for a forced tool
call, and the JSON schema of a reply takes up to 300."""


def plausible_counts(
    reported: tuple[int, int], own: tuple[int, int], longest_reply: int
) -> tuple[tuple[int, int], bool]:
    """The tokens of a prompt and of its reply to book, and whether a report was discarded for them.

    `reported` is what the server says, 0 where it says nothing, `own` by our own tokenizer. Hidden reasoning counts
    among the tokens of the longest reply that was asked for, so that a reply may take more than its text.
    """
    most = TRUSTED_FACTOR * own[0] + FRAME_TOKENS, max(TRUSTED_FACTOR * own[1], longest_reply)
    counts = [
        said if ours <= TRUSTED_FACTOR * said and 0 < said <= limit else ours
        for said, ours, limit in zip(reported, own, most, strict=True)
    ]
    is_replaced = any(said not in (0, count) for said, count in zip(reported, counts, strict=True))
    return (counts[0], counts[1]), is_replaced
