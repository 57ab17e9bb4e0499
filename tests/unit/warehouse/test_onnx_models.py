"""Encoders and cross-encoders by name: exported graphs, and models of fastembed and sentence-transformers."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from real_index import RealIndex, pages
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from polyhop.api import open_index
from polyhop.schemas.errors import ConfigurationError, InvalidVectorError, ModelFileError
from polyhop.schemas.settings import EncoderSettings, ModelSettings, Settings, parse_settings
from polyhop.warehouse.models import encoder_kinds
from polyhop.warehouse.models.encoder_kinds import OnnxEncoder
from polyhop.warehouse.models.local_encoder import MINILM, LocalEncoder
from polyhop.warehouse.models.onnx_session import FastembedReranker, OnnxReranker, folder_hash, open_reranker, unit_rows
from polyhop.warehouse.open_models import close_encoders, open_embeddings, open_encoder

WORDS = ("[CLS]", "[SEP]", "[UNK]", "paris", "london", "is", "city", "a", "where", "river")
TABLE = np.random.default_rng(5).normal(size=(len(WORDS), 6)).astype(np.float32)
TEXTS = ["paris is", "london", "paris is city london", ""]
NAME = "Xenova/ms-marco-MiniLM-L-6-v2"


def ids(text: str, most: int = 512) -> list[int]:
    inner = [WORDS.index(word) if word in WORDS else 2 for word in text.split()]
    return [0, *inner[: most - 2], 1]


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def save_graph(path: Path, *, output: str = "last_hidden_state", mask: str = "attention_mask") -> None:
    """Looks up the table, times the mask: shape (b, s, 6); under the name sentence_embedding its sum, (b, 6)."""
    is_whole = output == "sentence_embedding"
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("Cast", [mask], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["ones", "last"], ["column"]),
        helper.make_node("Mul", ["found", "column"], ["tokens"]),
        helper.make_node("ReduceSum", ["tokens", "inner"], ["sum"], keepdims=0),
        helper.make_node("Identity", ["sum" if is_whole else "tokens"], [output]),
    ]
    initial = [helper.make_tensor(name, TensorProto.INT64, [1], [axis]) for name, axis in (("last", 2), ("inner", 1))]
    initial.append(numpy_helper.from_array(TABLE, "table"))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in ("input_ids", mask)]
    found = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", 6] if is_whole else ["b", "s", 6])
    made = helper.make_graph(nodes, "tiny", inputs, [found], initial)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def save_pooling(folder: Path, **modes: object) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes), encoding="utf-8")


def unit(*rows: np.ndarray) -> np.ndarray:
    return np.array([row / np.linalg.norm(row) for row in rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tiny"
    made.mkdir()
    save_tokenizer(made)
    save_graph(made / "model.onnx")
    save_pooling(made, pooling_mode_mean_tokens=True)
    return made


@pytest.fixture
def scorer(tmp_path: Path) -> Path:
    """A folder with a cross-encoder, and another folder that is called like its graph."""
    made = tmp_path / "scorer"
    (made / "model.onnx").mkdir(parents=True)
    save_tokenizer(made)
    save_model(made / "onnx" / "model.onnx")
    return made


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """fastembed and sentence-transformers are the classes of this file."""
    members = {"fastembed": TextEmbedding, "sentence_transformers": SentenceTransformer}
    members |= dict.fromkeys(("fastembed.rerank", "fastembed.rerank.cross_encoder"), TextCrossEncoder)
    for name, member in members.items():
        module = ModuleType(name)
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def opened(tmp_path: Path, packages: None) -> Iterator[Callable[..., Any]]:
    yield lambda cores=0, **encoder: open_encoder(
        Settings(root=tmp_path / "root", cores=cores, encoder=EncoderSettings(**encoder))
    )
    close_encoders()


def test_an_exported_minilm_gives_the_vectors_of_the_local_encoder(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 as an exported graph: vectors of tokens, beside its tokenizer and its published settings."""
    source = MINILM.folder()
    shutil.copy(source / "tokenizer.json", tmp_path)
    save_pooling(tmp_path, pooling_mode_mean_tokens=True)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 256, "do_lower_case": false}')
    model = onnx.load(str(source / "model.onnx"))
    del model.graph.output[:]
    tokens = helper.make_tensor_value_info("encoder.layer.5.output", TensorProto.FLOAT, ["b", "s", 384])
    model.graph.output.append(tokens)
    (tmp_path / "onnx").mkdir()
    onnx.save(model, str(tmp_path / "onnx" / "model.onnx"))
    texts = ["Paris is a city.", "a", "", "Größe 東京", "long " * 400, "\ud800"]
    encoder = OnnxEncoder(tmp_path)
    assert encoder.max_tokens == 256
    assert np.abs(encoder.encode(texts) - LocalEncoder().encode(texts)).max() < 2e-6


