"""Vectors of length 1, and the sentences about what cannot be one."""

import numpy as np
import pytest

from polyhop.schemas.errors import InvalidVectorError
from polyhop.warehouse.models.onnx_session import unit_rows


def test_rows_are_scaled_and_float32() -> None:
    rows = unit_rows([[3, 4], [0, -2]], 2, 2, "m")
    assert rows.dtype == np.float32
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, -1]]))


def test_a_row_of_length_1_keeps_its_bits() -> None:
    row = np.array([[0.1, 0.2, 0.3]], np.float32)
    row /= np.linalg.norm(row)
    assert unit_rows(row, 1, 3, "m").tobytes() == row.tobytes()


def test_what_was_given_is_not_changed() -> None:
    given = np.array([[3.0, 4.0]])
    unit_rows(given, 1, 0, "m")
    assert given.tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize(
    ("vectors", "count", "dimension", "words"),
    [
        ([[1, 0]], 2, 0, "1 vectors for 2 texts"),
        ([[1, 0], [0, 1]], 1, 0, "2 vectors for 1 texts"),
        ([[1, 0]], 1, 3, "2 dimensions instead of 3"),
        ([[1, 0], [1]], 2, 0, "different lengths, or no numbers"),
        ([["a", "b"]], 1, 0, "different lengths, or no numbers"),
        ([[0, 0], [1, 0]], 2, 0, "zero or not finite for 1 of 2 texts"),
        ([[float("nan"), 0], [1e200, 1e200]], 2, 0, "zero or not finite for 2 of 2 texts"),
        ([[float("inf"), 0]], 1, 0, "zero or not finite for 1 of 1 texts"),
    ],
)
def test_what_no_search_could_use_is_refused(vectors: object, count: int, dimension: int, words: str) -> None:
    with pytest.raises(InvalidVectorError, match=f"The encoder some/model gave .*{words}"):
        unit_rows(vectors, count, dimension, "some/model")
