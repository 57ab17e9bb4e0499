"""Order, fusion, cosines, traversal, links and names: golden values, definitions, and igraph on random graphs."""

from math import fsum, inf, log
from typing import Any

import igraph
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memory_index import PASSAGES, graph_from, relations_from

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import EdgesByEntity, RelationGraph, row_starts
from polyhop.schemas.query import Link
from polyhop.worker.ranking import fusion, similarity, traversal
from polyhop.worker.ranking.similarity import cosines

A, B, C, D = range(4)


@pytest.mark.parametrize(
    ("lists", "k", "expected"),
    [
        ([[A, B, C], [B, D, A]], 60, [(B, 0.032522), (A, 0.032266), (D, 0.016129), (C, 0.015873)]),
        ([[A, B], [B, A]], 60, [(A, 0.032522), (B, 0.032522)]),
        ([[A], [B]], 60, [(A, 0.016393), (B, 0.016393)]),
        ([[A, B, C], [C, B, A]], 0, [(A, 1.333333), (C, 1.333333), (B, 1.0)]),
        ([[A, B, C, D], [D, C], [C]], 60, [(C, 0.048395), (D, 0.032018), (A, 0.016393), (B, 0.016129)]),
        ([[A, A, B], [B]], 60, [(B, 0.032522), (A, 0.016393)]),
        ([[], []], 60, []),
        ([[A, B], []], 60, [(A, 0.016393), (B, 0.016129)]),
        ([], 60, []),
        ([[7], [2]], 60, [(7, 1 / 61), (2, 1 / 61)]),  # a tie goes to the first list and not to the smaller number
    ],
)
def test_golden_fusions(lists: list[list[int]], k: float, expected: list[tuple[int, float]]) -> None:
    """G-RRF."""
    fused = fusion.reciprocal_rank_fusion(lists, k)
    assert [item for item, _ in fused] == [item for item, _ in expected]
    assert [score for _, score in fused] == pytest.approx([score for _, score in expected], abs=1e-6)


@given(st.lists(st.lists(st.integers(0, 20), max_size=10), max_size=4))
def test_fusion_is_that_of_the_definition_with_k_60(lists: list[list[int]]) -> None:
    """Ties by rank in the first list, then in the second…; the order of the lists changes no bit of a score."""
    distinct = [list(dict.fromkeys(row)) for row in lists]
    ranks = {n: [row.index(n) + 1 if n in row else inf for row in distinct] for row in distinct for n in row}
    score = {item: fsum(1 / (60 + rank) for rank in places) for item, places in ranks.items()}
    fused = fusion.reciprocal_rank_fusion(lists)
    assert [item for item, _ in fused] == sorted(ranks, key=lambda n: (-round(score[n], 12), ranks[n]))
    assert dict(fused) == dict(fusion.reciprocal_rank_fusion(lists[::-1])) == score


def scored(*pairs: tuple[int, float]) -> fusion.Scored:
    return np.array([item for item, _ in pairs], dtype=np.intp), np.array([score for _, score in pairs])


SPRIG_5 = [(A, 1 / 61), (B, 1 / 62), (C, 1 / 63)], [(B, 0.4), (A, 0.1), (C, 0.0)]


@pytest.mark.parametrize(
    ("lists", "weights", "items", "scores"),
    [
        (SPRIG_5, (0.5, 0.5), [B, A, C], [0.745968, 0.625, 0]),
        # what a list misses counts nothing, and ties go to the smaller number
        (([(D, 2.0), (B, 1.0)], [(C, 9.0), (A, 1.0)]), (0.5, 0.5), [C, D, A, B], [0.5, 0.5, 0, 0]),
        # an empty list changes nothing but the height
        (([], [(B, 2.0), (A, 1.0)]), (0.25, 0.75), [B, A], [0.75, 0]),
        (([], []), (0.5, 0.5), [], []),
        (([(A, 3.0), (B, 3.0)], [(C, 7.0)]), (0.5, 0.5), [A, B, C], [0.5] * 3),  # equal scores are all one
    ],
)
def test_fusion_by_scores(lists: Any, weights: Any, items: list[int], scores: list[float]) -> None:
    found, sums = fusion.weighted_fusion([scored(*pairs) for pairs in lists], weights)
    assert found.tolist() == items
    assert sums == pytest.approx(scores, abs=1e-6)


