"""Cross-encoders: models that read a question and a passage together.

One pair per call, so that nothing is padded and a passage's score does not depend on the passages beside it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelFileError, import_extra
from polyhop.schemas.ports import Reranker
from polyhop.warehouse.models.onnx_session import OnnxModel, clean_text, first_line

MAX_TOKENS = 512  # positions of BERT, from which many published cross-encoders are made
_SETTING = "models.rerank"


@cache
def open_reranker(model: str, cache_folder: Path) -> Reranker:
    """A cross-encoder by its folder or by a name that fastembed knows, one per process and name."""
    folder = Path(model)
    return OnnxReranker(folder) if folder.is_dir() else FastembedReranker(model, cache_folder)


class FastembedReranker:
    """A cross-encoder by name, fetched once from a model hub by fastembed (an optional dependency)."""

    def __init__(self, model: str, cache_folder: Path) -> None:
        self.model = model
        self._encoder = _open_fastembed(model, cache_folder)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),)."""
        scores = list(self._encoder.rerank(question, list(passages), batch_size=1))
        return _finite(np.array(scores, dtype=np.float64), self.model)


class OnnxReranker:
    """A cross-encoder in a folder: model.onnx (or onnx/model.onnx) with one score per pair, and tokenizer.json."""

    def __init__(self, folder: Path) -> None:
        self.model = folder.as_posix()
        self._model = OnnxModel(folder, _SETTING, "a cross-encoder", max_tokens=MAX_TOKENS)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The model's own scores (logits), shape (len(passages),); pairs are cut at 512 tokens."""
        return _finite(np.array([self._score_one(question, passage) for passage in passages], np.float64), self.model)

    def _score_one(self, question: str, passage: str) -> float:
        encoded = self._model.tokenizer.encode(clean_text(question), clean_text(passage))
        output = np.asarray(self._model.run([encoded])[0])
        if output.size != 1:
            raise ModelFileError(
                f"The model in {self.model} gives {output.size} numbers for a question and a passage; "
                "a cross-encoder for ranking gives one."
            )
        return float(output.reshape(-1)[0])


def _open_fastembed(model: str, cache_folder: Path) -> Any:
    needs = f"The cross-encoder models.rerank = '{model}' is not a folder, and model names need"
    instead, module = "leave models.rerank empty for the lexical fallback", "fastembed.rerank.cross_encoder"
    encoders = import_extra(needs, "fastembed", "fastembed", instead, module=module).TextCrossEncoder
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
