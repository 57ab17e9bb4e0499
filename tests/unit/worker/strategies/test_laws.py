"""What holds for every strategy."""

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_index import memory_services

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import as_row, evidence_of
from polyhop.schemas.query import Question, Retrieval
from polyhop.worker.strategies.registry import STRATEGIES, make

pytestmark = pytest.mark.slow

TEXTS = (
    "Where was the designer of the Analytical Engine born?",
    "Which river flows through the capital of Poland?",
    "Who wrote the first program for Charles Babbage, and which river is in Paris?",
    "what is on the river",
    "zzz qqq",
    "Paris",
)
NAMES = sorted(STRATEGIES)


def questions_of(index: Any, texts: Any = TEXTS) -> list[Question]:
    return [Question(text, vector=vector) for text, vector in zip(texts, index.encode(texts), strict=True)]


def ranking(retrieval: Retrieval) -> list[tuple[str, int, float]]:
    return [(passage.passage_id, passage.rank, passage.score) for passage in retrieval.passages]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)  # of each strategy; a batch has at most five of six questions
@given(batches=st.lists(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_question_s_result_does_not_depend_on_its_batch(memory_index: Any, name: str, batches: Any) -> None:
    strategy = make(name, memory_index, {}, memory_services(memory_index))
    questions = questions_of(memory_index)
    alone = [strategy.retrieve([question], limit=8)[0] for question in questions]
    for batch in batches:
        together = strategy.retrieve([questions[number] for number in batch], limit=8)
        assert [(ranking(r), r.evidence) for r in together] == [
            (ranking(alone[number]), alone[number].evidence) for number in batch
        ]


@pytest.mark.parametrize("name", NAMES)
def test_the_order_in_which_passages_came_changes_no_ranking(
    make_index: Any, memory_index: Any, corpus: Any, name: str
) -> None:
    shuffled = list(corpus)
    random.Random(13).shuffle(shuffled)
    other = make_index(shuffled)
    first, second = (
        make(name, index, {}, memory_services(index)).retrieve(questions_of(index), limit=13)
        for index in (memory_index, other)
    )
    assert list(map(ranking, first)) == list(map(ranking, second))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [0, 1, 3, 7])
def test_fewer_passages_are_the_first_of_more(memory_index: Any, name: str, limit: int) -> None:
    strategy = make(name, memory_index, {}, memory_services(memory_index))
    questions = questions_of(memory_index)
    few, many = (strategy.retrieve(questions, limit=count) for count in (limit, 13))
    assert [ranking(r) for r in few] == [ranking(r)[:limit] for r in many]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", "  \n", "?!", "…", "__"])
def test_a_question_without_a_word_finds_nothing(memory_index: Any, name: str, text: str) -> None:
    """It needs no vector either."""
    assert make(name, memory_index, {}, memory_services(memory_index)).retrieve([Question(text)], limit=5) == [
        Retrieval(())
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if STRATEGIES[name].needs_question_vector])
def test_a_question_without_its_vector_is_refused(memory_index: Any, name: str) -> None:
    with pytest.raises(AlgorithmError, match="This strategy needs the question's vector"):
        make(name, memory_index, {}, memory_services(memory_index)).retrieve([Question("Paris")], limit=5)


@pytest.mark.parametrize("name", [name for name in NAMES if not STRATEGIES[name].needs_question_vector])
def test_a_strategy_without_vectors_ignores_them(memory_index: Any, name: str) -> None:
    strategy = make(name, memory_index, {}, memory_services(memory_index))
    with_vector = strategy.retrieve(questions_of(memory_index), limit=9)
    without = strategy.retrieve([Question(text) for text in TEXTS], limit=9)
    assert list(map(ranking, with_vector)) == list(map(ranking, without))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_a_question_take_no_longer_than_the_whole(memory_index: Any, name: str) -> None:
    strategy = make(name, memory_index, {}, memory_services(memory_index))
    for question in questions_of(memory_index):
        begun = time.perf_counter()
        (found,) = strategy.retrieve([question], limit=5)
        whole = time.perf_counter() - begun
        assert all(seconds >= 0 for seconds in found.seconds.values())
        assert sum(found.seconds.values()) <= whole + 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_a_retrieval_is_well_formed(memory_index: Any, name: str) -> None:
    for retrieval in make(name, memory_index, {}, memory_services(memory_index)).retrieve(
        questions_of(memory_index), limit=13
    ):
        ids = [passage.passage_id for passage in retrieval.passages]
        assert len(set(ids)) == len(ids)
        assert [passage.rank for passage in retrieval.passages] == list(range(1, len(ids) + 1))
        assert {type(passage.score) for passage in retrieval.passages} <= {float}
        assert evidence_of(json.loads(json.dumps(as_row(retrieval.evidence)))) == retrieval.evidence
        assert {"seed", "traversal"} <= set(retrieval.seconds) <= {"seed", "traversal", "encoding"}
        assert min(retrieval.seconds.values()) >= 0


@pytest.mark.parametrize("name", NAMES)
def test_no_passages_give_no_results(make_index: Any, name: str) -> None:
    index = make_index([])
    question = Question("Paris", vector=index.encode(["Paris"])[0])
    assert make(name, index, {}, memory_services(index)).retrieve([question], limit=5)[0].passages == ()


UNNAMED = {
    "graph": (["a", "b", "c"], "uniform"),
    "tfidf-graph": (["a", "b", "c"], "uniform"),
    "graph-search": ([], "empty"),
    "qasa": ([], "question_vector"),
    "naive-vector": ([], None),
    "hub-facets": ([], "no_hubs"),
    "hublink": ([], "no_hubs"),
    "hublink-topic": ([], "no_hubs"),
}
"""What strategies that look at names only make of a corpus without one: passages, and the fallback that says so."""


@pytest.mark.parametrize("name", NAMES)
def test_passages_without_any_name_can_be_searched(make_index: Any, name: str) -> None:
    """No entity in the whole corpus: what looks at words finds them, the others say what they fell back to."""
    index = make_index([("a", "", "green water"), ("b", "", "red fire"), ("c", "", "")])
    question = Question("red fire", vector=index.encode(["red fire"])[0])
    retrieval = make(name, index, {}, memory_services(index)).retrieve([question], limit=3)[0]
    found = ranking(retrieval)
    if name not in UNNAMED:
        assert found[0][0] == "b"
        return
    ids, fallback = UNNAMED[name]
    assert [row[0] for row in found] == ids
    assert [row[2] for row in found] == pytest.approx([1 / 3] * len(ids))
    assert (retrieval.evidence.fallback.code if retrieval.evidence.fallback else None) == fallback


@pytest.mark.parametrize("name", NAMES)
def test_a_single_passage_is_found(make_index: Any, name: str) -> None:
    """N = 1: every idf and weight is at its limit."""
    index = make_index([("only", "Paris", "Paris is a city.")])
    question = Question("Paris", vector=index.encode(["Paris"])[0])
    assert [
        row[0] for row in ranking(make(name, index, {}, memory_services(index)).retrieve([question], limit=3)[0])
    ] == ["only"]


@pytest.mark.parametrize("name", NAMES)
def test_passages_of_equal_content_come_in_order_of_id(make_index: Any, name: str) -> None:
    index = make_index([(f"p{number}", "Paris", "Paris is a city.") for number in range(5)])
    question = Question("Which city is Paris?", vector=index.encode(["Which city is Paris?"])[0])
    found = ranking(make(name, index, {}, memory_services(index)).retrieve([question], limit=5)[0])
    assert [row[0] for row in found] == ["p0", "p1", "p2", "p3", "p4"]
