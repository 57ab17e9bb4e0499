"""Shapes on the sheet: columns by distance, nothing outside, labels with arrows, marks that grow with weight."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.pages import drawing as sheet

Document = dict[str, Any]


def test_columns_follow_the_distance_from_the_seeds_and_passages_come_last(qasa_answer: Document) -> None:
    drawing = sheet.draw(sheet.evidence_graph(qasa_answer, {"p1": ["ada lovelace"]}, ()))
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
    drawing = sheet.draw(sheet.evidence_graph(qasa_answer, {"p1": ["ada lovelace"]}, ()))
    labels = {line.label: line.title for line in drawing.relations}
    assert labels["born in →"] == "Ada Lovelace — born in → London"
    assert labels["lies on +1 →"] == "London — lies on → River Thames\nLondon — near → River Thames"
    assert labels["← rises at"] == "Thames Head — rises at → River Thames"
    assert [line.title for line in drawing.mentions] == ["Ada Lovelace mentions Ada Lovelace"]


def test_a_shared_entity_points_nowhere(bridge_answer: Document) -> None:
    drawing = sheet.draw(sheet.evidence_graph(bridge_answer, {}, ()))
    assert sorted(line.label for line in drawing.relations) == ["agency", "agency", "esa"]
    x = {shape.node.name: shape.x for shape in drawing.nodes}
    assert x["the question"] < x["Rosetta"] == x["Moss"] < x["Giotto"] == x["Cassini"]


def test_marks_grow_with_weight(qasa_answer: Document) -> None:
    shapes = [s for s in sheet.draw(sheet.evidence_graph(qasa_answer, {}, ())).nodes if s.node.kind == "entity"]
    ordered = sorted(shapes, key=lambda shape: shape.node.weight)
    assert [shape.radius for shape in ordered] == sorted(shape.radius for shape in shapes)
    assert ordered[-1].strength == 1.0
    assert all(0.25 <= shape.strength <= 1.0 for shape in shapes)


def test_labels_that_would_lie_on_each_other_are_left_out() -> None:
    nodes = tuple(sheet.Node(name, "entity", name, 1.0) for name in ("a", "b", "c"))
    edges = (sheet.Edge("a", "c", ("first",)), sheet.Edge("b", "c", ("second",)))
    drawing = sheet.draw(sheet.EvidenceGraph(nodes, edges, {"a": 0, "b": 0}, 0))
    assert [line.label for line in drawing.relations] == ["first →", ""]
    assert [line.title for line in drawing.relations] == ["a — first → c", "b — second → c"]


def test_relations_inside_a_column_point_up_and_down() -> None:
    nodes = (sheet.Node("a", "entity", "a", 1.0), sheet.Node("b", "entity", "b", 0.5))
    drawing = sheet.draw(sheet.EvidenceGraph(nodes, (sheet.Edge("b", "a", ("above",)),), {"a": 0, "b": 0}, 0))
    assert [line.label for line in drawing.relations] == ["↑ above"]


def test_the_sheet_is_filled_and_grows_only_with_many_columns() -> None:
    def chain(length: int) -> float:
        nodes = tuple(sheet.Node(str(n), "entity", str(n), 1.0) for n in range(length))
        edges = tuple(sheet.Edge(str(n), str(n + 1), ("next",)) for n in range(length - 1))
        return sheet.draw(sheet.EvidenceGraph(nodes, edges, {"0": 0}, 0)).width

    assert all(chain(length) <= sheet.SHEET for length in (1, 2, 3, 4))
    assert chain(4) == pytest.approx(sheet.SHEET, abs=3)
    assert chain(8) > sheet.SHEET


@given(st.text(max_size=60), st.floats(3, 40))
def test_clipped_text_is_one_line_that_fits(text: str, width: float) -> None:
    line = sheet.clipped(text, width)
    assert sheet.text_width(line) <= width + 1e-9
    assert line == " ".join(line.split())
    assert line in (" ".join(text.split()), line[:-1] + "…")


@given(st.text(max_size=60), st.floats(3, 40), st.integers(1, 4))
def test_wrapped_lines_fit_and_hold_the_whole_text_unless_it_is_cut(text: str, width: float, most: int) -> None:
    lines, is_cut = sheet.wrapped(text, width, most)
    whole = "".join(text.split())
    shown = "".join("".join(lines).split())
    assert 1 <= len(lines) <= most
    assert all(sheet.text_width(line) <= width + 1e-9 for line in lines)
    assert whole.startswith(shown[:-1]) and shown.endswith("…") if is_cut else shown == whole


def test_lines_break_at_spaces_and_inside_words_only_where_there_are_none() -> None:
    assert sheet.wrapped("European Space Agency", 12, 3) == (("European", "Space Agency"), False)
    assert sheet.wrapped("Donaudampfschiff", 8, 3) == (("Donauda", "mpfschiff"), False)
    assert sheet.wrapped("one two three four", 6, 2) == (("one", "two t…"), True)


def test_a_node_grows_with_the_lines_of_its_name_and_what_is_cut_is_told_in_full() -> None:
    names = ["short", "a name of several words that goes on", "word " * 40]
    nodes = tuple(sheet.Node(name, "entity", name, 1.0) for name in names)
    drawing = sheet.draw(
        sheet.EvidenceGraph(nodes, (sheet.Edge(names[0], names[1], ("x",)),), dict.fromkeys(names, 0), 0)
    )
    count = {shape.node.name: len(shape.lines) for shape in drawing.nodes}
    assert (count[names[0]], count[names[2]]) == (1, sheet.NAME_LINES)
    assert 1 < count[names[1]] < sheet.NAME_LINES + 1
    assert drawing.cut_names == (names[2],)
    boxes = sorted((shape.y - shape.height / 2, shape.y + shape.height / 2) for shape in drawing.nodes)
    assert all(above[1] < below[0] for above, below in pairwise(boxes))
    assert boxes[0][0] >= 0
    assert boxes[-1][1] <= drawing.height
