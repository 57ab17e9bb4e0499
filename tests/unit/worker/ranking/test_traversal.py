"""Traversal, passages by hops, shortest paths: golden values, and igraph on random graphs."""

from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import RelationGraph
from polyhop.worker.ranking.similarity import mentioned_in
from polyhop.worker.ranking.traversal import (
    expand,
    passages_by_hops,
    passages_mentioning,
    shared_passages,
    shortest_paths,
    traverse,
)

ALDER, BIRCH, CEDAR, DOGWOOD, ELM, STREET = "e1", "e2", "e3", "e4", "e5", "e6"
KEYS = [ALDER, BIRCH, CEDAR, DOGWOOD, ELM, STREET]
TRIPLES = [(BIRCH, "r", ALDER), (ALDER, "r", CEDAR), (DOGWOOD, "r", ALDER), (ELM, "r", DOGWOOD)]
CHUNKS = [{ALDER: 1, BIRCH: 1}, {ALDER: 1, CEDAR: 1}, {DOGWOOD: 1, ALDER: 1}, {ELM: 1, DOGWOOD: 1}, {STREET: 1}]

edges = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


@pytest.fixture(scope="session")
def trees(make_relations: Any) -> RelationGraph:
    """The relations of G-ARC, and a loop, which the arrays never hold."""
    graph: RelationGraph = make_relations(KEYS, [*TRIPLES, (ALDER, "r", ALDER)])
    return graph


def graph_of(make_relations: Any, pairs: list[tuple[int, int]], count: int = 12) -> RelationGraph:
    keys = [f"n{number:02d}" for number in range(count)]
    graph: RelationGraph = make_relations(keys, [(keys[a], "r", keys[b]) for a, b in pairs])
    return graph


def levels(graph: RelationGraph, starts: list[int], depth: int) -> dict[int, int]:
    reached, hops = expand(graph, starts, depth)
    return dict(zip(reached.tolist(), hops.tolist(), strict=True))


@pytest.mark.parametrize(
    ("start", "depth", "found"),
    [
        (ALDER, 1, [BIRCH, CEDAR, DOGWOOD]),
        (BIRCH, 1, [ALDER]),
        (BIRCH, 2, [ALDER, CEDAR, DOGWOOD]),
        (ELM, 3, [DOGWOOD, ALDER, BIRCH, CEDAR]),
        (STREET, 2, []),
        (ALDER, 0, []),
    ],
)
def test_golden_traversals(trees: RelationGraph, start: str, depth: int, found: list[str]) -> None:
    """G-ARC."""
    reached, hops = traverse(trees, KEYS.index(start), depth)
    assert [KEYS[number] for number in reached.tolist()] == found
    assert sorted(hops.tolist()) == hops.tolist()


def test_golden_scores_of_passages(trees: RelationGraph, make_graph: Any) -> None:
    """G-ARC, graph_search([Birch], depth 2)."""
    entities, hops = expand(trees, [KEYS.index(BIRCH)], 2)
    assert dict(zip(entities.tolist(), hops.tolist(), strict=True)) == {0: 1, 1: 0, 2: 2, 3: 2}
    numbers, scores = passages_by_hops(mentioned_in(make_graph(CHUNKS)), entities, hops, 0.5, 10)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert scores.tolist() == pytest.approx([0.15, 0.075, 0.075, 0.025], abs=1e-12)


def test_every_hop_halves_what_a_mention_is_worth(make_relations: Any, make_graph: Any) -> None:
    """By hand: a path n0 - n1 - … - n5 with a passage for each entity: 0.1 * 0.5 ** hop, beyond hop 2 as well."""
    graph = graph_of(make_relations, [(n, n + 1) for n in range(5)], count=6)
    entities, hops = expand(graph, [0], 5)
    passages = mentioned_in(make_graph([{f"n{n:02d}": 1} for n in range(6)]))
    numbers, scores = passages_by_hops(passages, entities, hops, 0.5, 10)
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5]
    assert scores.tolist() == pytest.approx([0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125], abs=1e-12)


def test_mentions_of_one_entity_in_a_passage_count_once(make_graph: Any) -> None:
    graph = make_graph([{"a": 7, "b": 1}, {"a": 1}])
    _, scores = passages_by_hops(mentioned_in(graph), np.array([0]), np.array([0]), 0.5, 5)
    assert scores.tolist() == [0.1, 0.1]