def sorted_and_cut(scores: np.ndarray, count: int) -> list[int]:
    order = sorted(range(len(scores)), key=lambda number: (-np.round(scores[number], 12), number))
    return order[: max(count, 0)]


@given(
    hnp.arrays(np.float64, st.integers(0, 700), elements=st.sampled_from([0.0, 0.25, 0.1 + 0.2, 0.3, 7.5, -1.0, 1e5]))
    | st.builds(lambda seed, n: np.random.default_rng(seed).standard_normal(n), st.integers(0), st.integers(1, 3000)),
    st.integers(0, 800),
)
def test_the_best_of_many_scores_are_those_of_a_full_sort(scores: np.ndarray, count: int) -> None:
    assert fusion.best(scores, count).tolist() == sorted_and_cut(scores, count)


@given(hnp.arrays(np.float64, st.integers(0, 700), elements=st.floats(-10, 10)), st.integers(1, 800))
def test_the_kth_largest_is_that_of_a_full_sort(scores: np.ndarray, k: int) -> None:
    assert fusion.kth_largest(scores, k) == (np.sort(scores)[-k] if k <= len(scores) else 0.0)


def test_cosines_come_as_float64_without_rounding_again() -> None:
    matrix = np.array([[1, 0], [0.6, 0.8], [0, 0]], dtype=np.float32)
    found = cosines(matrix, np.array([0.6, 0.8], dtype=np.float32))
    assert found.dtype == np.float64
    assert found == pytest.approx([0.6, 1, 0], abs=1e-6)


def test_a_vector_of_another_model_is_refused() -> None:
    words = r"vector has shape \(5,\), the index has vectors of shape \(4,\).*encode questions with the model"
    with pytest.raises(AlgorithmError, match=words):
        cosines(np.zeros((3, 4), dtype=np.float32), np.zeros(5, dtype=np.float32))
    with pytest.raises(AlgorithmError, match="shape"):
        traversal.similar_entities(VECTORS, np.ones(3, dtype=np.float32), 5, 0)
    with pytest.raises(AlgorithmError, match=r"vector has shape \(5,\)"):
        list(similarity.rough_cosines(np.zeros((3, 4), dtype=np.float32), [np.zeros(5, dtype=np.float32)]))


@pytest.mark.parametrize(
    ("mentions", "similar", "count", "expected"),
    [
        # algorithms.md 6.2: p0 {x}, p1 {x, y}, p2 {x}, p3 {y}, p4 {z}; z is not among the near ones
        ([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]], [0.9, 0.5], 10, [(1, 0.9), (0, 0.9), (2, 0.9), (3, 0.5)]),
        ([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]], [0.9, 0.5], 2, [(1, 0.9), (0, 0.9)]),
        # p0 mentions x (.9); p1 mentions y and z (.5 + .5 = 1.0); p2 mentions z (.5): largest first, not sum
        ([[1, 0, 0], [0, 1, 0], [0, 1, 1]], [0.9, 0.5, 0.5], 10, [(0, 0.9), (1, 0.5), (2, 0.5)]),
        (np.empty((0, 3)), [], 5, []),
    ],
)
def test_passages_go_by_best_entity_then_sum_and_number(mentions: Any, similar: Any, count: int, expected: Any) -> None:
    near, scores, table = np.arange(len(similar)), np.array(similar), np.array(mentions, dtype=np.bool_)
    columns = np.nonzero(table)[1].astype(np.int32)
    edges = EdgesByEntity(row_starts(table.sum(axis=1)), columns, columns, columns >= 0)
    found = similarity.passages_of_entities(edges, near, scores, count)
    assert [*zip(*map(np.ndarray.tolist, found), strict=True)] == expected


