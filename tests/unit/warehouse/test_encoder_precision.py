"""encoder.precision: what bfloat16 gives on a processor that has it, what else is said, what an index remembers."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.api import open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import EncoderSettings, Settings, parse_settings
from polyhop.warehouse.models import onnx_session as openvino_session
from polyhop.warehouse.models.local_encoder import LocalEncoder

pytestmark = pytest.mark.slow

TEXTS = [
    f"The {word} flows through a town of {n} houses." * (1 + n % 5) for n, word in enumerate(["Thames", "Elbe"] * 9)
]


@pytest.fixture(scope="module")
def encode() -> Callable[..., Any]:
    """Vectors in bfloat16; a processor without it says so, which is then all that can be tested."""
    import openvino

    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(ConfigurationError, match="does not multiply bfloat16 numbers"):
            LocalEncoder(precision="bfloat16").encode(TEXTS)
        pytest.skip("this processor has no bfloat16; the refusal was tested")
    return LocalEncoder(precision="bfloat16").encode


def test_bfloat16_is_close_to_float32_and_a_text_does_not_depend_on_those_beside_it(encode: Callable[..., Any]) -> None:
    exact, close = LocalEncoder().encode(TEXTS), encode(TEXTS)
    assert float(np.min(np.sum(exact * close, axis=1))) > 0.9995
    assert np.allclose(np.linalg.norm(close, axis=1), 1, atol=1e-5)
    assert not np.array_equal(exact, close)
    assert np.array_equal(close, np.concatenate([encode([text]) for text in TEXTS]))
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(close, again) for again in pool.map(lambda _: encode(TEXTS), range(4)))


def test_precisions_have_vectors_of_their_own(encode: Callable[..., Any]) -> None:
    del encode
    names = {LocalEncoder(precision=one).model for one in ("float32", "bfloat16", "int8")}
    assert len(names) == 3


def test_without_openvino_the_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ConfigurationError, match="uv sync --extra openvino"):
        LocalEncoder(precision="bfloat16").encode(TEXTS)


def test_only_the_local_encoder_has_a_precision() -> None:
    with pytest.raises(ConfigurationError, match=r"encoder\.precision is of the local encoder only"):
        parse_settings({"flags": {"encoder.name": "onnx:folder", "encoder.precision": "int8"}})


@pytest.mark.parametrize(("flags", "words"), [("fpu avx512_bf16", "bfloat16"), ("fpu amx_bf16", "half"), ("fpu", "")])
def test_the_advice_follows_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, words: str
) -> None:
    cpu = tmp_path / "cpuinfo"
    cpu.write_text(f"flags\t: {flags}\n", encoding="utf-8")
    monkeypatch.setattr(openvino_session, "_CPU", cpu)
    assert words in openvino_session.faster_precision()
    assert bool(openvino_session.faster_precision()) == bool(words)


def test_questions_are_encoded_in_the_precision_of_the_version(tmp_path: Path) -> None:
    """With int8, which every processor has: the settings say float32 when the question comes."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"id": f"p{n}", "text": text}) for n, text in enumerate(TEXTS[:4])))
    plain = Settings(root=tmp_path / "root", strategies=("dense",))
    int8 = plain.model_copy(update={"encoder": EncoderSettings(precision="int8")})
    run_index(int8, IndexRequest("one", corpus), DirectRunner())
    wanted = LocalEncoder(precision="int8").encode(["Which river?", TEXTS[0]])
    with open_index("one", settings=plain) as index:
        assert index.session.published.manifest.vectors["passage"].encoder.precision == "int8"
        assert np.array_equal(index.session.services.encode(["Which river?"]), wanted[:1])
        again = index.ask("Which river?", strategy="dense").passages
    report = run_index(
        plain.model_copy(update={"encoder": EncoderSettings(precision="float32")}),
        IndexRequest("one", corpus),
        DirectRunner(),
    )
    assert report.changed
    assert report.computed["embed-passage"] == 4
    with open_index("one", settings=plain) as index:
        assert index.session.published.manifest.vectors["passage"].encoder.precision == "float32"
        assert again != index.ask("Which river?", strategy="dense").passages
