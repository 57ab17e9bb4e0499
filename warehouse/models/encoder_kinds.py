"""The kinds of encoders by what their names begin with: ONNX folders, packages, `/embeddings` servers.

Each kind's module is imported by the function that opens it, so that unused models cost nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError, import_extra
from polyhop.schemas.ports import Encoder
from polyhop.schemas.settings import BGE, LOCAL, EncoderChoice, ModelSettings
from polyhop.warehouse.models.local_encoder import MAX_TOKENS, LocalEncoder, WeightsPackage, equal_length_batches
from polyhop.warehouse.models.onnx_session import OnnxModel, clean_text, fetching, folder_hash, read_json, unit_rows

if TYPE_CHECKING:
    from polyhop.warehouse.models.litellm_encoder import EmbeddingGateway

Tokens = NDArray[np.float32]  # Shape (texts, tokens, dimension).

_POOLINGS: Mapping[str, Callable[[Tokens], NDArray[np.float32]]] = {
    "cls": lambda tokens: tokens[:, 0],
    "mean": lambda tokens: tokens.mean(axis=1),
    "lasttoken": lambda tokens: tokens[:, -1],
    "max": lambda tokens: tokens.max(axis=1),
    "mean_sqrt_len_tokens": lambda tokens: tokens.sum(axis=1) / np.sqrt(tokens.shape[1]),
}


class OnnxEncoder:
    """A sentence encoder in a folder; safe for threads. Vectors have length 1, whatever its configuration says.

    The folder holds model.onnx (or onnx/model.onnx) and tokenizer.json; 1_Pooling/config.json, unless the graph gives
    one vector per text. Texts are cut after `max_tokens` (0: as sentence_bert_config.json says); a call has at most
    `batch_size` texts, of equal token count, and `threads` (0: as many as cores). A graph that takes 8-bit scales per
    call gets one text per call. `name` is that of the model, if its files need no hash.
    """

    def __init__(
        self, folder: Path, *, max_tokens: int = 0, threads: int = 0, batch_size: int = 8, name: str = ""
    ) -> None:
        settings = read_json(folder / "sentence_bert_config.json") or {}
        self.max_tokens = max_tokens or int(settings.get("max_seq_length") or 512)  # the positions of BERT
        self._is_lowered = bool(settings.get("do_lower_case"))
        setting, limits = "encoder.name = onnx:…", {"max_tokens": self.max_tokens, "threads": threads}
        self._model = OnnxModel(folder, setting, "a sentence encoder", advice="export it again", **limits)
        self._output, self._pool = _output(self._model.session, folder)
        self._batch_size = self._model.most_texts or batch_size
        graph = self._model.graph
        outside = sorted(file.relative_to(folder).as_posix() for file in graph.parent.glob(f"{graph.name}*"))
        settings_files = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")
        named = name or f"onnx:{folder.name}-{folder_hash(folder, [*outside, 'tokenizer.json', *settings_files])}"
        self.model = f"{named}<{self.max_tokens}"
        self.dimension = self._raw(["dimension"]).shape[1]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, shape (len(texts), dimension), float32, rows of length 1; nothing is padded for them."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return unit_rows(self._raw(texts), len(texts), self.dimension, self.model)

    def _raw(self, texts: Sequence[str]) -> NDArray[np.float32]:
        read = [clean_text(text.lower() if self._is_lowered else text) for text in texts]
        encoded = [self._model.tokenizer.encode(text) for text in read]
        rows: dict[int, NDArray[np.float32]] = {}
        for batch in equal_length_batches([len(one.ids) for one in encoded], self._batch_size):
            (output,) = self._model.run([encoded[number] for number in batch], [self._output])
            rows.update(zip(batch, self._pool(output) if self._pool else output, strict=True))
        return np.array([rows[number] for number in range(len(texts))], np.float32).reshape(len(texts), -1)


def _output(session: Any, folder: Path) -> tuple[str, Callable[[Tokens], NDArray[np.float32]] | None]:
    """The output to take, and how its tokens become one vector; None if it has one per text."""
    ranks = {one.name: len(one.shape) for one in session.get_outputs()}
    usual = ("sentence_embedding", "sentence_embeddings")
    named = [name for name in usual if ranks.get(name) == 2]
    sentences = named or [name for name, rank in ranks.items() if rank == 2]
    tokens = [name for name in ("token_embeddings", "last_hidden_state", *ranks) if ranks.get(name) == 3]
    if named or (sentences and not tokens):
        return sentences[0], None
    if not tokens:
        raise ModelFileError(f"The model in {folder} gives neither vectors of texts nor of tokens; export it again.")
    # How the vectors of tokens become that of a text, as sentence-transformers noted it.
    modules = read_json(folder / "modules.json") or []
    kinds = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    more = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if more:
        raise ModelFileError(
            f"The model in {folder} has the modules {', '.join(more)} after its tokens; export it with the output "
            "sentence_embedding, which holds what they do."
        )
    config = read_json(folder / kinds.get("Pooling", "1_Pooling") / "config.json")
    if config is None:
        raise ModelFileError(
            f"The model in {folder} gives vectors of tokens, and no 1_Pooling/config.json says how they become one of "
            'a text; add that file, for example with {"pooling_mode_mean_tokens": true}.'
        )
    # The one way of pooling that it names, in the older form (a flag for each) or the newer (a name).
    flags = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
    modes = [mode for mode in _POOLINGS if config.get(f"pooling_mode_{flags.get(mode, mode)}")]
    modes = modes or [str(config.get("pooling_mode", ""))]
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise ModelFileError(
            f"The model in {folder} is pooled by {' and '.join(modes) or 'nothing'}; Polyhop supports one of "
            f"{', '.join(_POOLINGS)}."
        )
    return tokens[0], _POOLINGS[modes[0]]


_Encode = Callable[[list[str]], Any]


class NamedEncoder:
    """One side of a package's model."""

    def __init__(self, model: str, dimension: int, max_tokens: int, encode: _Encode) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self._encode = encode
        self.dimension = dimension or len(np.asarray(list(encode(["dimension"])))[0])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, shape (len(texts), dimension), float32, rows of length 1."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        vectors = np.asarray(list(self._encode([clean_text(text) for text in texts])))
        return unit_rows(vectors, len(texts), self.dimension, self.model)


