"""bm25, dense, rrf and naive-vector on the small corpus, and approximate search in place of exact cosines."""

from typing import Any

import numpy as np
import pytest

from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import NEAREST_PASSAGES, vectors_of
from polyhop.worker.strategies.baselines import DenseAnnParameters
from polyhop.worker.strategies.registry import make


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
