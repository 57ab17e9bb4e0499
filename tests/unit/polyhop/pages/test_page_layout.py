"""Where nodes stand: distances, least spacing, no overlap, the same for the same input."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from polyhop.pages.drawing import distances, heights

NAMES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NAMES, NAMES), max_size=20)


def test_distances_count_edges_from_the_nearest_root_whichever_way_they_point() -> None:
    edges = [("a", "b"), ("c", "b"), ("c", "d"), ("x", "y")]
    assert distances(edges, {"a": 0}) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert distances(edges, {"d": 1, "a": 0}) == {"a": 0, "d": 1, "b": 1, "c": 2}
    assert distances(edges, {}) == {}


@given(EDGES, st.sets(NAMES, min_size=1))
def test_neighbours_are_at_most_one_edge_farther(edges: list[tuple[str, str]], roots: set[str]) -> None:
    found = distances(edges, dict.fromkeys(roots, 0))
    assert all(found[root] == 0 for root in roots)
    for one, other in edges:
        assert (one in found) == (other in found)
        assert one not in found or abs(found[one] - found[other]) <= 1


def test_a_single_child_stands_beside_its_parent() -> None:
    height = heights([["a", "b"], ["x", "y"]], [("a", "y"), ("b", "x")], 10.0)
    assert height["y"] == height["a"]
    assert height["x"] == height["b"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), EDGES)
def test_no_two_nodes_of_a_column_overlap_and_none_is_above_the_sheet(
    column_of: list[int], edges: list[tuple[str, str]]
) -> None:
    names = "abcdefgh"[: len(column_of)]
    columns = [[name for name, at in zip(names, column_of, strict=True) if at == number] for number in range(4)]
    known = [(one, other) for one, other in edges if one in names and other in names]
    height = heights(columns, known, 10.0)
    assert height == heights(columns, known, 10.0)
    assert min(height.values()) == 0.0
    for column in columns:
        placed = sorted(height[name] for name in column)
        assert all(high - low >= 10.0 - 0.02 for low, high in pairwise(placed))
