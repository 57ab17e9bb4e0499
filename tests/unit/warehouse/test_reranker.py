"""Cross-encoders: a tiny real one in a folder, and fastembed behind its own interface."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.ports import Reranker
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.models.onnx_session import FastembedReranker, OnnxReranker, open_reranker
from polyhop.worker.session import IndexPool

WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "paris", "london", "is", "a", "city", "where", "river")
NAME = "Xenova/ms-marco-MiniLM-L-6-v2"


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def save_model(path: Path, *, outputs: int = 1, kind_name: str = "token_type_ids", divide: bool = False) -> None:
    """Counts equal pairs of a question's token and a passage's; [SEP] makes one more."""
    floats = TensorProto.FLOAT
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "second"], ["as_column"]),
        helper.make_node("Unsqueeze", ["input_ids", "first"], ["as_row"]),
        helper.make_node("Equal", ["as_column", "as_row"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["pairs"], to=floats),
        helper.make_node("Cast", [kind_name], ["of_passage"], to=floats),
        helper.make_node("Sub", ["one", "of_passage"], ["of_question"]),
        helper.make_node("Unsqueeze", ["of_question", "second"], ["left"]),
        helper.make_node("Unsqueeze", ["of_passage", "first"], ["right"]),
        helper.make_node("Mul", ["pairs", "left"], ["from_question"]),
        helper.make_node("Mul", ["from_question", "right"], ["both"]),
        helper.make_node("ReduceSum", ["both", "inner"], ["count"], keepdims=0),
        helper.make_node("Div" if divide else "Sub", ["count", "nothing"], ["score"]),
        helper.make_node("Unsqueeze", ["score", "first"], ["single"]),
        helper.make_node("Expand", ["single", "width"], ["logits"]),
    ]
    constants = {"first": [1], "second": [2], "inner": [1, 2], "width": [1, outputs]}
    initial = [helper.make_tensor(name, TensorProto.INT64, [len(value)], value) for name, value in constants.items()]
    initial += [helper.make_tensor("one", floats, [1], [1.0]), helper.make_tensor("nothing", floats, [1], [0.0])]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in ("input_ids", kind_name)]
    logits = helper.make_tensor_value_info("logits", floats, ["b", outputs])
    graph = helper.make_graph(nodes, "pairs", inputs, [logits], initial)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tokenizer(tmp_path)
    save_model(tmp_path / "onnx" / "model.onnx")
    return tmp_path


def test_a_folder_scores_question_and_passage_together(folder: Path) -> None:
    scores = OnnxReranker(folder).score("where is paris", ["paris is a city", "london is a city", "a river", ""])
    assert scores.dtype == np.float64
    assert scores.tolist() == [3.0, 2.0, 1.0, 1.0]


def test_a_passage_s_score_does_not_depend_on_the_others(folder: Path) -> None:
    reranker = OnnxReranker(folder)
    passages = ["paris is a city " * count for count in range(1, 9)]
    together = reranker.score("paris", passages)
    assert together.tolist() == [reranker.score("paris", [passage])[0] for passage in passages]
    assert reranker.score("paris", []).shape == (0,)


def test_long_pairs_are_cut_and_odd_texts_read(folder: Path) -> None:
    reranker = OnnxReranker(folder)
    assert reranker.score("paris", ["paris " * 5000])[0] == 512 - 4 + 1
    assert np.isfinite(reranker.score("paris \ud800", ["\ud800", "Größe 東京 \x00"])).all()


@pytest.mark.parametrize("missing", ["tokenizer.json", "onnx/model.onnx"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelFileError, match=r"folder .* has no .*(tokenizer\.json|model\.onnx)"):
        OnnxReranker(folder)


@pytest.mark.parametrize(
    ("broken", "words"), [("tokenizer.json", "as a tokenizer"), ("onnx/model.onnx", "cannot load")]
)
def test_a_broken_file_is_named(folder: Path, broken: str, words: str) -> None:
    (folder / broken).write_text("{", encoding="utf-8")
    with pytest.raises(ModelFileError, match=words) as refusal:
        OnnxReranker(folder)
    assert broken in str(refusal.value)


def test_a_model_that_is_no_cross_encoder_is_refused(folder: Path) -> None:
    save_model(folder / "model.onnx", kind_name="pixel_values")
    with pytest.raises(ModelFileError, match="asks for pixel_values"):
        OnnxReranker(folder)


def test_a_model_with_several_outputs_is_refused(folder: Path) -> None:
    save_model(folder / "model.onnx", outputs=3)
    with pytest.raises(ModelFileError, match="gives 3 numbers"):
        OnnxReranker(folder).score("paris", ["paris"])


def test_a_score_that_is_no_number_is_refused(folder: Path) -> None:
    save_model(folder / "model.onnx", divide=True)
    with pytest.raises(ModelFileError, match="not a number"):
        OnnxReranker(folder).score("paris", ["paris"])


class FakeTextCrossEncoder:
    """fastembed's interface (0.7 to 0.9): names, construction, and a generator of one float per document."""

    made: ClassVar[list[tuple[str, str | None]]] = []
    failure: Exception | None = None

    def __init__(self, model_name: str, cache_dir: str | None = None, **_: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.made.append((model_name, cache_dir))

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": NAME, "size_in_GB": 0.08}]

    def rerank(self, query: str, documents: Sequence[str], batch_size: int = 64, **_: Any) -> Any:
        assert batch_size == 1
        yield from (np.float32(len(set(query.split()) & set(document.split()))) for document in documents)


@pytest.fixture
def fastembed(monkeypatch: pytest.MonkeyPatch) -> type[FakeTextCrossEncoder]:
    class Fresh(FakeTextCrossEncoder):
        made: ClassVar[list[tuple[str, str | None]]] = []

    module: Any = ModuleType("fastembed.rerank.cross_encoder")
    module.TextCrossEncoder = Fresh
    for name in ("fastembed", "fastembed.rerank"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", module)
    return Fresh


def test_a_name_is_opened_by_fastembed_in_our_cache(fastembed: type[FakeTextCrossEncoder], tmp_path: Path) -> None:
    reranker = FastembedReranker(NAME, tmp_path)
    assert fastembed.made == [(NAME, str(tmp_path))]
    assert reranker.model == NAME
    assert reranker.score("where is paris", ["paris is a city", "a river"]).tolist() == [2.0, 0.0]


def test_a_name_that_fastembed_does_not_know_lists_those_it_knows(
    fastembed: type[FakeTextCrossEncoder], tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=f"'no/such' is neither a folder nor known to fastembed.*{NAME}"):
        FastembedReranker("no/such", tmp_path)


def test_a_model_that_cannot_be_fetched_says_what_to_do(
    fastembed: type[FakeTextCrossEncoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastembed, "failure", ValueError("Could not load model from any source.\nmore"))
    with pytest.raises(
        ConfigurationError, match=r"\(Could not load model from any source\.\).*models\.rerank"
    ) as refusal:
        FastembedReranker(NAME, tmp_path)
    assert "\n" not in str(refusal.value)


def test_without_fastembed_the_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    monkeypatch.delitem(sys.modules, "fastembed.rerank.cross_encoder", raising=False)
    with pytest.raises(ConfigurationError, match="uv sync --extra fastembed"):
        FastembedReranker(NAME, tmp_path)


def test_folder_or_name_decides_who_reads(folder: Path, fastembed: type[FakeTextCrossEncoder], tmp_path: Path) -> None:
    def opened(model: str) -> Reranker:
        return open_reranker(model, tmp_path / "cache")

    assert isinstance(opened(str(folder)), OnnxReranker)
    assert isinstance(opened(NAME), FastembedReranker)
    assert opened(NAME) is opened(NAME)
    open_reranker.cache_clear()


def test_the_configured_cross_encoder_reads_for_asking_and_for_workers(folder: Path, tmp_path: Path) -> None:
    """BM25 alone puts the short passage first; the model counts pairs."""
    corpus = [("p1", "Paris", "paris"), ("p2", "Paris twice", "paris is a city and paris is a river")]
    path = tmp_path / "corpus.jsonl"
    rows = [json.dumps({"id": number, "title": title, "text": text}) for number, title, text in corpus]
    path.write_text("\n".join(rows), encoding="utf-8")
    plain = Settings(root=tmp_path / "root", strategies=("bm25-ce",))
    run_index(plain, IndexRequest("one", path), DirectRunner())
    with open_index("one", settings=plain) as index:
        assert index.ask("paris", strategy="bm25").passages[0]["id"] == "p1"
        assert index.ask("paris", strategy="bm25-ce").evidence["notes"][0]["text"].endswith("(no cross-encoder is set)")
    settings = plain.model_copy(update={"models": ModelSettings(rerank=str(folder))})
    with open_index("one", settings=settings) as index:
        answer = index.ask("paris", strategy="bm25-ce")
    assert answer.evidence["notes"][0]["text"] == f"the top 2 passages, by the cross-encoder {folder.as_posix()}"
    assert [(row["id"], row["score"]) for row in answer.passages] == [("p2", 3.0), ("p1", 2.0)]
    pool = IndexPool(settings)
    reranker = pool.session("one").services.reranker()
    pool.close()
    assert reranker is not None
    assert reranker.model == folder.as_posix()
    open_reranker.cache_clear()
