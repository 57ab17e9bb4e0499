"""Which nodes SPRIG walks on: norms, title aliases, filters, pruning; and what holds for all of them."""

import random
import re
from typing import Any

import pytest
from memory_index import MemoryIndex, names_of

from polyhop.schemas.evidence import UNIFORM, QuestionNames
from polyhop.schemas.graph import BipartiteGraph, Mention
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import ALIASES, GRAPH, NAMES, SURFACES
from polyhop.worker.strategies import sprig
from polyhop.worker.strategies.registry import make
from polyhop.worker.strategies.sprig import NodeParameters, TermParameters, entity_nodes, term_nodes

ALL = {"title_aliases": True, "hub_top_percent": 10.0}
SPRIG = ("graph", "graph-hybrid", "graph-dense", "graph-rrf", "rrf-ppr")
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


def index_of(graph: BipartiteGraph, surfaces: BipartiteGraph, aliases: dict[str, str] | None = None) -> MemoryIndex:
    passages = [(f"d{number}", "", "") for number in range(graph.passage_count)]
    return MemoryIndex(passages, {GRAPH: graph, SURFACES: surfaces, NAMES: Words(), ALIASES: aliases or {}})


def rankings(name: str, index: Any, parameters: dict[str, Any]) -> list[list[tuple[str, float]]]:
    vectors = index.encode(TEXTS)
    questions = [Question(text, vector=vector) for text, vector in zip(TEXTS, vectors, strict=True)]
    found = make(name, index, parameters).retrieve(questions, limit=13)
    return [[(passage.passage_id, passage.score) for passage in retrieval.passages] for retrieval in found]


def ask(index: Any, text: str, **parameters: Any) -> Retrieval:
    return make("graph", index, parameters).retrieve([Question(text)], limit=9)[0]


@pytest.mark.parametrize("norm", ["none", "simple", "lower"])
def test_names_that_are_normal_already_give_the_same_under_every_norm(golden_graph: Any, norm: str) -> None:
    index = index_of(golden_graph, golden_graph)
    assert ask(index, "alice bob nobody", entity_norm=norm).passages == ask(index, "alice bob nobody").passages


def test_norms_make_different_names_one(make_graph: Any) -> None:
    surfaces = make_graph([{"Spider-Man": 1, "SPIDER-MAN": 2}, {"Spider Man": 1}, {"spider-man": 1}])
    index = index_of(make_graph([{}, {}, {}]), surfaces)
    keys = {
        norm: entity_nodes(index, NodeParameters(entity_norm=norm)).graph.keys for norm in ("none", "simple", "lower")
    }
    assert keys == {
        "none": ("SPIDER-MAN", "Spider Man", "Spider-Man", "spider-man"),
        "simple": ("spider man",),
        "lower": ("spider man", "spider-man"),
    }
    simple = entity_nodes(index, NodeParameters(entity_norm="simple")).graph
    assert (simple.tf.tolist(), simple.df.tolist()) == ([3, 1, 1], [3])
    assert names_of(ask(index, "Spider-Man", entity_norm="none").evidence).matched == ("Spider-Man",)
    assert names_of(ask(index, "SPIDER-man", entity_norm="none").evidence).unmatched == ("SPIDER-man",)
    assert names_of(ask(index, "SPIDER-man", entity_norm="lower").evidence).matched == ("spider-man",)


def test_other_norms_undo_what_resolution_merged(make_graph: Any) -> None:
    """The index knows one entity `ada`; as written it is two names, and no alias leads from one to the other."""
    index = index_of(
        make_graph([{"ada": 2}, {"ada": 1}]), make_graph([{"Ada": 2}, {"Lovelace": 1}]), aliases={"lovelace": "ada"}
    )
    assert [p.score > 0 for p in ask(index, "Lovelace").passages] == [True, True]
    found = ask(index, "Lovelace", entity_norm="lower")
    assert {p.passage_id: p.score > 0 for p in found.passages} == {"d0": False, "d1": True}


