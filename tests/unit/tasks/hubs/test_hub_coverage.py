"""What the paths of hubs cover, in counts and shares."""

import numpy as np
from hub_index import hubs_of, written

from polyhop.tasks.hubs.paths import ALL, Covered, parts, path_rows, row

GRAPH = hubs_of(written("P author A; P venue V; Q author B"), {"P", "Q"}, {})[0].graph


def test_a_node_is_covered_by_a_triple_that_begins_or_ends_in_it() -> None:
    """Triples are numbered by subject, predicate, object: P author A, P venue V, Q author B."""
    found = Covered.by(np.array([0, 0]), GRAPH)
    assert found.triples.tolist() == [True, False, False]
    assert int(found.nodes.sum()) == 2
    assert list(found.rows()) == [("nodes", ALL, 2, 3, 0.4), ("triples", ALL, 1, 2, 1 / 3)]


def test_no_path_covers_nothing() -> None:
    assert [covered for _, _, covered, _, _ in Covered.by(np.array([], np.int64), GRAPH).rows()] == [0, 0]


def test_nothing_of_nothing_is_no_share() -> None:
    assert row("what", "part", 0, 0) == ("what", "part", 0, 0, None)
    assert list(parts("what", [("a", 1, 3), ("b", 0, 2)])) == [("what", "a", 1, 3, 0.25), ("what", "b", 0, 2, 0.0)]


def test_hubs_and_paths_are_counted_by_length_and_end() -> None:
    """Three hubs with 2, 0 and 1 paths, of lengths 1, 2, 1; four paths left out."""
    arrays = {
        "path-starts": np.array([0, 2, 2, 3]),
        "triple-starts": np.array([0, 1, 3, 4]),
        "end-kinds": np.array([0, 1, 0], np.int8),
    }
    assert list(path_rows(arrays, 4)) == [
        ("hubs", ALL, 2, 1, 2 / 3),
        ("paths", ALL, 3, 4, 3 / 7),
        ("hubs with paths", "0", 1, 0, 1.0),
        ("hubs with paths", "1", 1, 0, 1.0),
        ("hubs with paths", "2", 1, 0, 1.0),
        ("paths of length", "1", 2, 0, 1.0),
        ("paths of length", "2", 1, 0, 1.0),
        ("paths that end in", "leaf", 2, 0, 1.0),
        ("paths that end in", "hub", 1, 0, 1.0),
        ("paths that end in", "limit", 0, 0, None),
        ("paths that end in", "revisit", 0, 0, None),
    ]
