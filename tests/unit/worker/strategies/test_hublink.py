"""HubLink and hub facets on graphs worked by hand."""

from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
from memory_index import MemoryIndex, hubs_of, ids_of, memory_services, music_hubs, retrieved, value_texts_of, written

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import Evidence, as_row, evidence_of
from polyhop.schemas.hub_paths import STORED_HUBS, StoredHubs
from polyhop.schemas.hubs import LEVELS, HubRows
from polyhop.schemas.query import Question, QuestionName, ReadingItem, Retrieval
from polyhop.schemas.text import entity_id
from polyhop.terminal import evidence_lines
from polyhop.warehouse.artefacts import ENTITY_IDS, GRAPH, vectors_of
from polyhop.worker.reading.models import ModelReader
from polyhop.worker.reading.reader import FacetReader, LocalReader
from polyhop.worker.strategies.hub_facets import names_of
from polyhop.worker.strategies.registry import make, make_reader

TRIPLES = written("F has P1; F has P2; G has P3; P1 author A1; P1 venue V1; P2 author A2; P2 venue V1; P3 author A3")
TRIPLES += written("P3 cites P1; P1 contribution C1; C1 method M1; X near Y")
LABELS = {"P1": "Tactics of Microservices", "P2": "Views of Monoliths", "P3": "Joins of Tables"}
LABELS |= {"F": "Software Design", "G": "Data Bases", "A1": "Ann Roe", "A2": "Bob Low", "A3": "Cid Moss"}
LABELS |= {"V1": "Oslo Conference", "C1": "contribution one", "M1": "interview study"}
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
        self._values |= {STORED_HUBS: self.hubs, vectors_of("hubpath"): self.encode(texts), GRAPH: entities}
        self._values |= {ENTITY_IDS: [entity_id(key) for key in keys]}
        self._values |= {vectors_of("entity"): self.encode([LABELS[key] for key in keys])}


INDEX = Graph()


def ask(
    text: str, name: str = "hublink", topic: Any = None, names: Any = (), index: Any = INDEX, **more: Any
) -> Retrieval:
    found = tuple(QuestionName(name.lower(), name) for name in names)
    question = Question(text, "q", index.encode([text])[0], topic, found)
    return retrieved(index, name, question, **{"limit": 20} | more)


def hubs(found: Retrieval) -> list[tuple[int, list[str]]]:
    levels = found.evidence.data.get("levels", ())
    return [(level["level"], [hub["hub_id"] for hub in level["hubs"]]) for level in levels]


def noted(evidence: Evidence, label: str) -> str:
    (note,) = (note for note in evidence.notes if note.label == label)
    return note.text


def stated(found: Retrieval) -> list[str]:
    return [f"{triple.subject_id} {triple.predicate} {triple.object_id}" for triple in found.triples]


def test_the_best_paths_choose_the_hubs_and_rank_their_last_triples() -> None:
    found = ask("Which method is an interview study?", number_of_hubs=1)
    assert hubs(found) == [(1, ["P1"])]
    first, *_, last = stated(found)
    assert (first, last) == ("C1 method M1", "P1 contribution C1")
    assert set(stated(found)) == {first, last, "P1 author A1", "P1 venue V1"}
    best = found.triples[0]
    assert (best.subject, best.object, best.rank) == ("contribution one", "interview study", 1)
    assert best.score == max(triple.score for triple in found.triples)
    assert [triple.rank for triple in found.triples] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["hublink", "hub-facets"])
def test_the_ranking_of_triples_is_as_long_as_asked(name: str) -> None:
    index = INDEX if name == "hublink" else index_of(products())
    text = "author of Joins of Tables" if name == "hublink" else RED
    many, few, none = (ask(text, name, index=index, limit=limit).triples for limit in (20, 2, 0))
    assert [triple.rank for triple in many] == [*range(1, len(many) + 1)]
    assert len(many) > 2
    assert (few, none) == (many[:2], ())


