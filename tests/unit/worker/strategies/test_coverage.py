"""Buckets of questions by what their names reach."""

from typing import Any

from polyhop.worker.strategies.coverage import BUCKETS, coverage_buckets
from polyhop.worker.strategies.nodes import NodeParameters, entity_nodes

QUESTIONS = (
    ("what is a river", ["River Thames"]),
    ("Who is John Doe?", ["Troy"]),
    ("Where was Marie Curie born?", ["Warsaw", "Vistula"]),
    ("Where was Marie Curie born?", ["Marie Curie", "Warsaw"]),
    ("Who carried off Helen?", ["Paris (mythology)"]),
    ("Where is Paris?", ["Paris"]),
)


def test_names_reach_no_node_other_nodes_or_a_gold_title(memory_index: Any) -> None:
    found = coverage_buckets(entity_nodes(memory_index, NodeParameters()), QUESTIONS)
    assert found == ["no_entity", "no_entity", "entity_no_gold", "entity_gold", "entity_no_gold", "entity_gold"]
    assert set(found) == set(BUCKETS)


def test_gold_titles_are_under_the_norm_and_aliases_of_the_graph(make_index: Any) -> None:
    index = make_index([("a", "Mercury (planet)", "It is hot."), ("b", "", "NASA likes Mercury.")])
    question = [("Who went to Mercury?", ["Mercury (planet)"])]
    for norm in ("key", "simple"):
        plain = entity_nodes(index, NodeParameters(entity_norm=norm))
        aliased = entity_nodes(index, NodeParameters(entity_norm=norm, title_aliases=True))
        assert coverage_buckets(plain, question) == ["entity_no_gold"]
        assert coverage_buckets(aliased, question) == ["entity_gold"]


def test_pruned_names_are_no_entities(memory_index: Any) -> None:
    nodes = entity_nodes(memory_index, NodeParameters(hub_top_percent=100))
    assert coverage_buckets(nodes, [("Where is Paris?", ["Paris"])]) == ["no_entity"]
