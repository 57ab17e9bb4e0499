"""Word and vector search, bm25 with feedback (bm25-rm3, bm25-2step), and re-ranking (bm25-ce, rrf-ce, rerank=true)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from memory_index import PASSAGES, MemoryIndex, ids_of, memory_services, retrieved, scores_of
from numpy.typing import NDArray

from polyhop.schemas.evidence import Note
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import NEAREST_PASSAGES
from polyhop.worker.strategies.baselines import DenseAnnParameters
from polyhop.worker.strategies.registry import STRATEGIES, make

CAPITAL = "Which river flows through the capital of Poland?"
RIVER = "Which river flows through the birthplace of Marie Curie?"


def ids(index: Any, name: str, text: str, limit: Any = 13, **parameters: Any) -> list[str]:
    return ids_of(retrieved(index, name, text, limit, **parameters))


def test_rrf_reads_both_lists_to_a_depth(memory_index: Any) -> None:
    lists = [ids(memory_index, name, "Helen Troy") for name in ("bm25", "dense")]
    found = scores_of(retrieved(memory_index, "rrf", "Helen Troy"))
    assert found == pytest.approx({n: sum(1 / (61 + one.index(n)) for one in lists if n in one) for n in found})
    assert len(ids(memory_index, "rrf", "Helen Troy", depth=1)) <= 2


def test_naive_vector_says_which_entities_led_to_its_passages(memory_index: Any) -> None:
    evidence = retrieved(memory_index, "naive-vector", "Vistula", 5, entities=3).evidence
    first, *others = evidence.nodes
    assert (first.key, len(others), evidence.node_count) == ("vistula", 2, 3)
    assert (first.weight or 0.0) >= (others[0].weight or 0.0) >= (others[1].weight or 0.0)


def test_what_the_graph_misses_is_missed_and_the_rest_is_ranked_as_by_exact_search(memory_index: Any) -> None:
    exact, near = (retrieved(memory_index, name, CAPITAL) for name in ("dense", "dense-ann"))
    assert ids_of(near) == ids_of(exact)
    assert scores_of(near) == pytest.approx(scores_of(exact))
    index = MemoryIndex(PASSAGES, {NEAREST_PASSAGES: lambda vector, count, ef: [6, 7, 2, 6]})
    assert ids(index, "dense-ann", CAPITAL, 6) == [one for one in ids_of(exact) if one in {"p06", "p07", "p02"}]
    found = retrieved(index, "graph-dense", CAPITAL, 6, search="ann")
    assert set(found.evidence.seed_weights("passage")) <= {"p06", "p07", "p02"}


@pytest.mark.parametrize(("parameters", "ef_search"), [({}, None), ({"ef_search": 77}, 77)])
def test_the_width_of_a_search(parameters: dict[str, int], ef_search: int | None) -> None:
    asked_for = []
    index = MemoryIndex(PASSAGES, {NEAREST_PASSAGES: lambda vector, count, ef: asked_for.append((count, ef)) or [2]})  # type: ignore[func-returns-value]
    retrieved(index, "dense-ann", CAPITAL, 6, **parameters)
    assert asked_for == [(6, ef_search or DenseAnnParameters.model_fields["ef_search"].default)]


GOLDEN = [("p1", "", "the capital of france is paris"), ("p2", "", "paris is large")]
GOLDEN += [("p3", "", "berlin is the capital of germany"), ("p4", "", "france and germany share a border")]


def added_to(retrieval: Retrieval) -> dict[str, float]:
    """What feedback added, with weights."""
    (note,) = retrieval.evidence.notes
    return dict(note.items)


def test_golden_rm3_with_and_without_stop_words() -> None:
    """G-SPRIG-4."""
    found = retrieved(MemoryIndex(GOLDEN), "bm25-rm3", "capital of france", fb_docs=2, fb_terms=5)
    expected = {"p1": 0.616915, "p3": 0.465894, "p4": 0.151021, "p2": 0.048032}
    assert scores_of(found) == pytest.approx(expected, abs=1e-6)
    assert ids_of(found) == [*expected]
    assert list(found.evidence.seed_weights("passage")) == ["p1", "p3"]
    assert found.evidence.notes[0].label == "Terms suggested by the top 2 passages"
    assert added_to(found) == dict.fromkeys(("capital", "is", "of", "the"), 0.217391) | {"france": 0.130435}
    found = retrieved(MemoryIndex(GOLDEN), "bm25-rm3", "capital of france", drop_stopwords=1)
    assert set(added_to(found)) == {"capital", "france", "paris", "berlin", "germany", "share", "border"}


@pytest.mark.parametrize(
    ("name", "parameter", "value"), [("bm25-rm3", "original_weight", 1), ("bm25-2step", "entity_word_weight", 0)]
)
def test_with_nothing_added_the_ranking_is_bm25_s(memory_index: Any, name: str, parameter: str, value: int) -> None:
    found = retrieved(memory_index, name, RIVER, **{parameter: value})
    assert ids_of(found) == ids(memory_index, "bm25", RIVER)
    first = list(found.evidence.seed_weights("passage"))
    assert first
    assert first == ids_of(found)[: len(first)]


def test_two_steps_reach_a_passage_by_entities_that_are_neither_too_frequent_nor_too_many(memory_index: Any) -> None:
    """Warsaw, which the question does not say, is in 2 of 13 passages: Marie Curie's and its own."""
    assert ids(memory_index, "bm25", "Marie Curie birthplace") == ["p05"]
    for ratio, is_added in ((2 / 13, True), (1.9 / 13, False)):
        found = retrieved(memory_index, "bm25-2step", "Marie Curie birthplace", max_df_ratio=ratio)
        assert ("warsaw" in added_to(found)) is is_added
        assert "marie curie" not in added_to(found)
        assert ("p06" in ids_of(found)) is is_added
    assert len(added_to(retrieved(memory_index, "bm25-2step", RIVER, fb_entities=2, max_df_ratio=1))) == 2


