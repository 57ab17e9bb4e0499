"""Every encoder and every re-ranker keeps its port."""

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
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
from polyhop.warehouse.open_models import close_chats, open_embeddings
from polyhop.worker.strategies.baselines import LexicalReranker

TEXTS = ("Paris is a city.", "a", "", "Größe 東京", "paris is", "  \n", "Paris is a city.", "london " * 12)
ODD = ("\x00", "\ud800", "e\u0301", "\u202eabc", "x" * 3000)
KINDS = ("local", "onnx", "fastembed", "sentence-transformers", "litellm")
SIDES = [f"{kind} {side}" for kind in KINDS for side in ("passages", "questions")]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, main_loop: object) -> Iterator[dict[str, OpenedEncoder]]:
    """Every kind of encoder, opened as the settings name it; servers and packages are those of other tests."""
    from scripted_server import ModelServer

    from polyhop.warehouse.models.litellm_client import close_connections

    root, server = tmp_path_factory.mktemp("encoders"), ModelServer().start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        packages = loaded("unit/warehouse/test_onnx_models.py")
        for name, member in (("fastembed", "TextEmbedding"), ("sentence_transformers", "SentenceTransformer")):
            module = ModuleType(name)
            setattr(module, member, getattr(packages, member))
            patch.setitem(sys.modules, name, module)
        names = ["local", f"onnx:{tiny_folder(root)}", "fastembed:BAAI/bge-small-en-v1.5"]
        names += ["sentence-transformers:some/model", "litellm:openai/scripted"]
        yield {name.partition(":")[0]: open_model(needs(name, root, server.url)) for name in names}
    close_chats()
    server.stop()
    close_connections()


def tiny_folder(root: Path) -> Path:
    """An exported encoder of seven words, which reads four tokens."""
    made = loaded("unit/warehouse/test_onnx_models.py")
    folder = root / "tiny"
    folder.mkdir()
    made.save_tokenizer(folder)
    made.save_graph(folder / "model.onnx")
    made.save_pooling(folder, pooling_mode_mean_tokens=True)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}', encoding="utf-8")
    return folder


def needs(name: str, root: Path, url: str) -> EncoderNeeds:
    return EncoderNeeds(EncoderChoice(name=name, api_base=url), 1, ModelSettings(), root, None, None, open_embeddings)


@pytest.fixture(scope="module", params=SIDES)
def encoder(request: pytest.FixtureRequest, opened: dict[str, OpenedEncoder]) -> Encoder:
    kind, _, side = request.param.partition(" ")
    found: Encoder = getattr(opened[kind], side)
    return found


