"""`hublink` and `hublink-topic` on a graph of papers, in memory: hubs, topics, triples, passages, evidence."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from memory_index import MemoryIndex, hubs_of, memory_services, written

from polyhop.schemas.hubs import LEVELS, HubRows
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.schemas.text import entity_id
from polyhop.tasks.hubs.paths import STORED_HUBS
from polyhop.warehouse.artefacts import ENTITY_IDS, GRAPH, vectors_of
from polyhop.worker.strategies.registry import make

TRIPLES = written(
    "F has P1; F has P2; G has P3; P1 author A1; P1 venue V1; P2 author A2; P2 venue V1; P3 author A3; P3 cites P1; "
    "P1 contribution C1; C1 method M1"
)
LABELS = {
    "F": "Software Design",
    "G": "Data Bases",
    "P1": "Tactics of Microservices",
    "P2": "Views of Monoliths",
    "P3": "Joins of Tables",
    "A1": "Ann Roe",
    "A2": "Bob Low",
    "A3": "Cid Moss",
    "V1": "Oslo Conference",
    "C1": "contribution one",
    "M1": "interview study",
}
PAPERS = {"P1", "P2", "P3"}
PASSAGES = [
    ("p0", "Tactics of Microservices", "An interview study in Oslo."),
    ("p1", "Views of Monoliths", "Bob Low looks at views."),
    ("p2", "Joins of Tables", "Tables and joins."),
    ("p3", "Databases", "Tables are everywhere."),
]
SOURCES = [("P1", 0), ("P2", 1), ("P3", 2), ("P3", 3)]


class Graph(MemoryIndex):
    """The papers' graph, and a source for each paper."""

    def __init__(self, **given: Any) -> None:
        self.hubs, texts = hubs_of(TRIPLES, PAPERS, LABELS, hub_passages=SOURCES, **given)
        super().__init__(PASSAGES)
        words = " ".join(LABELS.values()).lower().split()
        self._words = sorted({*self._words, *words, "author", "venue", "cites", "method", "contribution"})
        keys = sorted(LABELS)
        entities = type("Keys", (), {"keys": keys})()
        self._values |= {
            STORED_HUBS: self.hubs,
            vectors_of("hubpath"): self.encode(texts),
            vectors_of("entity"): self.encode([LABELS[key] for key in keys]),
            GRAPH: entities,
            ENTITY_IDS: [entity_id(key) for key in keys],
        }


INDEX = Graph()


def ask(
    text: str,
    name: str = "hublink",
    parameters: Mapping[str, object] | None = None,
    *,
    topic: str | None = None,
    names: tuple[str, ...] = (),
    index: MemoryIndex = INDEX,
    limit: int = 20,
) -> Retrieval:
    services = memory_services(index)
    strategy: Any = make(name, index, parameters or {}, services)
    question = Question(
        text, "q", index.encode([text])[0], topic, tuple(QuestionName(name.lower(), name) for name in names)
    )
    given: Retrieval = strategy.retrieve([question], limit=limit)[0]
    return given


def hubs(found: Retrieval) -> list[tuple[int, list[str]]]:
    levels = found.evidence.data.get("levels", ())
    return [(level["level"], [hub["hub_id"] for hub in level["hubs"]]) for level in levels]


def stated(found: Retrieval) -> list[str]:
    return [f"{triple.subject_id} {triple.predicate} {triple.object_id}" for triple in found.triples]


def test_the_best_paths_choose_the_hubs_and_rank_their_last_triples() -> None:
    found = ask("Which method is an interview study?", parameters={"number_of_hubs": 1})
    assert hubs(found) == [(1, ["P1"])]
    assert stated(found)[0] == "C1 method M1"
    assert set(stated(found)) == {"C1 method M1", "P1 author A1", "P1 venue V1", "P1 contribution C1"}
    assert stated(found)[-1] == "P1 contribution C1"
    first = found.triples[0]
    assert (first.subject, first.object, first.rank) == ("contribution one", "interview study", 1)
    assert first.score == max(triple.score for triple in found.triples)
    assert [triple.rank for triple in found.triples] == [1, 2, 3, 4]