def test_an_8_bit_graph_gives_a_text_the_same_bits_whatever_is_beside_it(folder: Path) -> None:
    """Its scale is that of the largest number in a call, so a longer vector beside a text would change that text's."""
    model = onnx.load(str(folder / "model.onnx"))
    found = next(node for node in model.graph.node if node.output[0] == "found")
    found.output[0] = "exact"
    made = helper.make_node("DynamicQuantizeLinear", ["exact"], ["eighth", "scale", "zero"])
    model.graph.node.insert(1, made)
    model.graph.node.insert(2, helper.make_node("DequantizeLinear", ["eighth", "scale", "zero"], ["found"]))
    onnx.save(model, str(folder / "model.onnx"))
    encoder, texts = OnnxEncoder(folder), ["paris", "london", "is", "city", "a", "where", "river"]
    assert encoder.encode(texts).tobytes() == np.concatenate([encoder.encode([text]) for text in texts]).tobytes()


@pytest.mark.parametrize(
    ("modes", "pool"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, lambda rows: rows[0]),
        ({"pooling_mode_max_tokens": True}, lambda rows: rows.max(axis=0)),
        ({"pooling_mode": "cls"}, lambda rows: rows[0]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda rows: rows.sum(axis=0) / len(rows) ** 0.5),
        ({}, lambda rows: rows.sum(axis=0)),
    ],
)
def test_tokens_are_pooled_as_the_folder_or_the_graph_says(folder: Path, modes: dict[str, object], pool: Any) -> None:
    before = OnnxEncoder(folder).model
    if modes:
        save_pooling(folder, **modes)
    else:
        save_graph(folder / "model.onnx", output="sentence_embedding")
        shutil.rmtree(folder / "1_Pooling")
    encoder = OnnxEncoder(folder, batch_size=2)
    assert encoder.encode(TEXTS) == pytest.approx(unit(*(pool(TABLE[ids(text)]) for text in TEXTS)), abs=1e-6)
    assert encoder.model != before  # other files are another model


def test_texts_are_cut_and_lowered_where_the_folder_or_a_setting_says(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4, "do_lower_case": true}')
    cut, longer = OnnxEncoder(folder), OnnxEncoder(folder, max_tokens=5)
    assert cut.encode(["Paris IS city london"]).tolist() == cut.encode(["paris is"]).tolist()
    expected = unit(TABLE[ids("paris is city london", 5)].mean(axis=0))
    assert longer.encode(["paris is city london"]) == pytest.approx(expected, abs=1e-6)
    assert (cut.max_tokens, longer.max_tokens) == (4, 5)
    assert cut.model != longer.model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: shutil.rmtree(folder / "1_Pooling"), "no 1_Pooling/config.json"),
        (lambda folder: save_pooling(folder, pooling_mode="weighted"), "pooled by weighted"),
        (lambda folder: (folder / "1_Pooling" / "config.json").write_bytes(b"\xff{"), "cannot be read as JSON"),
        (lambda folder: (folder / "modules.json").write_text('[{"type": "m.Dense", "path": "2"}]'), "modules Dense"),
    ],
)
def test_what_cannot_be_used_is_said(folder: Path, change: Callable[[Path], object], words: str) -> None:
    change(folder)
    with pytest.raises(ModelFileError, match=words):
        OnnxEncoder(folder)


