"""Sizes and degrees of the golden graph, and gold titles among its hubs."""

from typing import Any

import numpy as np
import pytest

from polyhop.schemas.graph import BipartiteGraph
from polyhop.tasks.propositions.graph import proposition_graph
from polyhop.worker.ranking.graph_statistics import graph_statistics, hub_coverage, proposition_statistics


def test_statistics_of_the_golden_graph(golden_graph: BipartiteGraph) -> None:
    """d0, d1, d2 have two entities each, d3 one, d4 none; alice is in one passage, the others in two."""
    assert graph_statistics(golden_graph) == {
        "nodes": 9,
        "edges": 7,
        "entities": 4,
        "passages": 5,
        "isolated_passages": 1,
        "p95_entity_degree": 2,
        "max_entity_degree": 2,
        "p95_passage_degree": 2,
        "max_passage_degree": 2,
    }


def test_percentiles_are_degrees_that_occur(make_graph: Any) -> None:
    """100 entities; the 95th degree of the sorted ones is 2, the largest 40."""
    rows = [{f"e{n:03d}": 1.0 for n in range(100)}, {f"e{n:03d}": 1.0 for n in range(10)}]
    rows += [{"e000": 1.0} for _ in range(38)]
    found = graph_statistics(make_graph(rows))
    assert (found["p95_entity_degree"], found["max_entity_degree"]) == (2, 40)
    assert (found["p95_passage_degree"], found["max_passage_degree"]) == (1, 100)


def test_an_empty_graph_has_no_degrees(make_graph: Any) -> None:
    assert set(graph_statistics(make_graph([])).values()) == {0}


def test_gold_titles_among_the_hubs_are_counted_once_and_their_questions_each(golden_graph: BipartiteGraph) -> None:
    """Half of four entities: bob and france."""
    gold = [("bob", "paris"), ("alice",), ("bob",), ("france", "bob"), ("nobody",), ()]
    found = hub_coverage(golden_graph, gold, 50)
    assert found.hubs == 2
    assert found.removed == ("bob", "france")
    assert found.touched == (0, 2, 3)
    assert found.title_share == pytest.approx(2 / 5)
    assert found.question_share == pytest.approx(3 / 6)


def test_without_pruning_or_questions_nothing_is_lost(golden_graph: BipartiteGraph) -> None:
    assert hub_coverage(golden_graph, [("bob",)], 0).removed == ()
    nothing = hub_coverage(golden_graph, [], 50)
    assert (nothing.title_share, nothing.question_share) == (0.0, 0.0)


def test_the_graph_over_propositions_is_counted_by_kind_of_edge() -> None:
    """Propositions 0 (of passages 0, 1: entities 0, 1, 2), 1 (of 1: entity 2), 2 (of 1: none); 3 in no proposition."""
    graph = proposition_graph(
        np.array([[0, 0], [0, 1], [0, 2], [1, 2]]),
        np.array([[0, 0], [0, 1], [1, 1], [2, 1]]),
        np.array([[0, 1], [2, 3]]),
        np.array([0.9, 0.8]),
        (3, 4, 3),
    )
    assert proposition_statistics(graph) == {
        "propositions": 3,
        "propositions_without_entity": 1,
        "passages": 3,
        "passages_without_proposition": 1,
        "entities": 3,
        "clique_edges": 3,
        "containment_edges": 6,
        "synonym_edges": 2,
    }
