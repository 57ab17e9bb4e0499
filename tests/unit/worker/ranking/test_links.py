"""How passages hang together: the rarest shared entity, question first."""

from collections.abc import Callable
from math import log
from typing import Any

import pytest

from polyhop.schemas.errors import UnknownIdError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.query import Link
from polyhop.worker.ranking.traversal import EXPLAINED, NumberedLink, connect, strongest_links

MakeGraph = Callable[..., BipartiteGraph]


def test_the_rarest_shared_entity_links(make_graph: MakeGraph) -> None:
    """common is in all three, rare in the first two only."""
    graph = make_graph([{"common": 1, "rare": 1}, {"common": 1, "rare": 1}, {"common": 1}])
    common, rare = 0, 1
    assert strongest_links(graph, [], [0, 1, 2]) == [NumberedLink(0, rare, 1), NumberedLink(0, common, 2)]


def test_the_question_comes_before_passages_and_better_passages_before_worse(make_graph: MakeGraph) -> None:
    graph = make_graph([{"a": 1, "b": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}, {"c": 1}])
    a, b, c = range(3)
    assert strongest_links(graph, [a], [1, 0, 2, 3]) == [
        NumberedLink(None, a, 1),
        NumberedLink(None, a, 0),
        NumberedLink(1, b, 2),
        NumberedLink(2, c, 3),
    ]


def test_equally_rare_entities_tie_by_key(make_graph: MakeGraph) -> None:
    graph = make_graph([{"x": 1, "y": 1}, {"x": 1, "y": 1}])
    assert strongest_links(graph, [], [0, 1]) == [NumberedLink(0, 0, 1)]


def test_a_passage_that_shares_nothing_has_no_link(make_graph: MakeGraph) -> None:
    assert strongest_links(make_graph([{"a": 1}, {"b": 1}, {}]), [], [0, 1, 2]) == []


def test_links_carry_ids_keys_and_rarity(memory_index: Any) -> None:
    names = QuestionNames(("ada lovelace",), ("nobody",))
    links = connect(memory_index, names, ["p00", "p01", "p11"])
    assert links[0] == Link("question", "ada lovelace", "p00", pytest.approx(log(14 / 2)))  # type: ignore[arg-type]
    assert [(link.source, link.target) for link in links] == [("question", "p00"), ("p00", "p01")]


def test_only_the_first_passages_are_explained(memory_index: Any, corpus: Any) -> None:
    ids = [row[0] for row in corpus]
    shown = {link.target for link in connect(memory_index, None, ids)}
    assert shown <= set(ids[:EXPLAINED])


def test_a_passage_of_another_version_is_refused(memory_index: Any) -> None:
    with pytest.raises(UnknownIdError, match="p99"):
        connect(memory_index, None, ["p99"])
