"""Settings, or a published version, to an encoder with its cache: the only place that constructs encoders.

What is indexed is encoded as the settings say, what is asked as the version remembers. Per process there is one
instance of each model; nothing is imported before it is needed.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from polyhop.schemas.errors import ConfigurationError, has_secret
from polyhop.schemas.manifest import EncoderRecord, VectorRecord
from polyhop.schemas.ports import KeepingEncoder
from polyhop.schemas.settings import (
    ENTITIES,
    LOCAL,
    PASSAGES,
    EncoderChoice,
    EncoderSettings,
    ModelSettings,
    Settings,
    Space,
)
from polyhop.warehouse.cache.vectors import CachedEncoder, PathEncoder, VectorCache
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.encoder_kinds import EncoderNeeds, OpenedEncoder, open_model

MOST_OPEN = 4
"""Encoders of a process. Chosen: an index may have two, and an index run may replace them by two others."""
PATH_VECTORS = 100_000
"""Vectors of path texts and masked questions kept on disk, the newest, 2 kB each; chosen: 200 MB."""
_IN_THIS_PROCESS = (LOCAL, "onnx", "sentence-transformers")

_open_encoders: list[CachedEncoder | PathEncoder] = []


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
            f"The version's vectors are by {record.model}, but what is called {record.encoder.name} now is "
            f"{encoder.model}; bring back that model, or index again."
        )
    if isinstance(encoder.encoder, KeepingEncoder):
        encoder.encoder.expect(record.dimension)
    return encoder


def open_path_encoder(settings: Settings, record: VectorRecord | None) -> PathEncoder:
    """The encoder of published vectors with the cache of path vectors; one per process and configuration."""
    open_version_encoder(settings, record)  # which sees that it is the same model
    needs = _needs(settings, settings.encoder.choice if record is None else choice_of(settings, record.encoder))
    return _path_encoder(needs)


def choice_of(settings: Settings, record: EncoderRecord) -> EncoderChoice:
    """The encoder of a version; the settings say where it is and what it costs, if they name the same one."""
    choice = EncoderChoice(**record.model_dump(include=set(EncoderChoice.model_fields)))
    choices = (settings.encoder.choice, settings.encoder.choice_of(ENTITIES))
    named = next((known for known in choices if known.name == record.name), None)
    if named is None:
        return choice
    own = {"price": named.price, "api_base": _address(settings, named) or record.api_base}
    return choice.model_copy(update=own)


def record_of(settings: Settings, choice: EncoderChoice, max_tokens: int) -> EncoderRecord:
    """What a version remembers of its encoder, which cuts texts after `max_tokens` (0: only its server knows)."""
    address = _address(settings, choice) if choice.name.startswith("litellm:") else ""
    own = choice.model_dump(include=set(EncoderRecord.model_fields))
    return EncoderRecord(**own | {"max_tokens": max_tokens, "api_base": "" if has_secret(address) else address})


def close_encoders() -> None:
    """Closes the caches of all encoders of this process; the next use opens them again."""
    _encoder.cache_clear()
    _path_encoder.cache_clear()
    while _open_encoders:
        _open_encoders.pop().close()


def _address(settings: Settings, choice: EncoderChoice) -> str:
    return choice.api_base or settings.models.api_base


def _needs(settings: Settings, choice: EncoderChoice) -> EncoderNeeds:
    encoder: EncoderSettings = settings.encoder
    limits = settings.max_cost_usd, settings.max_tokens
    return EncoderNeeds(choice, encoder.threads, settings.models, settings.root, *limits)


@lru_cache(maxsize=MOST_OPEN)
def _encoder(needs: EncoderNeeds) -> CachedEncoder:
    layout, choice, opened = Layout(needs.root), needs.choice, _model(_of_model(needs))
    encoder = CachedEncoder(
        opened.passages,
        VectorCache(layout.vector_cache),
        prefix=choice.passage_prefix,
        questions=opened.questions,
        query_prefix=choice.query_prefix,
    )
    _open_encoders.append(encoder)
    return encoder


@lru_cache(maxsize=MOST_OPEN)
def _model(needs: EncoderNeeds) -> OpenedEncoder:
    """The model itself, which knows no root: it stays when `close_encoders` closes the caches."""
    return open_model(needs)


def _of_model(needs: EncoderNeeds) -> EncoderNeeds:
    """What the model depends on: not the prefixes, and in this process neither folder of data nor limits."""
    choice = needs.choice.model_copy(update={"query_prefix": "", "passage_prefix": ""})
    if choice.name.partition(":")[0] not in _IN_THIS_PROCESS:
        return replace(needs, choice=choice)
    bare = choice.model_copy(update={"api_base": "", "price": None})
    return EncoderNeeds(bare, needs.threads, ModelSettings(), Path(), None, None)


@lru_cache(maxsize=MOST_OPEN)
def _path_encoder(needs: EncoderNeeds) -> PathEncoder:
    path, questions = Layout(needs.root).path_cache, _model(_of_model(needs)).questions
    encoder = PathEncoder(questions, lambda: VectorCache(path, most_rows=PATH_VECTORS), needs.choice.query_prefix)
    _open_encoders.append(encoder)
    return encoder