BATCH_SIZE = 32  # of named models; sentence-transformers' own default
SERVER_BATCH_SIZE = 64
"""Texts of a call. Chosen: servers of one's own (TEI, llama.cpp) take 32 to 512, and a lost call costs no more."""


@dataclass(frozen=True, slots=True)
class OpenedEncoder:
    """A model; what is indexed and what is asked may go to different sides of it."""

    passages: Encoder
    questions: Encoder


@dataclass(frozen=True, slots=True)
class EncoderNeeds:
    """Inputs for opening an encoder."""

    choice: EncoderChoice
    threads: int
    models: ModelSettings
    root: Path
    max_cost_usd: float | None
    max_tokens: int | None
    open_embeddings: "Callable[[EncoderChoice, ModelSettings, Path, float | None, int | None], EmbeddingGateway]"

    @property
    def model(self) -> str:
        """Part of the name after the kind: a model, a folder."""
        return self.choice.name.partition(":")[2]


def _both(encoder: Encoder, choice: EncoderChoice) -> OpenedEncoder:
    """One model for both sides."""
    if choice.dimension not in (0, encoder.dimension):
        raise ConfigurationError(
            f"The encoder {choice.name} gives vectors of {encoder.dimension} dimensions, not {choice.dimension}; set "
            "encoder.dimension to 0 (only servers shorten vectors)."
        )
    return OpenedEncoder(encoder, encoder)


def _local(needs: EncoderNeeds) -> OpenedEncoder:
    choice = needs.choice
    if choice.max_tokens not in (0, MAX_TOKENS):
        raise ConfigurationError(
            f"The local encoder cuts texts after {MAX_TOKENS} tokens, not {choice.max_tokens}; set encoder.max_tokens "
            "to 0."
        )
    return _both(LocalEncoder(threads=needs.threads or None, precision=choice.precision), choice)


BGE_WEIGHTS = WeightsPackage("polyhop-weights-bge", "polyhop_weights_bge", extra="bge")
BGE_TOKENS = 512  # the positions of BERT, for which bge-small-en-v1.5 was trained
_BGE_FILES = ("1_Pooling/config.json", "model.onnx", "tokenizer.json")
_BGE_HASH = "9bdd942b"  # `folder_hash` of the published files, and so of their sha256 in weights/bge/bge_build.py


def _bge(needs: EncoderNeeds) -> OpenedEncoder:
    """bge-small-en-v1.5 in 8-bit integers: the vector of the first token, no prefixes."""
    choice = needs.choice
    if choice.max_tokens > BGE_TOKENS:
        raise ConfigurationError(
            f"The encoder bge reads at most {BGE_TOKENS} tokens of a text, not {choice.max_tokens}; set "
            "encoder.max_tokens to 0."
        )
    folder = BGE_WEIGHTS.folder()
    if folder_hash(folder, _BGE_FILES) != _BGE_HASH:
        raise ModelFileError(
            f"The files of the encoder bge in {folder} are missing or not the published ones; install the package "
            f"again: {BGE_WEIGHTS.install}"
        )
    name, max_tokens = f"bge-small-en-v1.5-{_BGE_HASH}", choice.max_tokens or BGE_TOKENS
    return _both(OnnxEncoder(folder, name=name, max_tokens=max_tokens, threads=needs.threads), choice)


