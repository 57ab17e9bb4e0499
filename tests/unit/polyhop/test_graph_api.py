"""`Index.graph` on the graph of G-ARC: the golden look-ups, traversals and fusions, and what is refused."""

from typing import Any

import numpy as np
import pytest
from memory_index import MemoryIndex, graph_from, relations_from

from polyhop.graph import EntityGraph
from polyhop.schemas.errors import AlgorithmError, MissingArtefactError
from polyhop.schemas.ports import Services
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import entity_id
from polyhop.warehouse.artefacts import ALIASES, EXACT_NAMES, GRAPH, RELATIONS, vectors_of
from polyhop.worker.session import IndexSession

KEYS = ["alder", "alder street", "birch", "cedar", "dogwood", "elm"]
TRIPLES = [("birch", "r", "alder"), ("alder", "r", "cedar"), ("dogwood", "r", "alder"), ("elm", "r", "dogwood")]
MENTIONS = ["alder,birch", "alder,cedar", "dogwood,alder", "elm,dogwood", "alder street"]
ID = {key: entity_id(key) for key in KEYS}
ARTEFACTS = frozenset({"graph", "graph:relations", "vectors:entity"})


def graph_with(artefacts: frozenset[str] = ARTEFACTS) -> EntityGraph:
    given = {
        GRAPH: graph_from([dict.fromkeys(row.split(","), 1.0) for row in MENTIONS]),
        RELATIONS: relations_from(KEYS, TRIPLES),
        ALIASES: {"tanglewood": "birch"},
        EXACT_NAMES: {"the old alder!": [0]},
        vectors_of("entity"): np.array([[1, 0], [0, 0], [0.8, 0.6], [0, 1], [-1, 0], [0, 0]], dtype=np.float32),
    }
    index: Any = MemoryIndex([(f"k{number}", "", "") for number in range(1, 6)], given, artefacts, "trees")
    return EntityGraph(IndexSession(index, Settings(), Services()))


@pytest.fixture(scope="module")
def graph() -> EntityGraph:
    return graph_with()


@pytest.mark.parametrize(
    ("name", "fuzzy", "found"),
    [
        ("ALDER", False, ["alder"]),
        ("alder", True, ["alder", "alder street"]),
        ("Alder_Street", False, ["alder street"]),
        ("The old  Alder!", False, ["alder"]),
        ("Tanglewood", False, ["birch"]),
        ("oak", True, []),
        ("street alder", False, []),
        ("street alder", True, ["alder street"]),
        ("tangle", True, ["birch"]),
        ("", False, []),
        ("?!", True, []),
    ],
)
def test_entities_by_name(graph: EntityGraph, name: str, fuzzy: bool, found: list[str]) -> None:
    """G-ARC; shorter names first."""
    entities = graph.find_entities(name, fuzzy=fuzzy)
    assert [entity.key for entity in entities] == found
    assert [entity.id for entity in entities] == [ID[key] for key in found]


def test_entities_by_vector_and_what_they_lead_to(graph: EntityGraph) -> None:
    """G-ARC; a passage comes once, and of several hops the smallest."""
    vector = np.array([1, 0], dtype=np.float32)
    assert [s.entity.key for s in graph.find_entities_by_embedding(vector)] == ["alder", "birch", "cedar"]
    assert [s.entity.key for s in graph.find_entities_by_embedding(vector, 5, 0.7)] == ["alder", "birch"]
    assert graph.find_entities_by_embedding(vector, top_k=1)[0].similarity == pytest.approx(1)
    hops = graph.expand([ID["birch"], ID["elm"], ID["birch"], "no such id"], 1)
    assert list(hops.items()) == [(ID["birch"], 0), (ID["elm"], 0), (ID["alder"], 1), (ID["dogwood"], 1)]
    assert graph.chunks_for_entities([ID["dogwood"], ID["alder"]]) == ["k1", "k2", "k3", "k4"]


def test_traversal_gives_entities_by_hop_and_refuses_a_negative_depth(graph: EntityGraph) -> None:
    reached = [(one.entity.key, one.hop) for one in graph.traverse(ID["elm"], 3)]
    assert reached == [("dogwood", 1), ("alder", 2), ("birch", 3), ("cedar", 3)]
    assert graph.traverse(ID["alder street"], 2) == graph.traverse(ID["alder"], 0) == graph.traverse("no id", 2) == []
    assert (graph.expand(["no such id"], 2), graph.chunks_for_entities(["no such id"])) == ({}, [])
    for refused in (
        lambda: graph.traverse("no such id", -1),
        lambda: graph.expand([], -1),
        lambda: graph.graph_search(["Alder"], depth=-1),
        lambda: graph.connect("Alder", "Elm", max_length=-1),
    ):
        with pytest.raises(AlgorithmError, match="at least 0"):
            refused()
    for decay in (-1, 1.5, float("nan")):
        with pytest.raises(AlgorithmError, match="from 0 to 1"):
            graph.graph_search(["Birch"], 2, decay=decay)


def test_graph_search_ranks_by_hops(graph: EntityGraph) -> None:
    found = graph.graph_search(["Birch", "nobody"], depth=2)
    ranks = [(p.passage_id, p.rank, round(p.score, 6)) for p in found]
    assert ranks == [("k1", 1, 0.15), ("k2", 2, 0.075), ("k3", 3, 0.075), ("k4", 4, 0.025)]
    assert [p.passage_id for p in graph.graph_search("Birch", depth=2, limit=1)] == ["k1"]
    assert graph.graph_search(["nobody"]) == graph.graph_search([]) == []


def test_fusion_search_joins_any_list_of_ids(graph: EntityGraph) -> None:
    """G-ARC; k9 is not a passage of this index."""
    found = [(p.passage_id, round(p.score, 6)) for p in graph.fusion_search(["Birch"], ["k3", "k9", "k1"], depth=2)]
    assert found == [("k3", 0.032266), ("k1", 0.032266), ("k9", 0.016129), ("k2", 0.016129), ("k4", 0.015625)]


def test_fusion_search_without_a_list_or_a_name_keeps_the_other(graph: EntityGraph) -> None:
    by_vector = ["k3", "k9", "k1"]
    assert [p.passage_id for p in graph.fusion_search(["nobody"], by_vector)] == by_vector
    assert [p.passage_id for p in graph.fusion_search([], by_vector, limit=2)] == ["k3", "k9"]
    assert [p.passage_id for p in graph.fusion_search(["Birch"], [], depth=2)] == ["k1", "k2", "k3", "k4"]
    assert graph.fusion_search(["Birch"], by_vector, limit=0) == graph.fusion_search([], []) == []
    once, twice = (graph.fusion_search([], ids) for ids in (["k1", "k2"], ["k1", "k1", "k2", "k1"]))
    assert once == twice, "a repeated id keeps its first rank"
    with pytest.raises(AlgorithmError, match="damping k is -1"):
        graph.fusion_search(["Birch"], ["k1"], k=-1)


def test_an_index_without_relations_or_vectors_says_what_to_run() -> None:
    with pytest.raises(MissingArtefactError, match=r"'graph:relations'.*--add-strategy graph-search"):
        graph_with(frozenset({"graph"}))
    without_vectors = graph_with(frozenset({"graph", "graph:relations"}))
    with pytest.raises(MissingArtefactError, match=r"'vectors:entity'.*--add-strategy naive-vector"):
        without_vectors.find_entities_by_embedding("trees")
