"""SPRIG: walks of both ways (golden order, seeds, fallbacks, parameters) and the aliases of titles."""

import re
from typing import Any

import numpy as np
import pytest

from polyhop.schemas.evidence import BM25_TOP1, ENTITIES_ONLY, PASSAGES_ONLY, UNIFORM, Evidence, QuestionNames, Seed
from polyhop.schemas.graph import BipartiteGraph, Mention
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.text import norm_lower, norm_simple
from polyhop.warehouse.artefacts import GRAPH, NAMES, lexical_of, vectors_of
from polyhop.worker.ranking.pagerank import WalkSeeds
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.registry import make
from polyhop.worker.strategies.sprig import WalkParameters, make_walk, title_aliases


class Words:
    """Every word of a question is a name."""

    def find(self, text: str) -> list[Mention]:
        return [Mention(m[0], m[0], *m.span()) for m in re.finditer(r"\S+", text)]


@pytest.fixture
def golden_index(make_index: Any, golden_graph: BipartiteGraph, make_lexical: Any) -> Any:
    lexical = make_lexical([["x", "x"], ["y"], ["x", "y", "y"], ["z"], ["w"]])
    given = {GRAPH: golden_graph, NAMES: Words(), lexical_of("plain"): lexical}
    given[vectors_of("passage")] = np.eye(5, dtype=np.float32)
    return make_index([(f"d{number}", "", "") for number in range(5)], given)


def ask(index: Any, name: str, text: str, vector: Any = None, **parameters: object) -> Retrieval:
    return make(name, index, parameters).retrieve([Question(text, vector=vector)], limit=5)[0]


def scores(retrieval: Retrieval) -> dict[str, float]:
    return {passage.passage_id: passage.score for passage in retrieval.passages}


def test_golden_walk_from_question_entities(golden_index: Any) -> None:
    """G-SPRIG-2, Graph."""
    found = ask(golden_index, "graph", "bob and alice")
    expected = {"d0": 0.473781, "d1": 0.137297, "d2": 0.046668, "d3": 0.005578, "d4": 0}
    assert scores(found) == pytest.approx(expected, abs=1e-6)
    assert list(scores(found)) == ["d0", "d1", "d2", "d3", "d4"]
    assert found.evidence == Evidence(
        names=QuestionNames(("alice", "bob"), ("and",)),
        seeds=(Seed("entity", "alice", 0.585786), Seed("entity", "bob", 0.414214)),
    )


def test_golden_push_from_question_entities(golden_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """G-SPRIG-3, eps = .001."""
    monkeypatch.setattr(sprig, "EPS", 1e-3)
    found = ask(golden_index, "graph", "alice bob", ppr="push")
    expected = {"d0": 0.31387, "d1": 0.094965, "d2": 0.037977, "d3": 0.008715, "d4": 0}
    assert scores(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        ("mass", {"d0": 0.347937, "d1": 0.089167, "d2": 0.064309, "d3": 0.009134, "d4": 0}),
        ("adaptive", {"d0": 0.339249, "d1": 0.085844, "d2": 0.065527, "d3": 0.00938, "d4": 0}),
    ],
)
def test_golden_walk_from_entities_and_passages(golden_index: Any, mix: str, expected: dict[str, float]) -> None:
    """G-SPRIG-2, hybrid rows: the two nearest passages are d0, then d2."""
    vector = np.array([0.8, 0, 0.6, 0, 0], dtype=np.float32)
    found = ask(golden_index, "graph-dense", "alice bob", vector, seeds=2, mix=mix)
    assert scores(found) == pytest.approx(expected, abs=1e-6)
    assert list(found.evidence.seed_weights("passage")) == ["d0", "d2"]
    assert len(found.evidence.seeds) == 4


def test_golden_walk_from_passages_only(golden_index: Any) -> None:
    """G-SPRIG-2, documents only."""
    vector = np.array([0.8, 0, 0.6, 0, 0], dtype=np.float32)
    found = ask(golden_index, "graph-dense", "nobody", vector, seeds=2)
    expected = {"d0": 0.204718, "d2": 0.084386, "d1": 0.03439, "d3": 0.013182, "d4": 0}
    assert scores(found) == pytest.approx(expected, abs=1e-6)
    assert found.evidence.fallback == PASSAGES_ONLY


def test_without_a_known_entity_all_passages_are_seeds(golden_index: Any) -> None:
    """G-SPRIG-2, uniform; the evidence does not list every passage."""
    found = ask(golden_index, "graph", "nobody")
    expected = {"d2": 0.116639, "d0": 0.105029, "d1": 0.087241, "d3": 0.07618, "d4": 0.036168}
    assert scores(found) == pytest.approx(expected, abs=1e-6)
    assert list(scores(found)) == list(expected)
    assert found.evidence.fallback == UNIFORM
    assert found.evidence.seeds == ()


def test_without_a_known_entity_bm25_s_best_passage_can_be_the_seed(golden_index: Any) -> None:
    found = ask(golden_index, "graph", "y", entity_fallback="bm25_top1")
    assert found.evidence.fallback == BM25_TOP1
    assert found.evidence.seed_weights("passage") == {"d1": 1.0}


def test_a_known_entity_needs_no_fallback(golden_index: Any) -> None:
    found = ask(golden_index, "graph", "alice y", entity_fallback="bm25_top1")
    assert found.evidence.fallback is None
    assert found.evidence.seeds == (Seed("entity", "alice", 1.0),)


