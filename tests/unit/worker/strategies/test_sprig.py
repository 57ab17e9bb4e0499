"""SPRIG: golden walks, seeds and fallbacks; nodes (norms, title aliases, pruning, terms); and RRF+PPR."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from memory_index import MemoryIndex, graph_from, lexical_from, names_of, retrieved, scores_of

from polyhop.schemas.evidence import BM25_TOP1, ENTITIES_ONLY, PASSAGES_ONLY, UNIFORM, Evidence, QuestionNames, Seed
from polyhop.schemas.graph import BipartiteGraph, Mention
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.text import norm_lower, norm_simple
from polyhop.warehouse.artefacts import ALIASES, GRAPH, NAMES, SURFACES, lexical_of, vectors_of
from polyhop.worker.ranking.pagerank import WalkSeeds
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.baselines import FusionParameters
from polyhop.worker.strategies.entities import match_meanings

Parameters = dict[str, Any]
NAMED = ("graph", "graph-hybrid", "graph-dense", "graph-rrf", "rrf-ppr")
TEXTS = (
    "Where was the designer of the Analytical Engine born?",
    "Which river flows through the capital of Poland, Warsaw?",
    "Did Paris or Marie Curie see Troy?",
    "what is on the river",
)


class Words:
    """Every word of a question is a name, keyed by its lower case."""

    def find(self, text: str) -> list[Mention]:
        return [Mention(m[0].lower(), m[0], *m.span()) for m in re.finditer(r"\S+", text)]


@pytest.fixture
def golden_index(golden_graph: BipartiteGraph, monkeypatch: pytest.MonkeyPatch) -> MemoryIndex:
    monkeypatch.setattr(sprig, "EPS", 1e-3)
    lexical = lexical_from([["x", "x"], ["y"], ["x", "y", "y"], ["z"], ["w"]])
    given: dict[Any, object] = {GRAPH: golden_graph, NAMES: Words(), lexical_of("plain"): lexical}
    given[vectors_of("passage")] = np.eye(5, dtype=np.float32)
    return MemoryIndex([(f"d{number}", "", "") for number in range(5)], given)


FIRST, SECOND = (0.8, 0, 0.6, 0, 0), (0, 0.6, 0.8, 0, 0)
"""Vectors of questions; nearest are d0, then d2; and d2, then d1."""


def ask(index: MemoryIndex, name: str, text: str, vector: Any = FIRST, **given: Any) -> Retrieval:
    return retrieved(index, name, Question(text, vector=np.array(vector, dtype=np.float32)), limit=5, **given)


GOLDEN = {
    "entities": "d0 .473781 d1 .137297 d2 .046668 d3 .005578 d4 0",
    "push": "d0 .31387 d1 .094965 d2 .037977 d3 .008715 d4 0",
    "mass": "d0 .347937 d1 .089167 d2 .064309 d3 .009134 d4 0",
    "adaptive": "d0 .339249 d1 .085844 d2 .065527 d3 .00938 d4 0",
    "passages": "d0 .204718 d2 .084386 d1 .03439 d3 .013182 d4 0",
    "uniform": "d2 .116639 d0 .105029 d1 .087241 d3 .07618 d4 .036168",
}
"""G-SPRIG-2, and G-SPRIG-3 with eps = .001."""


@pytest.mark.parametrize(
    ("golden", "name", "text", "parameters", "seeds", "fallback"),
    [
        ("entities", "graph-hybrid", "alice bob", {}, "alice bob", ENTITIES_ONLY),
        ("push", "graph", "bob alice bob", {"ppr": "push"}, "alice bob", None),
        ("mass", "graph-dense", "alice bob", {"seeds": 2}, "d0 alice bob d2", None),
        ("adaptive", "graph-dense", "alice bob", {"seeds": 2, "mix": "adaptive"}, "alice bob d0 d2", None),
        ("passages", "graph-dense", "nobody", {"seeds": 2}, "d0 d2", PASSAGES_ONLY),
        ("uniform", "graph", "nobody", {}, "", UNIFORM),
    ],
)
def test_golden_walks(
    golden_index: Any, golden: str, name: str, text: str, parameters: Parameters, seeds: str, fallback: Any
) -> None:
    """Where all passages are seeds, the evidence does not list them."""
    found = ask(golden_index, name, text, **parameters)
    passages, scores = GOLDEN[golden].split()[::2], map(float, GOLDEN[golden].split()[1::2])
    assert list(scores_of(found)) == passages
    assert scores_of(found) == pytest.approx(dict(zip(passages, scores, strict=True)), abs=1e-6)
    assert sorted(seed.key for seed in found.evidence.seeds) == sorted(seeds.split())
    assert found.evidence.fallback == fallback


def test_golden_walk_from_question_entities(golden_index: MemoryIndex) -> None:
    """G-SPRIG-2, Graph."""
    found = ask(golden_index, "graph", "bob and alice bob")
    assert scores_of(found) == scores_of(ask(golden_index, "graph-hybrid", "alice bob"))
    seeds = (Seed("entity", "alice", 0.585786), Seed("entity", "bob", 0.414214))
    assert found.evidence == Evidence(names=QuestionNames(("alice", "bob"), ("and",)), seeds=seeds)


@pytest.mark.parametrize(
    ("name", "text", "parameters", "weights", "fallback"),
    [
        ("graph", "y", {"entity_fallback": "bm25_top1"}, {"d1": 1}, BM25_TOP1),
        ("graph", "alice y", {"entity_fallback": "bm25_top1"}, {"alice": 1}, None),
        ("graph", "nobody", {"entity_fallback": "bm25_top1"}, {}, UNIFORM),
        ("graph", "alice bob", {"entity_penalty": 0}, {"alice": 0.5, "bob": 0.5}, None),
        ("graph-hybrid", "x", {}, {"d0": 0.666667, "d2": 0.333333}, PASSAGES_ONLY),
        ("graph-dense", "nobody", {"seed_weighting": "raw"}, {"d0": 0.571429, "d2": 0.428571}, PASSAGES_ONLY),
        ("graph-rrf", "x", {"seeds": 2, "vector": SECOND}, {"d2": 0.666667, "d0": 0.333333}, PASSAGES_ONLY),
    ],
    ids=["BM25's best", "no need of it", "no word", "equal entities", "by rank", "by score", "fused"],
)
def test_seeds_of_a_walk(golden_index: Any, name: str, text: str, parameters: Any, weights: Any, fallback: Any) -> None:
    """Fused: BM25 says d0, d2; cosine d2, d1, then ties by id."""
    evidence = ask(golden_index, name, text, **parameters).evidence
    assert {seed.key: seed.weight for seed in evidence.seeds} == pytest.approx(weights, abs=1e-6)
    assert evidence.fallback == fallback


SEEDS = WalkSeeds(np.array([0, 3]), np.array([0.5, 0.2]), np.array([2]), np.array([0.3]))


@pytest.mark.parametrize("hub_penalty", [0.0, 0.5])
@pytest.mark.parametrize("restart", [0.15, 0.6])
def test_many_power_steps_and_a_fine_push_agree(
    golden_graph: BipartiteGraph, hub_penalty: float, restart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edges that are not kept carry nothing in either; without a step, the mass stays where it started."""
    monkeypatch.setattr(sprig, "EPS", 1e-10)
    kind = partial(sprig.WalkParameters, hub_penalty=hub_penalty, restart=restart)
    power, push, none = kind(ppr="power", max_iter=400), kind(ppr="push", max_iter=400), kind(ppr="power", max_iter=0)
    found = sprig.make_walk(golden_graph, None, power)(SEEDS).held
    assert found == pytest.approx(sprig.make_walk(golden_graph, None, push)(SEEDS).held, abs=1e-7)
    assert 0 < found.sum() < 1
    paris = golden_graph.number_of["paris"]
    seeds = WalkSeeds(np.array([paris]), np.ones(1), np.array([], int), np.array([]))
    for parameters in (power, push):
        assert sprig.make_walk(golden_graph, None, parameters)(seeds).held.sum() > 0.1
        kept = sprig.make_walk(golden_graph, golden_graph.indices != paris, parameters)(seeds)
        assert kept.held.sum() == pytest.approx(0, abs=1e-9)
    assert sprig.make_walk(golden_graph, None, none)(SEEDS).held == pytest.approx(np.array([0, 0, 0.3, 0, 0]))


