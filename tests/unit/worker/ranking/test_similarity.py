"""Cosines and the ranking of passages by their entities."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from polyhop.schemas.errors import AlgorithmError
from polyhop.worker.ranking import similarity
from polyhop.worker.ranking.fusion import best, contenders
from polyhop.worker.ranking.similarity import cosine_error, cosines, exact_cosines, passages_of_entities, rough_cosines


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
    with pytest.raises(AlgorithmError, match=r"vector has shape \(5,\)"):
        list(rough_cosines(np.zeros((3, 4), dtype=np.float32), [np.zeros(5, dtype=np.float32)]))


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
def test_passages_go_by_best_entity_then_sum_then_number(
    mentions: Any, similar: list[float], count: int, expected: list[tuple[int, float]]
) -> None:
    near, scores = np.arange(len(similar)), np.array(similar)
    found = passages_of_entities(sparse.csr_array(np.array(mentions)), near, scores, count)
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
def test_the_first_by_exact_cosine_are_among_those_chosen_by_a_product_of_any_size(
    seed: int, questions: int, block: int, rows: int, count: int
) -> None:
    """Many rows are nearly equal: closer than a product in float32 can tell."""
    numbers = np.random.default_rng(seed)
    near = unit_rows(numbers, 1) + 1e-7 * numbers.normal(size=(40, 48)).astype(np.float32)
    matrix = np.concatenate((near / np.linalg.norm(near, axis=1, keepdims=True), unit_rows(numbers, 60)))
    vectors = list(unit_rows(numbers, questions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_BLOCK_VALUES", block)
        patch.setattr(similarity, "_BLOCK_ROWS", rows)
        products = list(rough_cosines(matrix, vectors))
    assert len(products) == questions
    for rough, vector in zip(products, vectors, strict=True):
        everywhere = exact_cosines(matrix, np.arange(100), vector)
        assert np.abs(rough - everywhere).max() <= cosine_error(48) / 2
        found = contenders(rough, count, cosine_error(48))
        exact = exact_cosines(matrix, found, vector)
        assert exact.tolist() == everywhere[found].tolist()
        assert found[best(exact, count)].tolist() == best(everywhere, count).tolist()
