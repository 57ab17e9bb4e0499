"""Cross-encoders, a real one and fastembed's; and what encoders share with them: files and unit rows."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
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
from polyhop.schemas.errors import ConfigurationError, InvalidVectorError, ModelFileError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.warehouse.models.onnx_session import (
    FastembedReranker,
    OnnxReranker,
    clean_text,
    existing_file,
    first_line,
    folder_hash,
    open_reranker,
    read_json,
    unit_rows,
)
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


def test_long_pairs_are_cut_and_odd_texts_read(folder: Path) -> None:
    reranker = OnnxReranker(folder)
    assert reranker.score("paris", ["paris " * 5000])[0] == 512 - 4 + 1
    assert np.isfinite(reranker.score("paris \ud800", ["\ud800", "Größe 東京 \x00"])).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"folder .* has no .*tokenizer\.json"),
        (lambda folder: (folder / "onnx/model.onnx").unlink(), r"folder .* has no .*model\.onnx"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), r"tokenizer\.json cannot be read as a tokenizer"),
        (lambda folder: (folder / "onnx/model.onnx").write_text("{"), r"cannot load .*model\.onnx"),
        (lambda folder: save_model(folder / "model.onnx", kind_name="pixel_values"), "asks for pixel_values"),
        (lambda folder: save_model(folder / "model.onnx", outputs=3), "gives 3 numbers"),
        (lambda folder: save_model(folder / "model.onnx", divide=True), "not a number"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(folder: Path, change: Callable[[Path], object], words: str) -> None:
    change(folder)
    with pytest.raises(ModelFileError, match=words):
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


def test_a_name_is_opened_once_by_fastembed_in_our_cache(
    fastembed: type[FakeTextCrossEncoder], folder: Path, tmp_path: Path
) -> None:
    open_reranker.cache_clear()
    reranker = open_reranker(NAME, tmp_path)
    assert isinstance(reranker, FastembedReranker)
    assert reranker is open_reranker(NAME, tmp_path)
    assert fastembed.made == [(NAME, str(tmp_path))]
    assert reranker.model == NAME
    assert reranker.score("where is paris", ["paris is a city", "a river"]).tolist() == [2.0, 0.0]
    assert isinstance(open_reranker(str(folder), tmp_path), OnnxReranker)
    open_reranker.cache_clear()
    with pytest.raises(ConfigurationError, match=f"'no/such' is neither a folder nor known to fastembed.*{NAME}"):
        FastembedReranker("no/such", tmp_path)


def test_a_model_that_cannot_be_fetched_says_what_to_do(
    fastembed: type[FakeTextCrossEncoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastembed, "failure", ValueError("No source.\nmore"))
    with pytest.raises(ConfigurationError, match=r"\(No source\.\).*models\.rerank") as refusal:
        FastembedReranker(NAME, tmp_path)
    assert "\n" not in str(refusal.value)


def test_without_fastembed_the_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    monkeypatch.delitem(sys.modules, "fastembed.rerank.cross_encoder", raising=False)
    with pytest.raises(ConfigurationError, match="uv sync --extra fastembed"):
        FastembedReranker(NAME, tmp_path)


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


def test_the_first_file_that_is_there_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"of models\.rerank has no a or sub/b; add it"):
        existing_file(tmp_path, ("a", "sub/b"), "models.rerank")
    (tmp_path / "a").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").touch()
    assert existing_file(tmp_path, ("a", "sub/b"), "s") == tmp_path / "sub" / "b"


def test_a_hash_changes_with_content_name_and_number_of_files_only(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "sub").mkdir(parents=True)
    hashes = [folder_hash(one)]
    for name, content in (("a", "1"), ("a", "2"), ("b", "2"), ("sub/c", "")):
        (one / name).write_text(content, encoding="utf-8")
        hashes.append(folder_hash(one))
    assert len(set(hashes)) == len(hashes)
    assert {len(each) for each in hashes} == {8}
    assert folder_hash(Path(shutil.copytree(one, two))) == hashes[-1]
    (two / "b").write_text("other", encoding="utf-8")
    assert folder_hash(two, ["a", "none"]) == folder_hash(one, ["a", "none"])
    assert folder_hash(two) != hashes[-1]


def test_a_json_file_may_be_missing_but_not_broken(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert read_json(path) is None
    path.write_text('{"a": 1}', encoding="utf-8")
    assert read_json(path) == {"a": 1}
    path.write_bytes(b"\xff{")
    with pytest.raises(ModelFileError, match=r"config\.json cannot be read as JSON"):
        read_json(path)


def test_texts_and_errors_are_made_fit() -> None:
    assert clean_text("a\ud800b東\udfff") == "a?b東?"
    assert first_line(ValueError("\n first \nsecond")) == "first "
    assert first_line(ValueError("")) == "ValueError"


def test_rows_are_scaled_and_float32_and_what_was_given_is_not_changed() -> None:
    given = np.array([[3.0, 4.0], [0, -2]])
    rows = unit_rows(given, 2, 0, "m")
    assert rows.dtype == np.float32
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, -1]]))
    assert given.tolist() == [[3.0, 4.0], [0, -2]]
    row = np.array([[0.1, 0.2, 0.3]], np.float32)
    row /= np.linalg.norm(row)
    assert unit_rows(row, 1, 3, "m").tobytes() == row.tobytes()  # a row of length 1 keeps its bits


@pytest.mark.parametrize(
    ("vectors", "count", "dimension", "words"),
    [
        ([[1, 0]], 2, 0, "1 vectors for 2 texts"),
        ([[1, 0], [0, 1]], 1, 0, "2 vectors for 1 texts"),
        ([[1, 0]], 1, 3, "2 dimensions instead of 3"),
        ([[1, 0], [1]], 2, 0, "different lengths, or no numbers"),
        ([["a", "b"]], 1, 0, "different lengths, or no numbers"),
        ([[0, 0], [1, 0]], 2, 0, "zero or not finite for 1 of 2 texts"),
        ([[float("nan"), 0], [1e200, 1e200]], 2, 0, "zero or not finite for 2 of 2 texts"),
        ([[float("inf"), 0]], 1, 0, "zero or not finite for 1 of 1 texts"),
    ],
)
def test_what_no_search_could_use_is_refused(vectors: object, count: int, dimension: int, words: str) -> None:
    with pytest.raises(InvalidVectorError, match=f"The encoder some/model gave .*{words}"):
        unit_rows(vectors, count, dimension, "some/model")
