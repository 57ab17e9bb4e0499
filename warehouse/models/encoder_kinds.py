"""The kinds of encoders, by what their names begin with: each opens the two sides of a model.

Each kind's module is imported by the function that opens it, so that nobody pays for a model that is not configured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from polyhop.schemas.encoder_settings import LOCAL, EncoderChoice
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.model_settings import ModelSettings
from polyhop.schemas.ports import Encoder

LOCAL_BATCH_SIZE = 8  # one of the sizes that benchmarks/encoder.py measures; architecture.md 8 has its speed.
SERVER_BATCH_SIZE = 64
"""Texts of a call. Chosen: servers of one's own (TEI, llama.cpp) take 32 to 512, and a lost call costs no more."""


@dataclass(frozen=True, slots=True)
class OpenedEncoder:
    """A model; what is indexed and what is asked may go to different sides of it."""

    passages: Encoder
    questions: Encoder


@dataclass(frozen=True, slots=True)
class EncoderNeeds:
    """What opening an encoder may need.

    Attributes:
        choice: Which one.
        threads: Of one call; 0 means as many as cores.
        batch_size: Texts per call; 0: as the kind has it.
        models: Address, speed and attempts of servers.
        root: Folder of all data.
        max_cost_usd: Of a run; None: no limit.
        max_tokens: Of a run; None: no limit.
    """

    choice: EncoderChoice
    threads: int
    batch_size: int
    models: ModelSettings
    root: Path
    max_cost_usd: float | None
    max_tokens: int | None

    @property
    def model(self) -> str:
        """What stands behind the kind in the name: a model, a folder."""
        return self.choice.name.partition(":")[2]


def open_model(needs: EncoderNeeds) -> OpenedEncoder:
    """The model of an encoder's name.

    Raises:
        ConfigurationError: If there is no such kind, its package is missing, or it cannot do what is asked.
        ModelFileError: If its files cannot be used.
    """
    kind = needs.choice.name.partition(":")[0]
    if kind not in _KINDS:
        raise ConfigurationError(f"There is no encoder of the kind '{kind}'; known are {', '.join(_KINDS)}.")
    return _KINDS[kind](needs)


def _both(encoder: Encoder, choice: EncoderChoice) -> OpenedEncoder:
    """One model for both sides.

    Raises:
        ConfigurationError: If another dimension is asked of it than it has.
    """
    if choice.dimension not in (0, encoder.dimension):
        raise ConfigurationError(
            f"The encoder {choice.name} gives vectors of {encoder.dimension} dimensions, not {choice.dimension}; set "
            "encoder.dimension to 0 (only servers shorten vectors)."
        )
    return OpenedEncoder(encoder, encoder)


def _local(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.models.deferred import DeferredEncoder
    from polyhop.warehouse.models.encoder import MAX_TOKENS, LocalEncoder
    from polyhop.warehouse.models.encoder_graph import DIMENSION, model_id
    from polyhop.warehouse.models.weights import find_model_folder

    choice = needs.choice
    if choice.max_tokens not in (0, MAX_TOKENS):
        raise ConfigurationError(
            f"The local encoder cuts texts after {MAX_TOKENS} tokens, not {choice.max_tokens}; set encoder.max_tokens "
            "to 0."
        )
    batch_size = needs.batch_size or LOCAL_BATCH_SIZE
    threads, precision = needs.threads or None, choice.precision
    name = model_id(find_model_folder(), precision)
    opening = partial(LocalEncoder, threads=threads, batch_size=batch_size, precision=precision)
    return _both(DeferredEncoder(name, DIMENSION, MAX_TOKENS, opening), choice)


def _onnx(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.models.onnx_encoder import OnnxEncoder

    batch_size = needs.batch_size or LOCAL_BATCH_SIZE
    folder = Path(needs.model)
    encoder = OnnxEncoder(folder, max_tokens=needs.choice.max_tokens, threads=needs.threads, batch_size=batch_size)
    return _both(encoder, needs.choice)


def _fastembed(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.models.named_encoders import open_fastembed

    opened = open_fastembed(needs.model, Layout(needs.root).model_cache, needs.threads, needs.batch_size)
    _both(opened.passages, needs.choice)
    if needs.choice.max_tokens:
        raise ConfigurationError("fastembed cuts texts where its model says; set encoder.max_tokens to 0.")
    return opened


def _sentence_transformers(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.models.named_encoders import open_sentence_transformers

    opened = open_sentence_transformers(
        needs.model, needs.choice.device, needs.choice.max_tokens, needs.choice.dimension, needs.batch_size
    )
    _both(opened.passages, needs.choice)
    return opened


def _litellm(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.models.litellm_encoder import LitellmEncoder
    from polyhop.warehouse.open_models import open_embeddings

    choice = needs.choice
    encoder = LitellmEncoder(
        needs.model,
        lambda: open_embeddings(choice, needs.models, needs.root, needs.max_cost_usd, needs.max_tokens),
        asked_dimension=choice.dimension,
        max_tokens=choice.max_tokens,
        batch_size=needs.batch_size or SERVER_BATCH_SIZE,
    )
    return OpenedEncoder(encoder, encoder.for_questions())


_KINDS: Mapping[str, Callable[[EncoderNeeds], OpenedEncoder]] = {
    LOCAL: _local,
    "onnx": _onnx,
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
    "litellm": _litellm,
}
