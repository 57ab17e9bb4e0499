"""Exported sentence encoders in a folder: MiniLM itself against the local encoder, and tiny ones for every pooling."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.settings import EncoderSettings, Settings, parse_settings
from polyhop.warehouse.models.encoder_kinds import OnnxEncoder
from polyhop.warehouse.models.local_encoder import LocalEncoder, find_model_folder
from polyhop.warehouse.open_models import close_encoders, open_encoder

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
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("Cast", [mask], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["ones", "last"], ["column"]),
        helper.make_node("Mul", ["found", "column"], ["tokens"]),
        helper.make_node("ReduceSum", ["tokens", "inner"], ["sum"], keepdims=0),
        helper.make_node("Identity", ["sum" if output == "sentence_embedding" else "tokens"], [output]),
    ]
    axes = {"last": [2], "inner": [1]}
    initial = [helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in axes.items()]
    initial.append(numpy_helper.from_array(TABLE, "table"))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in ("input_ids", mask)]
    shape: list[str | int | None] = ["b", 6] if output == "sentence_embedding" else ["b", "s", 6]
    made = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        initial,
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def save_pooling(folder: Path, **modes: object) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tiny"
    made.mkdir()
    save_tokenizer(made)
    save_graph(made / "model.onnx")
    save_pooling(made, pooling_mode_mean_tokens=True)
    return made


def unit(rows: list[np.ndarray]) -> np.ndarray:
    stacked = np.array(rows, dtype=np.float64)
    given: np.ndarray = stacked / np.linalg.norm(stacked, axis=1, keepdims=True)
    return given


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2 as an exported graph: vectors of tokens, beside its tokenizer and its published settings."""
    folder, source = tmp_path_factory.mktemp("exported") / "minilm", find_model_folder()
    (folder / "1_Pooling").mkdir(parents=True)
    shutil.copy(source / "tokenizer.json", folder)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256, "do_lower_case": false}')
    model = onnx.load(str(source / "model.onnx"))
    del model.graph.output[:]
    tokens = helper.make_tensor_value_info("encoder.layer.5.output", TensorProto.FLOAT, ["b", "s", 384])
    model.graph.output.append(tokens)
    (folder / "onnx").mkdir()
    onnx.save(model, str(folder / "onnx" / "model.onnx"))
    return folder


def test_an_exported_minilm_gives_the_vectors_of_the_local_encoder(exported: Path) -> None:
    texts = ["Paris is a city.", "a", "", "Größe 東京", "long " * 400, "\ud800"]
    vectors = OnnxEncoder(exported).encode(texts)
    assert OnnxEncoder(exported).max_tokens == 256
    assert np.abs(vectors - LocalEncoder().encode(texts)).max() < 2e-6


@pytest.mark.parametrize(
    ("modes", "pool"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, lambda rows: rows[0]),
        ({"pooling_mode_lasttoken": True}, lambda rows: rows[-1]),
        ({"pooling_mode_max_tokens": True}, lambda rows: rows.max(axis=0)),
        ({"pooling_mode": "cls"}, lambda rows: rows[0]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda rows: rows.sum(axis=0) / len(rows) ** 0.5),
    ],
)
def test_tokens_are_pooled_as_the_folder_says(folder: Path, modes: dict[str, object], pool: object) -> None:
    save_pooling(folder, **modes)
    expected = unit([pool(TABLE[ids(text)]) for text in TEXTS])  # type: ignore[operator]
    assert OnnxEncoder(folder, batch_size=2).encode(TEXTS) == pytest.approx(expected, abs=1e-6)


def test_a_graph_with_one_vector_per_text_needs_no_pooling(folder: Path) -> None:
    save_graph(folder / "model.onnx", output="sentence_embedding")
    shutil.rmtree(folder / "1_Pooling")
    expected = unit([TABLE[ids(text)].sum(axis=0) for text in TEXTS])
    assert OnnxEncoder(folder).encode(TEXTS) == pytest.approx(expected, abs=1e-6)


def test_texts_are_cut_and_lowered_where_the_folder_or_a_setting_says(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4, "do_lower_case": true}')
    cut = OnnxEncoder(folder)
    assert cut.encode(["Paris IS city london"]).tolist() == cut.encode(["paris is"]).tolist()
    longer = OnnxEncoder(folder, max_tokens=5)
    assert longer.encode(["paris is city london"]) == pytest.approx(
        unit([TABLE[ids("paris is city london", 5)].mean(axis=0)]), abs=1e-6
    )
    assert (cut.max_tokens, longer.max_tokens) == (4, 5)
    assert cut.model != longer.model


def test_another_file_is_another_model(folder: Path) -> None:
    before = OnnxEncoder(folder).model
    save_pooling(folder, pooling_mode_cls_token=True)
    assert OnnxEncoder(folder).model != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: shutil.rmtree(folder / "1_Pooling"), "no 1_Pooling/config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json"),
        (lambda folder: (folder / "model.onnx").unlink(), r"has no model\.onnx or onnx/model\.onnx"),
        (lambda folder: save_pooling(folder, pooling_mode="weighted"), "pooled by weighted"),
        (lambda folder: (folder / "1_Pooling" / "config.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: save_graph(folder / "model.onnx", mask="pixel_values"), "asks for pixel_values"),
        (
            lambda folder: (folder / "modules.json").write_text('[{"type": "models.Dense", "path": "2_Dense"}]'),
            "the modules Dense",
        ),
    ],
)
def test_what_cannot_be_used_is_said(folder: Path, change: object, words: str) -> None:
    change(folder)  # type: ignore[operator]
    with pytest.raises(ModelFileError, match=words):
        OnnxEncoder(folder)


def test_the_name_in_the_settings_opens_it_with_its_prefixes(folder: Path, tmp_path: Path) -> None:
    choice = EncoderSettings(name=f"onnx:{folder}", query_prefix="london ", passage_prefix="paris ")
    encoder = open_encoder(Settings(root=tmp_path / "root", encoder=choice))
    assert encoder.encode_questions(["is"]) == pytest.approx(unit([TABLE[ids("london is")].mean(axis=0)]), abs=1e-6)
    assert encoder.encode(["is"], "passage") == pytest.approx(unit([TABLE[ids("paris is")].mean(axis=0)]), abs=1e-6)
    assert encoder.encode(["is"], "passage").tobytes() == encoder.encode(["is"], "passage").tobytes()
    assert encoder.misses == 1
    close_encoders()


def test_wrong_settings_are_said(folder: Path, tmp_path: Path) -> None:
    for choice, words in (
        (EncoderSettings(name=f"onnx:{folder}", dimension=9), "6 dimensions, not 9"),
        (EncoderSettings(dimension=9), "384 dimensions, not 9"),
        (EncoderSettings(max_tokens=9), "256 tokens, not 9"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            open_encoder(Settings(root=tmp_path / "root", encoder=choice))
    with pytest.raises(ConfigurationError, match=r"no such kind of encoder; known are local .*onnx:FOLDER"):
        parse_settings({"a test": {"encoder.name": "bert"}})