@pytest.mark.parametrize("parameters", [{}, {"entity_fallback": "bm25_top1"}])
def test_without_entity_and_without_word_all_passages_are_seeds(golden_index: Any, parameters: Any) -> None:
    assert ask(golden_index, "graph", "nobody", **parameters).evidence.fallback == UNIFORM


def test_a_hybrid_without_a_shared_word_walks_from_entities(golden_index: Any) -> None:
    found = ask(golden_index, "graph-hybrid", "alice bob")
    assert found.evidence.fallback == ENTITIES_ONLY
    assert scores(found) == scores(ask(golden_index, "graph", "alice bob"))


def test_a_hybrid_seeds_with_bm25_s_first_by_rank(golden_index: Any) -> None:
    found = ask(golden_index, "graph-hybrid", "x")
    assert found.evidence.seed_weights("passage") == {"d0": 0.666667, "d2": 0.333333}


def test_raw_weights_are_the_ranker_s_scores(golden_index: Any) -> None:
    vector = np.array([0.8, 0, 0.6, 0, 0], dtype=np.float32)
    found = ask(golden_index, "graph-dense", "nobody", vector, seeds=5, seed_weighting="raw")
    assert found.evidence.seed_weights("passage") == pytest.approx({"d0": 0.571429, "d2": 0.428571}, abs=1e-6)


def test_the_fusion_of_both_rankings_seeds_graph_rrf(golden_index: Any) -> None:
    """BM25: d0, d2; cosine: d2, d1, then ties by id."""
    vector = np.array([0, 0.6, 0.8, 0, 0], dtype=np.float32)
    found = ask(golden_index, "graph-rrf", "x", vector, seeds=2)
    assert found.evidence.seed_weights("passage") == {"d2": 0.666667, "d0": 0.333333}


def test_a_penalty_of_zero_makes_question_entities_equal(golden_index: Any) -> None:
    found = ask(golden_index, "graph", "alice bob", entity_penalty=0)
    assert found.evidence.seed_weights("entity") == {"alice": 0.5, "bob": 0.5}


def test_a_name_found_twice_counts_once(golden_index: Any) -> None:
    once, twice = ask(golden_index, "graph", "alice bob"), ask(golden_index, "graph", "bob alice bob alice")
    assert scores(once) == scores(twice)


def test_a_fine_push_and_a_long_walk_agree(memory_index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprig, "EPS", 1e-12)
    text = "Which river flows through the capital of Poland, Warsaw?"
    power = scores(ask(memory_index, "graph-hybrid", text, max_iter=300))
    push = scores(ask(memory_index, "graph-hybrid", text, ppr="push"))
    assert push == pytest.approx(power, abs=1e-9)


SEEDS = WalkSeeds(np.array([0, 3]), np.array([0.5, 0.2]), np.array([2]), np.array([0.3]))


@pytest.mark.parametrize("hub_penalty", [0.0, 0.5])
@pytest.mark.parametrize("restart", [0.15, 0.6])
def test_many_power_steps_and_a_fine_push_agree(
    golden_graph: BipartiteGraph, hub_penalty: float, restart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sprig, "EPS", 1e-10)
    given = {"hub_penalty": hub_penalty, "restart": restart}
    power = make_walk(golden_graph, None, WalkParameters(ppr="power", max_iter=400, **given))(SEEDS)
    push = make_walk(golden_graph, None, WalkParameters(ppr="push", **given))(SEEDS)
    assert power == pytest.approx(push, abs=1e-7)
    assert power.shape == (5,)
    assert 0 < power.sum() < 1


def test_edges_that_are_not_kept_carry_nothing(golden_graph: BipartiteGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sprig, "EPS", 1e-9)
    kept = golden_graph.indices != golden_graph.number_of["paris"]
    for way in ("power", "push"):
        parameters: Any = WalkParameters(ppr=way, max_iter=50)
        seeds = WalkSeeds(np.array([golden_graph.number_of["paris"]]), np.ones(1), np.array([], int), np.array([]))
        assert make_walk(golden_graph, kept, parameters)(seeds).sum() == pytest.approx(0.0, abs=1e-9)
        assert make_walk(golden_graph, None, parameters)(seeds).sum() > 0.1


def test_no_step_leaves_the_mass_where_it_started(golden_graph: BipartiteGraph) -> None:
    found = make_walk(golden_graph, None, WalkParameters(max_iter=0))(SEEDS)
    assert found == pytest.approx(np.array([0, 0, 0.3, 0, 0]))


TITLES = ["Mercury (planet)", "Mercury (element)", "Ada Lovelace", "Paris (Texas)", "Blur (band)", "Blur"]


def test_golden_aliases() -> None:
    """G-SPRIG-6."""
    assert title_aliases(TITLES, norm_simple) == {
        "ada lovelace": "ada lovelace",
        "blur band": "blur band",
        "mercury element": "mercury element",
        "mercury planet": "mercury planet",
        "paris texas": "paris texas",
        "paris": "paris texas",
    }


def test_another_norm_keeps_its_own_labels() -> None:
    assert title_aliases(["Paris (Texas)"], norm_lower) == {"paris (texas)": "paris (texas)", "paris": "paris (texas)"}


def test_equal_titles_count_once_in_any_order() -> None:
    assert title_aliases([*TITLES, *TITLES], norm_simple) == title_aliases(reversed(TITLES), norm_simple)


def test_only_the_last_parentheses_go_and_never_the_whole_title() -> None:
    assert title_aliases(["A (b) (c)"], norm_simple) == {"a b c": "a b c", "a b": "a b c"}
    assert title_aliases(["(Everything)", "?!"], norm_simple) == {"everything": "everything"}
