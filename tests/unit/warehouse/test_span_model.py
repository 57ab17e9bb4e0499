"""The reader's model: its file, its input rows, and that a window's logits depend on the window alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.ports import Window
from polyhop.warehouse.models.local_encoder import MINILM
from polyhop.warehouse.models.span_model import GRAPH_FILE, LocalSpanModel, SpanReranker, input_row, open_span_model

BORN = Window("Where was Ada Low born?", "", "Ada Low", "Ada Low was a writer born in Elmton in 1815.")
LED_TO = Window("Where was the writer of Up born?", "Up: Up is by Ada Low.", "Ada Low", "She was born in Elmton.")
LONG = Window("Who came?", "", "", "word " * 600 + "Ann Roe came.")


def pieces(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """One token of each character."""
    return [ord(one) for one in text], [(number, number + 1) for number in range(len(text))]


def best(window: Window) -> str:
    (found,) = open_span_model().logits([window])
    first, last = int(found.starts.argmax()), int(found.ends.argmax())
    return window.text[found.offsets[first][0] : found.offsets[last][1]]


@pytest.mark.parametrize("window", [BORN, LED_TO])
def test_the_best_span_answers(window: Window) -> None:
    assert best(window) == "Elmton"


def test_logits_depend_on_the_window_alone() -> None:
    alone = [LocalSpanModel(1).logits([window])[0] for window in (BORN, LED_TO, LONG)]
    together = LocalSpanModel(2).logits([LONG, LED_TO, BORN])[::-1]
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.starts, other.starts)
        assert np.array_equal(one.ends, other.ends)
        assert one.absent == other.absent


def test_a_row_has_the_question_with_its_bridge_then_title_and_text() -> None:
    row = input_row(pieces, Window("q?", "b", "t", "text"))
    assert row.ids == (101, *map(ord, "q?b"), 102, *map(ord, "t.text"), 102)
    assert (row.segment, row.first, len(row.offsets)) == (5, 7, 4)


def test_a_passage_that_answers_is_ranked_first() -> None:
    passages = ["Elmton is a city.", "Ada Low was a writer born in Elmton in 1815.", "", "The bridge opened in 1826."]
    scores = SpanReranker(open_span_model()).score("Where was Ada Low born?", passages)
    assert int(scores.argmax()) == 1
    assert np.isfinite(scores).all()


def test_a_long_text_is_cut() -> None:
    row = input_row(pieces, Window("q", "", "", "x" * 900), most=20)
    assert (len(row.ids), row.ids[-1], len(row.offsets)) == (20, 102, 16)
    (found,) = open_span_model().logits([LONG])
    assert found.offsets[-1][1] < len(LONG.text) / 2


def test_weights_that_are_missing_or_changed_are_refused_in_one_sentence(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(MINILM.folder() / name)
    with pytest.raises(ModelFileError, match=r"^Cannot read the reader's weights .*reader\.onnx: No such file"):
        LocalSpanModel(folder=tmp_path).logits([BORN])
    shutil.copy(MINILM.folder() / GRAPH_FILE, tmp_path)
    with (tmp_path / GRAPH_FILE).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ModelFileError, match=r"are not the published ones: sha256 is .* Install the package again"):
        LocalSpanModel(folder=tmp_path).logits([BORN])
