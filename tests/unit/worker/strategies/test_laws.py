"""What holds for every strategy."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_index import MemoryIndex, Passage, ids_of, memory_services, retrieved, scores_of

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import as_row, evidence_of
from polyhop.schemas.ports import Strategy
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
    "\ud800 \x00 東京 (Paris) AND 'river' OR *",
)
NAMES = sorted(STRATEGIES)
REORDERED = {"bridge", "bridge-lexical", "bridge-masked", "hublink-topic"}
"""Their order is not that of scores: `bridge` covers questions (algorithms.md 2B.3), `hublink-topic` goes by hubs."""
OWN_TIES = {"bm25-ce", "rrf-ce", "naive-vector", "qasa", "fusion"}
"""Equal scores are in the order of the list that was put in order (algorithms.md 2.9), or by a sum of scores (6.2)."""


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Of every strategy."""
    return str(request.param)


@pytest.fixture(scope="module")
def strategy(memory_index: MemoryIndex, name: str) -> Strategy:
    return make(name, memory_index, {}, memory_services(memory_index))


def questions_of(index: MemoryIndex) -> list[Question]:
    return [Question(text, vector=vector) for text, vector in zip(TEXTS, index.encode(TEXTS), strict=True)]


def ranking(retrieval: Retrieval) -> list[tuple[str, int, float]]:
    return [(passage.passage_id, passage.rank, passage.score) for passage in retrieval.passages]


@settings(max_examples=5)  # of each strategy; a batch has at most five of seven questions
@given(batches=st.lists(st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_batch_changes_no_result(memory_index: MemoryIndex, strategy: Strategy, batches: list[list[int]]) -> None:
    questions = questions_of(memory_index)
    alone = [strategy.retrieve([question], limit=8)[0] for question in questions]
    for batch in batches:
        together = strategy.retrieve([questions[number] for number in batch], limit=8)
        expected = [(ranking(alone[number]), alone[number].evidence) for number in batch]
        assert [(ranking(r), r.evidence) for r in together] == expected


@pytest.mark.parametrize("limit", [0, 1, 3, 7])
def test_fewer_passages_are_the_first_of_more(memory_index: MemoryIndex, strategy: Strategy, limit: int) -> None:
    few, many = (strategy.retrieve(questions_of(memory_index), limit=count) for count in (limit, 13))
    assert [ranking(r) for r in few] == [ranking(r)[:limit] for r in many]


@pytest.mark.parametrize("text", ["", "  \n", "?!", "…", "__"])
def test_a_question_without_a_word_finds_nothing(strategy: Strategy, text: str) -> None:
    """It needs no vector either."""
    assert strategy.retrieve([Question(text)], limit=5) == [Retrieval(())]


def test_a_question_s_vector_is_needed_or_ignored(memory_index: MemoryIndex, strategy: Strategy, name: str) -> None:
    without = [Question(text) for text in TEXTS]
    if STRATEGIES[name].needs_question_vector:
        with pytest.raises(AlgorithmError, match="This strategy needs the question's vector"):
            strategy.retrieve(without, limit=5)
    else:
        found = strategy.retrieve(questions_of(memory_index), limit=9)
        assert list(map(ranking, strategy.retrieve(without, limit=9))) == list(map(ranking, found))


def test_a_retrieval_is_well_formed_as_are_its_seconds(memory_index: MemoryIndex, strategy: Strategy) -> None:
    for question in questions_of(memory_index):
        begun = time.perf_counter()
        (found,) = strategy.retrieve([question], limit=13)
        whole = time.perf_counter() - begun
        ids = ids_of(found)
        assert len(set(ids)) == len(ids)
        assert [passage.rank for passage in found.passages] == list(range(1, len(ids) + 1))
        assert {type(passage.score) for passage in found.passages} <= {float}
        assert evidence_of(json.loads(json.dumps(as_row(found.evidence)))) == found.evidence
        assert {"seed", "traversal"} <= set(found.seconds) <= {"seed", "traversal", "encoding"}
        assert min(found.seconds.values()) >= 0
        assert sum(found.seconds.values()) <= whole + 1e-6
    assert strategy.retrieve([], limit=13) == []


@pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - REORDERED))
def test_scores_descend_and_equal_ones_are_in_the_order_of_the_ids(memory_index: MemoryIndex, name: str) -> None:
    services = memory_services(memory_index)
    for found in make(name, memory_index, {}, services).retrieve(questions_of(memory_index), limit=20):
        rows = [(passage.passage_id, passage.score) for passage in found.passages]
        assert rows == sorted(rows, key=lambda row: (-row[1], "" if name in OWN_TIES else row[0]))


@pytest.mark.parametrize(
    ("passages", "text", "expected"),
    [
        ([], "Paris", []),
        ([("only", "Paris", "Paris is a city.")], "Paris", ["only"]),
        (
            [(f"p{n}", "Paris", "Paris is a city.") for n in range(5)],
            "Which city is Paris?",
            [f"p{n}" for n in range(5)],
        ),
    ],
    ids=["none", "one, where every weight is at its limit", "equal ones, in order of id"],
)
def test_a_corpus_of_passages(name: str, passages: list[Passage], text: str, expected: list[str]) -> None:
    assert ids_of(retrieved(MemoryIndex(passages), name, text, limit=5)) == expected


UNNAMED = {
    "graph": (["a", "b", "c"], "uniform"),
    "tfidf-graph": (["a", "b", "c"], "uniform"),
    "graph-search": ([], "empty"),
    "qasa": ([], "question_vector"),
    "naive-vector": ([], None),
    **dict.fromkeys(("hub-facets", "hublink", "hublink-topic"), ([], "no_hubs")),
}
"""What strategies that look at names only make of a corpus without one: passages, and the fallback that says so."""


def test_passages_without_any_name_can_be_searched(name: str) -> None:
    """No entity in the whole corpus: what looks at words finds them, the others say what they fell back to."""
    index = MemoryIndex([("a", "", "green water"), ("b", "", "red fire"), ("c", "", "")])
    found = retrieved(index, name, "red fire", limit=3)
    if name not in UNNAMED:
        assert ids_of(found)[0] == "b"
        return
    ids, fallback = UNNAMED[name]
    assert ids_of(found) == ids
    assert list(scores_of(found).values()) == pytest.approx([1 / 3] * len(ids))
    assert (found.evidence.fallback.code if found.evidence.fallback else None) == fallback
