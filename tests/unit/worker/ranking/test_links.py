"""How passages hang together: the rarest shared entity, question first."""

from collections.abc import Callable
from math import log
from typing import Any

import pytest

from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.query import Link
from polyhop.worker.ranking.traversal import EXPLAINED, connect, strongest_links

MakeGraph = Callable[..., BipartiteGraph]
Links = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def links_of(make_graph: MakeGraph) -> Links:
    """Links among passages "0", "1"… of this graph, in the order asked, for a question that names some entities."""

    def found(passages: list[dict[str, int]], named: tuple[str, ...], order: str) -> list[tuple[str, str, str]]:
        graph = make_graph(passages)
        number_of = {str(number): number for number in range(len(passages))}
        links = strongest_links(graph, number_of, QuestionNames(named, ()), list(order))
        return [(link.source, link.via, link.target) for link in links]

    return found


def test_the_rarest_shared_entity_links(links_of: Links) -> None:
    """common is in all three, rare in the first two only."""
    passages = [{"common": 1, "rare": 1}, {"common": 1, "rare": 1}, {"common": 1}]
    assert links_of(passages, (), "012") == [("0", "rare", "1"), ("0", "common", "2")]


def test_the_question_comes_before_passages_and_better_passages_before_worse(links_of: Links) -> None:
    passages = [{"a": 1, "b": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}, {"c": 1}]
    assert links_of(passages, ("a",), "1023") == [
        ("question", "a", "1"),
        ("question", "a", "0"),
        ("1", "b", "2"),
        ("2", "c", "3"),
    ]


def test_equally_rare_entities_tie_by_key(links_of: Links) -> None:
    assert links_of([{"x": 1, "y": 1}, {"x": 1, "y": 1}], (), "01") == [("0", "x", "1")]


def test_a_passage_that_shares_nothing_has_no_link(links_of: Links) -> None:
    assert links_of([{"a": 1}, {"b": 1}, {}], (), "012") == []


def test_links_carry_ids_keys_and_rarity(memory_index: Any) -> None:
    names = QuestionNames(("ada lovelace",), ("nobody",))
    links = connect(memory_index, names, ["p00", "p01", "p11"])
    assert links[0] == Link("question", "ada lovelace", "p00", pytest.approx(log(14 / 2)))  # type: ignore[arg-type]
    assert [(link.source, link.target) for link in links] == [("question", "p00"), ("p00", "p01")]


def test_only_the_first_passages_are_explained(memory_index: Any, corpus: Any) -> None:
    ids = [row[0] for row in corpus]
    shown = {link.target for link in connect(memory_index, None, ids)}
    assert shown <= set(ids[:EXPLAINED])