def test_a_hub_s_sources_stand_by_hub_and_similarity() -> None:
    found = ask("Tables joins", number_of_hubs=1)
    assert ids_of(found) == ["p2", "p3"]
    assert found.evidence.data["levels"][0]["hubs"][0]["passages"] == ["p2", "p3"]
    assert ids_of(ask("Tables joins", number_of_hubs=1, n_source_chunks=1)) == ["p2"]
    assert ask("Tables joins", n_source_chunks=0).passages == ()


def test_evidence_has_hubs_with_scores_and_their_best_paths() -> None:
    evidence = ask("Who is the author of Joins of Tables?", number_of_hubs=2, top_paths_to_keep=1).evidence
    assert [node.kind for node in evidence.nodes] == ["hub", "hub"]
    assert (evidence.nodes[0].key, evidence.measure) == ("P3", "hub score")
    best = evidence.paths[0]
    assert best.text == "Joins of Tables author Cid Moss."
    assert [(edge.source, edge.target, edge.forward) for edge in best.edges] == [("P3", "A3", ("author",))]
    hub = evidence.data["levels"][0]["hubs"][0]
    assert (hub["name"], hub["path_to_topic"]) == ("Joins of Tables", "")
    assert [(path["text"], path["score"]) for path in hub["paths"]] == [(best.text, hub["score"])]
    assert noted(evidence, "Search") == f"exact over {len(INDEX.artefact(vectors_of('hubpath')))} texts"
    none = ask("author", min_path_score=1)
    assert (hubs(none), none.triples) == ([], ())


def test_components_join_the_question_as_query_vectors() -> None:
    text = "Which things concern Cid Moss and nothing of Ann Roe at all in any way whatsoever?"
    given: Any = {"number_of_hubs": 1, "top_paths_to_keep": 1}
    plain, found = (ask(text, question_components=components, **given) for components in ("off", "rules"))
    assert "Cid Moss" in noted(found.evidence, "Components")
    assert found.triples[0].score > plain.triples[0].score


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


def test_levels_go_on_from_the_hubs_found_rank_after_them_and_show_the_way_from_the_topic() -> None:
    """P3 cites P1: from P3's side, P1 is a candidate."""
    found = ask("Who is the author?", "hublink-topic", topic="G")
    assert hubs(found) == [(1, ["P3"]), (2, ["P1"])]
    (second,) = found.evidence.data["levels"][1]["hubs"]
    assert second["path_to_topic"] == "Data Bases has Joins of Tables; Joins of Tables cites Tactics of Microservices."
    first = [triple for triple in stated(found) if triple.startswith("P3")]
    assert stated(found)[: len(first)] == first
    assert [node.distance for node in found.evidence.nodes] == [1, 2]
    only = ask("Who is the author?", "hublink-topic", topic="G", max_level=1)
    assert (hubs(only), stated(only)) == ([(1, ["P3"])], first)
    path = only.evidence.paths[0]
    assert (path.nodes[:2], path.edges[0].forward) == (("G", "P3"), ("has",))
    assert path.text.endswith(". From the topic: Data Bases has Joins of Tables.")
    back = ask("venue", "hublink-topic", topic="A2", max_level=1).evidence.paths[0]
    assert (back.nodes[:2], back.edges[0].backward) == (("A2", "P2"), ("author",))


def test_without_a_topic_all_hubs_are_searched_and_without_a_hub_none() -> None:
    every = ask("Who is the author?").triples
    for topic, code, text, triples in (
        ("Quantum", "topic_not_found", "no node is called 'Quantum', so all hubs were searched without a topic", every),
        (None, "topic_not_found", "the question has no topic and names nothing", every),
        ("X", "topic_not_covered", "no indexed hub is reached from 'X'", ()),
    ):
        found = ask("Who is the author?", "hublink-topic", topic=topic)
        assert found.evidence.fallback is not None
        assert found.evidence.fallback.code == code
        assert found.evidence.fallback.text.startswith(text)
        assert found.triples == triples
    found = ask("author", "hublink-topic", topic="F", index=Graph(not_indexed=PAPERS))
    assert (hubs(found), found.triples, found.evidence.fallback is None) == ([(1, [])], (), False)
    without = "Tactics of Microservices [P1]; Views of Monoliths [P2]"
    assert noted(found.evidence, "Hubs without an index") == without


