"""Shapes on the sheet: columns by distance, nothing outside, labels with arrows, marks that grow with weight."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.pages.drawing import SHEET, clipped, draw, text_width
from polyhop.pages.graph import Edge, EvidenceGraph, Node, evidence_graph

Document = dict[str, Any]


def test_columns_follow_the_distance_from_the_seeds_and_passages_come_last(qasa_answer: Document) -> None:
    drawing = draw(evidence_graph(qasa_answer, {"p1": ["ada lovelace"]}, ()))
    x = {shape.node.name: shape.x for shape in drawing.nodes if shape.node.kind == "entity"}
    order = ["Ada Lovelace", "London", "River Thames", "Thames Head"]
    assert [x[name] for name in order] == sorted({x[name] for name in order})
    assert x["England"] == x["London"]
    assert {shape.x for shape in drawing.nodes if shape.node.kind == "passage"} == {
        max(shape.x for shape in drawing.nodes)
    }
    assert all(0 <= shape.x <= drawing.width - drawing.node_width for shape in drawing.nodes)
    assert all(12 <= shape.y <= drawing.height - 12 for shape in drawing.nodes)


def test_labels_say_where_relations_point(qasa_answer: Document) -> None:
    drawing = draw(evidence_graph(qasa_answer, {"p1": ["ada lovelace"]}, ()))
    labels = {line.label: line.title for line in drawing.relations}
    assert labels["born in →"] == "Ada Lovelace — born in → London"
    assert labels["lies on +1 →"] == "London — lies on → River Thames\nLondon — near → River Thames"
    assert labels["← rises at"] == "Thames Head — rises at → River Thames"
    assert [line.title for line in drawing.mentions] == ["Ada Lovelace mentions Ada Lovelace"]


def test_a_shared_entity_points_nowhere(bridge_answer: Document) -> None:
    drawing = draw(evidence_graph(bridge_answer, {}, ()))
    assert sorted(line.label for line in drawing.relations) == ["agency", "agency", "esa"]
    x = {shape.node.name: shape.x for shape in drawing.nodes}
    assert x["the question"] < x["Rosetta"] == x["Moss"] < x["Giotto"] == x["Cassini"]


def test_marks_grow_with_weight(qasa_answer: Document) -> None:
    shapes = [s for s in draw(evidence_graph(qasa_answer, {}, ())).nodes if s.node.kind == "entity"]
    ordered = sorted(shapes, key=lambda shape: shape.node.weight)
    assert [shape.radius for shape in ordered] == sorted(shape.radius for shape in shapes)
    assert ordered[-1].strength == 1.0
    assert all(0.25 <= shape.strength <= 1.0 for shape in shapes)


def test_labels_that_would_lie_on_each_other_are_left_out() -> None:
    nodes = tuple(Node(name, "entity", name, 1.0) for name in ("a", "b", "c"))
    edges = (Edge("a", "c", ("first",)), Edge("b", "c", ("second",)))
    drawing = draw(EvidenceGraph(nodes, edges, {"a": 0, "b": 0}, 0))
    assert [line.label for line in drawing.relations] == ["first →", ""]
    assert [line.title for line in drawing.relations] == ["a — first → c", "b — second → c"]


def test_relations_inside_a_column_point_up_and_down() -> None:
    nodes = (Node("a", "entity", "a", 1.0), Node("b", "entity", "b", 0.5))
    drawing = draw(EvidenceGraph(nodes, (Edge("b", "a", ("above",)),), {"a": 0, "b": 0}, 0))
    assert [line.label for line in drawing.relations] == ["↑ above"]


def test_the_sheet_is_filled_and_grows_only_with_many_columns() -> None:
    def chain(length: int) -> float:
        nodes = tuple(Node(str(n), "entity", str(n), 1.0) for n in range(length))
        edges = tuple(Edge(str(n), str(n + 1), ("next",)) for n in range(length - 1))
        return draw(EvidenceGraph(nodes, edges, {"0": 0}, 0)).width

    assert all(chain(length) <= SHEET for length in (1, 2, 3, 4))
    assert chain(4) == pytest.approx(SHEET, abs=3)
    assert chain(8) > SHEET


@given(st.text(max_size=60), st.floats(3, 40))
def test_clipped_text_is_one_line_that_fits(text: str, width: float) -> None:
    line = clipped(text, width)
    assert text_width(line) <= width + 1e-9
    assert line == " ".join(line.split())
    assert line in (" ".join(text.split()), line[:-1] + "…")
