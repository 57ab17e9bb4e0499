"""Entities by a part of their name and by similarity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import AlgorithmError
from polyhop.worker.ranking.traversal import NameSearch, similar_entities

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