THEMSELVES = {name: name for name in ("ada lovelace", "blur band", "mercury element", "mercury planet")}
TITLES = ["Mercury (planet)", "Mercury (element)", "Ada Lovelace", "Paris (Texas)", "Blur (band)", "Blur"]


@pytest.mark.parametrize(
    ("titles", "norm", "aliases"),
    [
        ([*TITLES, *TITLES[::-1]], norm_simple, THEMSELVES | dict.fromkeys(("paris", "paris texas"), "paris texas")),
        (["Paris (Texas)"], norm_lower, {"paris (texas)": "paris (texas)", "paris": "paris (texas)"}),
        (["A (b) (c)"], norm_simple, {"a b c": "a b c", "a b": "a b c"}),
        (["(Everything)", "?!"], norm_simple, {"everything": "everything"}),
    ],
    ids=["golden, each twice", "another norm", "last parentheses only", "never the whole title"],
)
def test_aliases_of_titles(titles: list[str], norm: Callable[[str], str], aliases: dict[str, str]) -> None:
    """G-SPRIG-6."""
    assert sprig.title_aliases(titles, norm) == aliases


def named_index(graph: BipartiteGraph, surfaces: BipartiteGraph, aliases: dict[str, str] | None = None) -> MemoryIndex:
    passages = [(f"d{number}", "", "") for number in range(graph.passage_count)]
    return MemoryIndex(passages, {GRAPH: graph, SURFACES: surfaces, NAMES: Words(), ALIASES: aliases or {}})


