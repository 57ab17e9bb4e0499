"""Approximate search in place of exact cosines."""

from typing import Any

import pytest

from schemas.errors import MissingArtefactError
from schemas.query import Question
from worker.strategies.registry import make

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
    memory_index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_index, "nearest_passages", lambda vector, count, ef: [6, 7, 2, 6])
    found = make("dense-ann", memory_index, {}).retrieve([asked(memory_index)], limit=6)[0].passages
    exact = make("dense", memory_index, {}).retrieve([asked(memory_index)], limit=13)[0].passages
    assert [p.passage_id for p in found] == [p.passage_id for p in exact if p.passage_id in {"p06", "p07", "p02"}]


def test_an_index_without_the_graph_says_how_to_build_it(make_index: Any, corpus: Any) -> None:
    index = make_index(corpus, frozenset({"ann:passage"}))
    with pytest.raises(MissingArtefactError, match="--add-strategy dense-ann"):
        make("dense-ann", index, {})
    with pytest.raises(MissingArtefactError, match="--add-strategy dense-ann"):
        make("graph-dense", index, {"search": "ann"})


def test_a_walk_may_start_from_approximate_neighbours(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_index, "nearest_passages", lambda vector, count, ef: [3])
    found = make("graph-dense", memory_index, {"search": "ann"}).retrieve([asked(memory_index)], limit=6)[0]
    assert list(found.evidence["seeds"]["passages"]) == ["p03"]
