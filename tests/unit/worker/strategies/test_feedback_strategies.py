"""bm25-rm3 and bm25-2step: the golden vector through the strategy, what they add, and when they are bm25."""

from typing import Any

import pytest

from polyhop.schemas.query import Question, Retrieval
from polyhop.worker.strategies.registry import STRATEGIES, make

GOLDEN = (
    ("p1", "", "the capital of france is paris"),
    ("p2", "", "paris is large"),
    ("p3", "", "berlin is the capital of germany"),
    ("p4", "", "france and germany share a border"),
)
RIVER = "Which river flows through the birthplace of Marie Curie?"


def ask(index: Any, name: str, text: str, limit: int = 13, **parameters: object) -> Retrieval:
    return make(name, index, parameters).retrieve([Question(text)], limit=limit)[0]


def scores(retrieval: Retrieval) -> dict[str, float]:
    return {passage.passage_id: passage.score for passage in retrieval.passages}


def added_to(retrieval: Retrieval) -> dict[str, float]:
    """What feedback added, with weights."""
    (note,) = retrieval.evidence.notes
    return dict(note.items)


def test_golden_rm3_through_the_strategy(make_index: Any) -> None:
    """G-SPRIG-4."""
    found = ask(make_index(GOLDEN), "bm25-rm3", "capital of france", fb_docs=2, fb_terms=5)
    assert list(scores(found)) == ["p1", "p3", "p4", "p2"]
    assert scores(found) == pytest.approx({"p1": 0.616915, "p3": 0.465894, "p4": 0.151021, "p2": 0.048032}, abs=1e-6)
    assert list(found.evidence.seed_weights("passage")) == ["p1", "p3"]
    (note,) = found.evidence.notes
    assert note.label == "Terms suggested by the top 2 passages"
    assert added_to(found) == {
        "capital": 0.217391, "is": 0.217391, "of": 0.217391, "the": 0.217391, "france": 0.130435
    }  # fmt: skip


def test_stop_words_may_be_left_out_of_the_relevance_model(make_index: Any) -> None:
    terms = added_to(ask(make_index(GOLDEN), "bm25-rm3", "capital of france", drop_stopwords=1))
    assert set(terms) == {"capital", "france", "paris", "berlin", "germany", "share", "border"}


@pytest.mark.parametrize(
    ("name", "parameters"), [("bm25-rm3", {"original_weight": 1}), ("bm25-2step", {"entity_word_weight": 0})]
)
def test_with_nothing_added_the_ranking_is_bm25_s(memory_index: Any, name: str, parameters: dict[str, float]) -> None:
    found = ask(memory_index, name, RIVER, **parameters)  # type: ignore[arg-type]
    assert list(scores(found)) == list(scores(ask(memory_index, "bm25", RIVER)))
    first = list(found.evidence.seed_weights("passage"))
    assert first
    assert first == list(scores(found))[: len(first)]


@pytest.mark.parametrize("name", ["bm25-rm3", "bm25-2step"])
def test_without_a_shared_word_nothing_is_added_and_nothing_found(memory_index: Any, name: str) -> None:
    found = ask(memory_index, name, "zzz qqq")
    assert found.passages == ()
    assert (found.evidence.seeds, added_to(found)) == ((), {})


@pytest.mark.parametrize("name", ["bm25-rm3", "bm25-2step"])
def test_more_feedback_than_passages_is_all_of_them(memory_index: Any, name: str) -> None:
    assert scores(ask(memory_index, name, RIVER, fb_docs=13)) == scores(ask(memory_index, name, RIVER, fb_docs=10_000))


def test_two_steps_reach_a_passage_that_shares_no_word_with_the_question(make_index: Any, corpus: Any) -> None:
    """Warsaw, which the question does not say, is in Marie Curie's passage and leads to its own."""
    index = make_index(corpus)
    text = "Marie Curie birthplace"
    assert list(scores(ask(index, "bm25", text))) == ["p05"]
    found = ask(index, "bm25-2step", text, max_df_ratio=0.2)
    assert "warsaw" in added_to(found)
    assert "marie curie" not in added_to(found)
    assert {"p05", "p06"} <= set(scores(found))


def test_entities_in_too_many_passages_are_not_added(make_index: Any, corpus: Any) -> None:
    """Warsaw is in 2 of 13 passages."""
    index = make_index(corpus)
    for ratio, expected in ((2 / 13, True), (1.9 / 13, False)):
        added = added_to(ask(index, "bm25-2step", "Marie Curie", max_df_ratio=ratio))
        assert ("warsaw" in added) is expected


def test_no_more_entities_are_added_than_asked_for(memory_index: Any) -> None:
    added = added_to(ask(memory_index, "bm25-2step", RIVER, fb_entities=2, max_df_ratio=1))
    assert len(added) == 2


def test_the_papers_values_are_the_defaults() -> None:
    """algorithms.md 2.9."""
    rm3, two_step = (STRATEGIES[name].parameters().model_dump() for name in ("bm25-rm3", "bm25-2step"))
    bm25 = {"k1": 1.5, "b": 0.75}
    assert rm3 == bm25 | {"fb_docs": 10, "fb_terms": 10, "original_weight": 0.5, "drop_stopwords": False}
    assert two_step == bm25 | {"fb_docs": 5, "fb_entities": 5, "max_df_ratio": 0.1, "entity_word_weight": 0.5}