def near(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Equal but for last bits: packages that pad give other ones beside other texts."""
    return one.shape == other.shape and bool(np.allclose(one, other, atol=1e-5))


def test_every_kind_of_encoder_is_here() -> None:
    assert set(KINDS) == set(encoder_kinds._KINDS)


def test_a_text_has_one_row_of_finite_float32(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert (vectors.dtype, vectors.ndim, len(vectors)) == (np.dtype(np.float32), 2, len(TEXTS))
    assert np.isfinite(vectors).all()


def test_a_vector_does_not_depend_on_the_texts_beside_it(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    assert near(np.concatenate([encoder.encode([text]) for text in TEXTS]), together)


def test_equal_texts_have_equal_vectors_and_asking_again_gives_the_same_bits(encoder: Encoder) -> None:
    first, again = encoder.encode(TEXTS), encoder.encode(list(TEXTS))
    assert first.tobytes() == again.tobytes()
    assert near(first[0], first[TEXTS.index("Paris is a city.", 1)])


def test_no_text_gives_no_row_of_the_same_width(encoder: Encoder) -> None:
    width = encoder.encode(TEXTS[:1]).shape[1]
    empty = encoder.encode([])
    assert (empty.shape, empty.dtype) == ((0, width), np.dtype(np.float32))


@pytest.mark.parametrize("texts", [TEXTS, ODD], ids=["plain", "odd"])
def test_vectors_of_any_text_have_a_length_of_one(encoder: Encoder, texts: Sequence[str]) -> None:
    assert np.linalg.norm(encoder.encode(texts), axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)


def test_the_caller_may_change_what_it_got(encoder: Encoder) -> None:
    first = encoder.encode(TEXTS[:2])
    kept = first.copy()
    first += 1
    assert encoder.encode(TEXTS[:2]).tobytes() == kept.tobytes()


def test_an_encoder_says_what_its_vectors_depend_on(encoder: Encoder) -> None:
    before = encoder.model
    vectors = encoder.encode(TEXTS[:1])
    assert before == encoder.model != ""
    assert encoder.dimension == vectors.shape[1]
    assert encoder.max_tokens >= 0


def test_kinds_have_names_of_their_own(opened: dict[str, OpenedEncoder]) -> None:
    """A name is a part of a vector's key in the caches."""
    names = [one.passages.model for one in opened.values()]
    assert len(set(names)) == len(KINDS)
    assert names == [one.questions.model for one in opened.values()]


def test_what_lies_beyond_the_tokens_that_are_read_changes_nothing(encoder: Encoder) -> None:
    if not encoder.max_tokens:
        return  # only the model's server, or its package, knows
    long = "paris london " * encoder.max_tokens
    assert near(encoder.encode([long]), encoder.encode([f"{long} city"]))


def test_threads_may_encode_at_once(encoder: Encoder) -> None:
    """Workers answer and stages encode in threads."""
    expected, found = encoder.encode(TEXTS), dict[int, NDArray[np.float32]]()

    def encode(thread: int) -> None:
        found[thread] = encoder.encode(TEXTS)

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [near(found.get(number, expected[:0]), expected) for number in range(3)] == [True] * 3


@pytest.mark.parametrize("side", ["passages", "questions"])
def test_every_vector_that_costs_something_is_handed_over_once(opened: dict[str, OpenedEncoder], side: str) -> None:
    encoder = getattr(opened["litellm"], side)
    assert isinstance(encoder, KeepingEncoder)
    kept: list[tuple[int, bytes]] = []
    keep: KeepVectors = lambda places, rows: kept.extend(  # noqa: E731 - its type is what is shown
        (place, row.tobytes()) for place, row in zip(places, rows, strict=True)
    )
    returned = encoder.encode_kept(TEXTS, keep)
    assert sorted(kept) == [(place, row.tobytes()) for place, row in enumerate(returned)]


def test_what_costs_nothing_is_not_handed_over(opened: dict[str, OpenedEncoder]) -> None:
    keeping = {kind for kind, one in opened.items() if isinstance(one.passages, KeepingEncoder)}
    assert keeping == {"litellm"}


def test_an_expected_dimension_is_kept_to(tmp_path: Path, opened: dict[str, OpenedEncoder]) -> None:
    """`expect` says what a version's vectors have, before a server says anything."""
    known = opened["litellm"].passages
    assert isinstance(known, KeepingEncoder)
    known.encode(["a"])
    known.expect(known.dimension + 1)
    assert known.encode(["a"]).shape == (1, known.dimension)
    other = opened_like(known)
    other.expect(known.dimension + 1)
    assert other.dimension == known.dimension + 1
    with pytest.raises(InvalidVectorError, match=f"{known.dimension} dimensions instead of {known.dimension + 1}"):
        other.encode(["a"])


def opened_like(encoder: Any) -> KeepingEncoder:
    """The same model, of which nothing is known yet."""
    other: KeepingEncoder = type(encoder)(encoder._name, encoder._gateway, batch_size=3)
    return other


QUESTION = "Where is Paris, the capital of France?"
RANKED = tuple(text for _, _, text in PASSAGES)
ODD_RANKED = ("", "  ", "\x00", "\ud800", "東京", "paris " * 700)


def in_a_folder(folder: Path) -> Reranker:
    made = loaded("unit/warehouse/test_onnx_models.py")
    made.save_tokenizer(folder)
    made.save_model(folder / "model.onnx")
    return OnnxReranker(folder)


def by_name(folder: Path) -> Reranker:
    made = loaded("unit/warehouse/test_onnx_models.py")
    module: Any = ModuleType("fastembed.rerank.cross_encoder")
    module.TextCrossEncoder = made.TextCrossEncoder
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fastembed.rerank.cross_encoder", module)
        return FastembedReranker(made.NAME, folder)


@pytest.fixture(scope="module", params=["folder", "name", "words"])
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reranker]:
    folder = tmp_path_factory.mktemp("reranker")
    if request.param == "folder":
        yield in_a_folder(folder)
    elif request.param == "name":
        yield by_name(folder)
    else:
        yield LexicalReranker(MemoryIndex(PASSAGES), 0.2)


@pytest.mark.parametrize("passages", [(), RANKED[:1], RANKED, ODD_RANKED])
def test_every_passage_has_a_finite_score(reranker: Reranker, passages: tuple[str, ...]) -> None:
    assert reranker.model.strip() == reranker.model != ""
    scores = reranker.score(QUESTION, passages)
    assert scores.shape == (len(passages),)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("question", ["", "?!", "zzz qqq", "\ud800"])
def test_any_question_can_be_asked(reranker: Reranker, question: str) -> None:
    assert np.isfinite(reranker.score(question, RANKED)).all()


def test_a_score_does_not_depend_on_the_passages_beside_it_nor_on_their_order(reranker: Reranker) -> None:
    together = reranker.score(QUESTION, RANKED).tolist()
    assert [reranker.score(QUESTION, [text])[0] for text in RANKED] == together
    assert reranker.score(QUESTION, RANKED[::-1]).tolist() == together[::-1]


def test_a_passage_that_says_the_question_beats_one_that_says_nothing(reranker: Reranker) -> None:
    said, nothing = reranker.score("paris capital france", ["paris capital france", "green 12"]).tolist()
    assert said > nothing
