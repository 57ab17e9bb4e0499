"""Question-answering models in a folder: a tiny one whose scores are a table, marked by it and by brute force."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.models.rerank_and_spans import MAX_ANSWER_TOKENS, OnnxSpanModel
from polyhop.warehouse.models.rerank_and_spans import SPAN_MAX_TOKENS as MAX_TOKENS

WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "where", "is", "ada", "born", "in", "london", "rome", ".")
ID = {word: number for number, word in enumerate(WORDS)}


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel(ID, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def save_model(path: Path, starts: Any, ends: Any, *, names: tuple[str, str] = ("start_logits", "end_logits")) -> None:
    """A model whose scores of a token are those of its id in two tables."""
    tables = [numpy_helper.from_array(np.array(one, np.float32), n) for one, n in ((starts, "s"), (ends, "e"))]
    nodes = [helper.make_node("Gather", [table, "input_ids"], [name]) for table, name in zip("se", names, strict=True)]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "n"])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "n"]) for name in names]
    graph = helper.make_graph(nodes, "tables", inputs, outputs, tables)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def table(**scores: float) -> list[float]:
    return [scores.get(word.strip("[]").replace(".", "stop"), -5.0) for word in WORDS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Likes London, Rome less; "no answer" scores 2."""
    where = tmp_path_factory.mktemp("spans")
    save_tokenizer(where)
    save_model(where / "model.onnx", table(london=4.0, rome=2.0, CLS=1.0), table(london=3.0, rome=2.0, CLS=1.0))
    return where


def test_the_likeliest_span_is_marked_with_the_score_of_no_answer(folder: Path) -> None:
    texts = ["ada is born in london .", "ada is born .", "in rome ada is born", ""]
    marked = OnnxSpanModel(folder).mark("where is ada born", texts)
    assert texts[0][marked[0].start : marked[0].end] == "london"
    assert (marked[0].score, marked[0].no_answer) == (7.0, 2.0)
    assert (texts[2][marked[2].start : marked[2].end], marked[2].score) == ("rome", 4.0)
    assert marked[1].score < marked[1].no_answer
    assert marked[3].start == marked[3].end == 0


def test_a_span_lies_in_the_text_never_in_the_question(folder: Path) -> None:
    (one,) = OnnxSpanModel(folder).mark("is ada born in london", ["ada is born ."])
    assert one.score == -10.0


def test_an_answer_far_down_a_long_text_is_found_and_does_not_depend_on_its_window(folder: Path) -> None:
    """Windows overlap, so that the place of a cut changes nothing."""
    model = OnnxSpanModel(folder)
    for ahead in (MAX_TOKENS - 20, MAX_TOKENS - 5, 3 * MAX_TOKENS):
        text = "ada . " * (ahead // 2) + "london" + " is born" * 200
        (one,) = model.mark("where", [text])
        assert (text[one.start : one.end], one.score) == ("london", 7.0)


def test_odd_texts_and_questions_are_read(folder: Path) -> None:
    model = OnnxSpanModel(folder)
    texts = ["\ud800 london", "東京 \x00 london", " \n ", "london " * 3]
    marked = model.mark("where " * 500, texts)
    assert [texts[place][one.start : one.end] for place, one in enumerate(marked)] == ["london", "london", "", "london"]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_spans_are_those_of_brute_force(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    score = st.integers(-9, 9)
    starts, ends = (data.draw(st.lists(score, min_size=len(WORDS), max_size=len(WORDS))) for _ in range(2))
    words = data.draw(st.lists(st.sampled_from(WORDS[4:]), min_size=1, max_size=60))
    where = tmp_path_factory.mktemp("brute")
    save_tokenizer(where)
    save_model(where / "model.onnx", starts, ends)
    text = " ".join(words)
    (one,) = OnnxSpanModel(where).mark("where", [text])
    pairs = [
        (-(starts[ID[words[i]]] + ends[ID[words[j]]]), i, j)
        for i in range(len(words))
        for j in range(i, min(len(words), i + MAX_ANSWER_TOKENS))
    ]
    negative, first, last = min(pairs)
    assert one.score == -negative
    assert text[one.start : one.end] == " ".join(words[first : last + 1])
    assert one.no_answer == starts[ID["[CLS]"]] + ends[ID["[CLS]"]]


@pytest.mark.parametrize("missing", ["tokenizer.json", "model.onnx"])
def test_a_missing_file_is_named_with_its_setting(tmp_path: Path, missing: str) -> None:
    save_tokenizer(tmp_path)
    save_model(tmp_path / "model.onnx", table(), table())
    (tmp_path / missing).unlink()
    with pytest.raises(ModelFileError, match=rf"models\.read has no {missing}.*; add it"):
        OnnxSpanModel(tmp_path)


def test_a_model_of_another_kind_and_scores_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    save_model(tmp_path / "model.onnx", table(), table(), names=("logits", "others"))
    with pytest.raises(ModelFileError, match="gives logits, others; a question-answering model gives start_logits and"):
        OnnxSpanModel(tmp_path)
    save_model(tmp_path / "model.onnx", table(), [float("nan")] * len(WORDS))
    with pytest.raises(ModelFileError, match="one finite number per token"):
        OnnxSpanModel(tmp_path).mark("where", ["london"])


def test_the_configured_model_reads_answers_and_its_folder_is_named(folder: Path, tmp_path: Path) -> None:
    """From setting to JSON; a folder without a model is refused in one sentence."""
    path = tmp_path / "corpus.jsonl"
    texts = ["ada is born in london .", "rome is where ada is"]
    path.write_text("\n".join(json.dumps({"id": f"p{n}", "text": text}) for n, text in enumerate(texts)))
    plain = Settings(root=tmp_path / "root", strategies=("bm25",))
    run_index(plain, IndexRequest("one", path), DirectRunner())
    for model, words in ((folder, None), (tmp_path, "models.read has no tokenizer.json")):
        chosen = plain.model_copy(update={"models": ModelSettings(read=f"onnx-qa:{model}")})
        with open_index("one", settings=chosen) as index:
            if words is None:
                answer = index.ask("where is ada born", strategy="bm25")
                assert (answer.answer, answer.reading["kind"], answer.reading["by"]) == ("london", "span", "model")
                assert (answer.reading["model"], answer.reading["prompt"]) == (folder.as_posix(), None)
                assert answer.evidence["sentences"][0]["passage_id"] == "p0"
            else:
                with pytest.raises(ModelFileError, match=words):
                    index.ask("where is ada born", strategy="bm25")