def test_names_of_a_question_without_a_topic_are_looked_up() -> None:
    found = ask("What did Bob Low write?", "hublink-topic", names=("Zork", "Bob Low", "Data Bases"))
    assert (found.evidence.seeds[0].key, hubs(found)[0]) == ("A2", (1, ["P2"]))
    assert noted(found.evidence, "Other topics") == "Data Bases [G]"


def test_diversity_orders_the_rows_of_a_hub_and_changes_no_ranking() -> None:
    """Each path has a row for its last triple; two of P1's have P1 as their subject."""
    index = Graph()
    hubs, last = index.hubs, index.hubs.paths.last_triples()
    ids = hubs.own_ids.of(range(hubs.graph.node_count))
    ends = [ids[number] for number in hubs.graph.objects[last]]
    owners = [ids[number] for number in hubs.graph.subjects[last]]
    said = [hubs.predicates[number] for number in hubs.graph.predicates[last]]
    texts = [f"{LABELS[s]} {p} {LABELS[o]}" for s, p, o in zip(owners, said, ends, strict=True)]
    numbers = np.arange(len(last))
    rows = HubRows(numbers, numbers, np.full(len(last), LEVELS.index("triple"), dtype=np.uint8), np.asarray(last))
    index._values |= {STORED_HUBS: replace(hubs, rows=rows), vectors_of("hubpath"): index.encode(texts)}
    text, shown = "author and venue of Tactics of Microservices", []
    plain, diverse = (ask(text, index=index, number_of_hubs=1, diversity_penalty=penalty) for penalty in (0.0, 1.0))
    for found in (plain, diverse):
        (hub,) = found.evidence.data["levels"][0]["hubs"]
        shown.append([ends[path["path"]] for path in hub["paths"]])
    assert sorted(shown[0][:2]) == ["A1", "V1"]
    assert shown[1] == [shown[0][0], "M1", shown[0][1]]
    assert stated(diverse) == stated(plain)


PRODUCTS = """
https://shop.org/item/1 http://schema.org/isMadeBy acme; https://shop.org/item/1 http://schema.org/primaryColor red;
https://shop.org/item/1 http://schema.org/hasBattery none; https://shop.org/item/2 http://schema.org/isMadeBy acme;
https://shop.org/item/2 http://schema.org/primaryColor blue;
https://shop.org/item/2 http://schema.org/hasBattery lithium;
https://shop.org/item/3 http://schema.org/isMadeBy zenith; https://shop.org/item/3 http://schema.org/primaryColor red;
https://shop.org/item/3 http://schema.org/hasBattery lithium
"""
ITEMS = tuple(f"https://shop.org/item/{number}" for number in (1, 2, 3))
NAMES = {ITEMS[0]: "Desk lamp", ITEMS[1]: "Field radio", "acme": "Acme Electrics", "zenith": "Zenith"}
NAMES |= {"none": "No battery", "lithium": "Lithium battery"}


def products(**more: Any) -> StoredHubs:
    return hubs_of(written(PRODUCTS), set(ITEMS), NAMES, **more)[0]


def index_of(stored: StoredHubs, passages: Any = ()) -> MemoryIndex:
    """An index of these hubs; its vectors count words of its passages."""
    texts = value_texts_of(stored)
    rows = [*passages, ("words", "", " ".join(texts))]
    encode = MemoryIndex(rows).encode
    given = {STORED_HUBS: stored, vectors_of("hubvalue"): encode(texts)}
    return MemoryIndex(rows, given)  # type: ignore[arg-type]


def ask_facets(text: str, stored: StoredHubs | None = None) -> Retrieval:
    return ask(text, "hub-facets", index=index_of(stored or products()))


def triples(retrieval: Retrieval) -> list[tuple[str, str, str]]:
    return [(triple.subject, triple.predicate.rpartition("/")[2], triple.object) for triple in retrieval.triples]


RED = "Which red thing is made by Acme?"
BLUE = "What is the primary colour of the field radio?"


