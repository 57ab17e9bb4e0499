"""Settings, or a published version, to chat models and encoders with their caches: the only module that makes them.

What is indexed is encoded as the settings say, what is asked as the version remembers. Imports no provider's package
before it is needed. A run has one instance of each model, so that batches and roles share its limits, and one budget.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from polyhop.schemas.chat import Role, Usage, cost_words
from polyhop.schemas.errors import ConfigurationError, has_secret
from polyhop.schemas.manifest import EncoderRecord, VectorRecord
from polyhop.schemas.ports import KeepingEncoder
from polyhop.schemas.settings import (
    BGE,
    ENTITIES,
    LOCAL,
    PASSAGES,
    SHIPPED,
    EncoderChoice,
    ModelSettings,
    Settings,
    Space,
)
from polyhop.schemas.text import plural
from polyhop.warehouse.cache.vectors import CachedEncoder, PathEncoder, VectorCache
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.models.encoder_kinds import EncoderNeeds, OpenedEncoder, open_model

if TYPE_CHECKING:
    from polyhop.warehouse.cache.replies import ReplyCache
    from polyhop.warehouse.models.batches import Batches
    from polyhop.warehouse.models.budget import Budget
    from polyhop.warehouse.models.calls import PaidCalls
    from polyhop.warehouse.models.chat import Chat
    from polyhop.warehouse.models.litellm_encoder import EmbeddingGateway


Listener = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChatsUsage:
    """Use of models."""

    spent: Usage
    cached: int
    replaced: int
    unknown: Usage  # Calls of earlier runs that died with their process, at their worst case; not in `spent`.


class ModelRun:
    """Models of a run: one instance per configuration, with one budget and one cache of replies. Safe for threads.

    `index` is that of an index run, or JOBS for a worker: these may ask in batches.
    """

    def __init__(self, listener: Listener | None = None, index: str = "") -> None:
        self._listener = listener
        self._index = index
        self._opening = RLock()
        self._reply_caches: list[ReplyCache] = []
        self._models: list[PaidCalls | Batches] = []
        self._unknown = Usage()
        self._chat_of = cache(self._open_chat)
        self._batches_of = cache(self._open_batches)
        self._embeddings_of = cache(self._open_embeddings)
        self._shared_of = cache(self._open_shared)

    def chat(self, settings: Settings, role: Role) -> "Chat":
        """The model for a role with the cache of replies and the budget."""
        model = model_name(settings.models, role)
        limits = settings.max_cost_usd, settings.max_tokens
        # a worker waits for the end of an outage, an index run does not wait
        with self._opening:
            batches, must_answer = self.batches(settings, role), role is not Role.READ
            return self._chat_of(
                model, settings.models, settings.root, *limits, must_answer=must_answer, batches=batches
            )

    def batches(self, settings: Settings, role: Role) -> "Batches | None":
        """The batches of the model for a role in a run that asks so, or that earlier ones left unanswered, or None."""
        is_asked = settings.models.mode != ("single",)
        model = settings.models.read if role is Role.READ else settings.models.extract
        if not (self._index and model and (is_asked or Layout(settings.root).reply_cache.exists())):
            return None
        limits = settings.max_cost_usd, settings.max_tokens
        with self._opening:
            return self._batches_of(model, settings.models, settings.root, *limits)

    def embeddings(
        self,
        choice: EncoderChoice,
        models: ModelSettings,
        root: Path,
        max_cost_usd: float | None,
        max_tokens: int | None,
    ) -> "EmbeddingGateway":
        """The model behind an encoder named litellm:…, with the budget of this run."""
        with self._opening:
            return self._embeddings_of(choice, models, root, max_cost_usd, max_tokens)

    def usage(self) -> ChatsUsage:
        """Use of the models so far."""
        with self._opening:
            models = self._models
            cached, replaced = sum(model.cached for model in models), sum(model.replaced for model in models)
            return ChatsUsage(sum((model.spent for model in models), Usage()), cached, replaced, self._unknown)

    def close(self) -> None:
        """Closes caches and connections; a model opened afterwards begins with a new budget."""
        with self._opening:
            for replies in self._reply_caches:
                replies.close()
            self._reply_caches.clear()
            self._models.clear()
            self._unknown = Usage()
            for opened in (self._chat_of, self._batches_of, self._embeddings_of, self._shared_of):
                opened.cache_clear()
            for name in ("completions", "litellm_client"):
                if client := sys.modules.get(f"polyhop.warehouse.models.{name}"):  # else nothing was asked
                    client.close_connections()

    def _open_chat(
        self,
        model: str,
        models: ModelSettings,
        root: Path,
        max_cost: float | None,
        max_tokens: int | None,
        *,
        must_answer: bool,
        batches: "Batches | None" = None,
    ) -> "Chat":
        from polyhop.warehouse.models.budget import price_of
        from polyhop.warehouse.models.chat import Chat

        replies, budget = self._shared_of(root, max_cost, max_tokens)
        if must_answer:
            self._book_dead_calls(replies)
        account = budget.priced(price_of(model, models))
        chat = Chat(model, models, replies, account, must_answer=must_answer, batches=batches)
        self._models.append(chat)
        return chat

    def _open_batches(
        self, model: str, models: ModelSettings, root: Path, max_cost_usd: float | None, max_tokens: int | None
    ) -> "Batches | None":
        from polyhop.warehouse.models.batches import Batches
        from polyhop.warehouse.models.budget import batch_price_of

        replies, budget = self._shared_of(root, max_cost_usd, max_tokens)
        if models.mode == ("single",) and not replies.parts(model):
            return None
        price = batch_price_of(model, models)
        if max_cost_usd is not None and price is None:
            raise ConfigurationError(
                f"max_cost_usd is set, but the price of {model} in batches is unknown; set models.batch_price "
                "(USD per million tokens of prompts and of replies), or use max_tokens."
            )
        self._book_dead_calls(replies)
        opened = Batches(model, models, replies, budget.priced(price), self._index)
        self._models.append(opened)
        return opened

    def _open_embeddings(
        self,
        choice: EncoderChoice,
        models: ModelSettings,
        root: Path,
        max_cost_usd: float | None,
        max_tokens: int | None,
    ) -> "EmbeddingGateway":
        from polyhop.warehouse.models.budget import embedding_price
        from polyhop.warehouse.models.litellm_encoder import EmbeddingGateway

        model = choice.name.partition(":")[2]
        price = embedding_price(model, models)
        if max_cost_usd is not None and price is None:
            raise ConfigurationError(
                f"max_cost_usd is set, but the price of {choice.name} is unknown; set models.price=0,0,USD (per "
                "million tokens of prompts, replies and this encoder; 0 if it costs nothing), or use max_tokens."
            )
        replies, budget = self._shared_of(root, max_cost_usd, max_tokens)
        self._book_dead_calls(replies)
        account = budget.priced(None if price is None else (price, 0.0))
        address = choice.api_base or models.api_base
        gateway = EmbeddingGateway(model, address, choice.dimension, models, replies, account)
        self._models.append(gateway)
        return gateway

    def _open_shared(
        self, root: Path, max_cost_usd: float | None, max_tokens: int | None
    ) -> "tuple[ReplyCache, Budget]":
        from polyhop.warehouse.cache.replies import ReplyCache
        from polyhop.warehouse.models.budget import Budget

        self._reply_caches.append(replies := ReplyCache(Layout(root).reply_cache))
        return replies, Budget(max_cost_usd, max_tokens, (0.0, 0.0))

    def _book_dead_calls(self, replies: "ReplyCache") -> None:
        """Finds calls that died with the process of an earlier run, and says so."""
        found = replies.abandon_dead_calls()
        self._unknown += found
        if found.calls and self._listener is not None:
            tokens = found.prompt_tokens + found.completion_tokens
            self._listener(
                f"An earlier run was killed during {plural(found.calls, 'call')} to a model. Their cost is unknown and "
                f"counted at the worst case: {tokens:,} tokens, {cost_words(found.cost_usd)}."
            )


_RUNS = [ModelRun()]
"""Runs that have begun, the innermost last; the first is of all that begins no run, such as `polyhop ask`."""


@contextmanager
def begin_run(listener: Listener | None = None, index: str = "") -> Iterator[ModelRun]:
    """Opens a run of this process: until its end every model opened here belongs to it; then closes it."""
    run = ModelRun(listener, index)
    _RUNS.append(run)
    try:
        yield run
    finally:
        _RUNS.remove(run)
        run.close()


def current_run() -> ModelRun:
    """The innermost run of this process."""
    return _RUNS[-1]


def open_chat(settings: Settings, role: Role) -> "Chat":
    """The model for a role in the current run."""
    return current_run().chat(settings, role)


def open_batches(settings: Settings, role: Role = Role.EXTRACT) -> "Batches | None":
    """The batches of the model for a role in the current run; None without batches."""
    return current_run().batches(settings, role)


def open_embeddings(
    choice: EncoderChoice, models: ModelSettings, root: Path, max_cost_usd: float | None, max_tokens: int | None
) -> "EmbeddingGateway":
    """The model behind an encoder named litellm:… in the current run."""
    return current_run().embeddings(choice, models, root, max_cost_usd, max_tokens)


def model_name(models: ModelSettings, role: Role) -> str:
    """The model for a role; the one for extraction also resolves."""
    name, setting = (models.read, "read") if role is Role.READ else (models.extract, "extract")
    if not name:
        raise ConfigurationError(
            f"No model is configured; set models.{setting} to a model in litellm's naming, "
            f"like --set models.{setting}=openai/gpt-4o-mini."
        )
    return name


MOST_OPEN = 4  # encoders of a process. Chosen: an index may have two, and an index run may replace them by two others.
PATH_VECTORS = 100_000  # vectors of path texts and masked questions kept on disk, the newest, 2 kB each; chosen: 200 MB
_IN_THIS_PROCESS = (LOCAL, BGE, "onnx", "sentence-transformers")

JUDGED_TEXTS = 500_000  # texts of which votes for names are kept on disk, the newest, 1 kB each; chosen: 500 MB

_open_models: list[CachedEncoder | PathEncoder | VectorCache] = []


def open_encoder(settings: Settings, space: Space = PASSAGES) -> CachedEncoder:
    """The configured encoder of a space with its cache of vectors; one per process and configuration."""
    return _encoder(_needs(settings, settings.encoder.choice_of(space)))


def open_version_encoder(settings: Settings, record: VectorRecord | None) -> CachedEncoder:
    """The encoder of published vectors (None: the configured one); where it is and what it costs, the settings say."""
    if record is None:
        return open_encoder(settings)
    encoder = _encoder(_needs(settings, choice_of(settings, record.encoder)))
    if record.encoder.name != LOCAL and encoder.model != record.model:
        raise ConfigurationError(
            f"The version's vectors are by {record.model}, but {record.encoder.name} is now "
            f"{encoder.model}; restore that model, or index again."
        )
    if isinstance(encoder.encoder, KeepingEncoder):
        encoder.encoder.expect(record.dimension)
    return encoder


def open_path_encoder(settings: Settings, record: VectorRecord | None) -> PathEncoder:
    """The encoder of published vectors with the cache of path vectors; one per process and configuration."""
    open_version_encoder(settings, record)  # which sees that it is the same model
    needs = _needs(settings, settings.encoder.choice if record is None else choice_of(settings, record.encoder))
    return _path_encoder(needs)


@lru_cache(maxsize=MOST_OPEN)
def open_name_cache(root: Path) -> VectorCache:
    """The cache of what the encoder's states show of names, one per process and root; `close_encoders` closes it."""
    cache = VectorCache(Layout(root).name_cache, most_rows=JUDGED_TEXTS)
    _open_models.append(cache)
    return cache


