"""A question-answering model exported to ONNX (DistilBERT-SQuAD, for instance): marks the answer in a text.

Reads no passages of an index and decides nothing (worker/reading/spans.py does). One window per call, so that nothing
is padded and a text's span does not depend on the texts beside it.
Source: Devlin et al. 2019, sections 4.2 and 4.3; windows as in the authors' run_squad.py.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.spans import MarkedSpan
from polyhop.warehouse.models.model_files import (
    GRAPH_FILES,
    TOKENIZER_FILES,
    clean_text,
    existing_file,
    inputs_of,
    load_tokenizer,
)
from polyhop.warehouse.models.onnx_session import open_session

MAX_TOKENS = 384
"""Of question and window, run_squad.py's max_seq_length."""
STRIDE = 128
"""Tokens that a window shares with the one before it, run_squad.py's doc_stride."""
MAX_QUESTION_TOKENS = 64
"""run_squad.py's max_query_length; longer questions are cut."""
MAX_ANSWER_TOKENS = 30
"""run_squad.py's max_answer_length."""

_SETTING = "models.read"
_OUTPUTS = ("start_logits", "end_logits")


@cache
def open_span_model(folder: str) -> "OnnxSpanModel":
    """The model of a folder, one per process.

    Raises:
        ModelFileError: If its files are missing or cannot be used.
    """
    return OnnxSpanModel(Path(folder))


class OnnxSpanModel:
    """A folder with model.onnx (or onnx/model.onnx), whose outputs are start_logits and end_logits, and tokenizer.json.

    Args:
        folder: Its path, which is also its name in results.

    Raises:
        ModelFileError: If a file is missing or cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.model = folder.as_posix()
        tokenizer_file = existing_file(folder, TOKENIZER_FILES, _SETTING)
        self._whole, self._tokenizer = load_tokenizer(tokenizer_file, None), load_tokenizer(tokenizer_file, None)
        self._tokenizer.enable_truncation(MAX_TOKENS, stride=STRIDE, strategy="only_second")
        self._session = open_session(existing_file(folder, GRAPH_FILES, _SETTING), "fetch it again")
        self._inputs = inputs_of(self._session, folder, "a question-answering model")
        given = {one.name for one in self._session.get_outputs()}
        if not given >= set(_OUTPUTS):
            raise ModelFileError(
                f"The model in {folder} gives {', '.join(sorted(given))}; a question-answering model gives "
                f"{' and '.join(_OUTPUTS)}."
            )

    def mark(self, question: str, texts: Sequence[str]) -> list[MarkedSpan]:
        """One span per text, in order; see `polyhop.schemas.spans.SpanModel`.

        Raises:
            ModelFileError: If the model gives something that is not a number per token.
        """
        asked = self._cut(clean_text(question))
        return [self._mark(asked, clean_text(text)) for text in texts]

    def _cut(self, question: str) -> str:
        """The question's first 64 tokens."""
        offsets = self._whole.encode(question, add_special_tokens=False).offsets
        return question[: offsets[MAX_QUESTION_TOKENS - 1][1]] if len(offsets) > MAX_QUESTION_TOKENS else question

    def _mark(self, question: str, text: str) -> MarkedSpan:
        best = MarkedSpan(0, 0, -np.inf, np.inf)
        for window in self._windows(question, text):
            starts, ends = self._logits(window)
            no_answer = min(best.no_answer, float(starts[0] + ends[0]))
            first, last, score = _best_pair(starts, ends, np.array(window.sequence_ids) == 1)
            if score > best.score:
                best = MarkedSpan(window.offsets[first][0], window.offsets[last][1], score, no_answer)
            else:
                best = MarkedSpan(best.start, best.end, best.score, no_answer)
        return best

    def _windows(self, question: str, text: str) -> Iterator[Any]:
        if not text.strip():
            return
        encoded = self._tokenizer.encode(question, text)
        yield encoded
        yield from encoded.overflowing

    def _logits(self, window: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        feed = {name: np.array([getattr(window, field)], np.int64) for name, field in self._inputs.items()}
        starts, ends = (np.asarray(one, np.float64).reshape(-1) for one in self._session.run(_OUTPUTS, feed))
        if not starts.shape == ends.shape == (len(window.ids),) or not np.isfinite([starts, ends]).all():
            raise ModelFileError(
                f"The model in {self.model} does not give one finite number per token; use another model."
            )
        return starts, ends


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