def test_a_title_alias_joins_question_text_and_title(make_index: Any) -> None:
    """`Mercury` is the title `Mercury (planet)` wherever it stands; the other Paris keeps both apart."""
    index = make_index(
        [
            ("a", "Mercury (planet)", "The planet has no moon."),
            ("b", "", "NASA sent Messenger to Mercury."),
            ("c", "Paris", "Paris is a city."),
            ("d", "Paris (mythology)", "Paris saw Helen."),
        ]
    )
    for norm in ("key", "simple", "lower"):
        nodes = entity_nodes(index, NodeParameters(title_aliases=True, entity_norm=norm))
        planet = "mercury (planet)" if norm == "lower" else "mercury planet"
        assert "mercury" not in nodes.graph.keys
        assert nodes.match("Who went to Mercury?").matched == (planet,)
        assert nodes.graph.df[nodes.graph.number_of[planet]] == 2
        assert nodes.match("Who saw Paris?").matched == ("paris",)
        assert nodes.label("Mercury (planet)") == planet
    assert entity_nodes(index, NodeParameters()).match("Who went to Mercury?").matched == ("mercury",)


def test_title_aliases_follow_what_resolution_merged(make_index: Any) -> None:
    """A name merged into `mercury` leads on to the title; without aliases it stops there."""
    passages = [("a", "Mercury (planet)", "It is hot."), ("b", "", "NASA likes Mercury.")]
    index = make_index(passages, {ALIASES: {"hermes": "mercury"}})
    text = "Where is Hermes?"
    assert entity_nodes(index, NodeParameters()).match(text).matched == ("mercury",)
    assert entity_nodes(index, NodeParameters(title_aliases=True)).match(text).matched == ("mercury planet",)


def test_golden_pruned_entity_counts_as_unmatched(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-2, last line, as parameters; 2.13."""
    found = ask(index_of(golden_graph, golden_graph), "bob alice", hub_top_percent=25)
    assert found.evidence.names == QuestionNames(("alice",), ("bob",))
    assert [round(passage.score, 6) for passage in found.passages] == [0.663324, 0, 0, 0, 0]


def test_a_question_with_nothing_but_pruned_entities_falls_back(golden_graph: BipartiteGraph) -> None:
    found = ask(index_of(golden_graph, golden_graph), "bob", hub_top_percent=25)
    assert found.evidence.fallback == UNIFORM


def test_short_names_are_no_nodes(golden_graph: BipartiteGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(golden_graph, golden_graph)
    assert entity_nodes(index, NodeParameters()).graph is golden_graph
    monkeypatch.setattr(sprig, "LEAST_CHARACTERS", 5)
    assert entity_nodes(index, NodeParameters()).graph.keys == ("alice", "france", "paris")
    assert ask(index, "alice bob").evidence.names == QuestionNames(("alice",), ("bob",))


@pytest.mark.parametrize("name", SPRIG)
def test_pruning_nothing_is_no_pruning(memory_index: Any, name: str) -> None:
    unpruned = rankings(name, memory_index, {})
    assert rankings(name, memory_index, {"hub_top_percent": 0, "edge_cap": 0}) == unpruned
    assert rankings(name, memory_index, {"edge_cap": 1000}) == unpruned


@pytest.mark.parametrize("name", SPRIG)
@pytest.mark.parametrize("norm", ["key", "none", "simple", "lower"])
def test_shuffled_passages_change_nothing(
    make_index: Any, memory_index: Any, corpus: Any, name: str, norm: str
) -> None:
    parameters = ALL | {"entity_norm": norm, "edge_cap": 2}
    shuffled = list(corpus)
    random.Random(13).shuffle(shuffled)
    found = rankings(name, memory_index, parameters)
    assert found == rankings(name, make_index(shuffled), parameters)
    assert found != rankings(name, memory_index, {})


def test_terms_are_nodes_under_their_tokens(memory_index: Any) -> None:
    nodes = term_nodes(memory_index, TermParameters(min_df=2, max_df_ratio=0.25))
    found = nodes.match("Which RIVER is the capital's?")
    assert found.matched == ("capital", "river")
    assert found.unmatched == ("is", "s", "the", "which")
    assert nodes.noun == "terms"


def test_a_title_is_labelled_with_the_terms_that_the_graph_has(memory_index: Any) -> None:
    nodes = term_nodes(memory_index, TermParameters(min_df=1, max_df_ratio=1.0))
    labels = nodes.label("The River Thames").split()
    assert len(labels) == 3
    assert set(labels[1:]) <= set(nodes.graph.keys)