def choice_of(settings: Settings, record: EncoderRecord) -> EncoderChoice:
    """The encoder of a version; the settings say where it is, if they name the same one."""
    choice = EncoderChoice(**record.model_dump(include=set(EncoderChoice.model_fields)))
    named = _named_choice(settings, record)
    if named is None:
        return choice
    return choice.model_copy(update={"api_base": named.api_base or settings.models.api_base or record.api_base})


def _named_choice(settings: Settings, record: EncoderRecord) -> EncoderChoice | None:
    choices = (settings.encoder.choice, settings.encoder.choice_of(ENTITIES))
    return next((known for known in choices if known.name == record.name), None)


def require_named_encoder(settings: Settings, index: IndexFolder, record: EncoderRecord) -> None:
    """Refuses the encoder of an index that was pulled from a store unless the settings name it and its address.

    Any encoder that Polyhop does not ship sends texts and keys to a server, or loads files that its name points to,
    and other people may write to a store (SECURITY.md).

    Raises:
        ConfigurationError: If the settings do not name the encoder or not its address.
    """
    if record.name in SHIPPED or not index.pull_marker.exists():
        return
    named = _named_choice(settings, record)
    has_address = named is not None and (named.api_base or settings.models.api_base)
    missing = [f"encoder.name={record.name}"] if named is None else []
    missing += [f"encoder.api_base={record.api_base}"] if record.api_base and not has_address else []
    if missing:
        where = f"{record.name} at {record.api_base}" if record.api_base else record.name
        raise ConfigurationError(
            f"Index '{index.name}' was pulled from a store and names the encoder {where}, which your settings do not; "
            f"if you trust it, set {' and '.join(missing)}."
        )


