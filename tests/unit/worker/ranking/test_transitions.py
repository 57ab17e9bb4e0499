"""Edge weights and transition matrices, on the golden graph."""

from collections.abc import Callable

import numpy as np
import pytest

from schemas.graph import BipartiteGraph
from worker.ranking.transitions import bipartite_transition, edge_weights, joined

ALICE, BOB, FRANCE, PARIS = range(4)


def test_golden_edge_weights(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1; passage by passage, entities ascending."""
    expected = [3.197225, 1.693147, 1.693147, 1.693147, 1.693147, 2.386294, 1.693147]
    assert edge_weights(golden_graph) == pytest.approx(expected, abs=1e-6)


def test_golden_transitions_with_hub_penalty(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, p = .5."""
    matrices = bipartite_transition(golden_graph, hub_penalty=0.5)
    from_entities, from_passages = matrices.to_passages.toarray().T, matrices.to_entities.toarray().T
    assert from_entities[ALICE] == pytest.approx([1, 0, 0, 0, 0])
    assert from_entities[BOB] == pytest.approx([0.5, 0.5, 0, 0, 0])
    assert from_entities[FRANCE] == pytest.approx([0, 0, 0.5, 0.5, 0])
    assert from_entities[PARIS] == pytest.approx([0, 0.415044, 0.584956, 0, 0], abs=1e-6)
    assert from_passages[0] == pytest.approx([0.727558, 0.272442, 0, 0], abs=1e-6)
    assert from_passages[1] == pytest.approx([0, 0.5, 0, 0.5])
    assert from_passages[2] == pytest.approx([0, 0, 0.415044, 0.584956], abs=1e-6)
    assert from_passages[3] == pytest.approx([0, 0, 1, 0])
    assert from_passages[4] == pytest.approx([0, 0, 0, 0])
    assert matrices.dangling.tolist() == [False, False, False, False, True]


def test_golden_transition_without_hub_penalty(golden_graph: BipartiteGraph) -> None:
    """G-SPRIG-1, p = 0."""
    from_passages = bipartite_transition(golden_graph).to_entities.toarray().T
    assert from_passages[0] == pytest.approx([0.653779, 0.346221, 0, 0], abs=1e-6)


def test_a_title_boost_favours_the_passage_that_the_entity_names(make_graph: Callable[..., BipartiteGraph]) -> None:
    graph = make_graph([{"a": 1}, {"a": 1}], {1: ["a"]})
    matrices = bipartite_transition(graph, title_boost=4.0)
    assert matrices.to_passages.toarray().ravel() == pytest.approx([0.2, 0.8])
    assert matrices.to_entities.toarray().ravel() == pytest.approx([1, 1])


def test_the_joined_walk_puts_entities_before_passages(golden_graph: BipartiteGraph) -> None:
    parts = bipartite_transition(golden_graph, hub_penalty=0.5)
    walk = joined(parts)
    dense = walk.forward.toarray()
    assert np.array_equal(dense[:4, 4:], parts.to_passages.toarray().T)
    assert np.array_equal(dense[4:, :4], parts.to_entities.toarray().T)
    assert np.array_equal(walk.backward.toarray(), dense.T)
    assert walk.dangling.tolist() == [False] * 8 + [True]
    assert all(
        np.all(np.diff(walk.forward.indices[a:b]) > 0)
        for a, b in zip(walk.forward.indptr, walk.forward.indptr[1:], strict=False)
    )


def test_one_passage_alone_has_weight_one(make_graph: Callable[..., BipartiteGraph]) -> None:
    """N = 1: ln(2 / 2) * tf + 1."""
    assert edge_weights(make_graph([{"a": 7}])).tolist() == [1.0]


def test_the_graph_s_own_arrays_are_left_alone(golden_graph: BipartiteGraph) -> None:
    before = [golden_graph.indptr.copy(), golden_graph.indices.copy(), golden_graph.tf.copy()]
    joined(bipartite_transition(golden_graph, hub_penalty=1.0, title_boost=3.0))
    for old, new in zip(before, [golden_graph.indptr, golden_graph.indices, golden_graph.tf], strict=True):
        assert np.array_equal(old, new)