def test_norms_make_different_names_one() -> None:
    surfaces = graph_from([{"Spider-Man": 1, "SPIDER-MAN": 2}, {"Spider Man": 1}, {"spider-man": 1}])
    index = named_index(graph_from([{}, {}, {}]), surfaces)
    parameters = {norm: sprig.NodeParameters(entity_norm=norm) for norm in ("none", "simple", "lower")}
    graphs = {norm: sprig.entity_nodes(index, given).graph for norm, given in parameters.items()}
    assert {norm: graph.keys for norm, graph in graphs.items()} == {
        "none": ("SPIDER-MAN", "Spider Man", "Spider-Man", "spider-man"),
        "simple": ("spider man",),
        "lower": ("spider man", "spider-man"),
    }
    assert (graphs["simple"].tf.tolist(), graphs["simple"].df.tolist()) == ([3, 1, 1], [3])
    written: list[Any] = [("Spider-Man", "none", ("Spider-Man",), ()), ("SPIDER-man", "none", (), ("SPIDER-man",))]
    for text, norm, matched, unmatched in (*written, ("SPIDER-man", "lower", ("spider-man",), ())):
        assert ask(index, "graph", text, entity_norm=norm).evidence.names == QuestionNames(matched, unmatched)


def test_other_norms_undo_what_resolution_merged() -> None:
    """The index knows one entity `ada`; as written it is two names, and no alias leads from one to the other."""
    graph, surfaces = graph_from([{"ada": 2}, {"ada": 1}]), graph_from([{"Ada": 2}, {"Lovelace": 1}])
    index = named_index(graph, surfaces, aliases={"lovelace": "ada"})
    merged, apart = (ask(index, "graph", "Lovelace", **given) for given in ({}, {"entity_norm": "lower"}))
    assert [score > 0 for score in scores_of(merged).values()] == [True, True]
    assert {name: score > 0 for name, score in scores_of(apart).items()} == {"d0": False, "d1": True}


def test_title_aliases_follow_what_resolution_merged() -> None:
    """A name merged into `mercury` leads on to the title; without aliases it stops there."""
    passages = [("a", "Mercury (planet)", "It is hot."), ("b", "", "NASA likes Mercury.")]
    index = MemoryIndex(passages, {ALIASES: {"hermes": "mercury"}})
    for has_aliases, node in ((False, "mercury"), (True, "mercury planet")):
        nodes = sprig.entity_nodes(index, sprig.NodeParameters(title_aliases=has_aliases))
        assert nodes.match("Where is Hermes?").matched == (node,)


