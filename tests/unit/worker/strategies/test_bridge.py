"""bridge and bridge-lexical on the small corpus: seeds, hops, cover, silence."""

from typing import Any

import pytest

from polyhop.schemas.evidence import PASSAGES_ONLY, QuestionNames
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import GRAPH
from polyhop.worker.strategies import bridge
from polyhop.worker.strategies.bridge import ENTITY_PENALTY
from polyhop.worker.strategies.registry import make

HOPS = "Which river flows through the capital of Poland, Warsaw?"


def ask(index: Any, name: str, text: str, limit: int = 13, **parameters: object) -> Retrieval:
    question = Question(text, vector=index.encode([text])[0])
    return make(name, index, parameters).retrieve([question], limit=limit)[0]


def ids(retrieval: Retrieval) -> list[str]:
    return [passage.passage_id for passage in retrieval.passages]


def test_the_evidence_names_entities_and_seeds(memory_index: Any) -> None:
    evidence = ask(memory_index, "bridge", "Who knew Ada Lovelace and John Doe?").evidence
    assert evidence.names == QuestionNames(("ada lovelace",), ("john doe",))
    assert list(evidence.seed_weights("entity")) == ["ada lovelace"]
    assert [seed.kind for seed in evidence.seeds].count("passage") == 5
    assert evidence.fallback is None
    parts = [seed.weight for seed in evidence.seeds]
    assert sum(parts) == pytest.approx(1, abs=1e-5)


def test_without_a_known_entity_passages_start_the_walk(memory_index: Any) -> None:
    evidence = ask(memory_index, "bridge", "longest river").evidence
    assert evidence.fallback == PASSAGES_ONLY
    assert evidence.seed_weights("entity") == {}


def test_the_walk_reaches_a_passage_that_shares_no_word_with_the_question(memory_index: Any) -> None:
    """Troy is linked to the mythical Paris by Helen only."""
    text = "Paris (mythology)"
    assert "p10" not in ids(ask(memory_index, "bridge-lexical", text, graph_weight=0))
    assert "p10" in ids(ask(memory_index, "bridge-lexical", text))


def test_the_first_places_cover_the_question(memory_index: Any) -> None:
    """Both hops come before a third passage about one of them."""
    assert set(ids(ask(memory_index, "bridge", HOPS))[:3]) >= {"p06", "p07"}


def test_scores_are_fused_scores_whatever_the_cover_did(memory_index: Any) -> None:
    covered = {p.passage_id: p.score for p in ask(memory_index, "bridge", HOPS).passages}
    plain = {p.passage_id: p.score for p in ask(memory_index, "bridge", HOPS, coverage_weight=0).passages}
    assert covered == plain


def test_without_weight_for_cover_the_order_is_by_score(memory_index: Any) -> None:
    found = [p.score for p in ask(memory_index, "bridge", HOPS, coverage_weight=0).passages]
    assert found == sorted(found, reverse=True)


def test_a_repeated_word_counts_once(memory_index: Any) -> None:
    once = ask(memory_index, "bridge-lexical", "river Poland")
    twice = ask(memory_index, "bridge-lexical", "river rivers Poland river")
    assert once.passages == twice.passages


def test_without_any_shared_word_or_name_bridge_lexical_finds_nothing(memory_index: Any) -> None:
    assert ids(ask(memory_index, "bridge-lexical", "zzz qqq")) == []
    assert len(ids(ask(memory_index, "bridge", "zzz qqq"))) == 13


def test_bridge_lexical_starts_from_no_passage_that_shares_no_word(memory_index: Any) -> None:
    evidence = ask(memory_index, "bridge-lexical", "Helen").evidence
    assert set(evidence.seed_weights("passage")) == {"p09", "p10"}


def test_a_small_pool_bounds_what_the_cover_may_move(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ids(ask(memory_index, "bridge", HOPS, coverage_weight=0))
    monkeypatch.setattr(bridge, "POOL", 4)
    covered = ids(ask(memory_index, "bridge", HOPS))
    assert set(covered[:4]) == set(plain[:4])
    assert covered[4:] == plain[4:]


def test_an_entity_of_one_passage_weighs_more_than_one_of_two(make_index: Any) -> None:
    """Weights are df ** -.5, so 1 against .707, whatever the passages' share is."""
    index = make_index([("a", "Rome", "Rome met Oslo."), ("b", "Oslo", "It is cold."), ("c", "Bern", "Bern is small.")])
    graph = index.artefact(GRAPH)
    df = dict(zip(graph.keys, graph.df.tolist(), strict=True))
    assert (df["bern"], df["oslo"]) == (1, 2)
    weights = ask(index, "bridge-lexical", "Did Bern meet Oslo?").evidence.seed_weights("entity")
    assert weights["oslo"] / weights["bern"] == pytest.approx(2**-ENTITY_PENALTY, abs=1e-5)
