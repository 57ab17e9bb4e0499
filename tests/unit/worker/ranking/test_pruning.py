"""PRUNE: golden counts and the golden walk without a hub, caps, and df as before."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.pagerank import (
    WalkSeeds,
    bipartite_transition,
    hubs,
    kept_edges,
    most_passages,
    walk_passages,
)

ALICE, BOB = 0, 1


@pytest.mark.parametrize(
    ("entities", "percent", "expected"),
    [(100, 1, 1), (150, 1, 1), (99, 1, 0), (1000, 0.5, 5), (7, 10, 0), (100, 29, 29)],
)
def test_golden_number_of_hubs(entities: int, percent: float, expected: int) -> None:
    """G-SPRIG-5; 29 % of 100 are 29 although .29 * 100 is less."""
    assert len(hubs(np.full(entities, 5), percent)) == expected


def test_the_largest_go_first_and_ties_to_the_smaller_key() -> None:
    assert hubs(np.array([3, 9, 2, 3, 9]), 60).tolist() == [0, 1, 4]


def test_entities_of_one_passage_are_no_hubs_and_those_of_none_no_entities() -> None:
    assert hubs(np.array([1, 2, 1, 0, 0, 0, 0, 0]), 100).tolist() == [1]
    assert hubs(np.array([2, 2, 0, 0]), 50).tolist() == [0]


def test_golden_walk_without_bob(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-2, last line: 25 % of four entities is bob, the first of three with df 2."""
    kept = kept_edges(golden_graph, 25, 0)
    assert kept is not None
    assert golden_graph.indices[~kept].tolist() == [BOB, BOB]
    seeds = WalkSeeds(np.array([ALICE]), np.ones(1), np.array([], dtype=np.intp), np.array([]))
    matrices = bipartite_transition(golden_graph, hub_penalty=0.5, kept=kept)
    mass = walk_passages(matrices, seeds, 0.15, 5, return_dangling=True)
    assert mass == pytest.approx([0.663324, 0, 0, 0, 0], abs=1e-6)
    assert matrices.dangling.tolist() == [False, False, False, False, True]


def test_nothing_is_pruned_by_zero(golden_graph: BipartiteGraph) -> None:
    assert kept_edges(golden_graph, 0, 0) is None
    assert kept_edges(golden_graph, 0, 99) is None


def test_a_cap_keeps_the_heaviest_edges_and_then_the_first_passages(make_graph: Any) -> None:
    graph = make_graph([{"a": 1}, {"a": 3, "b": 1}, {"a": 1}, {"a": 2}, {}])
    kept = kept_edges(graph, 0, 3)
    assert kept is not None
    assert list(zip(graph.rows[kept].tolist(), graph.indices[kept].tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (3, 0),
    ]


def test_weights_keep_the_df_from_before_pruning(make_graph: Any) -> None:
    """a: df 3, capped to one passage; b: df 1. N = 3: w(a) = 1, w(b) = ln(4 / 2) + 1; a's step costs 3 ** -.5."""
    graph = make_graph([{"a": 1, "b": 1}, {"a": 1}, {"a": 1}])
    kept = kept_edges(graph, 0, 1)
    matrices = bipartite_transition(graph, hub_penalty=0.5, kept=kept)
    a, b = 3**-0.5, np.log(2) + 1
    assert matrices.to_entities.toarray()[:, 0] == pytest.approx([a / (a + b), b / (a + b)])
    assert matrices.to_passages.toarray().tolist() == [[1, 1], [0, 0], [0, 0]]
    assert matrices.dangling.tolist() == [False, True, True]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 20.0, 60.0, 100.0]), st.integers(0, 3))
def test_what_is_left_is_still_a_walk(make_graph: Any, seed: int, percent: float, cap: int) -> None:
    """Columns sum to 1, or to 0 where no edge is left."""
    rng = np.random.default_rng(seed)
    graph = make_graph([{key: 1.0 for key in "abcdef" if rng.random() < 0.4} for _ in range(8)])
    kept = kept_edges(graph, percent, cap)
    matrices = bipartite_transition(graph, hub_penalty=0.5, kept=kept)
    edges = np.arange(len(graph.indices)) if kept is None else np.flatnonzero(kept)
    left = np.bincount(graph.rows[edges], minlength=8) > 0
    assert matrices.to_entities.sum(axis=0) == pytest.approx(left.astype(float))
    assert matrices.dangling.tolist() == (~left).tolist()
    per_entity = np.bincount(graph.indices[edges], minlength=graph.entity_count)
    assert matrices.to_passages.sum(axis=0) == pytest.approx((per_entity > 0).astype(float))
    assert cap == 0 or per_entity.max(initial=0) <= cap


def test_a_share_of_all_passages_is_all_of_them() -> None:
    assert [most_passages(100, 0.29), most_passages(30, 0.1), most_passages(7, 1.0), most_passages(9, 0.1)] == [
        29,
        3,
        7,
        0,
    ]
