"""bge-small-en-v1.5 beside the local encoder: bits, weights, scale of cosines, and indexes that move to it and back."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from real_index import RealIndex, flip, pages
from tokenizers import Tokenizer

from polyhop.api import open_index
from polyhop.flows.reports import run_advice
from polyhop.schemas.errors import ConfigurationError, ModelFileError
from polyhop.schemas.settings import SHIPPED, EncoderChoice, EncoderSettings, ModelSettings, cosine_threshold
from polyhop.warehouse.models import encoder_kinds
from polyhop.warehouse.models.encoder_kinds import BGE_WEIGHTS, EncoderNeeds, open_model
from polyhop.warehouse.models.local_encoder import WeightsPackage
from polyhop.warehouse.open_models import close_encoders, open_embeddings

TEXTS = [f"The {river} flows through a town of {n} houses." * (1 + n % 3) for n, river in enumerate(["Po", "Elbe"] * 6)]
TOWNS = pages({f"Town {n}": text for n, text in enumerate(TEXTS)})
NAMES = ["Anna Weber", "Anna Webber", "River Nord", "River Norden", "Carl Otto", "Karl Otto", "Dora Lind"]
BGE = EncoderSettings(name="bge")


def opened(threads: int = 1, **choice: object) -> encoder_kinds.OpenedEncoder:
    made = EncoderChoice(**{"name": "bge"} | choice)
    return open_model(EncoderNeeds(made, threads, ModelSettings(), Path(), None, None, open_embeddings))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RealIndex]:
    yield RealIndex(tmp_path / "index", strategies=("dense", "proprag"))
    close_encoders()


def encoder_of(index: RealIndex) -> str:
    return index.manifest.vectors["passage"].encoder.name


def test_vectors_are_those_of_the_first_token_of_the_published_graph() -> None:
    folder = BGE_WEIGHTS.folder()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text, vector in zip(TEXTS[:3], opened().passages.encode(TEXTS[:3]), strict=True):
        read = tokenizer.encode(text)
        fields = {"input_ids": read.ids, "attention_mask": read.attention_mask, "token_type_ids": read.type_ids}
        (tokens,) = session.run(None, {name: np.array([values]) for name, values in fields.items()})
        assert vector == pytest.approx(tokens[0, 0] / np.linalg.norm(tokens[0, 0]), abs=1e-6)


def test_a_text_has_the_same_bits_beside_any_texts_and_with_any_threads() -> None:
    together = opened().passages.encode(TEXTS)
    alone = np.concatenate([opened(threads=2).passages.encode([text]) for text in reversed(TEXTS)])[::-1]
    assert together.tobytes() == alone.tobytes()


def test_more_tokens_than_the_model_has_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"at most 512 tokens of a text, not 513; set encoder\.max"):
        opened(max_tokens=513)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_files_that_are_missing_or_not_the_published_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_missing: bool
) -> None:
    shutil.copytree(BGE_WEIGHTS.folder(), tmp_path / "some_weights")
    (tmp_path / "some_weights" / name).unlink() if is_missing else flip(tmp_path / "some_weights" / name, 1000)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(encoder_kinds, "BGE_WEIGHTS", WeightsPackage("some-weights", "some_weights"))
    with pytest.raises(ModelFileError, match=r"missing or not the published ones.*--reinstall-package some-weights"):
        opened()


def test_publishing_takes_the_scale_of_a_shipped_encoder_and_opens_no_other(
    index: RealIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(encoder_kinds._KINDS, "local")
    index.settings = index.settings.model_copy(update={"encoder": BGE})
    index.read(TOWNS)
    records = index.manifest.vectors
    assert {record.encoder.cosine_scale for record in records.values()} == {SHIPPED["bge"].scale}


def test_synonyms_need_the_encoder_s_own_cosine(index: RealIndex) -> None:
    index.settings = index.settings.model_copy(update={"encoder": BGE})
    index.read(pages({name: f"{name} was born in Rome in {1900 + n}." for n, name in enumerate(NAMES)}))
    least = cosine_threshold(0.8, "bge")
    cosines = [cosine for (cosine,) in index.rows("SELECT cosine FROM synonym_edges")]
    assert cosines
    assert min(cosines) >= least


def test_an_index_keeps_its_encoder_says_so_and_moves_by_one_command(index: RealIndex) -> None:
    plain = index.settings
    index.settings = plain.model_copy(update={"encoder": BGE})
    index.read(TOWNS)
    index.settings = plain
    report = index.run(None)
    assert (encoder_of(index), report.changed) == ("bge", False)
    words = (
        "the index keeps its encoder bge; to move it to the default: polyhop index --index i --set encoder.name=local"
    )
    assert run_advice(plain, report) == [words]
    index.settings = plain.model_copy(update={"encoder": EncoderSettings(name="local")})  # as the command sets it
    report = index.run(None)
    assert (encoder_of(index), report.computed["extract"]) == ("local", len(TOWNS))  # which encodes them, for types
    assert run_advice(index.settings, report) == []


def test_an_index_of_the_local_encoder_moves_to_bge_by_one_command(index: RealIndex) -> None:
    index.read(TOWNS)
    index.settings = index.settings.model_copy(update={"encoder": BGE})
    index.run(None)
    assert encoder_of(index) == "bge"
    with open_index("i", settings=index.settings) as asked:
        assert asked.ask(TEXTS[3], strategy="dense").passages[0]["score"] == pytest.approx(1, abs=0.1)