def test_the_hub_that_meets_the_conditions_gives_the_first_triples() -> None:
    """Conditions are also words of a URI. Scores descend, and triples come once."""
    assert triples(ask_facets(BLUE))[0] == ("Field radio", "primaryColor", "blue")
    found = ask_facets(RED)
    stated = {("primaryColor", "red"), ("isMadeBy", "Acme Electrics")}
    assert set(triples(found)[:2]) == {("Desk lamp", *pair) for pair in stated}
    assert [triple.rank for triple in found.triples] == list(range(1, 10))
    scores = [triple.score for triple in found.triples]
    assert scores == sorted(scores, reverse=True)
    assert found.triples[0].subject_id == ITEMS[0]
    assert len({triple.relation_id for triple in found.triples}) == 9


def test_a_hub_without_a_label_is_called_by_its_id_and_labels_in_other_scripts_are_found() -> None:
    stored = hubs_of(written("https://shop.org/item/3 p red; x2 p blue"), {ITEMS[2], "x2"}, {ITEMS[2]: "", "x2": ""})[0]
    assert {"x2", "3"} <= set(names_of(stored))
    assert triples(ask_facets("What is x2?", stored))[0] == ("", "p", "blue")
    labels = {"a1": "Фёдор Достоевский", "a2": "Лев Толстой", "a3": "魯迅"}
    rows = written("b1 автор a1; b1 год 1866; b2 автор a2; b2 год 1877; b3 作者 a3")
    stored = hubs_of(rows, {"b1", "b2", "b3"}, labels)[0]
    assert triples(ask_facets("Фёдор Достоевский: год?", stored))[0][0] == "b1"
    assert triples(ask_facets("魯迅", stored))[0] == ("b3", "作者", "魯迅")


def test_the_evidence_names_values_conditions_and_hubs() -> None:
    evidence = evidence_of(as_row(ask_facets(RED).evidence))
    assert evidence.names is not None
    assert evidence.names.matched == ("red", "Acme Electrics")
    assert (evidence.nodes[0].name, evidence.nodes[0].kind) == ("Desk lamp", "hub")
    red, acme = (line for line in evidence_lines(evidence, {}) if line.startswith("Condition"))
    assert red.startswith("Condition  red as primary color: red 1.00; met by 2 hubs:")
    assert "Desk lamp 1.000" in red
    assert "Field radio" not in red
    assert "Acme as is made by: Acme Electrics" in acme
    assert evidence.fallback is None


def test_the_evidence_has_the_short_answer_with_its_triples_unless_the_question_sets_no_condition() -> None:
    found = ask_facets(BLUE).evidence.data["facet_answer"]
    assert (found["texts"], found["kind"], found["hub_count"]) == (["blue"], "values", 1)
    assert found["hubs"] == [{"id": ITEMS[1], "name": "Field radio"}]
    ((triple,)) = found["triples"]
    assert (triple["hub"], triple["object"], bool(triple["id"])) == ("Field radio", "blue", True)
    free = ask_facets("What is there?")
    assert free.evidence.fallback is not None
    assert (free.evidence.fallback.code, len(free.triples)) == ("similarity", 9)
    assert "facet_answer" not in free.evidence.data


def test_the_facets_are_read_unless_a_model_reads() -> None:
    index, services = index_of(products()), memory_services(index_of(products()))
    rules = LocalReader(index, min_confidence=0.95)
    model = create_autospec(ModelReader, instance=True)
    own = make_reader("hub-facets", index, {}, services, rules)
    assert isinstance(own, FacetReader)
    (reading,) = own.read([ReadingItem(Question("What is the primary colour?"), ask_facets(BLUE), ())])
    assert reading.answer == ""  # its confidence is below what the user asks for
    assert make_reader("hub-facets", index, {}, services, model) is model


def test_a_question_needs_its_vector_and_an_encoder_only_if_fields_are_compared() -> None:
    index = index_of(music_hubs())
    question = Question("Who made Morning Hills?", vector=index.encode(["Who made Morning Hills?"])[0])
    assert make("hub-facets", index, {"signature_similarity": 0}).retrieve([question], limit=3)[0].triples
    with pytest.raises(AlgorithmError, match="No encoder"):
        make("hub-facets", index, {}).retrieve([question], limit=3)
    with pytest.raises(AlgorithmError, match="encode 'Who sang\\?' first"):
        retrieved(index, "hub-facets", Question("Who sang?"))
