"""Hubs and paths of which only some triples are left: a path goes with any of its triples."""

import numpy as np
import pytest
from hub_index import hubs_of, written

from polyhop.schemas.graph import new_numbers
from polyhop.tasks.hubs.paths import passages_left, paths_left, triples_left

HUBS, _ = hubs_of(
    written("P1 author A1; P1 venue V; A1 born V; P2 author A2; P2 cites P1; A2 knows A1"), {"P1", "P2"}, {}
)


def test_a_triple_goes_only_if_all_that_state_it_go() -> None:
    stated = np.array([[0, 0], [0, 1], [1, 1], [3, 0]])
    assert triples_left(stated, 5, np.array([True, False])).tolist() == [0, 2, 3, 4]
    assert triples_left(stated, 5, np.array([False, False])).tolist() == [2, 4]
    assert triples_left(stated, 5, np.array([True, True])).tolist() == [0, 1, 2, 3, 4]


def test_a_pair_goes_with_either_of_its_ends() -> None:
    pairs, things, passages = np.array([[0, 0], [1, 2], [2, 2]]), np.array([0, -1, 1]), np.array([-1, 0, 1])
    assert passages_left(pairs, things, passages).tolist() == [[1, 1]]
    assert passages_left(np.empty((0, 2), np.int64), things, passages).shape == (0, 2)


@pytest.mark.parametrize("gone", [[], [0], [1, 4], list(range(len(HUBS.graph.subjects)))])
def test_paths_are_left_whole_and_in_order(gone: list[int]) -> None:
    before, count = HUBS.paths, len(HUBS.graph.subjects)
    moved = new_numbers(np.array([n for n in range(count) if n not in gone], np.int64), count)
    after, numbers = paths_left(before, moved)
    triples = [before.triples_of(path).tolist() for path in range(before.path_count)]
    expected = [path for path in range(before.path_count) if not set(triples[path]) & set(gone)]
    assert numbers.tolist() == expected
    assert after.path_count == len(expected)
    assert [after.triples_of(new).tolist() for new in range(after.path_count)] == [
        moved[triples[old]].tolist() for old in expected
    ]
    assert after.hashes.tolist() == before.hashes[expected].tolist()
    hub_of = np.searchsorted(before.path_starts, expected, side="right") - 1
    assert np.diff(after.path_starts).tolist() == np.bincount(hub_of, minlength=len(before.path_starts) - 1).tolist()
