"""Encoders by name from packages that fetch them: fastembed and sentence-transformers, both optional.

Cache no vector (cached.py does). The packages pad batches, so the last bits of a vector may depend on the texts beside
its own.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse.models.encoder_kinds import OpenedEncoder
from polyhop.warehouse.models.model_files import clean_text, folder_hash
from polyhop.warehouse.models.unit_rows import unit_rows

DEFAULT_BATCH_SIZE = 32  # sentence-transformers' own default

_Encode = Callable[[list[str]], Any]


class NamedEncoder:
    """One side of a package's model.

    Args:
        model: Names all that determines a vector.
        dimension: Components of a vector; 0: as the first one has.
        max_tokens: Where texts are cut, 0 if the package does not say.
        encode: The package's function.
    """

    def __init__(self, model: str, dimension: int, max_tokens: int, encode: _Encode) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self._encode = encode
        self.dimension = dimension or len(np.asarray(list(encode(["dimension"])))[0])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1, in input order.

        Raises:
            InvalidVectorError: If a vector is zero or not finite.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        vectors = np.asarray(list(self._encode([clean_text(text) for text in texts])))
        return unit_rows(vectors, len(texts), self.dimension, self.model)


def open_fastembed(model: str, cache_folder: Path, threads: int, batch_size: int) -> OpenedEncoder:
    """A model that fastembed fetches once from a model hub.

    Args:
        model: As fastembed names it, like BAAI/bge-small-en-v1.5.
        cache_folder: Where fetched models are kept; a model that is there needs no network.
        threads: Of one call; 0 means as many as cores.
        batch_size: Texts per call; 0: 32.

    Raises:
        ConfigurationError: If fastembed is not installed, does not know the name, or cannot fetch the model.
    """
    try:
        models = import_module("fastembed").TextEmbedding
    except ImportError as error:
        raise ConfigurationError(
            f"The encoder fastembed:{model} needs the package fastembed. Install it with: pip install "
            "'polyhop[fastembed]', or in a checkout: uv sync --extra fastembed"
        ) from error
    dimension = {str(known["model"]).lower(): int(known["dim"]) for known in models.list_supported_models()}
    if model.lower() not in dimension:
        raise ConfigurationError(
            f"fastembed does not know the encoder '{model}'; it knows: {', '.join(sorted(dimension))}."
        )
    try:
        opened = models(model_name=model, cache_dir=str(cache_folder), threads=threads or None)
    except Exception as error:  # of the model hub's client, of the network, of onnxruntime: no common base class
        raise ConfigurationError(
            f"fastembed cannot fetch or load the encoder '{model}' ({_first_line(error)}). Connect once to the model "
            "hub, or set encoder.name to onnx:FOLDER."
        ) from error
    size, name, wide = batch_size or DEFAULT_BATCH_SIZE, f"fastembed:{model}", dimension[model.lower()]
    return OpenedEncoder(
        NamedEncoder(name, wide, 0, lambda texts: opened.passage_embed(texts, batch_size=size)),
        NamedEncoder(name, wide, 0, lambda texts: opened.query_embed(texts, batch_size=size)),
    )


def open_sentence_transformers(
    model: str, device: str, max_tokens: int, dimension: int, batch_size: int
) -> OpenedEncoder:
    """A model of sentence-transformers, by name or in a folder, on any device that PyTorch has.

    Questions and passages get the model's own prompts, if it has any (encode_query, encode_document).

    Args:
        model: A name of the model hub, or a folder.
        device: As PyTorch names it; "": the package chooses.
        max_tokens: Texts are cut after so many; 0: as the model says.
        dimension: Vectors are cut to so many components; 0: not cut.
        batch_size: Texts per call; 0: 32.

    Raises:
        ConfigurationError: If the package is not installed, or cannot fetch or load the model.
    """
    opened = _sentence_transformer(model, device, dimension)
    if max_tokens:
        opened.max_seq_length = max_tokens
    longest, size = int(opened.max_seq_length or 0), batch_size or DEFAULT_BATCH_SIZE
    folder = Path(model)
    named = f"{folder.name}-{folder_hash(folder)}" if folder.is_dir() else model
    name = f"sentence-transformers:{named}{f'@{dimension}' if dimension else ''}{f'<{longest}' if longest else ''}"

    def side(function: str) -> _Encode:
        encode = getattr(opened, function, opened.encode)  # older versions have one function for both
        return lambda texts: encode(texts, batch_size=size, show_progress_bar=False, convert_to_numpy=True)

    passages = NamedEncoder(name, dimension, longest, side("encode_document"))
    return OpenedEncoder(passages, NamedEncoder(name, passages.dimension, longest, side("encode_query")))


def _sentence_transformer(model: str, device: str, dimension: int) -> Any:
    try:
        opening = import_module("sentence_transformers").SentenceTransformer
    except ImportError as error:
        raise ConfigurationError(
            f"The encoder sentence-transformers:{model} needs the package sentence-transformers (with PyTorch). "
            "Install it with: pip install sentence-transformers, or in a checkout: uv pip install sentence-transformers"
        ) from error
    try:
        return opening(model, device=device or None, truncate_dim=dimension or None)
    except Exception as error:  # of the model hub's client, of the network, of PyTorch: no common base class
        raise ConfigurationError(
            f"sentence-transformers cannot fetch or load the encoder '{model}' ({_first_line(error)}). Connect once to "
            "the model hub, or name a folder that holds the model."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
