"""Answer pages: their layout, the graph of evidence and its drawing."""

import re
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.pages import drawing as sheet
from polyhop.pages.answer_page import PageMaterial, answer_page, marked, write_page
from polyhop.pages.drawing import DRAWN_NODES, DrawnEdge, distances, evidence_graph, heights
from polyhop.schemas.evidence import PASSAGES_ONLY, Edge, Evidence, Node, QuestionNames, Seed, as_row
from polyhop.schemas.evidence import Path as EvidencePath
from polyhop.schemas.version import VERSION

NAMES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NAMES, NAMES), max_size=20)


def test_distances_count_edges_from_the_nearest_root_whichever_way_they_point() -> None:
    edges = [("a", "b"), ("c", "b"), ("c", "d"), ("x", "y")]
    assert distances(edges, {"a": 0}) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert distances(edges, {"d": 1, "a": 0}) == {"a": 0, "d": 1, "b": 1, "c": 2}
    assert distances(edges, {}) == {}


def test_a_single_child_stands_beside_its_parent() -> None:
    height = heights([["a", "b"], ["x", "y"]], [("a", "y"), ("b", "x")], 10.0)
    assert height["y"] == height["a"]
    assert height["x"] == height["b"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), EDGES)
def test_nodes_of_a_column_neither_overlap_nor_leave_it(column_of: list[int], edges: list[tuple[str, str]]) -> None:
    names = "abcdefgh"[: len(column_of)]
    columns = [[name for name, at in zip(names, column_of, strict=True) if at == number] for number in range(4)]
    known = [(one, other) for one, other in edges if one in names and other in names]
    height = heights(columns, known, 10.0)
    assert height == heights(columns, known, 10.0)
    assert min(height.values()) == 0.0
    for column in columns:
        placed = sorted(height[name] for name in column)
        assert all(high - low >= 10.0 - 0.02 for low, high in pairwise(placed))


Document = dict[str, Any]


def passages(titles: list[str]) -> list[Document]:
    return [{"id": f"p{n}", "title": title, "score": 2.0 - n / 2, "rank": n} for n, title in enumerate(titles, start=1)]


@pytest.fixture
def qasa_answer() -> Document:
    """Ada -born in-> London -lies on-> Thames <-rises at- Thames Head, and England, which no chain reaches."""
    ada, london, thames, head = "ada lovelace", "london", "river thames", "thames head"
    names = {key: key.title() for key in (ada, london, thames, head, "england")}

    def path(text: str, keys: tuple[str, ...], edges: tuple[Edge, ...], score: float) -> EvidencePath:
        return EvidencePath(text, keys, tuple(names[key] for key in keys), edges, score)

    born, lies = Edge(ada, london, ("born in",)), Edge(london, thames, ("lies on",))
    near, rises = Edge(london, thames, ("lies on", "near")), Edge(thames, head, (), ("rises at",))
    down = "Ada Lovelace --[born in]--> London --[lies on]--> River Thames"
    up = "London --[lies on | near]--> River Thames <--[rises at]-- Thames Head"
    evidence = Evidence(
        names=QuestionNames((ada,), ()),
        seeds=(Seed("entity", ada, 1.0, "Ada Lovelace", "exact", 1.0),),
        nodes=(
            Node(ada, "Ada Lovelace", 1.0, type="PERSON", description="A poet's child."),
            *(Node(key, names[key], weight) for key, weight in ((london, 0.6), (thames, 0.4), (head, 0.2))),
            Node("england", "England", 0.1),
        ),
        paths=(
            path(down, (ada, london, thames), (born, lies), 0.7),
            path(up, (london, thames, head), (near, rises), 0.3),
        ),
        measure="activation",
        node_count=9,
    )
    sentences = [{"passage_id": "p2", "text": "It lies on the River Thames.", "start": 8, "end": 36}]
    return {
        "question": "Which river flows through the birthplace of Ada Lovelace?",
        "answer": "River Thames",
        "strategy": "qasa",
        "version": 3,
        "passages": passages(["Ada Lovelace", "London"]),
        "evidence": as_row(evidence) | {"links": [], "sentences": sentences},
        "reading": {"kind": "extracted", "confidence": 0.42, "values": []},
        "seconds": {"encoding": 0.004, "seed": 0.001},
    }