@pytest.mark.parametrize("count", [0, -3])
def test_no_passages_are_returned_where_none_are_wanted(make_graph: Any, count: int) -> None:
    numbers, scores = passages_by_hops(mentioned_in(make_graph(CHUNKS)), np.array([0]), np.array([0]), 0.5, count)
    assert (len(numbers), len(scores)) == (0, 0)


def test_a_negative_depth_is_refused(trees: RelationGraph) -> None:
    for refused in (
        lambda: expand(trees, [0], -1),
        lambda: traverse(trees, 0, -1),
        lambda: shortest_paths(trees, [0], [1], -1, 5),
    ):
        with pytest.raises(AlgorithmError, match="-1; it must be at least 0"):
            refused()


def test_doubled_starts_count_once_and_none_reach_nothing(trees: RelationGraph) -> None:
    assert levels(trees, [1, 1, 4], 1) == {0: 1, 1: 0, 3: 1, 4: 0}
    assert levels(trees, [], 3) == {}


def test_passages_of_entities_come_once_and_ascending(make_graph: Any) -> None:
    edges_of = mentioned_in(make_graph(CHUNKS))
    assert passages_mentioning(edges_of, [3, 0]).tolist() == [0, 1, 2, 3]
    assert passages_mentioning(edges_of, []).tolist() == []
    assert shared_passages(edges_of, [0, 1], [2, 3]).tolist() == [1, 2]
    assert shared_passages(edges_of, [5], [0]).tolist() == []


@given(pairs=edges, starts=st.lists(st.integers(0, 11), min_size=1, max_size=4), depth=st.integers(0, 5))
def test_hops_are_those_of_igraph(make_relations: Any, pairs: Any, starts: list[int], depth: int) -> None:
    graph = graph_of(make_relations, pairs)
    reference = igraph.Graph(12, pairs)
    nearest = np.min(reference.distances(source=sorted(set(starts))), axis=0)
    assert levels(graph, starts, depth) == {n: int(hop) for n, hop in enumerate(nearest) if hop <= depth}


@given(
    pairs=edges,
    sources=st.sets(st.integers(0, 11), min_size=1, max_size=3),
    targets=st.sets(st.integers(0, 11), min_size=1, max_size=3),
    max_length=st.integers(0, 6),
    limit=st.integers(0, 4),
)
def test_all_shortest_paths_are_those_of_igraph(
    make_relations: Any, pairs: Any, sources: set[int], targets: set[int], max_length: int, limit: int
) -> None:
    graph = graph_of(make_relations, pairs)
    reference = igraph.Graph(12, pairs).simplify()
    least = min(reference.distances(source=sorted(sources), target=sorted(targets)), key=min)
    expected = {
        tuple(path)
        for source in sources
        for path in reference.get_all_shortest_paths(source, to=sorted(targets))
        if len(path) - 1 == min(least) <= max_length
    }
    everything = shortest_paths(graph, sorted(sources), sorted(targets), max_length, 10_000)
    assert set(everything) == expected
    degree = reference.degree()
    assert everything == sorted(expected, key=lambda path: [(degree[number], number) for number in path])
    assert shortest_paths(graph, sorted(sources), sorted(targets), max_length, limit) == everything[:limit]


def test_a_path_over_a_hub_comes_after_one_over_a_rare_entity(make_relations: Any) -> None:
    """0 and 4 meet in 1, which has five neighbours, and in 3, which has two."""
    graph = graph_of(make_relations, [(0, 1), (1, 4), (1, 5), (1, 6), (1, 7), (0, 3), (3, 4)])
    assert shortest_paths(graph, [0], [4], 4, 10) == [(0, 3, 4), (0, 1, 4)]


def test_very_many_paths_cost_no_more_than_those_wanted(make_relations: Any) -> None:
    """From one end of ten layers of two entities to the other: eight layers to choose in."""
    pairs = [(a, b) for a in range(20) for b in range(20) if b // 2 == a // 2 + 1]
    graph = graph_of(make_relations, pairs, count=20)
    assert len(shortest_paths(graph, [0], [18], 9, 3)) == 3
    assert len(shortest_paths(graph, [0], [18], 9, 10_000)) == 2**8
