"""The reader's model: token ids of question and passage in, logits of where an answer starts and ends out.

Source: reader.md. It was trained by weights/training/reader.py, which makes its inputs with `input_of`.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.ports import SpanLogits, SpanModel, Window
from polyhop.warehouse.machine import usable_cores
from polyhop.warehouse.models.local_encoder import MINILM, REINSTALL, TOKENIZER_FILE
from polyhop.warehouse.models.onnx_session import clean_text, load_tokenizer, open_session

GRAPH_FILE = "reader.onnx"
GRAPH_SHA256 = ""
MAX_TOKENS = 256  # of a window with its question; as in training
_QUESTION, _BRIDGE, _TITLE = 48, 56, 16  # most tokens of each part, as in training


class WindowInput(NamedTuple):
    """A window as the model takes it; `start` is the position of the text's first token."""

    ids: list[int]
    types: list[int]
    start: int
    offsets: list[tuple[int, int]]  # of the text's tokens, in characters


def input_of(tokenizer: Any, window: Window, most: int = MAX_TOKENS) -> WindowInput:
    """`[CLS] question bridge [SEP] title. text [SEP]`; segment 0 up to the first [SEP], then 1.

    Args:
        tokenizer: The encoder's, without truncation.
        window: The texts.
        most: Tokens from which on the text is cut.
    """
    question = _tokens(tokenizer, window.question)[0][:_QUESTION]
    bridge = _tokens(tokenizer, window.bridge)[0][:_BRIDGE]
    title = _tokens(tokenizer, f"{window.title}.")[0][:_TITLE] if window.title else []
    text, offsets = _tokens(tokenizer, window.text)
    first, separator = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    before = [first, *question, *bridge, separator]
    room = most - len(before) - len(title) - 1
    ids = [*before, *title, *text[:room], separator]
    types = [0] * len(before) + [1] * (len(ids) - len(before))
    return WindowInput(ids, types, len(before) + len(title), offsets[:room])


def _tokens(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    if not text:
        return [], []
    encoding = tokenizer.encode(clean_text(text), add_special_tokens=False)
    return encoding.ids, encoding.offsets


class LocalSpanModel:
    """The shipped span model on the processor; safe for many threads.

    Args:
        threads: Threads per call; None means as many as this process may use cores.
        folder: Folder of reader.onnx and tokenizer.json; None means that of the installed weights.
    """

    def __init__(self, threads: int | None = None, folder: Path | None = None) -> None:
        self._threads = usable_cores() if threads is None else threads
        self._folder = folder or MINILM.folder()
        self._opening = Lock()
        self._opened: tuple[Any, Any] | None = None

    def logits(self, windows: Sequence[Window]) -> list[SpanLogits]:
        """One per window, in order; they may depend on the other windows in the last digits.

        Cost: linear in the tokens of all windows, each counted as long as the longest.
        """
        if not windows:
            return []
        with self._opening:
            if self._opened is None:
                self._opened = self._tokenizer(), self._session()
        tokenizer, session = self._opened
        inputs = [input_of(tokenizer, window) for window in windows]
        shape = len(inputs), max(len(one.ids) for one in inputs)
        ids, types, mask = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, one in enumerate(inputs):
            count = len(one.ids)
            ids[row, :count], types[row, :count], mask[row, :count] = one.ids, one.types, 1
        found: NDArray[np.float32] = session.run(["logits"], {"ids": ids, "types": types, "mask": mask})[0]
        result = []
        for row, one in enumerate(inputs):
            scores = found[row, one.start : one.start + len(one.offsets)].astype(np.float64)
            result.append(SpanLogits(one.offsets, scores[:, 0], scores[:, 1], float(found[row, 0].sum())))
        return result

    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._folder / TOKENIZER_FILE, MAX_TOKENS)
        tokenizer.no_truncation()
        return tokenizer

    def _session(self) -> Any:
        graph = self._folder / GRAPH_FILE
        try:
            with graph.open("rb") as file:
                digest = file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelFileError(f"Cannot read the reader's weights {graph}: {error.strerror}.") from error
        if GRAPH_SHA256 and digest != GRAPH_SHA256:
            raise ModelFileError(
                f"The reader's weights {graph} are not the published ones: sha256 is {digest}, expected "
                f"{GRAPH_SHA256}. Install the package again: {MINILM.install}"
            )
        return open_session(graph, REINSTALL, self._threads)


@cache
def open_span_model() -> SpanModel:
    """The shipped span model, one per process."""
    return LocalSpanModel()
