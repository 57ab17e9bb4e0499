"""Approximate search in place of exact cosines."""

from typing import Any

import pytest

from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import NEAREST_PASSAGES
from polyhop.worker.strategies.baselines import DenseAnnParameters
from polyhop.worker.strategies.registry import make

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
