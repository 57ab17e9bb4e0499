"""Traversal, passages by hops, paths and links, names: golden values, and igraph on random graphs."""

from math import log
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import RelationGraph
from polyhop.schemas.query import Link
from polyhop.worker.ranking.similarity import mentioned_in
from polyhop.worker.ranking.traversal import (
    EXPLAINED,
    NameSearch,
    connect,
    expand,
    passages_by_hops,
    passages_mentioning,
    shared_passages,
    shortest_paths,
    similar_entities,
    strongest_links,
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


def test_every_hop_halves_what_a_mention_is_worth(trees: RelationGraph, make_relations: Any, make_graph: Any) -> None:
    """G-ARC, graph_search([Birch], depth 2), mentions count once; and by hand a path n0 - n1 - … - n5."""
    entities, hops = expand(trees, [KEYS.index(BIRCH)], 2)
    assert dict(zip(entities.tolist(), hops.tolist(), strict=True)) == {0: 1, 1: 0, 2: 2, 3: 2}
    mentioned = mentioned_in(make_graph([{ALDER: 7, BIRCH: 1}, *CHUNKS[1:]]))
    numbers, scores = passages_by_hops(mentioned, entities, hops, 0.5, 10)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert scores.tolist() == pytest.approx([0.15, 0.075, 0.075, 0.025], abs=1e-12)
    assert [len(passages_by_hops(mentioned, entities, hops, 0.5, count)[0]) for count in (2, 0, -3)] == [2, 0, 0]
    entities, hops = expand(graph_of(make_relations, [(n, n + 1) for n in range(5)], count=6), [0], 5)
    passages = mentioned_in(make_graph([{f"n{n:02d}": 1} for n in range(6)]))
    numbers, scores = passages_by_hops(passages, entities, hops, 0.5, 10)
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5]
    assert scores.tolist() == pytest.approx([0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125], abs=1e-12)


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


def test_very_many_paths_cost_no_more_than_those_wanted(make_relations: Any) -> None:
    """From one end of ten layers of two entities to the other: eight layers to choose in."""
    pairs = [(a, b) for a in range(20) for b in range(20) if b // 2 == a // 2 + 1]
    graph = graph_of(make_relations, pairs, count=20)
    assert len(shortest_paths(graph, [0], [18], 9, 3)) == 3
    assert len(shortest_paths(graph, [0], [18], 9, 10_000)) == 2**8


@pytest.mark.parametrize(
    ("passages", "named", "order", "expected"),
    [
        # the rarest shared entity links: common is in all three, rare in the first two only
        (["common rare", "common rare", "common"], (), "012", ["0 rare 1", "0 common 2"]),
        # the question comes before passages, and better passages before worse
        (["a b", "a b", "b c", "c"], ("a",), "1023", ["question a 1", "question a 0", "1 b 2", "2 c 3"]),
        (["x y", "x y"], (), "01", ["0 x 1"]),  # equally rare
        (["a", "b", ""], (), "012", []),
    ],
)
def test_passages_hang_together_by_the_rarest_shared_entity(
    make_graph: Any, passages: list[str], named: tuple[str, ...], order: str, expected: list[str]
) -> None:
    graph = make_graph([dict.fromkeys(keys.split(), 1) for keys in passages])
    number_of = {str(number): number for number in range(len(passages))}
    links = strongest_links(graph, number_of, QuestionNames(named, ()), list(order))
    assert [f"{link.source} {link.via} {link.target}" for link in links] == expected


def test_links_carry_ids_keys_and_rarity(memory_index: Any) -> None:
    names = QuestionNames(("ada lovelace",), ("nobody",))
    links = connect(memory_index, names, ["p00", "p01", "p11"])
    assert links[0] == Link("question", "ada lovelace", "p00", pytest.approx(log(14 / 2)))  # type: ignore[arg-type]
    assert [(link.source, link.target) for link in links] == [("question", "p00"), ("p00", "p01")]


def test_only_the_first_passages_are_explained(memory_index: Any, corpus: Any) -> None:
    ids = [row[0] for row in corpus]
    shown = {link.target for link in connect(memory_index, None, ids)}
    assert shown <= set(ids[:EXPLAINED])


VECTORS = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0, 0]], dtype=np.float32)
QUESTION = np.array([1, 0], dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("ALDER", [0, 1, 3]), ("Alder_Street", [1]), ("O'Néill", [2]), ("alder oak", [])),
        *((name, []) for name in ("", "  ", "?!", "_")),
    ],
)
def test_names_that_contain_a_name_are_found_whatever_its_case_accents_and_signs(name: str, found: list[int]) -> None:
    assert NameSearch(["alder", "alder street", "o neill", "red alder tree", ""]).containing(name) == found
    assert NameSearch([]).containing(name) == []


@given(st.lists(st.text("ab ", min_size=1, max_size=6), max_size=8), st.text("ab", min_size=1, max_size=3))
def test_a_search_finds_every_key_that_contains_the_name_once(keys: list[str], name: str) -> None:
    assert NameSearch(keys).containing(name) == [number for number, key in enumerate(keys) if name in key]


@pytest.mark.parametrize(
    ("count", "least", "found"),
    [
        *((10, 0.0, [0, 1, 2]), (10, 0.7, [0, 1]), (10, 0.8, [0, 1]), (10, 0.81, [0]), (10, -1.0, [0, 1, 2, 3])),
        *((2, -1, [0, 1]), (1, -1, [0]), (0, -1, []), (-1, -1, [])),
    ],
)
def test_golden_similarity(count: int, least: float, found: list[int]) -> None:
    """G-ARC, by embedding; the threshold itself counts, an entity without vector never does."""
    numbers, cosines = similar_entities(VECTORS, QUESTION, count, least)
    assert numbers.tolist() == found
    assert cosines.tolist() == pytest.approx([1, 0.8, 0, -1][: len(found)], abs=1e-6)


def test_a_vector_of_another_dimension_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="shape"):
        similar_entities(VECTORS, np.ones(3, dtype=np.float32), 5, 0)
