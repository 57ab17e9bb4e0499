"""Re-ranking, of bm25-ce, rrf-ce and with rerank=true: what is put in order, by whom, and what stays as it was."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from memory_index import memory_services
from numpy.typing import NDArray

from polyhop.schemas.evidence import Note
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.worker.strategies.registry import STRATEGIES, make

TEXT = "Which river flows through the capital of Poland?"


class ScriptedReranker:
    """Scores passages as a function says; knows what it was asked."""

    model = "scripted"

    def __init__(self, judge: Callable[[str], float]) -> None:
        self._judge = judge
        self.asked: list[tuple[str, list[str]]] = []

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append((question, list(passages)))
        return np.array([self._judge(passage) for passage in passages], dtype=np.float64)


def ask(index: Any, name: str, limit: int = 13, text: str = TEXT, **parameters: object) -> Retrieval:
    question = Question(text, vector=index.encode([text])[0])
    services = Services(reranker=lambda: getattr(index, "cross_encoder", None))
    return make(name, index, parameters, services).retrieve([question], limit=limit)[0]


def pairs(retrieval: Retrieval) -> list[tuple[str, float]]:
    return [(passage.passage_id, passage.score) for passage in retrieval.passages]


def with_reranker(make_index: Any, corpus: Any, judge: Callable[[str], float]) -> tuple[Any, ScriptedReranker]:
    index, reranker = make_index(corpus), ScriptedReranker(judge)
    index.cross_encoder = reranker
    return index, reranker


@pytest.mark.parametrize("name", ["bm25-ce", "rrf-ce"])
def test_without_a_cross_encoder_the_evidence_says_lexical(memory_index: Any, name: str) -> None:
    """algorithms.md 2.9: label results ce=lexical."""
    found = ask(memory_index, name)
    assert found.evidence.notes == (
        Note("Re-ranked", f"the top {len(found.passages)} passages, by shared words (no cross-encoder is set)"),
    )
    assert all(0 <= score <= 1.5 for _, score in pairs(found))


def test_a_configured_cross_encoder_reads_title_and_text_and_gives_its_name(make_index: Any, corpus: Any) -> None:
    index, reranker = with_reranker(make_index, corpus, lambda passage: -len(passage))
    found = ask(index, "bm25-ce", text="Troy")
    assert reranker.asked == [
        (
            "Troy",
            [
                "Troy\nTroy was besieged for ten years because of Helen.",
                "Paris (mythology)\nParis carried off Helen, and Troy fell.",
            ],
        )
    ]
    assert found.evidence.notes == (Note("Re-ranked", "the top 2 passages, by the cross-encoder scripted"),)
    assert pairs(found) == [("p10", -54.0), ("p09", -57.0)]


@pytest.mark.parametrize(("name", "first"), [("bm25-ce", "bm25"), ("rrf-ce", "rrf")])
def test_the_first_are_put_in_order_and_the_rest_follows_unchanged(
    make_index: Any, corpus: Any, name: str, first: str
) -> None:
    index, _ = with_reranker(make_index, corpus, len)
    before, after = pairs(ask(index, first)), pairs(ask(index, name, rerank_depth=4))
    assert len(before) > 5
    assert after[4:] == before[4:]
    assert sorted(row[0] for row in after[:4]) == sorted(row[0] for row in before[:4])
    assert [score for _, score in after[:4]] == sorted((score for _, score in after[:4]), reverse=True)


@pytest.mark.parametrize(("name", "first"), [("bm25-ce", "bm25"), ("rrf-ce", "rrf")])
@pytest.mark.parametrize("depth", [0, 3, 100])
def test_equal_scores_leave_the_first_order(make_index: Any, corpus: Any, name: str, first: str, depth: int) -> None:
    index, _ = with_reranker(make_index, corpus, lambda passage: -1.0)
    assert [row[0] for row in pairs(ask(index, name, rerank_depth=depth))] == [
        row[0] for row in pairs(ask(index, first))
    ]


def test_nothing_found_is_nothing_read(make_index: Any, corpus: Any) -> None:
    index, reranker = with_reranker(make_index, corpus, len)
    found = ask(index, "bm25-ce", text="zzz qqq")
    assert (found.passages, reranker.asked) == ((), [])


def test_passages_beyond_the_limit_are_read_too(make_index: Any, corpus: Any) -> None:
    """Else the best one could not come up from below."""
    index, _ = with_reranker(make_index, corpus, lambda passage: float("longest" in passage))
    assert ask(index, "bm25", 1).passages[0].passage_id != "p07"
    assert pairs(ask(index, "bm25-ce", 1)) == [("p07", 1.0)]


def test_the_lexical_reranker_prefers_what_covers_more_words_to_repetition(make_index: Any) -> None:
    """BM25 that hardly saturates counts repetitions."""
    rows = [("a", "", "vistula " * 9), ("b", "", "a capital on the vistula"), ("c", "", "rain"), ("d", "", "snow")]
    index = make_index(rows)
    found = {name: pairs(ask(index, name, text="capital vistula", k1=100, b=0)) for name in ("bm25", "bm25-ce")}
    assert [row[0] for row in found["bm25"]] == ["a", "b"]
    assert [row[0] for row in found["bm25-ce"]] == ["b", "a"]


def test_proximity_decides_among_passages_that_cover_the_same(make_index: Any) -> None:
    index = make_index(
        [("far", "", "green was the water of that river"), ("near", "", "the water of that river was green")]
    )
    found = {weight: pairs(ask(index, "bm25-ce", text="green river", proximity_weight=weight)) for weight in (0, 1)}
    assert found[0] == [("far", 1.0), ("near", 1.0)]
    assert [row[0] for row in found[1]] == ["near", "far"]


def test_the_depths_are_the_specified_ones() -> None:
    """algorithms.md 2.9."""
    depths = {name: STRATEGIES[name].parameters().model_dump()["rerank_depth"] for name in ("bm25-ce", "rrf-ce")}
    assert depths == {"bm25-ce": 100, "rrf-ce": 20}


@pytest.mark.parametrize("cross_encoder", [None, len])
def test_rerank_after_bm25_is_bm25_ce(make_index: Any, corpus: Any, cross_encoder: Any) -> None:
    index = make_index(corpus)
    index.cross_encoder = ScriptedReranker(cross_encoder) if cross_encoder else None
    after, own = ask(index, "bm25", 5, rerank="true"), ask(index, "bm25-ce", 5)
    assert (after.passages, after.evidence) == (own.passages, own.evidence)


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"bm25-ce", "rrf-ce"}))
def test_every_strategy_can_be_reranked(make_index: Any, corpus: Any, name: str) -> None:
    """The last of its passages comes first where the reranker says so, also from beyond the limit."""
    plain = make_index(corpus)
    before = make(name, plain, {}, memory_services(plain)).retrieve([asked(plain, name)], limit=13)[0]
    last = before.passages[-1].passage_id
    text_of = {row[0]: row[2] for row in corpus}
    index, reranker = with_reranker(make_index, corpus, lambda passage: float(passage.endswith(text_of[last])))
    services = replace(memory_services(index), reranker=lambda: reranker)
    made = make(name, index, {"rerank": True, "rerank_depth": 13}, services)
    found = made.retrieve([asked(index, name)], limit=2)[0]
    assert (text_of[found.passages[0].passage_id], found.passages[0].score) == (text_of[last], 1.0)
    assert len(found.passages) == min(2, len(before.passages))
    assert found.evidence.notes[:-1] == before.evidence.notes
    assert found.evidence.notes[-1].label == "Re-ranked"
    assert found.seconds["traversal"] > 0


def asked(index: Any, name: str) -> Question:
    return Question(TEXT, vector=index.encode([TEXT])[0], topic="Warsaw" if name == "hublink-topic" else None)
