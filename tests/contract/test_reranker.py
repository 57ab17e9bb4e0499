"""What every Reranker does: a cross-encoder in a folder, one by name, shared words, and what tests use instead."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from fakes import classes_with, loaded
from memory_index import PASSAGES, MemoryIndex

from polyhop.schemas.ports import Reranker
from polyhop.warehouse.models.onnx_session import FastembedReranker, OnnxReranker
from polyhop.worker.strategies.baselines import LexicalReranker

QUESTION = "Where is Paris, the capital of France?"
TEXTS = tuple(text for _, _, text in PASSAGES)
ODD = ("", "  ", "\x00", "\ud800", "東京", "paris " * 700)
FAKE = "unit/worker/strategies/test_rerank_strategies.py ScriptedReranker"


def in_a_folder(folder: Path) -> Reranker:
    made = loaded("unit/warehouse/test_reranker.py")
    made.save_tokenizer(folder)
    made.save_model(folder / "model.onnx")
    return OnnxReranker(folder)


def by_name(folder: Path) -> Reranker:
    made = loaded("unit/warehouse/test_reranker.py")
    module: Any = ModuleType("fastembed.rerank.cross_encoder")
    module.TextCrossEncoder = made.FakeTextCrossEncoder
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fastembed.rerank.cross_encoder", module)
        return FastembedReranker(made.NAME, folder)


@pytest.fixture(scope="module", params=["folder", "name", "words", FAKE])
def reranker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reranker]:
    folder = tmp_path_factory.mktemp("reranker")
    if request.param == "folder":
        yield in_a_folder(folder)
    elif request.param == "name":
        yield by_name(folder)
    elif request.param == "words":
        yield LexicalReranker(MemoryIndex(PASSAGES), 0.2)
    else:
        yield loaded(FAKE.split(maxsplit=1)[0]).ScriptedReranker(lambda text: text.count("a"))


def test_every_reranker_of_the_tests_is_here() -> None:
    assert classes_with("score", "question", "passages") == {FAKE}


def test_a_reranker_has_a_name(reranker: Reranker) -> None:
    assert reranker.model.strip() == reranker.model != ""


@pytest.mark.parametrize("passages", [(), TEXTS[:1], TEXTS, ODD])
def test_every_passage_has_a_finite_score(reranker: Reranker, passages: tuple[str, ...]) -> None:
    scores = reranker.score(QUESTION, passages)
    assert scores.shape == (len(passages),)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("question", ["", "?!", "zzz qqq", "\ud800"])
def test_any_question_can_be_asked(reranker: Reranker, question: str) -> None:
    assert np.isfinite(reranker.score(question, TEXTS)).all()


def test_a_score_does_not_depend_on_the_passages_beside_it_nor_on_their_order(reranker: Reranker) -> None:
    together = reranker.score(QUESTION, TEXTS).tolist()
    assert [reranker.score(QUESTION, [text])[0] for text in TEXTS] == together
    assert reranker.score(QUESTION, TEXTS[::-1]).tolist() == together[::-1]


def test_a_passage_that_says_the_question_beats_one_that_says_nothing(reranker: Reranker) -> None:
    said, nothing = reranker.score("paris capital france", ["paris capital france", "green 12"]).tolist()
    assert said > nothing
