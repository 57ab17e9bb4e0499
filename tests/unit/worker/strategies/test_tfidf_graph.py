"""The term graph's walk: the golden graph with its entities as words, filters and fallback."""

from collections.abc import Callable
from typing import Any

import pytest

from polyhop.schemas.evidence import UNIFORM, QuestionNames
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import lexical_of
from polyhop.worker.strategies.registry import make

UNFILTERED = {"min_df": 1, "max_df_ratio": 1.0}
ROWS = [["alice", "bob", "alice"], ["bob", "paris"], ["paris", "france", "paris"], ["france"], []]


@pytest.fixture
def index_of(make_index: Any, make_lexical: Any) -> Callable[[list[list[str]]], Any]:
    """An index of nothing but postings."""

    def index(rows: list[list[str]]) -> Any:
        passages = [(f"p{number:02d}", "", "") for number in range(len(rows))]
        return make_index(passages, {lexical_of("plain"): make_lexical(rows)}, artefacts={"lexical:plain"})

    return index


@pytest.fixture
def golden_words(index_of: Any) -> Any:
    """G-SPRIG-1 as words."""
    return index_of(ROWS)


def ask(index: Any, text: str, **parameters: object) -> Retrieval:
    return make("tfidf-graph", index, parameters).retrieve([Question(text)], limit=5)[0]


def test_golden_walk_from_terms(golden_words: Any) -> None:
    """G-SPRIG-2, Graph: the same formulas with terms instead of entities."""
    found = ask(golden_words, "Alice and BOB", entity_penalty=0.5, **UNFILTERED)
    assert [passage.score for passage in found.passages] == pytest.approx(
        [0.473781, 0.137297, 0.046668, 0.005578, 0], abs=1e-6
    )
    assert found.evidence.names == QuestionNames(("alice", "bob"), ("and",), "terms")
    assert found.evidence.seed_weights("term") == {"alice": 0.585786, "bob": 0.414214}


def test_seeds_are_uniform_and_a_repeated_term_counts_once(golden_words: Any) -> None:
    found = ask(golden_words, "bob alice bob", **UNFILTERED)
    assert found.evidence.seed_weights("term") == {"alice": 0.5, "bob": 0.5}


def test_the_usual_filters_leave_nothing_of_a_toy_corpus_and_all_passages_are_seeds(golden_words: Any) -> None:
    found = ask(golden_words, "alice bob")
    assert found.evidence.fallback == UNIFORM
    assert [passage.score for passage in found.passages] == pytest.approx([0.2] * 5)


def test_frequent_and_rare_terms_are_no_nodes(index_of: Any) -> None:
    rows = [["common", "good"]] * 3 + [["common", "rare"]] + [["common"]] * 26
    found = ask(index_of(rows), "common good rare")
    assert found.evidence.names == QuestionNames(("good",), ("common", "rare"), "terms")
    assert [passage.passage_id for passage in found.passages[:3]] == ["p00", "p01", "p02"]
