"""Cosines and the ranking of passages by their entities."""

import numpy as np
import pytest
from scipy import sparse

from polyhop.schemas.errors import AlgorithmError
from polyhop.worker.ranking.similarity import cosines, passages_of_entities


def test_cosines_come_as_float64_without_rounding_again() -> None:
    matrix = np.array([[1, 0], [0.6, 0.8], [0, 0]], dtype=np.float32)
    found = cosines(matrix, np.array([0.6, 0.8], dtype=np.float32))
    assert found.dtype == np.float64
    assert found == pytest.approx([0.6, 1, 0], abs=1e-6)


def test_a_vector_of_another_model_is_refused() -> None:
    with pytest.raises(
        AlgorithmError,
        match=r"vector has shape \(5,\), the index has vectors of shape \(4,\).*encode questions with the model",
    ):
        cosines(np.zeros((3, 4), dtype=np.float32), np.zeros(5, dtype=np.float32))


def test_passages_go_by_best_entity_then_sum_then_number() -> None:
    """algorithms.md 6.2: p0 {x}, p1 {x, y}, p2 {x}, p3 {y}, p4 {z}; z is not among the near ones."""
    mentioned_in = sparse.csr_array(np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]))
    numbers, scores = passages_of_entities(mentioned_in, np.array([0, 1]), np.array([0.9, 0.5]), 10)
    assert numbers.tolist() == [1, 0, 2, 3]
    assert scores.tolist() == [0.9, 0.9, 0.9, 0.5]
    assert passages_of_entities(mentioned_in, np.array([0, 1]), np.array([0.9, 0.5]), 2)[0].tolist() == [1, 0]


def test_one_close_entity_outranks_several_of_a_larger_sum() -> None:
    """By hand: p0 mentions x (.9); p1 mentions y and z (.5 + .5 = 1.0); p2 mentions z (.5). Largest first, not sum."""
    mentioned_in = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]]))
    numbers, scores = passages_of_entities(mentioned_in, np.array([0, 1, 2]), np.array([0.9, 0.5, 0.5]), 10)
    assert numbers.tolist() == [0, 1, 2]
    assert scores.tolist() == [0.9, 0.5, 0.5]


def test_no_entities_give_no_passages() -> None:
    none = np.array([], dtype=np.intp)
    assert passages_of_entities(sparse.csr_array((0, 3)), none, np.array([]), 5)[0].tolist() == []
