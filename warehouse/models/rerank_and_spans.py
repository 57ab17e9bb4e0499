"""Models that read a question and a passage together: cross-encoders, and extractive question answering.

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
from polyhop.schemas.query import MarkedSpan
from polyhop.warehouse.models.onnx_session import TOKENIZER_FILE, OnnxModel, clean_text, first_line, load_tokenizer

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


# Source: Devlin et al. 2019, sections 4.2 and 4.3; windows as in the authors' run_squad.py.

SPAN_MAX_TOKENS = 384
"""Of question and window, run_squad.py's max_seq_length."""
STRIDE = 128
"""Tokens that a window shares with the one before it, run_squad.py's doc_stride."""
MAX_QUESTION_TOKENS = 64
"""run_squad.py's max_query_length; longer questions are cut."""
MAX_ANSWER_TOKENS = 30
"""run_squad.py's max_answer_length."""

_SPAN_SETTING = "models.read"
_OUTPUTS = ("start_logits", "end_logits")


@cache
def open_span_model(folder: str) -> "OnnxSpanModel":
    """The model of a folder, one per process."""
    return OnnxSpanModel(Path(folder))


class OnnxSpanModel:
    """A folder with model.onnx (or onnx/model.onnx), with outputs start_logits and end_logits, and tokenizer.json."""

    def __init__(self, folder: Path) -> None:
        self.model = folder.as_posix()
        self._model = OnnxModel(folder, _SPAN_SETTING, "a question-answering model", max_tokens=None)
        self._windows_of = load_tokenizer(folder / TOKENIZER_FILE, None)
        self._windows_of.enable_truncation(SPAN_MAX_TOKENS, stride=STRIDE, strategy="only_second")
        given = {one.name for one in self._model.session.get_outputs()}
        if not given >= set(_OUTPUTS):
            raise ModelFileError(
                f"The model in {folder} gives {', '.join(sorted(given))}; a question-answering model gives "
                f"{' and '.join(_OUTPUTS)}."
            )

    def mark(self, question: str, texts: Sequence[str]) -> list[MarkedSpan]:
        """One span per text, in order; see `polyhop.schemas.query.SpanModel`."""
        asked = self._cut(clean_text(question))
        return [self._mark(asked, clean_text(text)) for text in texts]

    def _cut(self, question: str) -> str:
        """The question's first 64 tokens."""
        offsets = self._model.tokenizer.encode(question, add_special_tokens=False).offsets
        return question[: offsets[MAX_QUESTION_TOKENS - 1][1]] if len(offsets) > MAX_QUESTION_TOKENS else question

    def _mark(self, question: str, text: str) -> MarkedSpan:
        best = MarkedSpan(0, 0, -np.inf, np.inf)
        if not text.strip():
            return best
        encoded = self._windows_of.encode(question, text)
        for window in (encoded, *encoded.overflowing):
            starts, ends = (np.asarray(one, np.float64).reshape(-1) for one in self._model.run([window], _OUTPUTS))
            if not starts.shape == ends.shape == (len(window.ids),) or not np.isfinite([starts, ends]).all():
                raise ModelFileError(
                    f"The model in {self.model} does not give one finite number per token; use another model."
                )
            no_answer = min(best.no_answer, float(starts[0] + ends[0]))
            first, last, score = _best_pair(starts, ends, np.array(window.sequence_ids) == 1)
            if score > best.score:
                best = MarkedSpan(window.offsets[first][0], window.offsets[last][1], score, no_answer)
            else:
                best = MarkedSpan(best.start, best.end, best.score, no_answer)
        return best


def _best_pair(
    starts: NDArray[np.float64], ends: NDArray[np.float64], is_text: NDArray[np.bool_]
) -> tuple[int, int, float]:
    """First and last token of the likeliest span of at most 30 tokens, and its score; the earliest of equal ones.

    The score is minus infinity where the window has no token of the text.
    """
    first = np.where(is_text, starts, -np.inf)
    last = np.where(is_text, ends, -np.inf)
    scores = np.full((len(starts), MAX_ANSWER_TOKENS), -np.inf)
    for length in range(min(MAX_ANSWER_TOKENS, len(starts))):
        scores[: len(starts) - length, length] = first[: len(starts) - length] + last[length:]
    place = int(np.argmax(scores))
    start, length = divmod(place, MAX_ANSWER_TOKENS)
    return start, start + length, float(scores[start, length])