def record_of(settings: Settings, choice: EncoderChoice, max_tokens: int) -> EncoderRecord:
    """Record of a version's encoder, which cuts texts after `max_tokens` (0: only its server knows)."""
    address = (choice.api_base or settings.models.api_base) if choice.name.startswith("litellm:") else ""
    own = choice.model_dump(include=set(EncoderRecord.model_fields))
    return EncoderRecord(**own | {"max_tokens": max_tokens, "api_base": "" if has_secret(address) else address})


def close_encoders() -> None:
    """Closes the caches of all encoders of this process; the next use opens them again."""
    _encoder.cache_clear()
    _path_encoder.cache_clear()
    open_name_cache.cache_clear()
    while _open_models:
        _open_models.pop().close()


def _needs(settings: Settings, choice: EncoderChoice) -> EncoderNeeds:
    limits = settings.max_cost_usd, settings.max_tokens
    return EncoderNeeds(choice, settings.cores, settings.models, settings.root, *limits, open_embeddings)


@lru_cache(maxsize=MOST_OPEN)
def _encoder(needs: EncoderNeeds) -> CachedEncoder:
    choice, opened, vectors = needs.choice, _model(_of_model(needs)), VectorCache(Layout(needs.root).vector_cache)
    own, prefix, query_prefix = opened.questions, choice.passage_prefix, choice.query_prefix
    encoder = CachedEncoder(opened.passages, vectors, prefix=prefix, questions=own, query_prefix=query_prefix)
    _open_models.append(encoder)
    return encoder


@lru_cache(maxsize=MOST_OPEN)
def _model(needs: EncoderNeeds) -> OpenedEncoder:
    """The model itself, which knows no root: it stays when `close_encoders` closes the caches."""
    return open_model(needs)


def _of_model(needs: EncoderNeeds) -> EncoderNeeds:
    """Needs that determine the model: no prefixes, and in this process neither data folder nor limits."""
    choice = needs.choice.model_copy(update={"query_prefix": "", "passage_prefix": ""})
    if choice.name.partition(":")[0] not in _IN_THIS_PROCESS:
        return replace(needs, choice=choice)
    bare = choice.model_copy(update={"api_base": ""})
    return EncoderNeeds(bare, needs.threads, ModelSettings(), Path(), None, None, needs.open_embeddings)


@lru_cache(maxsize=MOST_OPEN)
def _path_encoder(needs: EncoderNeeds) -> PathEncoder:
    path, questions = Layout(needs.root).path_cache, _model(_of_model(needs)).questions
    encoder = PathEncoder(questions, lambda: VectorCache(path, most_rows=PATH_VECTORS), needs.choice.query_prefix)
    _open_models.append(encoder)
    return encoder
