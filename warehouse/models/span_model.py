"""The reader's model: a question and windows of passages in, scores of where an answer starts and ends out.

Source: reader.md. It was trained by weights/training/reader.py, which makes its input rows with `input_row` too.
Invariant: the logits of a window depend on the window alone, bit for bit: windows are read one by one, so none is
padded.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ports import SpanLogits, SpanModel, Window
from polyhop.warehouse.machine import usable_cores
from polyhop.warehouse.models.local_encoder import MINILM, REINSTALL, TOKENIZER_FILE, require_published
from polyhop.warehouse.models.onnx_session import clean_text, load_tokenizer, open_session

GRAPH_FILE = "reader.onnx"
GRAPH_SHA256 = "70b9074a535a10985c14123319a60db86d081c3b6667f224bd1a93f61cae5df4"
MAX_TOKENS = 256  # of a window with its question; as in training
_QUESTION, _BRIDGE, _TITLE = 48, 56, 16  # most tokens of each part, as in training
_KEPT_WINDOWS = 4096  # windows whose logits are kept, some 1 kB each; chosen

Pieces = tuple[Sequence[int], Sequence[tuple[int, int]]]
"""Token ids of a text, and the first and last offset of each in characters."""


class InputRow(NamedTuple):
    """A window as the model takes it."""

    ids: tuple[int, ...]
    segment: int  # position of the first token of segment 1, after the first [SEP]
    first: int  # position of the text's first token
    offsets: Sequence[tuple[int, int]]  # of the text's tokens, in characters


def input_row(
    encode: Callable[[str], Pieces],
    window: Window,
    most: int = MAX_TOKENS,
    begin: Callable[[int, int], int] = lambda tokens, room: 0,  # noqa: ARG005
) -> InputRow:
    """`[CLS] question bridge [SEP] title. text [SEP]`.

    Args:
        encode: Token ids of a text without special tokens, and their offsets.
        window: The texts.
        most: Most tokens of the row; the text is cut.
        begin: First token of the text that is read, by its number of tokens and the room that there is.
    """
    question = encode(window.question)[0][:_QUESTION]
    bridge = encode(window.bridge)[0][:_BRIDGE] if window.bridge else ()
    title = encode(f"{window.title}.")[0][:_TITLE] if window.title else ()
    ids, offsets = encode(window.text)
    room = most - 3 - len(question) - len(bridge) - len(title)
    start = begin(len(ids), room)
    before = (CLS, *question, *bridge, SEP, *title)
    row = (*before, *ids[start : start + room], SEP)
    return InputRow(row, 2 + len(question) + len(bridge), len(before), offsets[start : start + room])


CLS, SEP = 101, 102  # of BERT's uncased vocabulary


class LocalSpanModel:
    """The shipped span model on the processor; safe for many threads.

    Args:
        threads: Threads per call; None means as many as this process may use cores.
        folder: Folder of reader.onnx, the encoder's model.onnx and tokenizer.json; None means that of the installed
            weights.
    """

    def __init__(self, threads: int | None = None, folder: Path | None = None) -> None:
        self._threads = usable_cores() if threads is None else threads
        self._folder = folder or MINILM.folder()
        self._opening = Lock()
        self._opened: tuple[Any, Any] | None = None
        self._kept = lru_cache(_KEPT_WINDOWS)(self._read)

    def logits(self, windows: Sequence[Window]) -> list[SpanLogits]:
        """One per window, in order.

        Cost: linear in the tokens of the windows that were not read lately.
        """
        return [self._kept(window) for window in windows]

    def _read(self, window: Window) -> SpanLogits:
        with self._opening:
            if self._opened is None:
                self._opened = self._tokenizer(), self._session()
        tokenizer, session = self._opened

        def encode(text: str) -> Pieces:
            encoding = tokenizer.encode(clean_text(text), add_special_tokens=False)
            return encoding.ids, encoding.offsets

        row = input_row(encode, window)
        ids, segments = np.array([row.ids], np.int64), np.zeros((1, len(row.ids)), np.int64)
        segments[0, row.segment :] = 1
        found = session.run(["logits"], {"input_ids": ids, "segment_ids": segments})[0][0].astype(np.float64)
        scores = found[row.first : row.first + len(row.offsets)]
        return SpanLogits(row.offsets, scores[:, 0], scores[:, 1], float(found[0].sum()))

    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._folder / TOKENIZER_FILE, MAX_TOKENS)
        tokenizer.no_truncation()
        return tokenizer

    def _session(self) -> Any:
        graph = self._folder / GRAPH_FILE
        require_published(graph, GRAPH_SHA256, "reader")
        return open_session(graph, REINSTALL, self._threads)


class SpanReranker:
    """The span model as a cross-encoder: how much more likely an answer in the passage is than none."""

    model = "local"

    def __init__(self, spans: SpanModel) -> None:
        self._spans = spans

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Log odds of an answer in each passage, shape (len(passages),); 256 tokens are read of each.

        The probability of an answer is that of all spans: the sum over first tokens times that over last tokens.
        """
        found = self._spans.logits([Window(question, "", "", passage) for passage in passages])
        odds = [
            (float(np.logaddexp.reduce(one.starts) + np.logaddexp.reduce(one.ends)) if len(one.starts) else 0.0)
            - one.absent
            for one in found
        ]
        return np.array(odds, np.float64)


@cache
def open_span_model(cores: int = 0) -> SpanModel:
    """The shipped span model, one per process and number of threads of a call; 0: as many as cores."""
    return LocalSpanModel(cores or None)