def test_the_name_in_the_settings_opens_it_with_its_prefixes(folder: Path, opened: Callable[..., Any]) -> None:
    encoder = opened(name=f"onnx:{folder}", query_prefix="london ", passage_prefix="paris ")
    assert encoder.encode_questions(["is"]) == pytest.approx(unit(TABLE[ids("london is")].mean(axis=0)), abs=1e-6)
    assert encoder.encode(["is"], "passage") == pytest.approx(unit(TABLE[ids("paris is")].mean(axis=0)), abs=1e-6)
    assert encoder.encode(["is"], "passage").tobytes() == encoder.encode(["is"], "passage").tobytes()
    assert encoder.misses == 1
    with pytest.raises(ConfigurationError, match="6 dimensions, not 9"):
        opened(name=f"onnx:{folder}", dimension=9)


def vector(text: str, shift: float = 0.0) -> np.ndarray:
    return np.array([3.0 + len(text), 4.0, shift])


class TextEmbedding:
    """fastembed's interface as Polyhop uses it."""

    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, model_name: str, cache_dir: str, threads: int | None) -> None:
        if model_name == "BAAI/broken":
            raise OSError("no network\nat all")
        self.made.append({"model": model_name, "cache": cache_dir, "threads": threads})

    @staticmethod
    def list_supported_models() -> list[dict[str, Any]]:
        return [{"model": name, "dim": 3} for name in ("BAAI/bge-small-en-v1.5", "BAAI/broken")]

    def passage_embed(self, texts: Sequence[str], batch_size: int) -> Iterator[np.ndarray]:
        yield from (vector(text) for text in texts)

    def query_embed(self, texts: Sequence[str], batch_size: int) -> Iterator[np.ndarray]:
        yield from (vector(text, 1.0) for text in texts)


class SentenceTransformer:
    """The interface of sentence-transformers as Polyhop uses it."""

    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, name: str, truncate_dim: int | None) -> None:
        if name == "none/such":
            raise OSError("none/such is not a local folder")
        self.max_seq_length = 512
        self.made.append({"name": name, "truncate_dim": truncate_dim})
        self._most = truncate_dim

    def encode(self, texts: list[str], *, batch_size: int, show_progress_bar: bool, convert_to_numpy: bool) -> Any:
        assert convert_to_numpy
        assert not show_progress_bar
        return np.array([vector(text[: self.max_seq_length])[: self._most] for text in texts])

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        return self.encode([f"query: {text}" for text in texts], **options)

    encode_document = encode


