"""Baselines: word and vector search, and bm25 with feedback (bm25-rm3, bm25-2step)."""

from typing import Any

import numpy as np
import pytest

from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import NEAREST_PASSAGES, vectors_of
from polyhop.worker.strategies.baselines import DenseAnnParameters
from polyhop.worker.strategies.registry import STRATEGIES, make


def ids(index: Any, name: str, text: str, limit: int = 13, **parameters: object) -> list[str]:
    question = Question(text, vector=index.encode([text])[0])
    return [p.passage_id for p in make(name, index, parameters).retrieve([question], limit=limit)[0].passages]


def test_bm25_returns_only_passages_that_share_a_word(memory_index: Any) -> None:
    assert ids(memory_index, "bm25", "Helen Troy") == ["p10", "p09"]
    assert ids(memory_index, "bm25", "zzz") == []


def test_bm25_without_length_norming_treats_equal_counts_alike(memory_index: Any) -> None:
    assert ids(memory_index, "bm25", "england", b=0) == ["p02", "p04"]


def test_dense_returns_all_passages_by_cosine(memory_index: Any) -> None:
    text = "The Vistula is the longest river of Poland."
    found = ids(memory_index, "dense", text)
    vectors, question = memory_index.artefact(vectors_of("passage")), memory_index.encode([text])[0]
    expected = np.argsort(-(vectors @ question), kind="stable")
    assert found == [f"p{number:02}" for number in expected]


def test_rrf_scores_are_the_sum_of_both_ranks(memory_index: Any) -> None:
    text = "Helen Troy"
    lexical, dense = ids(memory_index, "bm25", text), ids(memory_index, "dense", text)
    question = Question(text, vector=memory_index.encode([text])[0])
    for passage in make("rrf", memory_index, {}).retrieve([question], limit=13)[0].passages:
        ranks = [found.index(passage.passage_id) + 1 for found in (lexical, dense) if passage.passage_id in found]
        assert passage.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks))


def test_rrf_takes_no_more_than_its_depth_from_each(memory_index: Any) -> None:
    assert len(ids(memory_index, "rrf", "Helen Troy", depth=1)) <= 2


def test_naive_vector_returns_passages_of_the_nearest_entities_only(memory_index: Any) -> None:
    assert ids(memory_index, "naive-vector", "Vistula", entities=1) == ["p06", "p07"]


def test_naive_vector_says_which_entities_led_to_its_passages(memory_index: Any) -> None:
    question = Question("Vistula", vector=memory_index.encode(["Vistula"])[0])
    found = make("naive-vector", memory_index, {"entities": 3}).retrieve([question], limit=5)[0]
    nearest = {node.key: node.weight for node in found.evidence.nodes}
    assert len(nearest) == 3
    assert next(iter(nearest)) == "vistula"
    assert list(nearest.values()) == sorted(nearest.values(), reverse=True)  # type: ignore[type-var]


TEXT = "Which river flows through the capital of Poland?"


def asked(index: Any) -> Question:
    return Question(TEXT, vector=index.encode([TEXT])[0])


def test_a_graph_that_misses_nothing_ranks_as_exact_search_does(memory_index: Any) -> None:
    exact, near = (
        make(name, memory_index, {}).retrieve([asked(memory_index)], limit=6)[0].passages
        for name in ("dense", "dense-ann")
    )
    assert [(p.passage_id, p.rank) for p in near] == [(p.passage_id, p.rank) for p in exact]
    assert [p.score for p in near] == pytest.approx([p.score for p in exact])


def test_what_the_graph_misses_is_not_found_and_the_rest_is_ordered_by_cosine(
    make_index: Any, memory_index: Any, corpus: Any
) -> None:
    index = make_index(corpus, {NEAREST_PASSAGES: lambda vector, count, ef: [6, 7, 2, 6]})
    found = make("dense-ann", index, {}).retrieve([asked(memory_index)], limit=6)[0].passages
    exact = make("dense", memory_index, {}).retrieve([asked(memory_index)], limit=13)[0].passages
    assert [p.passage_id for p in found] == [p.passage_id for p in exact if p.passage_id in {"p06", "p07", "p02"}]


@pytest.mark.parametrize(("parameters", "ef_search"), [({}, None), ({"ef_search": 77}, 77)])
def test_the_graph_is_searched_as_widely_as_asked(
    make_index: Any, corpus: Any, parameters: dict[str, int], ef_search: int | None
) -> None:
    asked_for = []
    index = make_index(corpus, {NEAREST_PASSAGES: lambda vector, count, ef: asked_for.append((count, ef)) or [2]})  # type: ignore[func-returns-value]
    strategy = make("dense-ann", index, parameters)
    strategy.retrieve([asked(index)], limit=6)
    default = DenseAnnParameters.model_fields["ef_search"].default
    assert asked_for == [(6, ef_search or default)]


def test_an_index_without_the_graph_says_how_to_build_it(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus, artefacts={"vectors:passage"})
    with pytest.raises(MissingArtefactError, match="--add-strategy dense-ann"):
        make("dense-ann", index, {})
    with pytest.raises(MissingArtefactError, match="--add-strategy dense-ann"):
        make("graph-dense", index, {"search": "ann"})


def test_a_walk_may_start_from_approximate_neighbours(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus, {NEAREST_PASSAGES: lambda vector, count, ef: [3]})
    found = make("graph-dense", index, {"search": "ann"}).retrieve([asked(index)], limit=6)[0]
    assert list(found.evidence.seed_weights("passage")) == ["p03"]


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
