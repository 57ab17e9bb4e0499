"""The term graph, RRF+PPR against its two parents, and names of a question as nodes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from memory_index import names_of

from polyhop.schemas.evidence import UNIFORM, QuestionNames
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import lexical_of
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.baselines import FusionParameters
from polyhop.worker.strategies.entities import match_meanings
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


TEXTS = (
    "Which river flows through the capital of Poland, Warsaw?",
    "Who wrote the first program for Charles Babbage?",
    "what is on the river",
)


def scores(index: Any, name: str, text: str, limit: int, **parameters: object) -> dict[str, float]:
    question = Question(text, vector=index.encode([text])[0])
    found = make(name, index, parameters).retrieve([question], limit=limit)[0]
    return {passage.passage_id: passage.score for passage in found.passages}


def stretched(found: dict[str, float]) -> dict[str, float]:
    low, high = min(found.values()), max(found.values())
    return {name: (score - low) / (high - low) if high > low else 1.0 for name, score in found.items()}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("depth", "share"), [(100, 0.5), (4, 0.5), (5, 0.2)])
def test_scores_are_the_weighted_sum_of_both_lists(
    memory_index: Any, text: str, depth: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sprig, "FusionParameters", partial(FusionParameters, depth=depth))
    fused = stretched(scores(memory_index, "rrf", text, depth, depth=depth))
    walked = stretched(scores(memory_index, "graph", text, depth))
    expected = {name: share * fused.get(name, 0) + (1 - share) * walked.get(name, 0) for name in {**fused, **walked}}
    found = scores(memory_index, "rrf-ppr", text, 30, rrf_share=share)
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=lambda name: (-round(found[name], 12), name))


def test_parameters_of_the_graph_are_its_own_too(memory_index: Any) -> None:
    """Without entities, BM25's best takes their place in the walk."""
    plain = scores(memory_index, "rrf-ppr", TEXTS[2], 13)
    assert scores(memory_index, "rrf-ppr", TEXTS[2], 13, entity_fallback="bm25_top1") != plain


def test_the_evidence_is_the_walk_s(memory_index: Any) -> None:
    question = Question(TEXTS[1], vector=memory_index.encode([TEXTS[1]])[0])
    found = make("rrf-ppr", memory_index, {}).retrieve([question], limit=3)[0]
    assert names_of(found.evidence).matched == ("charles babbage",)
    assert found.evidence.fallback is None


NUMBERS = {"mercury": 0, "mercury mythology": 1, "mercury planet": 2, "venus": 3, "vulcan": 4}
PASSAGES = np.array([1, 1, 6, 3, 0])


def test_those_that_bear_one_name_share_its_weight_by_the_passages_that_mention_them() -> None:
    found = match_meanings([("mercury", "mercury mythology", "mercury planet"), ("venus",)], NUMBERS, PASSAGES)
    assert found.matched == ("mercury", "mercury mythology", "mercury planet", "venus")
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert found.shares.tolist() == pytest.approx([1 / 8, 1 / 8, 6 / 8, 1])


def test_a_name_said_both_shortly_and_in_full_weighs_as_in_full() -> None:
    found = match_meanings([("mercury", "mercury planet"), ("mercury planet",)], NUMBERS, PASSAGES)
    assert found.shares.tolist() == pytest.approx([1 / 7, 1])


def test_names_without_passages_or_nodes_are_unmatched_and_weigh_nothing() -> None:
    found = match_meanings([("vulcan", "venus"), ("",), ("pluto",)], NUMBERS, PASSAGES)
    assert (found.matched, found.unmatched) == (("venus",), ("pluto", "vulcan"))
    assert found.shares.tolist() == [1]
