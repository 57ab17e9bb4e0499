"""Traversal, passages by hops, paths and links, names: golden values, and igraph on random graphs."""

from collections.abc import Callable
from math import log
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import BipartiteGraph, RelationGraph
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


VECTORS = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0, 0]], dtype=np.float32)
QUESTION = np.array([1, 0], dtype=np.float32)


def test_names_that_contain_a_name_are_found_whatever_its_case_accents_and_signs() -> None:
    search = NameSearch(["alder", "alder street", "o neill", "red alder tree"])
    assert search.containing("ALDER") == [0, 1, 3]
    assert search.containing("Alder_Street") == [1]
    assert search.containing("O'Néill") == [2]
    assert search.containing("alder oak") == []


@pytest.mark.parametrize("name", ["", "  ", "?!", "_"])
def test_a_name_without_letters_finds_nothing(name: str) -> None:
    assert NameSearch(["alder", ""]).containing(name) == []


def test_no_entities_have_no_names() -> None:
    assert NameSearch([]).containing("alder") == []


@given(st.lists(st.text("ab ", min_size=1, max_size=6), max_size=8), st.text("ab", min_size=1, max_size=3))
def test_a_search_finds_every_key_that_contains_the_name_once(keys: list[str], name: str) -> None:
    assert NameSearch(keys).containing(name) == [number for number, key in enumerate(keys) if name in key]


@pytest.mark.parametrize(
    ("least", "found"), [(0.0, [0, 1, 2]), (0.7, [0, 1]), (0.8, [0, 1]), (0.81, [0]), (-1.0, [0, 1, 2, 3])]
)
def test_golden_similarity(least: float, found: list[int]) -> None:
    """G-ARC, by embedding; the threshold itself counts, an entity without vector never does."""
    numbers, cosines = similar_entities(VECTORS, QUESTION, 10, least)
    assert numbers.tolist() == found
    assert cosines.tolist() == pytest.approx([1, 0.8, 0, -1][: len(found)], abs=1e-6)


@pytest.mark.parametrize(("count", "found"), [(2, [0, 1]), (1, [0]), (0, []), (-1, [])])
def test_so_many_entities_are_returned_at_most(count: int, found: list[int]) -> None:
    assert similar_entities(VECTORS, QUESTION, count, -1)[0].tolist() == found


def test_a_vector_of_another_dimension_is_refused() -> None:
    with pytest.raises(AlgorithmError, match="shape"):
        similar_entities(VECTORS, np.ones(3, dtype=np.float32), 5, 0)
