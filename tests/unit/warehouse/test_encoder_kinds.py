"""Encoders by name: an exported graph in a folder, and those of fastembed and sentence-transformers."""

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
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.settings import EncoderSettings, Settings, parse_settings
from polyhop.warehouse.models import encoder_kinds
from polyhop.warehouse.models.encoder_kinds import OnnxEncoder
from polyhop.warehouse.models.local_encoder import LocalEncoder, find_model_folder
from polyhop.warehouse.open_models import close_encoders, open_embeddings, open_encoder

WORDS = ("[CLS]", "[SEP]", "[UNK]", "paris", "london", "is", "city")

TABLE = np.random.default_rng(5).normal(size=(len(WORDS), 6)).astype(np.float32)

TEXTS = ["paris is", "london", "paris is city london", ""]


def ids(text: str, most: int = 512) -> list[int]:
    inner = [WORDS.index(word) if word in WORDS else 2 for word in text.split()]
    return [0, *inner[: most - 2], 1]


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
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
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Opens an encoder as the settings say; the packages are those of this file."""
    members = {"fastembed": TextEmbedding, "sentence_transformers": SentenceTransformer}
    for name, member in members.items():
        module = ModuleType(name)
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, name, module)
    yield lambda cores=0, **encoder: open_encoder(
        Settings(root=tmp_path, cores=cores, encoder=EncoderSettings(**encoder))
    )
    close_encoders()


def test_an_exported_minilm_gives_the_vectors_of_the_local_encoder(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 as an exported graph: vectors of tokens, beside its tokenizer and its published settings."""
    source = find_model_folder()
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


@pytest.mark.parametrize(
    ("modes", "pool"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, lambda rows: rows[0]),
        ({"pooling_mode_lasttoken": True}, lambda rows: rows[-1]),
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
        (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json"),
        (lambda folder: (folder / "model.onnx").unlink(), r"has no model\.onnx or onnx/model\.onnx"),
        (lambda folder: save_pooling(folder, pooling_mode="weighted"), "pooled by weighted"),
        (lambda folder: (folder / "1_Pooling" / "config.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: save_graph(folder / "model.onnx", mask="pixel_values"), "asks for pixel_values"),
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
    assert TextEmbedding.made[-1]["threads"] == 2
    assert encoder.dimension == 3


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"name": "fastembed:bert"}, "does not know the encoder 'bert'; it knows: baai/bge-small-en-v1.5"),
        ({"name": "fastembed:BAAI/broken"}, r"cannot fetch or load the encoder 'BAAI/broken' \(no network\)"),
        ({"name": "sentence-transformers:none/such"}, r"cannot fetch or load the encoder 'none/such'"),
        ({"dimension": 9}, "384 dimensions, not 9"),
        ({"max_tokens": 9}, "256 tokens, not 9"),
    ],
)
def test_a_model_that_cannot_be_had_is_said(opened: Callable[..., Any], choice: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        opened(**choice)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("fastembed", r"pip install 'polyhop\[fastembed\]', .*: uv sync --extra fastembed"),
        ("sentence-transformers", "pip install sentence-transformers, .*: uv pip install"),
    ],
)
def test_a_missing_package_is_named_with_its_installation(
    kind: str, hint: str, opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, kind.replace("-", "_"), None)
    with pytest.raises(ConfigurationError, match=f"needs the package {kind}.* with: {hint}"):
        opened(name=f"{kind}:any")


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
    with pytest.raises(ConfigurationError, match=r"no such kind of encoder; known are local .*onnx:FOLDER"):
        parse_settings({"a test": {"encoder.name": "bert"}})
    choice = EncoderSettings().choice.model_copy(update={"name": "bert:x"})
    needs = encoder_kinds.EncoderNeeds(choice, 0, Settings().models, tmp_path, None, None, open_embeddings)
    with pytest.raises(ConfigurationError, match="no encoder of the kind 'bert'"):
        encoder_kinds.open_model(needs)
