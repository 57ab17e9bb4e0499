"""Every encoder and every re-ranker keeps its port."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from fakes import loaded
from memory_index import PASSAGES, MemoryIndex
from numpy.typing import NDArray

from polyhop.schemas.errors import InvalidVectorError
from polyhop.schemas.ports import Encoder, KeepingEncoder, KeepVectors, Reranker
from polyhop.schemas.settings import EncoderChoice, ModelSettings
from polyhop.warehouse.models import encoder_kinds
from polyhop.warehouse.models.encoder_kinds import EncoderNeeds, OpenedEncoder, open_model
from polyhop.warehouse.models.onnx_session import FastembedReranker, OnnxReranker
from polyhop.warehouse.models.span_model import SpanReranker, open_span_model
from polyhop.warehouse.open_models import current_run, open_embeddings
from polyhop.worker.strategies.baselines import LexicalReranker

TEXTS = ("Paris is a city.", "a", "", "Größe 東京", "paris is", "  \n", "Paris is a city.", "london " * 12)
ODD = ("\x00", "\ud800", "e\u0301", "\u202eabc", "x" * 3000)
KINDS = ("local", "bge", "onnx", "fastembed", "sentence-transformers", "litellm")
SIDES = [f"{kind} {side}" for kind in KINDS for side in ("passages", "questions")]
QUESTION = "Where is Paris, the capital of France?"
RANKED = tuple(text for _, _, text in PASSAGES)
ODD_RANKED = ("", "  ", "\x00", "\ud800", "東京", "paris " * 700)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, main_loop: object) -> Iterator[dict[str, OpenedEncoder]]:
    """Every kind of encoder, opened as the settings name it; servers and packages are those of other tests."""
    from scripted_server import ModelServer

    from polyhop.warehouse.models.completions import close_connections

    root, server = tmp_path_factory.mktemp("encoders"), ModelServer().start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        packages = loaded("unit/warehouse/test_onnx_models.py")
        for name, member in (("fastembed", "TextEmbedding"), ("sentence_transformers", "SentenceTransformer")):
            module = ModuleType(name)
            setattr(module, member, getattr(packages, member))
            patch.setitem(sys.modules, name, module)
        (folder := root / "tiny").mkdir()  # an exported encoder of seven words, which reads four tokens
        packages.save_tokenizer(folder)
        packages.save_graph(folder / "model.onnx")
        packages.save_pooling(folder, pooling_mode_mean_tokens=True)
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}', encoding="utf-8")
        names = ["local", "bge", f"onnx:{folder}", "fastembed:BAAI/bge-small-en-v1.5"]
        names += ["sentence-transformers:some/model", "litellm:openai/scripted"]
        choices = [EncoderChoice(name=name, api_base=server.url) for name in names]
        needs = [EncoderNeeds(choice, 1, ModelSettings(), root, None, None, open_embeddings) for choice in choices]
        yield {kind: open_model(need) for kind, need in zip(KINDS, needs, strict=True)}
    current_run().close()
    server.stop()
    close_connections()


@pytest.fixture(scope="module", params=SIDES)
def encoder(request: pytest.FixtureRequest, opened: dict[str, OpenedEncoder]) -> Encoder:
    kind, _, side = request.param.partition(" ")
    found: Encoder = getattr(opened[kind], side)
    return found


def near(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Equal but for last bits: packages that pad give other ones beside other texts."""
    return one.shape == other.shape and bool(np.allclose(one, other, atol=1e-5))


@pytest.mark.parametrize("texts", [TEXTS, ODD, ()], ids=["plain", "odd", "none"])
def test_any_text_has_one_row_of_float32_with_a_length_of_one(encoder: Encoder, texts: Sequence[str]) -> None:
    width, vectors = encoder.encode(["a"]).shape[1], encoder.encode(texts)
    assert (vectors.dtype, vectors.shape) == (np.dtype(np.float32), (len(texts), width))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)