@pytest.fixture
def bridge_answer() -> Document:
    """The question reaches p1, p1 reaches p2 and p3 through one entity, p4 hangs nowhere."""
    seeds = (Seed("passage", "p1", 0.9), Seed("entity", "esa", 0.5), Seed("passage", "p4", 0.1))
    ways = [("question", "esa", "p1", 2.0), ("p1", "agency", "p2", 1.0), ("p1", "agency", "p3", 1.0)]
    links = [dict(zip(("source", "via", "target", "weight"), way, strict=True)) for way in ways]
    return {
        "question": "Which probe?",
        "answer": "",
        "strategy": "bridge",
        "version": 1,
        "passages": passages(["Rosetta", "Giotto", "Cassini", "Moss"]),
        "evidence": as_row(Evidence(QuestionNames(("esa",), ()), seeds)) | {"links": links, "sentences": []},
        "reading": {"kind": "none", "confidence": 0.0, "values": []},
        "seconds": {},
    }


def page_of(document: Document, **material: Any) -> str:
    return answer_page(document, material_of(**material))


def material_of(**given: Any) -> PageMaterial:
    return PageMaterial(**{"index": "tiny", "encoder": None, "parameters": {}, **given})


def test_columns_follow_the_distance_from_the_seeds_and_passages_come_last(qasa_answer: Document) -> None:
    drawing = sheet.draw(sheet.evidence_graph(qasa_answer, {"p1": ["ada lovelace"]}, ()))
    x = {shape.node.name: shape.x for shape in drawing.nodes if shape.node.kind == "entity"}
    order = ["Ada Lovelace", "London", "River Thames", "Thames Head"]
    assert [x[name] for name in order] == sorted({x[name] for name in order})
    assert x["England"] == x["London"]
    of_passages = {shape.x for shape in drawing.nodes if shape.node.kind == "passage"}
    assert of_passages == {max(shape.x for shape in drawing.nodes)}
    assert all(0 <= shape.x <= drawing.width - drawing.node_width for shape in drawing.nodes)
    assert all(12 <= shape.y <= drawing.height - 12 for shape in drawing.nodes)
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


def test_labels_that_would_lie_on_each_other_are_left_out_and_those_of_a_column_point_up() -> None:
    nodes = tuple(sheet.DrawnNode(name, "entity", name, 1.0) for name in ("a", "b", "c"))
    edges = (sheet.DrawnEdge("a", "c", ("first",)), sheet.DrawnEdge("b", "c", ("second",)))
    drawing = sheet.draw(sheet.EvidenceGraph(nodes, edges, {"a": 0, "b": 0}, 0))
    assert [line.label for line in drawing.relations] == ["first →", ""]
    assert [line.title for line in drawing.relations] == ["a — first → c", "b — second → c"]
    column = sheet.draw(sheet.EvidenceGraph(nodes[:2], (sheet.DrawnEdge("b", "a", ("above",)),), {"a": 0, "b": 0}, 0))
    assert [line.label for line in column.relations] == ["↑ above"]


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


def test_a_passage_hangs_at_its_two_strongest_entities_and_relations_repeat_nothing(qasa_answer: Document) -> None:
    relations = [("london", "is in", "england"), ("london", "again", "river thames")]
    graph = evidence_graph(qasa_answer, {"p2": ["england", "london", "river thames", "unknown"]}, relations)
    hung = [DrawnEdge("entity london", "passage p2"), DrawnEdge("entity river thames", "passage p2")]
    assert [edge for edge in graph.edges if edge.target == "passage p2"] == hung
    assert DrawnEdge("entity london", "entity england", ("is in",)) in graph.edges
    assert all("again" not in edge.forward for edge in graph.edges)
    assert graph.roots == {"entity ada lovelace": 0}
    assert not graph.has_question


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


