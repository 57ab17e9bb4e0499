"""What a filter leaves of an index is what an index of only those passages would be, for every strategy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_index import PASSAGES, MemoryIndex, memory_services

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.ports import Artefact, IndexReader, RestrictedIndex
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.warehouse import artefacts
from polyhop.warehouse.propositions import STORED_PROPOSITIONS
from polyhop.worker.strategies.registry import STRATEGIES, make

OVER_HUBS = {"hub-facets", "hublink", "hublink-topic"}
SUBSETS = st.sets(st.integers(0, len(PASSAGES) - 1), min_size=1).map(sorted)
QUESTIONS = ("Where was Marie Curie born?", "Which river flows through the capital of England?", "Helen and Troy")


WHOLE = MemoryIndex(PASSAGES)


def whole_and_part(numbers: Sequence[int]) -> tuple[RestrictedIndex, MemoryIndex]:
    """What a filter leaves, and an index of these passages alone, which finds names and encodes as the whole one."""
    part = MemoryIndex([PASSAGES[number] for number in numbers], {artefacts.NAMES: WHOLE.artefact(artefacts.NAMES)})
    part._words = WHOLE._words
    return RestrictedIndex(WHOLE, np.array(numbers, dtype=np.int64)), part


def retrieved(index: IndexReader, memory: MemoryIndex, strategy: str, questions: Sequence[str]) -> list[Retrieval]:
    services = memory_services(memory)
    found = map(memory.artefact(artefacts.NAMES).find, questions)
    names = [tuple(QuestionName(name.key, name.surface) for name in of_question) for of_question in found]
    vectors = [services.encode([text])[0] for text in questions]
    asked = [Question(text, vector=v, names=n) for text, v, n in zip(questions, vectors, names, strict=True)]
    return make(strategy, index, {}, services).retrieve(asked, limit=10)


def assert_same(one: Any, other: Any, *names: str) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(SUBSETS)
@settings(max_examples=30, deadline=None)
def test_arrays_are_those_of_an_index_of_these_passages_alone(numbers: list[int]) -> None:
    left, part = whole_and_part(numbers)
    assert left.passage_ids == part.passage_ids
    assert left.passages(range(len(numbers))) == part.passages(range(len(numbers)))
    for handle in (artefacts.GRAPH, artefacts.SURFACES):
        assert_same(left.artefact(handle), part.artefact(handle), "keys", "indptr", "indices", "tf", "is_title")
    assert_same(
        left.artefact(artefacts.RELATIONS), part.artefact(artefacts.RELATIONS), "indptr", "indices", "label_indptr"
    )
    for postings in map(artefacts.lexical_of, ("plain", "stems")):
        assert left.artefact(postings).terms == part.artefact(postings).terms
        assert_same(left.artefact(postings), part.artefact(postings), "indptr", "passages", "tf", "lengths")
    assert left.artefact(artefacts.ENTITY_IDS) == part.artefact(artefacts.ENTITY_IDS)
    for name, entities in left.artefact(artefacts.EXACT_NAMES).items():
        assert part.artefact(artefacts.EXACT_NAMES).get(name, entities) == entities
    for vectors in map(artefacts.vectors_of, ("passage", "entity", "proposition")):
        np.testing.assert_array_equal(left.artefact(vectors), part.artefact(vectors))
    texts, others = left.artefact(STORED_PROPOSITIONS), part.artefact(STORED_PROPOSITIONS)
    count = others.graph.shape[0]
    assert texts.texts.of(range(count)) == others.texts.of(range(count))
    assert texts.graph.shape[0] == count
    for name in ("passages", "passage_propositions"):
        assert_same(getattr(texts.graph, name), getattr(others.graph, name), "indices")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES.keys() - OVER_HUBS))
@pytest.mark.parametrize("numbers", [[0, 1, 2, 3, 4], [2, 5, 7, 8, 9, 10], [4], [11, 12], [1, 3, 5, 6, 8, 12]])
def test_rankings_are_those_of_an_index_of_these_passages_alone(strategy: str, numbers: list[int]) -> None:
    left, part = whole_and_part(numbers)
    found = retrieved(left, part, strategy, QUESTIONS)
    expected = retrieved(part, part, strategy, QUESTIONS)
    for one, other in zip(found, expected, strict=True):
        assert [p.passage_id for p in one.passages] == [p.passage_id for p in other.passages]
        # entities without a proposition keep their numbers, which changes the order of sums in walks over propositions
        assert [p.score for p in one.passages] == pytest.approx([p.score for p in other.passages], rel=1e-12)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_alone_or_in_a_batch_a_filtered_question_has_the_same_bits(strategy: str) -> None:
    left, part = whole_and_part([0, 1, 2, 3, 5, 8])
    together = retrieved(left, part, strategy, QUESTIONS)
    alone = [retrieved(left, part, strategy, [text])[0] for text in QUESTIONS]
    assert [one.passages for one in together] == [one.passages for one in alone]
    assert {p.passage_id for one in together for p in one.passages} <= set(left.passage_ids)


def test_what_does_not_say_what_is_left_of_it_is_refused() -> None:
    handle: Artefact[int] = Artefact("other", lambda stored: len(stored.passage_ids), is_optional=False)
    index = RestrictedIndex(MemoryIndex(PASSAGES, {handle: 13}), np.array([1], dtype=np.int64))
    with pytest.raises(ConfigurationError, match="artefact 'other' cannot be filtered"):
        index.artefact(handle)