def test_a_vector_depends_neither_on_the_texts_beside_it_nor_on_what_other_threads_encode(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    assert near(np.concatenate([encoder.encode([text]) for text in TEXTS]), together)
    with ThreadPoolExecutor(3) as pool:
        assert all(near(found, together) for found in pool.map(encoder.encode, [TEXTS] * 3))


def test_equal_texts_have_equal_vectors_whatever_the_caller_did_with_the_first(encoder: Encoder) -> None:
    first = encoder.encode(TEXTS)
    kept = first.copy()
    first += 1
    assert encoder.encode(list(TEXTS)).tobytes() == kept.tobytes()
    assert near(kept[0], kept[TEXTS.index("Paris is a city.", 1)])


def test_an_encoder_says_what_its_vectors_depend_on(encoder: Encoder) -> None:
    before = encoder.model
    vectors = encoder.encode(TEXTS[:1])
    assert before == encoder.model != ""
    assert encoder.dimension == vectors.shape[1]
    assert encoder.max_tokens >= 0


def test_kinds_have_names_of_their_own(opened: dict[str, OpenedEncoder]) -> None:
    """A name is a part of a vector's key in the caches."""
    assert set(KINDS) == set(encoder_kinds._KINDS)
    names = [one.passages.model for one in opened.values()]
    assert len(set(names)) == len(KINDS)
    assert names == [one.questions.model for one in opened.values()]


def test_what_lies_beyond_the_tokens_that_are_read_changes_nothing(encoder: Encoder) -> None:
    if not encoder.max_tokens:
        return  # only the model's server, or its package, knows
    long = "paris london " * encoder.max_tokens
    assert near(encoder.encode([long]), encoder.encode([f"{long} city"]))


@pytest.mark.parametrize("side", ["passages", "questions"])
def test_every_vector_that_costs_something_is_handed_over_once(opened: dict[str, OpenedEncoder], side: str) -> None:
    encoder: KeepingEncoder = getattr(opened["litellm"], side)
    kept: list[tuple[int, bytes]] = []
    keep: KeepVectors = lambda places, rows: kept.extend(  # noqa: E731 - its type is what is shown
        (place, row.tobytes()) for place, row in zip(places, rows, strict=True)
    )
    returned = encoder.encode_kept(TEXTS, keep)
    assert sorted(kept) == [(place, row.tobytes()) for place, row in enumerate(returned)]
    assert {kind for kind, one in opened.items() if isinstance(getattr(one, side), KeepingEncoder)} == {"litellm"}


def test_an_expected_dimension_is_kept_to(opened: dict[str, OpenedEncoder]) -> None:
    """`expect` says what a version's vectors have, before a server says anything."""
    known: Any = opened["litellm"].passages
    known.encode(["a"])
    known.expect(known.dimension + 1)
    assert known.encode(["a"]).shape == (1, known.dimension)
    other = type(known)(known._name, known._gateway, batch_size=3)  # the same model, of which nothing is known yet
    other.expect(known.dimension + 1)
    assert other.dimension == known.dimension + 1
    with pytest.raises(InvalidVectorError, match=f"{known.dimension} dimensions instead of {known.dimension + 1}"):
        other.encode(["a"])


@pytest.fixture(scope="module", params=["folder", "name", "local", "words"])
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    folder, made = tmp_path_factory.mktemp("reranker"), loaded("unit/warehouse/test_onnx_models.py")
    if request.param == "words":
        return LexicalReranker(MemoryIndex(PASSAGES), 0.2)
    if request.param == "local":
        return SpanReranker(open_span_model())
    if request.param == "folder":
        made.save_tokenizer(folder)
        made.save_model(folder / "model.onnx")
        return OnnxReranker(folder)
    module: Any = ModuleType("fastembed.rerank.cross_encoder")
    module.TextCrossEncoder = made.TextCrossEncoder
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fastembed.rerank.cross_encoder", module)
        return FastembedReranker(made.NAME, folder)


@pytest.mark.parametrize("passages", [(), RANKED[:1], RANKED, ODD_RANKED])
def test_every_passage_has_a_finite_score(reranker: Reranker, passages: tuple[str, ...]) -> None:
    assert reranker.model.strip() == reranker.model != ""
    scores = reranker.score(QUESTION, passages)
    assert (scores.shape, scores.dtype) == ((len(passages),), np.dtype(np.float64))
    assert np.isfinite(scores).all()
    assert all(np.isfinite(reranker.score(question, passages)).all() for question in ("", "?!", "zzz qqq", "\ud800"))


def test_a_score_depends_on_the_words_and_not_on_the_passages_beside_them(reranker: Reranker) -> None:
    said, nothing = reranker.score("paris capital france", ["paris capital france", "green 12"]).tolist()
    assert said > nothing
    together = reranker.score(QUESTION, RANKED).tolist()
    assert [reranker.score(QUESTION, [text])[0] for text in RANKED] == together
    assert reranker.score(QUESTION, RANKED[::-1]).tolist() == together[::-1]