def test_the_page_says_what_was_asked_found_and_how(qasa_answer: Document) -> None:
    texts = {"p1": "Ada Lovelace was born in London.", "p2": "London. It lies on the River Thames. It is large."}
    page = page_of(qasa_answer, texts=texts, encoder="MiniLM", parameters={"steps": 3})
    for words in (
        *(qasa_answer["question"], "River Thames</p>", "confidence 0.42", VERSION, "tiny, version 3", "MiniLM"),
        "<mark>It lies on the River Thames.</mark> It is large.",
        "Ada Lovelace --[born in]--&gt; London --[lies on]--&gt; River Thames",
        "A poet&#39;s child.",
        "The search reached 4 more entities",
        '<td>steps</td><td class="value">3</td>',
    ):
        assert words in page, words
    assert len(re.findall(r'<g class="node ', page)) == 5 + 2
    assert page == page_of(qasa_answer, texts=texts, encoder="MiniLM", parameters={"steps": 3}), "whenever it is made"


def test_the_page_shows_whatever_evidence_there_is(bridge_answer: Document) -> None:
    page = page_of(bridge_answer)
    assert set(re.findall(r'(?:href|src)="([^"]*)"', page)) == {f"#passage-{rank}" for rank in range(1, 5)}
    began = re.findall(r"<td>(passage|entity)</td><td class=\"name\" dir=\"auto\">", page)
    assert began == ["passage", "entity", "passage"]
    assert "Their texts are unavailable: version 1" in page
    path = as_row(Evidence(paths=(EvidencePath("Rosetta --[of]--> ESA"),)))["paths"]
    searched = bridge_answer["evidence"] | {"seeds": [], "paths": path, "fallback": asdict(PASSAGES_ONLY)}
    page = page_of(bridge_answer | {"evidence": searched})
    assert ("Rosetta --[of]--&gt; ESA</td>" in page, "the walk began at passages only" in page) == (True, True)
    assert "ranks without a graph" not in page
    unknown = {"links": [], "sentences": [], "beams": ["<b>path</b>", "e1"]}
    page = page_of(bridge_answer | {"strategy": "bm25", "evidence": unknown})
    for words in ("returns no graph to draw", "No answer found", "&lt;b&gt;path&lt;/b&gt;", "&#34;e1&#34;"):
        assert words in page, words
    assert "<g class=" not in page
    page = page_of(bridge_answer | {"answer": "", "reading": {"kind": "unread"}})
    assert ("Reading is disabled; these are the passages." in page, "No answer found" in page) == (True, False)


@pytest.mark.parametrize(("cost", "shown"), [(0.25, "0.25 USD"), (None, "cost unknown")])
def test_computed_values_and_a_model_s_words_are_shown(bridge_answer: Document, cost: float | None, shown: str) -> None:
    sentence = {"passage_id": "p1", "text": "Born 1901.", "start": 0, "end": 10}
    usage = {"calls": 1, "prompt_tokens": 12, "completion_tokens": 3, "cost_usd": cost, "seconds": 1.0}
    bridge_answer["answer"] = "1901"
    bridge_answer["reading"] = {
        "kind": "generated",
        "values": [{"name": "year", "value": "1901", "sentence": sentence}],
        "model": "scripted/reader",
        "prompt": {"name": "qa.answer", "hash": "0123456789"},
        "usage": usage,
        "cached": True,
        "fallback": None,
        "reasoning": "It says so.",
        "citations": [{"passage_id": "p2", "quote": "in 1901", "start": None, "end": None}],
        "dropped_citations": 2,
    }
    page = page_of(bridge_answer, texts={"p1": "Born 1901. Died.", "p2": "She was born in 1901."})
    for words in ("<b>year</b>: 1901", "<mark>Born 1901.</mark> Died.", "She was born <mark>in 1901</mark>.", "12 + 3"):
        assert words in page, words
    for words in (f"{shown}, cached", "It says so.", "2 cited sources", "written by a model"):
        assert words in page, words