def _onnx(needs: EncoderNeeds) -> OpenedEncoder:
    encoder = OnnxEncoder(Path(needs.model), max_tokens=needs.choice.max_tokens, threads=needs.threads)
    return _both(encoder, needs.choice)


def _fastembed(needs: EncoderNeeds) -> OpenedEncoder:
    """A model that fastembed fetches once from a model hub, by its name there, like BAAI/bge-small-en-v1.5."""
    from polyhop.warehouse.files.layout import Layout

    model, cache_folder = needs.model, Layout(needs.root).model_cache
    models = import_extra(f"The encoder fastembed:{model} needs", "fastembed", "fastembed").TextEmbedding
    dimension = {str(known["model"]).lower(): int(known["dim"]) for known in models.list_supported_models()}
    if model.lower() not in dimension:
        raise ConfigurationError(
            f"fastembed does not know the encoder '{model}'; it knows: {', '.join(sorted(dimension))}."
        )
    with fetching("fastembed", f"the encoder '{model}'", "set encoder.name to onnx:FOLDER"):
        opened = models(model_name=model, cache_dir=str(cache_folder), threads=needs.threads or None)
    side = partial(NamedEncoder, f"fastembed:{model}", dimension[model.lower()], 0)
    passages = side(partial(opened.passage_embed, batch_size=BATCH_SIZE))
    _both(passages, needs.choice)
    if needs.choice.max_tokens:
        raise ConfigurationError("fastembed cuts texts where its model says; set encoder.max_tokens to 0.")
    return OpenedEncoder(passages, side(partial(opened.query_embed, batch_size=BATCH_SIZE)))


def _sentence_transformers(needs: EncoderNeeds) -> OpenedEncoder:
    """A model of sentence-transformers, by name or in a folder, on any device that PyTorch has.

    Questions and passages get the model's own prompts, if it has any (encode_query, encode_document).
    """
    model, dimension = needs.model, needs.choice.dimension
    try:
        opening = import_module("sentence_transformers").SentenceTransformer
    except ImportError as error:
        raise ConfigurationError(
            f"The encoder sentence-transformers:{model} needs the package sentence-transformers (with PyTorch). "
            "Install it with: pip install sentence-transformers, or in a checkout: uv pip install sentence-transformers"
        ) from error
    with fetching("sentence-transformers", f"the encoder '{model}'", "name a folder that holds the model"):
        opened = opening(model, truncate_dim=dimension or None)
    if needs.choice.max_tokens:
        opened.max_seq_length = needs.choice.max_tokens
    longest = int(opened.max_seq_length or 0)
    folder = Path(model)
    named = f"{folder.name}-{folder_hash(folder)}" if folder.is_dir() else model
    name = f"sentence-transformers:{named}{f'@{dimension}' if dimension else ''}{f'<{longest}' if longest else ''}"

    def side(function: str) -> _Encode:
        encode = getattr(opened, function, opened.encode)  # older versions have one function for both
        return lambda texts: encode(texts, batch_size=BATCH_SIZE, show_progress_bar=False, convert_to_numpy=True)

    passages = NamedEncoder(name, dimension, longest, side("encode_document"))
    _both(passages, needs.choice)
    return OpenedEncoder(passages, NamedEncoder(name, passages.dimension, longest, side("encode_query")))


def _litellm(needs: EncoderNeeds) -> OpenedEncoder:
    from polyhop.warehouse.models.litellm_encoder import LitellmEncoder

    choice, limits = needs.choice, (needs.max_cost_usd, needs.max_tokens)
    gateway = partial(needs.open_embeddings, choice, needs.models, needs.root, *limits)
    sizes = {"asked_dimension": choice.dimension, "max_tokens": choice.max_tokens, "batch_size": SERVER_BATCH_SIZE}
    encoder = LitellmEncoder(needs.model, gateway, **sizes)
    return OpenedEncoder(encoder, encoder.for_questions())


_KINDS: Mapping[str, Callable[[EncoderNeeds], OpenedEncoder]] = {
    LOCAL: _local,
    BGE: _bge,
    "onnx": _onnx,
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
    "litellm": _litellm,
}


def open_model(needs: EncoderNeeds) -> OpenedEncoder:
    """The model of an encoder's name."""
    kind = needs.choice.name.partition(":")[0]
    if kind not in _KINDS:
        raise ConfigurationError(f"Unknown kind of encoder '{kind}'; known kinds are {', '.join(_KINDS)}.")
    return _KINDS[kind](needs)
