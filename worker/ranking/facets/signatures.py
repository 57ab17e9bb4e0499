"""Signatures of hub paths: the tuples of predicates that lead from hubs to values, numbered (pure).

Their texts: tasks/hubs/facets.py.

Source: algorithms.md 4B, units.
"""

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers


def signatures_of(graph: HubGraph, paths: HubPaths) -> tuple[NDArray[np.int32], list[tuple[int, ...]]]:
    """The signature of each path.

    Returns:
        Shape (p,): number of each path's signature; and the signatures as predicate numbers, in ascending order.
    Cost: O(triples of all paths, sorted per step from the hub).
    """
    starts = paths.triple_starts[:-1]
    lengths = np.diff(paths.triple_starts)
    number = np.zeros(paths.path_count, dtype=np.int64)
    known: list[tuple[int, ...]] = [()]
    predicate_count = int(graph.predicates.max(initial=0)) + 1
    for depth in range(int(lengths.max(initial=0))):
        active = np.flatnonzero(lengths > depth)
        predicates = graph.predicates[paths.path_triples[starts[active] + depth]]
        keys, inverse = np.unique(number[active] * predicate_count + predicates, return_inverse=True)
        number[active] = len(known) + inverse
        known += [(*known[key // predicate_count], key % predicate_count) for key in keys.tolist()]
    used = np.unique(number)
    order = sorted(used.tolist(), key=known.__getitem__)
    rank = np.zeros(len(known), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return rank[number], [known[place] for place in order]


def values_of(graph: HubGraph, paths: HubPaths) -> Numbers:
    """Node in which each path ends, shape (p,)."""
    return graph.objects[paths.last_triples()]
