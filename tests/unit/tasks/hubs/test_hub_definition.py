"""Which nodes are hubs: by type, by edges, by both or either, each on a graph of its own."""

from collections.abc import Callable

import pytest

from polyhop.schemas.settings import HubMode
from polyhop.tasks.hubs.paths import DEFINITIONS, NamedGraph, hub_rules, nodes_beside, splits

MakeGraph = Callable[[str], NamedGraph]

STATED = """P1 author A1; P1 author A2; P1 year "1; P2 author A1; P3 cites P3; P3 cites P1; A1 in U1; A2 in U1"""


def hubs(graph_of: MakeGraph, mode: HubMode, min_edges: int, *typed: str, stated: str = STATED) -> dict[str, str]:
    """Own ids of hubs and why they are."""
    named = graph_of(stated)
    rules = hub_rules(named.graph, [named.own_ids.index(name) for name in typed], mode, min_edges)
    return {named.own_ids[node]: DEFINITIONS[rule] for node, rule in enumerate(rules.tolist()) if rule}


def test_types_alone_need_no_edges(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "types", 99, "P1", "P2") == {"P1": "types", "P2": "types"}


def test_edges_of_both_directions_count_a_self_loop_twice_and_those_to_literals_too(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "edges", 4) == {"P1": "edges"}
    assert hubs(graph_of, "edges", 3) == {"P1": "edges", "P3": "edges", "A1": "edges"}


def test_parallel_edges_of_other_predicates_count(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "edges", 3, stated="a p b; a q b; a r b") == {"a": "edges", "b": "edges"}


def test_both_rules_or_either(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "both", 4, "P1", "P2") == {"P1": "types and edges"}
    assert hubs(graph_of, "either", 4, "P1", "P2") == {"P1": "types and edges", "P2": "types"}
    assert hubs(graph_of, "either", 3, "P2") == {"P1": "edges", "P2": "types", "P3": "edges", "A1": "edges"}


def test_a_literal_is_never_a_hub(graph_of: MakeGraph) -> None:
    assert hubs(graph_of, "either", 1, '"1', stated='a p "1; b p "1') == {"a": "edges", "b": "edges"}


def test_a_pair_of_predicate_and_label_means_either_direction(graph_of: MakeGraph) -> None:
    named = graph_of("P1 type Paper; P2 type Paper; List type P3; P4 kind Paper")
    labelled = [named.own_ids.index("Paper"), named.own_ids.index("List")]
    found = nodes_beside(named.graph, named.predicates.index("type"), labelled)
    assert [named.own_ids[node] for node in found] == ["P1", "P2", "P3"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [("Paper", []), ("type=Paper", [("type", "Paper")]), ("a=b=c", [("a", "b=c"), ("a=b", "c")])],
)
def test_an_entry_with_an_equals_sign_may_be_a_pair(entry: str, expected: list[tuple[str, str]]) -> None:
    assert splits(entry) == expected