def unit_rows(numbers: np.random.Generator, count: int) -> np.ndarray:
    rows = numbers.normal(size=(count, 48)).astype(np.float32)
    given: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return given


@given(
    seed=st.integers(0, 10_000),
    questions=st.integers(1, 9),
    block=st.sampled_from([1, 200, 500]),
    rows=st.sampled_from([7, 50, 512]),
    count=st.integers(0, 70),
)
def test_the_first_are_among_those_chosen(seed: int, questions: int, block: int, rows: int, count: int) -> None:
    """By exact cosine, and by a product of any size: many rows are nearer to each other than float32 can tell."""
    numbers = np.random.default_rng(seed)
    near = unit_rows(numbers, 1) + 1e-7 * numbers.normal(size=(40, 48)).astype(np.float32)
    matrix = np.concatenate((near / np.linalg.norm(near, axis=1, keepdims=True), unit_rows(numbers, 60)))
    vectors = list(unit_rows(numbers, questions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_BLOCK_VALUES", block)
        patch.setattr(similarity, "_BLOCK_ROWS", rows)
        products = list(similarity.rough_cosines(matrix, vectors))
    assert len(products) == questions
    for rough, vector in zip(products, vectors, strict=True):
        everywhere = similarity.exact_cosines(matrix, np.arange(100), vector)
        assert np.abs(rough - everywhere).max() <= similarity.cosine_error(48) / 2
        found = fusion.contenders(rough, count, similarity.cosine_error(48))
        exact = similarity.exact_cosines(matrix, found, vector)
        assert exact.tolist() == everywhere[found].tolist()
        assert found[fusion.best(exact, count)].tolist() == fusion.best(everywhere, count).tolist()


ALDER, BIRCH, CEDAR, DOGWOOD, ELM, STREET = "e1", "e2", "e3", "e4", "e5", "e6"
CHUNKS = [{ALDER: 1, BIRCH: 1}, {ALDER: 1, CEDAR: 1}, {DOGWOOD: 1, ALDER: 1}, {ELM: 1, DOGWOOD: 1}, {STREET: 1}]

edges = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


def graph_of(pairs: list[tuple[int, int]], count: int = 12) -> RelationGraph:
    keys = [f"n{number:02d}" for number in range(count)]
    graph: RelationGraph = relations_from(keys, [(keys[a], "r", keys[b]) for a, b in pairs])
    return graph


def levels(graph: RelationGraph, starts: list[int], depth: int) -> dict[int, int]:
    reached, hops = traversal.expand(graph, starts, depth)
    return dict(zip(reached.tolist(), hops.tolist(), strict=True))


def test_passages_of_entities_come_once_and_ascending() -> None:
    edges_of = graph_from(CHUNKS).by_entity
    assert traversal.passages_mentioning(edges_of, [3, 0]).tolist() == [0, 1, 2, 3]
    assert traversal.passages_mentioning(edges_of, []).tolist() == []
    assert traversal.shared_passages(edges_of, [0, 1], [2, 3]).tolist() == [1, 2]
    assert traversal.shared_passages(edges_of, [5], [0]).tolist() == []


@given(pairs=edges, starts=st.lists(st.integers(0, 11), max_size=4), depth=st.integers(0, 5))
def test_hops_are_those_of_igraph(pairs: Any, starts: list[int], depth: int) -> None:
    """Of starts that may be there twice, or not at all."""
    graph = graph_of(pairs)
    rows = igraph.Graph(12, pairs).distances(source=sorted(set(starts)))
    nearest = np.min([[inf] * 12, *rows], axis=0)
    assert levels(graph, starts, depth) == {n: int(hop) for n, hop in enumerate(nearest) if hop <= depth}


@given(
    pairs=edges,
    sources=st.sets(st.integers(0, 11), min_size=1, max_size=3),
    targets=st.sets(st.integers(0, 11), min_size=1, max_size=3),
    max_length=st.integers(0, 6),
    limit=st.integers(0, 4),
)
def test_paths_are_those_of_igraph(pairs: Any, sources: Any, targets: set[int], max_length: int, limit: int) -> None:
    graph = graph_of(pairs)
    reference = igraph.Graph(12, pairs).simplify()
    least = min(reference.distances(source=sorted(sources), target=sorted(targets)), key=min)
    every = [path for one in sources for path in reference.get_all_shortest_paths(one, to=sorted(targets))]
    expected = {tuple(path) for path in every if len(path) - 1 == min(least) <= max_length}
    everything = traversal.shortest_paths(graph, sorted(sources), sorted(targets), max_length, 10_000)
    assert set(everything) == expected
    degree = reference.degree()
    assert everything == sorted(expected, key=lambda path: [(degree[number], number) for number in path])
    assert traversal.shortest_paths(graph, sorted(sources), sorted(targets), max_length, limit) == everything[:limit]


def test_very_many_paths_cost_no_more_than_those_wanted() -> None:
    """From one end of ten layers of two entities to the other: eight layers to choose in."""
    pairs = [(a, b) for a in range(20) for b in range(20) if b // 2 == a // 2 + 1]
    graph = graph_of(pairs, count=20)
    assert len(traversal.shortest_paths(graph, [0], [18], 9, 3)) == 3
    assert len(traversal.shortest_paths(graph, [0], [18], 9, 10_000)) == 2**8


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
def test_passages_hang_together_by_rarest_shared_entity(passages: Any, named: Any, order: str, expected: Any) -> None:
    graph = graph_from([dict.fromkeys(keys.split(), 1) for keys in passages])
    number_of = {str(number): number for number in range(len(passages))}
    links = traversal.strongest_links(graph, number_of, QuestionNames(named, ()), list(order))
    assert [f"{link.source} {link.via} {link.target}" for link in links] == expected


def test_links_carry_ids_keys_and_rarity_and_only_the_first_passages_are_explained(memory_index: Any) -> None:
    links = traversal.connect(memory_index, QuestionNames(("ada lovelace",), ("nobody",)), ["p00", "p01", "p11"])
    assert links[0] == Link("question", "ada lovelace", "p00", pytest.approx(log(14 / 2)))  # type: ignore[arg-type]
    assert [(link.source, link.target) for link in links] == [("question", "p00"), ("p00", "p01")]
    ids = [row[0] for row in PASSAGES]
    assert {link.target for link in traversal.connect(memory_index, None, ids)} <= set(ids[: traversal.EXPLAINED])


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
    assert traversal.NameSearch(["alder", "alder street", "o neill", "red alder tree", ""]).containing(name) == found
    assert traversal.NameSearch([]).containing(name) == []


@given(st.lists(st.text("ab ", min_size=1, max_size=6), max_size=8), st.text("ab", min_size=1, max_size=3))
def test_a_search_finds_every_key_that_contains_the_name_once(keys: list[str], name: str) -> None:
    assert traversal.NameSearch(keys).containing(name) == [number for number, key in enumerate(keys) if name in key]


@pytest.mark.parametrize(
    ("count", "least", "found"),
    [
        *((10, 0.0, [0, 1, 2]), (10, 0.7, [0, 1]), (10, 0.8, [0, 1]), (10, 0.81, [0]), (10, -1.0, [0, 1, 2, 3])),
        *((2, -1, [0, 1]), (1, -1, [0]), (0, -1, []), (-1, -1, [])),
    ],
)
def test_golden_similarity(count: int, least: float, found: list[int]) -> None:
    """G-ARC, by embedding; the threshold itself counts, an entity without vector never does."""
    numbers, cosines = traversal.similar_entities(VECTORS, QUESTION, count, least)
    assert numbers.tolist() == found
    assert cosines.tolist() == pytest.approx([1, 0.8, 0, -1][: len(found)], abs=1e-6)
