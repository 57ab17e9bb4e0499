"""Settings to language models: the only place that constructs a chat model.

Imports no provider's package before it is needed. Per process there is one instance of each model, so that batches
and roles share its limits, and one budget; both end with `close_chats`.
"""

from functools import cache
from pathlib import Path
from threading import RLock

from schemas.chat import Role, Usage
from schemas.errors import ConfigurationError
from schemas.settings import ModelSettings, Settings
from warehouse.cache.replies import ReplyCache
from warehouse.files.layout import Layout
from warehouse.models.budget import Budget, Price
from warehouse.models.cached_chat import CachedChat
from warehouse.models.chat import ChatGateway
from warehouse.models.completion import close_connections
from warehouse.models.prices import price_of

_opening = RLock()
_open_caches: list[ReplyCache] = []
_open_chats: list[CachedChat] = []


def open_chat(settings: Settings, role: Role) -> CachedChat:
    """The model for a role behind the cache of replies and the budget; one per process and configuration.

    Raises:
        ConfigurationError: If no model is configured for the role, or there is a limit in USD but no price.
        StoreError: If the cache cannot be used.
    """
    model = model_name(settings.models, role)
    with _opening:
        return _chat(model, settings.models, settings.root, settings.max_cost_usd, settings.max_tokens)


def chats_usage() -> tuple[Usage, int]:
    """What the models opened since `close_chats` took, and how many requests needed no call."""
    with _opening:
        return sum((chat.spent for chat in _open_chats), Usage()), sum(chat.cached for chat in _open_chats)


def close_chats() -> None:
    """Forgets the models of this process and what they spent, and closes their caches: the next run begins at 0."""
    with _opening:
        while _open_caches:
            _open_caches.pop().close()
        _open_chats.clear()
        for opened in (_chat, _shared):
            opened.cache_clear()
        close_connections()


def model_name(models: ModelSettings, role: Role) -> str:
    """The model for a role; the one for extraction also resolves, unless another is configured.

    Raises:
        ConfigurationError: If none is configured.
    """
    names = {Role.EXTRACT: models.extract, Role.RESOLVE: models.resolve or models.extract, Role.READ: models.read}
    if not names[role]:
        raise ConfigurationError(
            f"No model is configured for this; set models.{role.value} to a model as litellm names it, "
            f"like --set models.{role.value}=openai/gpt-4o-mini."
        )
    return names[role]


@cache
def _chat(
    model: str, models: ModelSettings, root: Path, max_cost_usd: float | None, max_tokens: int | None
) -> CachedChat:
    replies, budget = _shared(root, max_cost_usd, max_tokens)
    price = price_of(model, models)
    account = budget.priced(Price(*price) if price else None)
    _open_chats.append(chat := CachedChat(ChatGateway(model, models), replies, account, models.concurrency))
    return chat


@cache
def _shared(root: Path, max_cost_usd: float | None, max_tokens: int | None) -> tuple[ReplyCache, Budget]:
    """What all models of a run share."""
    _open_caches.append(replies := ReplyCache(Layout(root).reply_cache))
    return replies, Budget(max_cost_usd, max_tokens, Price(0, 0))
