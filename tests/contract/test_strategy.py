"""What every Strategy does, beside tests/unit/worker/strategies/test_laws.py, which has most of it.

There: batches equal single questions, fewer passages are the top of more (0, 1, 3, 7), the order of the corpus does
not matter, questions without a word or vector, ranks, evidence as JSON, seconds, corpora of no or one passage.
Here: the order of scores, no questions at all, more passages than there are.
"""

import pytest
from fakes import classes_with, loaded
from memory_index import PASSAGES, MemoryIndex, memory_services
from word_triples import WordTriples

from polyhop.schemas.names import NameFinder
from polyhop.schemas.ports import Strategy
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.worker.strategies.registry import STRATEGIES, make

TEXTS = (
    "Where was the designer of the Analytical Engine born?",
    "Which river flows through the capital of Poland?",
    "Paris",
    "zzz qqq",
    "\ud800 \x00 東京 (Paris) AND 'river' OR *",
)
FAKES = (
    "support/word_triples.py WordTriples",
    "unit/worker/test_loop.py Loud",
    "unit/worker/test_session.py Paths",
)
REORDERED = {"bridge", "bridge-lexical", "bridge-masked", "hublink-topic"}
"""Their order is not that of scores: `bridge` covers questions (algorithms.md 2B.3), `hublink-topic` goes by hubs."""
OWN_TIES = {"bm25-ce", "rrf-ce", "naive-vector", "qasa", "fusion"}
"""Equal scores are in the order of the list that was put in order (algorithms.md 2.9), or by a sum of scores (6.2)."""
INDEX = MemoryIndex(PASSAGES)


def opened(name: str) -> Strategy:
    if name in STRATEGIES:
        return make(name, INDEX, {}, memory_services(INDEX))
    if name == FAKES[0]:
        return WordTriples([], INDEX.passage_ids)
    path, _, member = name.partition(" ")
    made: Strategy = getattr(loaded(path), member)(*([INDEX] if member == "Paths" else []))
    return made


@pytest.fixture(scope="module", params=[*sorted(STRATEGIES), *FAKES])
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return opened(request.param)


def asked(text: str) -> Question:
    """With all that any strategy needs."""
    (vector,) = INDEX.encode([text])
    names = tuple(QuestionName(one.key, f"{one.surface} of old") for one in NameFinder([]).find(text))
    return Question(text, "q", vector, names=names)


def rows(retrieval: Retrieval) -> list[tuple[str, float]]:
    return [(passage.passage_id, passage.score) for passage in retrieval.passages]


def test_every_strategy_of_the_tests_is_here() -> None:
    assert classes_with("retrieve", "questions") == set(FAKES)


def test_no_question_has_no_retrieval(strategy: Strategy) -> None:
    assert strategy.retrieve([], limit=5) == []


def test_every_question_has_a_retrieval_of_known_passages_at_most_as_many_as_asked(strategy: Strategy) -> None:
    questions = [asked(text) for text in TEXTS]
    for limit in (1, 5, 10_000):
        found = strategy.retrieve(questions, limit=limit)
        assert len(found) == len(questions)
        for retrieval in found:
            ids = [passage_id for passage_id, _ in rows(retrieval)]
            assert len(ids) == len(set(ids)) <= limit
            assert [passage.rank for passage in retrieval.passages] == list(range(1, len(ids) + 1))
            assert set(ids) <= {*INDEX.passage_ids, "p"}  # the passage of Loud


@pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - REORDERED))
def test_scores_descend_and_equal_ones_are_in_the_order_of_the_ids(name: str) -> None:
    for found in opened(name).retrieve([asked(text) for text in TEXTS], limit=20):
        if name in OWN_TIES:
            assert rows(found) == sorted(rows(found), key=lambda row: -row[1])
        else:
            assert rows(found) == sorted(rows(found), key=lambda row: (-row[1], row[0]))


def test_the_same_question_has_the_same_result_after_others(strategy: Strategy) -> None:
    first = [rows(one) for one in strategy.retrieve([asked(text) for text in TEXTS], limit=9)]
    again = [rows(strategy.retrieve([asked(text)], limit=9)[0]) for text in TEXTS[::-1]]
    assert again == first[::-1]
