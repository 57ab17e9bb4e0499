"""Settings to language models: the only place that constructs a chat model.

Imports no provider's package before it is needed. Per process there is one instance of each model, so that batches
and roles share its limits, and one budget; both end with `close_chats`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from polyhop.schemas.chat import Role, Usage, cost_words
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import EncoderChoice, ModelSettings, Settings
from polyhop.schemas.text import plural
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.budget import Budget, embedding_price, price_of
from polyhop.warehouse.models.calls import PaidCalls
from polyhop.warehouse.models.chat import Chat
from polyhop.warehouse.models.litellm_client import close_connections, require_litellm

if TYPE_CHECKING:
    from polyhop.warehouse.models.litellm_encoder import EmbeddingGateway


Listener = Callable[[str], None]


@dataclass(slots=True)
class _Run:
    """What the models of a run share besides cache and budget."""

    listener: Listener | None = None
    caches: list[ReplyCache] = field(default_factory=list)
    chats: list[PaidCalls] = field(default_factory=list)
    unknown: Usage = field(default_factory=Usage)


_opening = RLock()
_run = _Run()


def open_chat(settings: Settings, role: Role) -> Chat:
    """The model for a role with the cache of replies and the budget; one per process and configuration."""
    model = model_name(settings.models, role)
    require_litellm()
    must_answer = role is not Role.READ  # a worker waits for the end of an outage, an index run has nobody to wait for
    with _opening:
        return _chat(
            model, settings.models, settings.root, settings.max_cost_usd, settings.max_tokens, must_answer=must_answer
        )


@dataclass(frozen=True, slots=True)
class ChatsUsage:
    """What models took."""

    spent: Usage
    cached: int
    replaced: int
    unknown: Usage  # Calls of earlier runs that died with their process, at their worst case; not in `spent`.


def chats_usage() -> ChatsUsage:
    """What the models opened since `close_chats` took."""
    with _opening:
        chats = _run.chats
        return ChatsUsage(
            sum((chat.spent for chat in chats), Usage()),
            sum(chat.cached for chat in chats),
            sum(chat.replaced for chat in chats),
            _run.unknown,
        )


def open_embeddings(
    choice: EncoderChoice, models: ModelSettings, root: Path, max_cost_usd: float | None, max_tokens: int | None
) -> "EmbeddingGateway":
    """The model behind an encoder named litellm:…, with the budget of this run; one per process and configuration."""
    require_litellm()
    with _opening:
        return _embeddings(choice, models, root, max_cost_usd, max_tokens)


def close_chats(listener: Listener | None = None) -> None:
    """Forgets the models of this process and what they spent, and closes their caches: the next run begins at 0."""
    global _run  # noqa: PLW0603 - one run at a time per process
    with _opening:
        for replies in _run.caches:
            replies.close()
        _run = _Run(listener)
        for opened in (_chat, _embeddings, _shared):
            opened.cache_clear()
        close_connections()


def model_name(models: ModelSettings, role: Role) -> str:
    """The model for a role; the one for extraction also resolves."""
    name, setting = (models.read, "read") if role is Role.READ else (models.extract, "extract")
    if not name:
        raise ConfigurationError(
            f"No model is configured for this; set models.{setting} to a model as litellm names it, "
            f"like --set models.{setting}=openai/gpt-4o-mini."
        )
    return name


@cache
def _chat(
    model: str,
    models: ModelSettings,
    root: Path,
    max_cost_usd: float | None,
    max_tokens: int | None,
    *,
    must_answer: bool,
) -> Chat:
    replies, budget = _shared(root, max_cost_usd, max_tokens)
    if must_answer:
        _book_dead_calls(replies)
    chat = Chat(model, models, replies, budget.priced(price_of(model, models)), must_answer=must_answer)
    _run.chats.append(chat)
    return chat


@cache
def _embeddings(
    choice: EncoderChoice, models: ModelSettings, root: Path, max_cost_usd: float | None, max_tokens: int | None
) -> "EmbeddingGateway":
    from polyhop.warehouse.models.litellm_encoder import EmbeddingGateway

    model = choice.name.partition(":")[2]
    price = embedding_price(model, choice.price)
    if max_cost_usd is not None and price is None:
        raise ConfigurationError(
            f"max_cost_usd is set, but the price of {choice.name} is unknown; set encoder.price (USD per million "
            "tokens, 0 if it costs nothing), or use max_tokens."
        )
    replies, budget = _shared(root, max_cost_usd, max_tokens)
    _book_dead_calls(replies)
    account = budget.priced(None if price is None else (price, 0.0))
    address = choice.api_base or models.api_base
    gateway = EmbeddingGateway(model, address, choice.dimension, models, replies, account)
    _run.chats.append(gateway)
    return gateway


@cache
def _shared(root: Path, max_cost_usd: float | None, max_tokens: int | None) -> tuple[ReplyCache, Budget]:
    """What all models of a run share."""
    _run.caches.append(replies := ReplyCache(Layout(root).reply_cache))
    return replies, Budget(max_cost_usd, max_tokens, (0.0, 0.0))


def _book_dead_calls(replies: ReplyCache) -> None:
    """Finds calls that died with the process of an earlier run, and says so."""
    found = replies.abandon_dead_calls()
    _run.unknown += found
    if found.calls and _run.listener is not None:
        tokens = found.prompt_tokens + found.completion_tokens
        _run.listener(
            f"An earlier run was killed during {plural(found.calls, 'call')} to a model. Whether that was billed is "
            f"unknown; it is booked at the worst case: {tokens:,} tokens, {cost_words(found.cost_usd)}."
        )