class ScriptedReranker:
    """Scores passages as a function says; knows what it was asked."""

    model = "scripted"

    def __init__(self, judge: Callable[[str], float]) -> None:
        self._judge = judge
        self.asked: list[tuple[str, list[str]]] = []

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append((question, list(passages)))
        return np.array([self._judge(passage) for passage in passages], dtype=np.float64)


def judged(
    index: Any, judge: Any, name: str, limit: Any = 13, asked: Any = CAPITAL, **parameters: object
) -> tuple[Retrieval, list[tuple[str, list[str]]]]:
    """With a cross-encoder that judges so, if it does, and what that was asked."""
    reranker = ScriptedReranker(judge)
    question = Question(asked, vector=index.encode([asked])[0], topic="Warsaw" if name == "hublink-topic" else None)
    services = replace(memory_services(index), reranker=lambda: reranker if judge else None)
    return make(name, index, parameters, services).retrieve([question], limit=limit)[0], reranker.asked


@pytest.mark.parametrize(("name", "first"), [("bm25-ce", "bm25"), ("rrf-ce", "rrf")])
def test_the_first_are_put_in_order_and_the_rest_follows_unchanged(memory_index: Any, name: str, first: str) -> None:
    before = retrieved(memory_index, first, CAPITAL)
    after, _ = judged(memory_index, len, name, rerank_depth=4)
    assert len(before.passages) > 5
    assert after.passages[4:] == before.passages[4:]
    assert sorted(ids_of(after)[:4]) == sorted(ids_of(before)[:4])
    scores = [passage.score for passage in after.passages[:4]]
    assert scores == sorted(scores, reverse=True)
    for depth in (0, 3, 100):
        assert ids_of(judged(memory_index, lambda _: -1.0, name, rerank_depth=depth)[0]) == ids_of(before)


@pytest.mark.parametrize("name", ["bm25-ce", "rrf-ce"])
def test_without_a_cross_encoder_the_evidence_says_lexical(memory_index: Any, name: str) -> None:
    """algorithms.md 2.9: label results ce=lexical."""
    found = retrieved(memory_index, name, CAPITAL)
    said = f"the top {len(found.passages)} passages, by shared words (no cross-encoder is set)"
    assert found.evidence.notes == (Note("Re-ranked", said),)


def test_a_configured_cross_encoder_reads_title_and_text_and_gives_its_name(memory_index: Any) -> None:
    found, asked = judged(memory_index, lambda passage: -len(passage), "bm25-ce", asked="Troy")
    assert asked == [("Troy", [f"{title}\n{text}" for _, title, text in (PASSAGES[10], PASSAGES[9])])]
    assert found.evidence.notes == (Note("Re-ranked", "the top 2 passages, by the cross-encoder scripted"),)
    assert list(scores_of(found).items()) == [("p10", -54.0), ("p09", -57.0)]
    assert judged(memory_index, len, "bm25-ce", asked="zzz qqq")[1] == []


def test_the_lexical_reranker_prefers_more_words_to_repetition_and_near_ones_among_equals() -> None:
    """BM25 that hardly saturates counts repetitions."""
    rows = [("a", "", "vistula " * 9), ("b", "", "a capital on the vistula"), ("c", "", "rain"), ("d", "", "snow")]
    found = [ids(MemoryIndex(rows), name, "capital vistula", k1=100, b=0) for name in ("bm25", "bm25-ce")]
    assert found == [["a", "b"], ["b", "a"]]
    rows = [("far", "", "green was the water of that river"), ("near", "", "the water of that river was green")]
    plain, near = (retrieved(MemoryIndex(rows), "bm25-ce", "green river", proximity_weight=weight) for weight in (0, 1))
    assert scores_of(plain) == {"far": 1.0, "near": 1.0}
    assert (ids_of(plain), ids_of(near)) == (["far", "near"], ["near", "far"])


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_can_be_reranked(memory_index: Any, name: str) -> None:
    """The last of its passages comes first where the reranker says so, also from beyond the limit."""
    by_itself = name in {"bm25-ce", "rrf-ce"}
    before, _ = judged(memory_index, len, name, **({"rerank_depth": 0} if by_itself else {}))
    texts = {row[0]: row[2] for row in PASSAGES}
    last = texts[before.passages[-1].passage_id]
    asked_for = {"rerank_depth": 13} if by_itself else {"rerank": True, "rerank_depth": 13}
    found, _ = judged(memory_index, lambda passage: float(passage.endswith(last)), name, 2, **asked_for)
    assert (texts[found.passages[0].passage_id], found.passages[0].score) == (last, 1.0)
    assert len(found.passages) == min(2, len(before.passages))
    *others, note = found.evidence.notes
    assert note.label == "Re-ranked"
    assert by_itself or tuple(others) == before.evidence.notes
    assert found.seconds["traversal"] > 0
