"""Encoders by name, behind the interfaces of fastembed and sentence-transformers, which fetch models and weights."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import EncoderSettings, Settings
from polyhop.warehouse.models import encoder_kinds
from polyhop.warehouse.open_models import close_encoders, open_embeddings, open_encoder


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    close_encoders()


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


def unit(*rows: np.ndarray) -> np.ndarray:
    return np.array([row / np.linalg.norm(row) for row in rows])


def package(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, module)


def settings(root: Path, **encoder: Any) -> Settings:
    return Settings(root=root, encoder=EncoderSettings(**encoder))


def test_fastembed_gets_questions_and_passages_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "fastembed", TextEmbedding=TextEmbedding)
    encoder = open_encoder(settings(tmp_path, name="fastembed:BAAI/bge-small-en-v1.5", threads=2))
    assert encoder.encode(["a", "abc"], "passage") == pytest.approx(unit(vector("a"), vector("abc")))
    assert encoder.encode_questions(["a"]) == pytest.approx(unit(vector("a", 1.0)))
    assert TextEmbedding.made[-1]["threads"] == 2
    assert encoder.dimension == 3
    assert encoder.encode([], "passage").shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fastembed:bert", "does not know the encoder 'bert'; it knows: baai/bge-small-en-v1.5"),
        ("fastembed:BAAI/broken", r"cannot fetch or load the encoder 'BAAI/broken' \(no network\)"),
        ("sentence-transformers:none/such", r"cannot fetch or load the encoder 'none/such'"),
    ],
)
def test_a_model_that_cannot_be_had_is_said(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(monkeypatch, "fastembed", TextEmbedding=TextEmbedding)
    package(monkeypatch, "sentence_transformers", SentenceTransformer=SentenceTransformer)
    with pytest.raises(ConfigurationError, match=words):
        open_encoder(settings(tmp_path, name=name))


@pytest.mark.parametrize(
    ("kind", "module", "hint"),
    [
        ("fastembed", "fastembed", r"pip install 'polyhop\[fastembed\]', .*: uv sync --extra fastembed"),
        ("sentence-transformers", "sentence_transformers", "pip install sentence-transformers, .*: uv pip install"),
    ],
)
def test_a_missing_package_is_named_with_its_installation(
    kind: str, module: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=f"needs the package {kind}.* with: {hint}"):
        open_encoder(settings(tmp_path, name=f"{kind}:any"))


def test_sentence_transformers_gets_dimension_and_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "sentence_transformers", SentenceTransformer=SentenceTransformer)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_text("1")
    name = f"sentence-transformers:{folder}"
    encoder = open_encoder(settings(tmp_path, name=name, dimension=2, max_tokens=4))
    assert SentenceTransformer.made[-1] == {"name": str(folder), "truncate_dim": 2}
    assert encoder.encode(["abcdefgh"], "passage") == pytest.approx(unit(vector("abcd")[:2]))
    assert encoder.encode_questions(["a"]) == pytest.approx(unit(vector("quer")[:2]))
    (folder / "weights").write_text("2")
    other = open_encoder(settings(tmp_path, name=name, dimension=2, max_tokens=4, threads=1))
    assert other.model != encoder.model


def test_a_kind_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    choice = EncoderSettings().choice.model_copy(update={"name": "bert:x"})
    with pytest.raises(ConfigurationError, match="no encoder of the kind 'bert'"):
        encoder_kinds.open_model(
            encoder_kinds.EncoderNeeds(choice, 0, Settings().models, tmp_path, None, None, open_embeddings)
        )
