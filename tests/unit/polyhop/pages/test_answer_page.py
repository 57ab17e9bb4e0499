"""The page of an answer: everything is on it, texts stay texts, the same answer gives the same bytes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.pages.answer_page import all_parameters, answer_page, marked, write_page
from polyhop.schemas.evidence import Evidence, as_row
from polyhop.schemas.evidence import Path as EvidencePath
from polyhop.schemas.version import VERSION

Document = dict[str, Any]
Make = Callable[..., Any]


def test_the_page_says_what_was_asked_found_and_how(qasa_answer: Document, make_material: Make) -> None:
    texts = {"p1": "Ada Lovelace was born in London.", "p2": "London. It lies on the River Thames. It is large."}
    page = answer_page(qasa_answer, make_material(texts=texts, encoder="MiniLM", parameters={"steps": 3}))
    for words in (
        qasa_answer["question"],
        "River Thames</p>",
        "confidence 0.42",
        "<mark>It lies on the River Thames.</mark> It is large.",
        "Ada Lovelace --[born in]--&gt; London --[lies on]--&gt; River Thames",
        "A poet&#39;s child.",
        "The search reached 4 more entities",
        "MiniLM",
        '<td>steps</td><td class="value">3</td>',
        VERSION,
        "tiny, version 3",
    ):
        assert words in page, words
    assert len(re.findall(r'<g class="node ', page)) == 5 + 2


def test_the_same_answer_gives_the_same_page(qasa_answer: Document, make_material: Make) -> None:
    assert answer_page(qasa_answer, make_material()) == answer_page(qasa_answer, make_material())


def test_the_page_needs_nothing_from_elsewhere(bridge_answer: Document, make_material: Make) -> None:
    page = answer_page(bridge_answer, make_material())
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.search(r"(?i)<script|<link|<img|@import|url\(|https?://|\son\w+=", page)
    assert set(re.findall(r'(?:href|src)="([^"]*)"', page)) == {f"#passage-{rank}" for rank in range(1, 5)}


def test_a_plain_ranking_says_that_it_has_no_graph(bridge_answer: Document, make_material: Make) -> None:
    bridge_answer |= {"strategy": "bm25", "evidence": {"sentences": [], "links": []}}
    page = answer_page(bridge_answer, make_material())
    assert "left no graph to draw" in page
    assert "No answer found" in page
    assert "<g class=" not in page


def test_a_walk_shows_where_it_began(bridge_answer: Document, make_material: Make) -> None:
    page = answer_page(bridge_answer, make_material())
    assert [
        found[0] for found in re.findall(r"<td>(passage|entity)</td><td class=\"name\" dir=\"auto\">([^<]*)", page)
    ] == [
        "passage",
        "entity",
        "passage",
    ]
    assert "Their texts are gone with version 1" in page


def test_a_graph_search_shows_its_paths(bridge_answer: Document, make_material: Make) -> None:
    bridge_answer["evidence"] |= {
        "seeds": [],
        "paths": as_row(Evidence(paths=(EvidencePath("Rosetta --[of]--> ESA"),)))["paths"],
    }
    page = answer_page(bridge_answer, make_material())
    assert "Rosetta --[of]--&gt; ESA</td>" in page
    assert "ranks without a graph" not in page


def test_evidence_that_the_page_does_not_know_is_shown_as_it_is(bridge_answer: Document, make_material: Make) -> None:
    bridge_answer["evidence"] = {"links": [], "sentences": [], "beams": ["<b>path</b>", "e1"]}
    page = answer_page(bridge_answer, make_material())
    assert "&lt;b&gt;path&lt;/b&gt;" in page
    assert "&#34;e1&#34;" in page


@pytest.mark.parametrize(("cost", "shown"), [(0.25, "0.25 USD"), (None, "cost unknown")])
def test_computed_values_and_a_model_s_words_are_shown(
    bridge_answer: Document, make_material: Make, cost: float | None, shown: str
) -> None:
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
    page = answer_page(bridge_answer, make_material(texts={"p1": "Born 1901. Died.", "p2": "She was born in 1901."}))
    for words in ("<b>year</b>: 1901", "<mark>Born 1901.</mark> Died.", "She was born <mark>in 1901</mark>.", "12 + 3"):
        assert words in page, words
    for words in (f"{shown}, paid for before", "It says so.", "2 cited sources", "written by a model"):
        assert words in page, words


def test_an_answer_that_nobody_was_to_read_is_not_called_missing(bridge_answer: Document, make_material: Make) -> None:
    bridge_answer |= {"answer": "", "reading": {"kind": "unread"}}
    page = answer_page(bridge_answer, make_material())
    assert "No answer was read; these are the passages." in page
    assert "No answer found" not in page


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(-5, 50), st.integers(-5, 50)), max_size=5))
def test_marked_pieces_are_the_text_and_mark_what_the_spans_cover(text: str, spans: list[tuple[int, int]]) -> None:
    pieces = marked(text, spans)
    assert "".join(piece for piece, _ in pieces) == text
    flags = [is_marked for piece, is_marked in pieces for _ in piece]
    assert flags == [any(start <= place < end for start, end in spans) for place in range(len(text))]


def test_half_a_character_does_not_stop_the_page(bridge_answer: Document, make_material: Make, tmp_path: Path) -> None:
    bridge_answer["question"] = "Which probe \udcff?"
    write_page(tmp_path / "page.html", bridge_answer, make_material())
    assert "Which probe ??" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_given_parameters_stand_among_the_defaults(bridge_answer: Document) -> None:
    parameters = all_parameters(bridge_answer, {"seeds": "7"})
    assert parameters["seeds"] == 7
    assert parameters["restart"] == 0.1


def triple(rank: int, subject: str, predicate: str, value: str) -> Document:
    ends = {"subject": {"id": f"R-{subject}", "name": subject}, "object": {"id": f"R-{value}", "name": value}}
    return {"id": f"t{rank}", "predicate": predicate, "score": 1 / rank, "rank": rank, **ends}


def test_ranked_triples_are_listed_and_drawn_where_the_evidence_has_no_graph(
    bridge_answer: Document, make_material: Make
) -> None:
    triples = [
        triple(1, "Ada", "born <in>", "London"),
        triple(2, "London", "lies on", "Thames"),
        triple(3, "London", "is", "London"),
    ]
    document = bridge_answer | {"evidence": {"sentences": [], "links": []}, "triples": triples}
    page = answer_page(document, make_material())
    assert len(re.findall(r'<g class="node entity', page)) == 3
    assert page.count('class="relation"') == 2 + 1  # of the legend, too; an edge to itself cannot be drawn
    assert "born &lt;in&gt;" in page
    assert "larger and stronger with its best triple&#39;s score" in page
    assert "The drawing shows the ranked triples" in page
    assert page.index('id="triples"') < page.index('id="passages"')
    assert "passage with its rank" not in page
    alone = answer_page(document | {"passages": []}, make_material())
    assert 'id="passages"' not in alone


def test_a_triple_of_the_page_comes_with_its_hops_once_and_without_ids_that_polyhop_made(
    bridge_answer: Document, make_material: Make
) -> None:
    born = triple(1, "Ada", "born", "1990") | {"object": {"id": "0f" * 16, "name": "1990"}}
    wrote = triple(2, "Paper", "author", "Ada")
    hop = {"source": "R-Paper", "target": "R-Ada", "forward": ["author"], "backward": []}
    last = {"source": "R-Ada", "target": "0f" * 16, "forward": ["born"], "backward": []}
    path = {"nodes": ["R-Paper", "R-Ada", "0f" * 16], "names": ["Paper", "Ada", "1990"], "edges": [hop, last]}
    evidence = {"sentences": [], "links": [], "paths": [path | {"score": 0.5, "text": "Paper, Ada, 1990"}]}
    page = answer_page(bridge_answer | {"evidence": evidence, "triples": [born, wrote, born]}, make_material())
    table = page[page.index('id="triples"') : page.index('id="passages"')]
    assert table.count('<td class="number">1</td>') == 1
    assert '<td class="number">2</td>' not in table
    assert "Paper [R-Paper] --[author]--&gt; " in table
    assert "0f0f" not in table


def test_a_graph_of_the_evidence_goes_before_one_of_triples(qasa_answer: Document, make_material: Make) -> None:
    page = answer_page(qasa_answer | {"triples": [triple(1, "Zoe", "knows", "Yan")]}, make_material())
    assert len(re.findall(r'<g class="node ', page)) == 5 + 2
    assert "The drawing shows the ranked triples" not in page