def test_the_ranking_of_triples_is_as_long_as_asked() -> None:
    few, many = ask("author of Joins of Tables", limit=2), ask("author of Joins of Tables")
    assert few.triples == many.triples[:2]
    assert ask("author", limit=0).triples == ()


def test_a_hub_s_sources_stand_by_hub_and_similarity() -> None:
    found = ask("Tables joins", parameters={"number_of_hubs": 1})
    assert [row.passage_id for row in found.passages] == ["p2", "p3"]
    assert found.evidence.data["levels"][0]["hubs"][0]["passages"] == ["p2", "p3"]
    one = ask("Tables joins", parameters={"number_of_hubs": 1, "n_source_chunks": 1})
    assert [row.passage_id for row in one.passages] == ["p2"]
    assert ask("Tables joins", parameters={"n_source_chunks": 0}).passages == ()


def test_evidence_has_hubs_with_scores_and_their_best_paths() -> None:
    found = ask("Who is the author of Joins of Tables?", parameters={"number_of_hubs": 2, "top_paths_to_keep": 1})
    evidence = found.evidence
    assert [(node.key, node.kind) for node in evidence.nodes] == [("P3", "hub"), (evidence.nodes[1].key, "hub")]
    assert evidence.measure == "hub score"
    best = evidence.paths[0]
    assert best.text == "Joins of Tables author Cid Moss."
    assert [(edge.source, edge.target, edge.forward) for edge in best.edges] == [("P3", "A3", ("author",))]
    hub = evidence.data["levels"][0]["hubs"][0]
    assert (hub["name"], hub["path_to_topic"]) == ("Joins of Tables", "")
    assert [path["text"] for path in hub["paths"]] == [best.text]
    assert hub["score"] == hub["paths"][0]["score"]


def test_evidence_says_over_how_many_texts_the_search_was_exact() -> None:
    texts = len(INDEX.artefact(vectors_of("hubpath")))
    (note,) = (note for note in ask("author").evidence.notes if note.label == "Search")
    assert note.text == f"exact over {texts} texts"


def test_paths_below_the_least_score_are_invisible() -> None:
    assert hubs(ask("author", parameters={"min_path_score": 1})) == []
    assert ask("author", parameters={"min_path_score": 1}).triples == ()


def test_components_join_the_question_as_query_vectors() -> None:
    text = "Which things concern Cid Moss and nothing of Ann Roe at all in any way whatsoever?"
    parameters = {"number_of_hubs": 1, "top_paths_to_keep": 1}
    found = ask(text, parameters={**parameters, "question_components": "rules"})
    (note,) = (note for note in found.evidence.notes if note.label == "Components")
    assert "Cid Moss" in note.text
    assert found.triples[0].score > ask(text, parameters=parameters).triples[0].score


@pytest.mark.parametrize(
    ("topic", "match"), [("F", "id"), ("software  design", "exact"), ("the Software Design", "vector")]
)
def test_a_topic_is_found_by_id_label_or_similarity(topic: str, match: str) -> None:
    found = ask("Who is the author?", "hublink-topic", topic=topic)
    (seed,) = found.evidence.seeds
    assert (seed.kind, seed.key, seed.name, seed.match) == ("topic", "F", "Software Design", match)
    assert (seed.similarity is None) == (match != "vector")
    (number, reached), *_ = hubs(found)
    assert (number, sorted(reached)) == (1, ["P1", "P2"])
    assert found.evidence.fallback is None


def test_levels_go_on_from_the_hubs_found_and_rank_after_them() -> None:
    """P3 cites P1: from P3's side, P1 is a candidate."""
    found = ask("Who is the author?", "hublink-topic", topic="G")
    assert hubs(found) == [(1, ["P3"]), (2, ["P1"])]
    (second,) = found.evidence.data["levels"][1]["hubs"]
    assert second["path_to_topic"] == "Data Bases has Joins of Tables; Joins of Tables cites Tactics of Microservices."
    first = [triple for triple in stated(found) if triple.startswith("P3")]
    assert stated(found)[: len(first)] == first
    assert [node.distance for node in found.evidence.nodes] == [1, 2]
    only = ask("Who is the author?", "hublink-topic", {"max_level": 1}, topic="G")
    assert hubs(only) == [(1, ["P3"])]
    assert stated(only) == stated(found)[: len(stated(only))]