def test_a_page_names_a_model_as_asked_when_rules_answered(bridge_answer: Document) -> None:
    usage = {"calls": 2, "prompt_tokens": 12, "completion_tokens": 3, "cost_usd": None, "seconds": 1.0}
    failed = {"error_class": "MalformedReplyError", "error": "No JSON."}
    asked = {
        "model": "scripted/reader",
        "prompt": {"name": "qa.answer", "hash": "0123456789"},
        "usage": usage,
        "cached": False,
        "values": [],
    }
    answered = {
        "dropped_citations": 0,
        "citations": [],
        "by": "local",
        "kind": "extracted",
        "confidence": 0.9,
        "fallback": failed,
        "reasoning": "",
    }
    page = page_of(bridge_answer | {"answer": "1901", "reading": asked | answered})
    assert ("Read by" in page, "Asked: scripted/reader" in page) == (False, True)


SPANS = st.lists(st.tuples(st.integers(-5, 50), st.integers(-5, 50)), max_size=5)


@given(st.text(max_size=40), SPANS, SPANS)
def test_pieces_are_the_marked_text(text: str, spans: list[tuple[int, int]], names: list[tuple[int, int]]) -> None:
    pieces = marked(text, spans, names)
    assert "".join(piece for piece, *_ in pieces) == text
    flags = [tuple(kinds) for piece, *kinds in pieces for _ in piece]
    covered = [[[start <= place < end for start, end in some] for some in (spans, names)] for place in range(len(text))]
    assert flags == [tuple(map(any, both)) for both in covered]


def test_names_of_the_question_are_bold_wherever_passages_have_them_as_words(bridge_answer: Document) -> None:
    page = page_of(bridge_answer, texts={"p1": "In ANN ROE's <house> Annabel met (Ann Roe)."}, names=["Ann", "Ann Roe"])
    assert "In <b>ANN ROE</b>&#39;s &lt;house&gt; Annabel met (<b>Ann Roe</b>)." in page


def test_half_a_character_does_not_stop_the_page(bridge_answer: Document, tmp_path: Path) -> None:
    bridge_answer["question"] = "Which probe \udcff?"
    write_page(tmp_path / "page.html", bridge_answer, material_of())
    assert "Which probe ??" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def triple(rank: int, subject: str, predicate: str, value: str) -> Document:
    ends = {"subject": {"id": f"R-{subject}", "name": subject}, "object": {"id": f"R-{value}", "name": value}}
    return {"id": f"t{rank}", "predicate": predicate, "score": 1 / rank, "rank": rank, **ends}


def test_ranked_triples_are_listed_and_drawn_without_a_graph(bridge_answer: Document, qasa_answer: Document) -> None:
    said = (("Ada", "born <in>", "London"), ("London", "lies on", "Thames"), ("London", "is", "London"))
    triples = [triple(rank, *ends) for rank, ends in enumerate(said, start=1)]
    document = bridge_answer | {"evidence": {"sentences": [], "links": []}, "triples": triples}
    page = page_of(document)
    assert len(re.findall(r'<g class="node entity', page)) == 3
    assert page.count('class="relation"') == 2 + 1  # of the legend, too; an edge to itself cannot be drawn
    for words in ("born &lt;in&gt;", "with its best triple&#39;s score", "The drawing shows the ranked triples"):
        assert words in page
    assert page.index('id="triples"') < page.index('id="passages"')
    assert "passage with its rank" not in page
    assert 'id="passages"' not in page_of(document | {"passages": []})
    of_evidence = page_of(qasa_answer | {"triples": [triple(1, "Zoe", "knows", "Yan")]})
    assert len(re.findall(r'<g class="node ', of_evidence)) == 5 + 2
    assert "The drawing shows the ranked triples" not in of_evidence


@pytest.mark.parametrize(("scores", "is_said"), [((4, 3, 2, 1), False), ((4, 4, 4, 4), False), ((4, 2, 3, 1), True)])
def test_a_page_says_why_passages_are_not_in_the_order_of_their_scores(
    bridge_answer: Document, scores: tuple[int, ...], is_said: bool
) -> None:
    rows = [row | {"score": score} for row, score in zip(bridge_answer["passages"], scores, strict=True)]
    page = page_of(bridge_answer | {"passages": rows})
    assert ("may come before one with a higher score" in page) == is_said