def test_golden_pruned_entity_counts_as_unmatched(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-2, last line, as parameters; 2.13."""
    index = named_index(golden_graph, golden_graph)
    found = ask(index, "graph", "bob alice", hub_top_percent=25)
    assert found.evidence.names == QuestionNames(("alice",), ("bob",))
    assert [round(passage.score, 6) for passage in found.passages] == [0.663324, 0, 0, 0, 0]
    assert ask(index, "graph", "bob", hub_top_percent=25).evidence.fallback == UNIFORM


def test_short_names_are_no_nodes(golden_graph: BipartiteGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    index = named_index(golden_graph, golden_graph)
    assert sprig.entity_nodes(index, sprig.NodeParameters()).graph is golden_graph
    monkeypatch.setattr(sprig, "LEAST_CHARACTERS", 5)
    assert ask(index, "graph", "alice bob").evidence.names == QuestionNames(("alice",), ("bob",))


def rankings(name: str, index: Any, **parameters: Any) -> list[Any]:
    return [retrieved(index, name, text, **parameters).passages for text in TEXTS]


@pytest.mark.parametrize("name", NAMED)
def test_pruning_nothing_is_no_pruning(memory_index: Any, name: str) -> None:
    given = {"hub_top_percent": 0, "edge_cap": 1000}
    assert rankings(name, memory_index, **given) == rankings(name, memory_index)


def test_terms_are_nodes_under_their_tokens_and_label_titles(memory_index: Any) -> None:
    nodes = sprig.term_nodes(memory_index, sprig.TermParameters(min_df=2, max_df_ratio=0.25))
    found = nodes.match("Which RIVER is the capital's?")
    assert (found.matched, found.unmatched, nodes.noun) == (("capital", "river"), ("is", "s", "the", "which"), "terms")
    nodes = sprig.term_nodes(memory_index, sprig.TermParameters(min_df=1, max_df_ratio=1.0))
    assert nodes.label("The River Thames") == "the river thames"


UNFILTERED = {"min_df": 1, "max_df_ratio": 1.0}
GOLDEN_WORDS = [["alice", "bob", "alice"], ["bob", "paris"], ["paris", "france", "paris"], ["france"], []]
"""G-SPRIG-1 as words."""


def ask_terms(text: str, rows: Any = GOLDEN_WORDS, **parameters: Any) -> Retrieval:
    """Of an index of nothing but postings."""
    passages = [(f"p{number:02d}", "", "") for number in range(len(rows))]
    index = MemoryIndex(passages, {lexical_of("plain"): lexical_from(rows)}, artefacts={"lexical:plain"})
    return retrieved(index, "tfidf-graph", Question(text), limit=5, **parameters)


def test_golden_walk_from_terms() -> None:
    """G-SPRIG-2, Graph: the same formulas with terms instead of entities."""
    found = ask_terms("Alice and BOB alice", entity_penalty=0.5, **UNFILTERED)
    expected = [0.473781, 0.137297, 0.046668, 0.005578, 0]
    assert [passage.score for passage in found.passages] == pytest.approx(expected, abs=1e-6)
    assert found.evidence.names == QuestionNames(("alice", "bob"), ("and",), "terms")
    assert found.evidence.seed_weights("term") == {"alice": 0.585786, "bob": 0.414214}
    assert ask_terms("bob alice", **UNFILTERED).evidence.seed_weights("term") == {"alice": 0.5, "bob": 0.5}


def stretched(found: dict[str, float]) -> dict[str, float]:
    low, high = min(found.values()), max(found.values())
    return {name: (score - low) / (high - low) if high > low else 1.0 for name, score in found.items()}


@pytest.mark.parametrize("text", [*TEXTS[1::2], "Who wrote the first program for Charles Babbage?"])
@pytest.mark.parametrize(("depth", "share"), [(100, 0.5), (4, 0.5), (5, 0.2)])
def test_scores_of_rrf_ppr_are_the_weighted_sum_of_both_lists(
    memory_index: Any, text: str, depth: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sprig, "FusionParameters", partial(FusionParameters, depth=depth))
    fused = stretched(scores_of(retrieved(memory_index, "rrf", text, depth, depth=depth)))
    walked = stretched(scores_of(retrieved(memory_index, "graph", text, depth)))
    expected = {name: share * fused.get(name, 0) + (1 - share) * walked.get(name, 0) for name in {**fused, **walked}}
    found = scores_of(retrieved(memory_index, "rrf-ppr", text, 30, rrf_share=share))
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=lambda name: (-round(found[name], 12), name))


def test_rrf_ppr_takes_parameters_of_the_graph_and_shows_the_evidence_of_its_walk(memory_index: Any) -> None:
    found = retrieved(memory_index, "rrf-ppr", "Who knew Charles Babbage?", 3).evidence
    assert (names_of(found).matched, found.fallback) == (("charles babbage",), None)
    found = retrieved(memory_index, "rrf-ppr", TEXTS[3], entity_fallback="bm25_top1").evidence
    assert found.fallback == BM25_TOP1


NUMBERS = {"mercury": 0, "mercury mythology": 1, "mercury planet": 2, "venus": 3, "vulcan": 4}


@pytest.mark.parametrize(
    ("names", "matched", "shares", "unmatched"),
    [
        ([tuple(NUMBERS)[:3], ("venus",)], tuple(NUMBERS)[:4], [1 / 8, 1 / 8, 6 / 8, 1], ()),
        ([("mercury", "mercury planet"), ("mercury planet",)], ("mercury", "mercury planet"), [1 / 7, 1], ()),
        ([("vulcan", "venus"), ("",), ("pluto",)], ("venus",), [1], ("pluto", "vulcan")),
    ],
    ids=["by their passages", "said in full, too", "without passages or node"],
)
def test_those_that_bear_one_name_share_its_weight(names: Any, matched: Any, shares: Any, unmatched: Any) -> None:
    found = match_meanings(names, NUMBERS, np.array([1, 1, 6, 3, 0]))
    assert (found.matched, found.unmatched) == (matched, unmatched)
    assert found.numbers.tolist() == [NUMBERS[name] for name in matched]
    assert found.shares.tolist() == pytest.approx(shares)