def test_shown_paths_begin_at_the_topic() -> None:
    path = ask("author", "hublink-topic", {"max_level": 1}, topic="G").evidence.paths[0]
    assert (path.nodes[:2], path.edges[0].forward) == (("G", "P3"), ("has",))
    assert path.text.endswith(". From the topic: Data Bases has Joins of Tables.")
    back = ask("venue", "hublink-topic", {"max_level": 1}, topic="A2").evidence.paths[0]
    assert (back.nodes[:2], back.edges[0].backward) == (("A2", "P2"), ("author",))


def test_an_unknown_topic_leaves_the_whole_graph_and_says_so() -> None:
    direct = ask("Who is the author?")
    found = ask("Who is the author?", "hublink-topic", topic="Quantum")
    assert found.triples == direct.triples
    assert found.evidence.fallback is not None
    assert found.evidence.fallback.code == "topic_not_found"
    assert found.evidence.fallback.text == "no node is called 'Quantum', so all hubs were searched without a topic"


def test_without_a_topic_names_of_the_question_are_looked_up() -> None:
    found = ask("What did Bob Low write?", "hublink-topic", names=("Zork", "Bob Low", "Data Bases"))
    assert (found.evidence.seeds[0].key, hubs(found)[0]) == ("A2", (1, ["P2"]))
    (note,) = (note for note in found.evidence.notes if note.label == "Other topics")
    assert note.text == "Data Bases [G]"
    nothing = ask("What?", "hublink-topic").evidence.fallback
    assert nothing is not None
    assert nothing.text.startswith("the question has no topic and names nothing")


def test_a_topic_that_no_hub_covers_says_so() -> None:
    index = Graph(not_indexed={"P1", "P2", "P3"})
    found = ask("author", "hublink-topic", topic="F", index=index)
    assert hubs(found) == [(1, [])]
    (note,) = (note for note in found.evidence.notes if note.label == "Hubs without an index")
    assert note.text == "Tactics of Microservices [P1]; Views of Monoliths [P2]"
    assert found.triples == ()
    assert found.evidence.fallback is not None


def test_a_topic_from_which_no_hub_is_reached_says_so() -> None:
    alone = [*TRIPLES, ("X", "near", "Y")]
    index = Graph()
    index._values[STORED_HUBS], _ = hubs_of(alone, PAPERS, LABELS)
    fallback = ask("author", "hublink-topic", topic="X", index=index).evidence.fallback
    assert fallback is not None
    assert (fallback.code, fallback.text) == ("topic_not_covered", "no indexed hub is reached from 'X'")


def test_diversity_orders_the_rows_of_a_hub_and_changes_no_ranking() -> None:
    """Each path has a row for its last triple; two of P1's have P1 as their subject."""
    index = Graph()
    paths = index.hubs.paths
    own, labels = index.hubs.own_ids.of(range(index.hubs.graph.node_count)), dict(LABELS)
    graph, last = index.hubs.graph, paths.last_triples()
    texts = [
        f"{labels[own[int(graph.subjects[t])]]} {index.hubs.predicates[int(graph.predicates[t])]} "
        f"{labels[own[int(graph.objects[t])]]}"
        for t in last
    ]
    count = paths.path_count
    rows = HubRows(
        np.arange(count), np.arange(count), np.full(count, LEVELS.index("triple"), dtype=np.uint8), np.asarray(last)
    )
    index._values |= {STORED_HUBS: replace(index.hubs, rows=rows), vectors_of("hubpath"): index.encode(texts)}

    def shown(penalty: float) -> tuple[list[str], list[str]]:
        text = "author and venue of Tactics of Microservices"
        found = ask(text, parameters={"number_of_hubs": 1, "diversity_penalty": penalty}, index=index)
        (hub,) = found.evidence.data["levels"][0]["hubs"]
        assert hub["hub_id"] == "P1"
        ends = [own[int(graph.objects[last[path["path"]]])] for path in hub["paths"]]
        return ends, stated(found)

    plain, ranking = shown(0.0)
    assert sorted(plain[:2]) == ["A1", "V1"]
    diverse, same = shown(1.0)
    assert diverse == [plain[0], "M1", plain[1]]
    assert same == ranking
