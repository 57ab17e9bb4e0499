"""From stored evidence to nodes and edges: every relation once, the strongest kept, what is left out counted."""

from dataclasses import asdict
from typing import Any

from polyhop.pages.drawing import DRAWN_NODES, Edge, evidence_graph
from polyhop.schemas.evidence import Edge as Walked
from polyhop.schemas.evidence import Node, evidence_of

Document = dict[str, Any]


def test_a_relation_walked_by_two_chains_is_one_edge_with_all_labels(qasa_answer: Document) -> None:
    assert evidence_of(qasa_answer["evidence"]).all_edges() == (
        Walked("ada lovelace", "london", ("born in",)),
        Walked("london", "river thames", ("lies on", "near")),
        Walked("river thames", "thames head", (), ("rises at",)),
    )


def test_entities_are_listed_by_activation_with_what_is_known(qasa_answer: Document) -> None:
    nodes = evidence_of(qasa_answer["evidence"]).nodes
    assert [node.name for node in nodes] == ["Ada Lovelace", "London", "River Thames", "Thames Head", "England"]
    assert nodes[0].type == "PERSON"
    assert (nodes[2].weight, nodes[2].type) == (0.4, "")


def test_a_passage_hangs_at_its_two_strongest_entities(qasa_answer: Document) -> None:
    graph = evidence_graph(qasa_answer, {"p2": ["england", "london", "river thames", "unknown"]}, ())
    assert [edge for edge in graph.edges if edge.target == "passage p2"] == [
        Edge("entity london", "passage p2"),
        Edge("entity river thames", "passage p2"),
    ]
    assert graph.roots == {"entity ada lovelace": 0}
    assert not graph.has_question


def test_relations_tie_entities_of_no_chain_and_repeat_nothing(qasa_answer: Document) -> None:
    relations = [("london", "is in", "england"), ("london", "again", "river thames")]
    graph = evidence_graph(qasa_answer, {}, relations)
    assert Edge("entity london", "entity england", ("is in",)) in graph.edges
    assert all("again" not in edge.forward for edge in graph.edges)


def test_passages_hang_at_what_they_share_and_those_without_a_link_begin_a_row(bridge_answer: Document) -> None:
    graph = evidence_graph(bridge_answer, {}, ())
    assert {(edge.source, edge.forward, edge.target) for edge in graph.edges} == {
        ("question", ("esa",), "passage p1"),
        ("passage p1", ("agency",), "passage p2"),
        ("passage p1", ("agency",), "passage p3"),
    }
    assert all(edge.is_shared for edge in graph.edges)
    assert graph.roots == {"question": 0, "passage p4": 1}
    assert [node.name for node in graph.nodes if node.is_seed] == ["Rosetta", "Moss"]


def test_the_strongest_are_kept_seeds_and_passages_before_entities(qasa_answer: Document) -> None:
    many = {f"thing {n:03d}": n / 1000 for n in range(100)}
    evidence = qasa_answer["evidence"]
    evidence["nodes"] += [asdict(Node(key, key, weight)) for key, weight in many.items()]
    graph = evidence_graph(qasa_answer, {}, [("thing 000", "is below", "thing 099")])
    names = {node.id for node in graph.nodes}
    assert len(graph.nodes) == DRAWN_NODES
    assert graph.left_out == 2 + 5 + 100 - DRAWN_NODES
    assert {"entity ada lovelace", "passage p1", "passage p2", "entity london", "entity thing 099"} <= names
    assert "entity thing 000" not in names
    assert all(edge.source in names and edge.target in names for edge in graph.edges)


def test_a_ranking_without_links_has_no_edges(bridge_answer: Document) -> None:
    bridge_answer["evidence"] = {"sentences": [], "links": []}
    assert evidence_graph(bridge_answer, {}, ()).edges == ()
