"""Cross-encoders, which read a question and a passage together: fastembed's by name, or an ONNX model in a folder.

Ranks nothing and has no fallback (worker/strategies/reranked.py has). One pair per call, so that nothing is padded and
a passage's score does not depend on the passages beside it.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.ports import Reranker
from polyhop.warehouse.models.model_files import (
    GRAPH_FILES,
    TOKENIZER_FILES,
    clean_text,
    existing_file,
    first_line,
    inputs_of,
    load_tokenizer,
)
from polyhop.warehouse.models.onnx_session import open_session

MAX_TOKENS = 512  # positions of BERT, from which many published cross-encoders are made
_SETTING = "models.rerank"


@cache
def open_reranker(model: str, cache_folder: Path) -> Reranker:
    """A cross-encoder, one per process and name.

    Args:
        model: An existing folder, or a name that fastembed knows.
        cache_folder: Where fastembed keeps what it fetches; created if missing.

    Raises:
        ConfigurationError: If fastembed is not installed, does not know the name, or cannot fetch the model.
        ModelFileError: If a folder's files are missing or cannot be used.
    """
    folder = Path(model)
    return OnnxReranker(folder) if folder.is_dir() else FastembedReranker(model, cache_folder)


class FastembedReranker:
    """A cross-encoder by name, fetched once from a model hub by fastembed (an optional dependency).

    Args:
        model: As fastembed names it, like Xenova/ms-marco-MiniLM-L-6-v2.
        cache_folder: Where fetched models are kept; a model that is there needs no network.

    Raises:
        ConfigurationError: If fastembed is not installed, does not know the name, or cannot fetch the model.
    """

    def __init__(self, model: str, cache_folder: Path) -> None:
        self.model = model
        self._encoder = _open_fastembed(model, cache_folder)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),).

        Raises:
            ModelFileError: If the model gives something that is not a number.
        """
        scores = list(self._encoder.rerank(question, list(passages), batch_size=1))
        return _finite(np.array(scores, dtype=np.float64), self.model)


class OnnxReranker:
    """A cross-encoder in a folder: model.onnx (or onnx/model.onnx) with one score per pair, and tokenizer.json.

    Args:
        folder: Its path, which is also its name in results.

    Raises:
        ModelFileError: If a file is missing or cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.model = folder.as_posix()
        self._tokenizer = load_tokenizer(existing_file(folder, TOKENIZER_FILES, _SETTING), MAX_TOKENS)
        self._session = open_session(existing_file(folder, GRAPH_FILES, _SETTING), "fetch it again")
        self._inputs = inputs_of(self._session, folder, "a cross-encoder")

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),); pairs are cut at 512 tokens.

        Raises:
            ModelFileError: If the model does not give one number per pair.
        """
        return _finite(np.array([self._score_one(question, passage) for passage in passages], np.float64), self.model)

    def _score_one(self, question: str, passage: str) -> float:
        encoded = self._tokenizer.encode(clean_text(question), clean_text(passage))
        feed = {name: np.array([getattr(encoded, field)], np.int64) for name, field in self._inputs.items()}
        output = np.asarray(self._session.run(None, feed)[0])
        if output.size != 1:
            raise ModelFileError(
                f"The model in {self.model} gives {output.size} numbers for a question and a passage; "
                "a cross-encoder for ranking gives one."
            )
        return float(output.reshape(-1)[0])


def _open_fastembed(model: str, cache_folder: Path) -> Any:
    try:
        encoders = import_module("fastembed.rerank.cross_encoder").TextCrossEncoder
    except ImportError as error:
        raise ConfigurationError(
            f"The cross-encoder models.rerank = '{model}' is not a folder, and model names need the package fastembed. "
            "Install it with: pip install 'polyhop[fastembed]', or in a checkout: uv sync --extra fastembed (or leave "
            "models.rerank empty for the lexical fallback)"
        ) from error
    known = sorted(description["model"] for description in encoders.list_supported_models())
    if model.lower() not in [name.lower() for name in known]:
        raise ConfigurationError(
            f"The cross-encoder models.rerank = '{model}' is neither a folder nor known to fastembed; "
            f"it knows: {', '.join(known)}."
        )
    try:
        return encoders(model_name=model, cache_dir=str(cache_folder))
    except Exception as error:  # of the model hub's client, of the network, of onnxruntime: no common base class
        raise ConfigurationError(
            f"fastembed cannot fetch or load the cross-encoder '{model}' ({first_line(error)}). Connect once to the "
            f"model hub, or set models.rerank to a folder with model.onnx and tokenizer.json, or leave it empty."
        ) from error


def _finite(scores: NDArray[np.float64], model: str) -> NDArray[np.float64]:
    if not np.isfinite(scores).all():
        raise ModelFileError(f"The cross-encoder {model} gave a score that is not a number; use another model.")
    return scores