def test_fastembed_gets_questions_and_passages_apart(opened: Callable[..., Any]) -> None:
    encoder = opened(name="fastembed:BAAI/bge-small-en-v1.5", cores=2)
    assert encoder.encode(["a", "abc"], "passage") == pytest.approx(unit(vector("a"), vector("abc")))
    assert encoder.encode_questions(["a"]) == pytest.approx(unit(vector("a", 1.0)))
    assert (TextEmbedding.made[-1]["threads"], encoder.dimension) == (2, 3)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"name": "fastembed:bert"}, "does not know the encoder 'bert'; it knows: baai/bge-small-en-v1.5"),
        ({"name": "fastembed:BAAI/broken"}, r"cannot fetch or load the encoder 'BAAI/broken' \(no network\)"),
        ({"dimension": 9}, "384 dimensions, not 9"),
        ({"max_tokens": 9}, "256 tokens, not 9"),
    ],
)
def test_a_model_that_cannot_be_had_is_said(opened: Callable[..., Any], choice: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        opened(**choice)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fastembed:any", "fastembed; install the extra 'fastembed': uv sync --extra fastembed"),
        (
            "sentence-transformers:any",
            "package sentence-transformers.* with: pip install sentence-transformers, .*: uv",
        ),
        ("", "models.rerank = 'some/model' is not a folder.* package fastembed.* uv sync --extra fastembed"),
    ],
    ids=["fastembed", "sentence-transformers", "cross-encoder"],
)
def test_a_missing_package_is_named(
    name: str, hint: str, opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("fastembed", "fastembed.rerank.cross_encoder", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=hint):
        opened(name=name) if name else FastembedReranker("some/model", Path("caches"))


def test_sentence_transformers_gets_dimension_and_length(tmp_path: Path, opened: Callable[..., Any]) -> None:
    (tmp_path / "weights").write_text("1")
    choice = {"name": f"sentence-transformers:{tmp_path}", "dimension": 2, "max_tokens": 4}
    encoder = opened(**choice)
    assert SentenceTransformer.made[-1] == {"name": str(tmp_path), "truncate_dim": 2}
    assert encoder.encode(["abcdefgh"], "passage") == pytest.approx(unit(vector("abcd")[:2]))
    assert encoder.encode_questions(["a"]) == pytest.approx(unit(vector("quer")[:2]))
    (tmp_path / "weights").write_text("2")
    assert opened(**choice, cores=1).model != encoder.model


def test_a_kind_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown kind of encoder; known kinds are local .*onnx:FOLDER"):
        parse_settings({"a test": {"encoder.name": "bert"}})
    with pytest.raises(ConfigurationError, match=r"encoder\.precision applies to the local encoder only"):
        parse_settings({"flags": {"encoder.name": "onnx:folder", "encoder.precision": "int8"}})
    choice = EncoderSettings().choice.model_copy(update={"name": "bert:x"})
    needs = encoder_kinds.EncoderNeeds(choice, 0, Settings().models, tmp_path, None, None, open_embeddings)
    with pytest.raises(ConfigurationError, match="Unknown kind of encoder 'bert'"):
        encoder_kinds.open_model(needs)


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


def test_a_folder_scores_question_and_passage_together_and_cuts_long_pairs(scorer: Path) -> None:
    reranker = OnnxReranker(scorer)
    scores = reranker.score("where is paris", ["paris is a city", "london is a city", "a river", ""])
    assert (scores.tolist(), reranker.score("paris", ["paris " * 5000])[0]) == ([3.0, 2.0, 1.0, 1.0], 512 - 4 + 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"folder .* has no .*tokenizer\.json"),
        (
            lambda folder: (folder / "onnx/model.onnx").unlink(),
            r"rerank has no model\.onnx or onnx/model\.onnx; add it",
        ),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), r"tokenizer\.json cannot be read as a tokenizer"),
        (lambda folder: (folder / "onnx/model.onnx").write_text("{"), r"load .*model\.onnx \(.*; fetch it again\."),
        (lambda folder: save_model(folder / "onnx/model.onnx", kind_name="pixel_values"), "asks for pixel_values"),
        (lambda folder: save_model(folder / "onnx/model.onnx", outputs=3), "gives 3 numbers"),
        (lambda folder: save_model(folder / "onnx/model.onnx", divide=True), "not a number"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(scorer: Path, change: Callable[[Path], object], words: str) -> None:
    change(scorer)
    with pytest.raises(ModelFileError, match=words):
        OnnxReranker(scorer).score("paris", ["paris"])


class TextCrossEncoder:
    """fastembed's interface (0.7 to 0.9): names, construction, and a generator of one float per document."""

    made: ClassVar[list[tuple[str, str | None]]] = []

    def __init__(self, model_name: str, cache_dir: str | None = None, **_: Any) -> None:
        if model_name == "some/broken":
            raise ValueError("No source.\nmore")
        self.made.append((model_name, cache_dir))

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": name, "size_in_GB": 0.08} for name in (NAME, "some/broken")]

    def rerank(self, query: str, documents: Sequence[str], batch_size: int = 64, **_: Any) -> Any:
        assert batch_size == 1
        yield from (np.float32(len(set(query.split()) & set(document.split()))) for document in documents)


@pytest.mark.usefixtures("packages")
def test_fastembed_opens_a_name_once(scorer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextCrossEncoder, "made", [])
    open_reranker.cache_clear()
    reranker = open_reranker(NAME, tmp_path)
    assert isinstance(reranker, FastembedReranker)
    assert reranker is open_reranker(NAME, tmp_path)
    assert (TextCrossEncoder.made, reranker.model) == ([(NAME, str(tmp_path))], NAME)
    assert reranker.score("where is paris", ["paris is a city", "a river"]).tolist() == [2.0, 0.0]
    assert isinstance(open_reranker(str(scorer), tmp_path), OnnxReranker)
    open_reranker.cache_clear()
    with pytest.raises(ConfigurationError, match=f"'no/such' is neither a folder nor known to fastembed.*{NAME}"):
        FastembedReranker("no/such", tmp_path)
    with pytest.raises(ConfigurationError, match=r"\(No source\.\).*models\.rerank") as refusal:
        FastembedReranker("some/broken", tmp_path)
    assert "\n" not in str(refusal.value)


def test_the_configured_cross_encoder_reads(scorer: Path, tmp_path: Path) -> None:
    """BM25 alone puts the short passage first; the model counts pairs."""
    index = RealIndex(tmp_path / "index", strategies=("bm25-ce",), models=ModelSettings(rerank=str(scorer)))
    index.read(pages({"p1": "paris", "p2": "paris is a city and paris is a river"}))
    with open_index("i", settings=index.settings) as opened:
        assert opened.ask("paris", strategy="bm25").passages[0]["id"] == "p1"
        answer = opened.ask("paris", strategy="bm25-ce")
    assert answer.evidence["notes"][0]["text"] == f"the top 2 passages, by the cross-encoder {scorer.as_posix()}"
    assert [row["id"] for row in answer.passages] == ["p2", "p1"]
    open_reranker.cache_clear()


def test_a_hash_changes_with_content_name_and_number_of_files_only(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "sub").mkdir(parents=True)
    hashes = [folder_hash(one)]
    for name, content in (("a", "1"), ("a", "2"), ("b", "2"), ("sub/c", "")):
        (one / name).write_text(content, encoding="utf-8")
        hashes.append(folder_hash(one))
    assert (len(set(hashes)), folder_hash(Path(shutil.copytree(one, two)))) == (len(hashes), hashes[-1])
    (two / "b").write_text("other", encoding="utf-8")
    assert folder_hash(two, ["a", "none"]) == folder_hash(one, ["a", "none"])


def test_rows_are_scaled_and_float32_and_what_was_given_is_not_changed() -> None:
    given = np.array([[3.0, 4.0], [0, -2]])
    rows = unit_rows(given, 2, 0, "m")
    assert (rows.dtype, rows.tolist()) == (np.dtype(np.float32), np.array([[0.6, 0.8], [0, -1]], np.float32).tolist())
    assert given.tolist() == [[3.0, 4.0], [0, -2]]
    row = np.array([[0.1, 0.2, 0.3]], np.float32)
    row /= np.linalg.norm(row)
    assert unit_rows(row, 1, 3, "m").tobytes() == row.tobytes()  # a row of length 1 keeps its bits


@pytest.mark.parametrize(
    ("vectors", "count", "dimension", "words"),
    [
        ([[1, 0]], 2, 0, "1 vectors for 2 texts"),
        ([[1, 0]], 1, 3, "2 dimensions instead of 3"),
        ([[1, 0], [1]], 2, 0, "different lengths, or no numbers"),
        ([[float("nan"), 0], [1e200, 1e200]], 2, 0, "zero or not finite for 2 of 2 texts"),
    ],
)
def test_what_no_search_could_use_is_refused(vectors: object, count: int, dimension: int, words: str) -> None:
    with pytest.raises(InvalidVectorError, match=f"The encoder some/model gave .*{words}"):
        unit_rows(vectors, count, dimension, "some/model")
