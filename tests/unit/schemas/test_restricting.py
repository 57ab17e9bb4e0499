"""Arrays of the passages that a filter leaves: as if they had been built from these passages alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import graph_from, lexical_from

from polyhop.schemas.graph import gathered, new_numbers

MENTIONS = [{"ada": 2.0, "bo": 1.0}, {"bo": 1.0}, {}, {"cy": 3.0, "ada": 1.0}, {"dan": 1.0}]
TITLES = {0: ["ada"], 3: ["cy"]}
TOKENS = [["x", "x", "y"], ["y"], [], ["z", "x"], ["w"]]
SOME = st.sets(st.integers(0, len(MENTIONS) - 1)).map(sorted)


def lists(arrays: object, *names: str) -> list[Any]:
    return [(getattr(arrays, name).tolist(), getattr(arrays, name).dtype) for name in names]


@given(SOME)
def test_a_graph_is_that_of_the_passages_left(allowed: list[int]) -> None:
    found = graph_from(MENTIONS, TITLES).restricted(np.array(allowed, np.int64))
    titles = {new: TITLES[old] for new, old in enumerate(allowed) if old in TITLES}
    expected = graph_from([MENTIONS[number] for number in allowed], titles)
    assert found.keys == expected.keys
    names = ("indptr", "indices", "tf", "is_title")
    assert lists(found, *names) == lists(expected, *names)
    assert found.df.tolist() == expected.df.tolist()


@given(SOME)
def test_postings_are_those_of_the_passages_left(allowed: list[int]) -> None:
    found = lexical_from(TOKENS).restricted(np.array(allowed, np.int64))
    expected = lexical_from([TOKENS[number] for number in allowed])
    assert dict(found.terms) == dict(expected.terms)
    names = ("indptr", "passages", "tf", "lengths")
    assert lists(found, *names) == lists(expected, *names)


def test_entities_that_are_given_stay_and_no_others() -> None:
    graph = graph_from(MENTIONS, TITLES)
    found = graph.restricted(np.array([0, 3]), np.array([graph.number_of["ada"], graph.number_of["dan"]]))
    assert found.keys == ("ada", "dan")
    assert (found.indptr.tolist(), found.indices.tolist(), found.tf.tolist()) == ([0, 1, 2], [0, 0], [2.0, 1.0])


@pytest.mark.parametrize(
    ("kept", "count", "moved"), [([], 3, [-1, -1, -1]), ([1], 3, [-1, 0, -1]), ([0, 2], 3, [0, -1, 1]), ([], 0, [])]
)
def test_numbers_move_up(kept: list[int], count: int, moved: list[int]) -> None:
    assert new_numbers(np.array(kept, np.int64), count).tolist() == moved


@given(st.lists(st.integers(0, 3), max_size=6), st.data())
def test_rows_are_gathered_in_the_order_given(lengths: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(lengths))), max_size=6)) if lengths else []
    indptr = np.cumsum([0, *lengths])
    starts, offsets = gathered(indptr, np.array(rows, np.int64))
    assert offsets.tolist() == [offset for row in rows for offset in range(indptr[row], indptr[row + 1])]
    assert np.diff(starts).tolist() == [lengths[row] for row in rows]
