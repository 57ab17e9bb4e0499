"""Sets of things that belong together, and candidate clusters of a bearable size (pure).

Knows numbers only. Source: algorithms.md 1.4, steps 4 and 5.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


class DisjointSets:
    """Union-find over 0..n-1; the smaller root wins, so that the order of unions does not matter.

    Cost: O(log n) amortised per operation (path halving).
    """

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, item: int) -> int:
        """Smallest member of the set that holds `item`."""
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def union(self, a: int, b: int) -> None:
        """Joins two sets."""
        first, second = sorted((self.find(a), self.find(b)))
        self._parent[second] = first

    def groups(self, items: Iterable[int]) -> list[list[int]]:
        """The sets that hold `items`, of these only: members ascending, sets by their first member."""
        members: dict[int, list[int]] = defaultdict(list)
        for item in sorted(set(items)):
            members[self.find(item)].append(item)
        return sorted(members.values())


@dataclass(frozen=True, slots=True)
class Clusters:
    """Candidate clusters, and the items that were left out to keep them small, ascending."""

    clusters: list[list[int]]
    left_out: list[int]


def clusters_of(count: int, pairs: Iterable[tuple[int, int]], max_size: int) -> Clusters:
    """Connected components with at least two and at most `max_size` members.

    From a larger one the member with most candidates is left out, ties by number, until every piece is small enough.

    Args:
        count: Items are 0..count-1; smaller numbers are smaller names.
        pairs: Edges in any order and direction; equal ones count once.
        max_size: Most members of a cluster, at least 2.

    Returns:
        Clusters in order of their first member.
    Source: algorithms.md 1.4, steps 4 and 5.
    Cost: O(edges log items).
    """
    edges = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    components = _connected(count, edges)
    large = {member for component in components if len(component) > max_size for member in component}
    neighbours: dict[int, set[int]] = defaultdict(set)
    is_large = np.zeros(count, dtype=np.bool_)
    is_large[list(large)] = True
    for a, b in edges[is_large[edges[:, 0]]].tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    clusters: list[list[int]] = []
    left_out: list[int] = []
    for component in components:
        if len(component) <= max_size:
            clusters.append(component)
            continue
        dropped = _dropped(component, neighbours, max_size)
        left_out += dropped
        clusters += _components(set(component) - dropped, neighbours)
    return Clusters(sorted(clusters), sorted(left_out))


def _connected(count: int, edges: npt.NDArray[np.int64]) -> list[list[int]]:
    """Connected components of at least two items, members ascending, in order of their first member."""
    ones = np.ones(len(edges), np.int8)
    graph = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(count, count))
    labels = connected_components(graph, directed=False)[1]
    members = np.flatnonzero(np.bincount(edges.ravel(), minlength=count))
    members = members[np.argsort(labels[members], kind="stable")]
    starts = np.flatnonzero(np.diff(labels[members])) + 1
    found, bounds = members.tolist(), [0, *starts.tolist(), len(members)]
    return sorted(found[start:end] for start, end in pairwise(bounds) if end - start > 1)


def _dropped(component: list[int], neighbours: dict[int, set[int]], max_size: int) -> set[int]:
    """Members to leave out of a component that is too large.

    Every piece is peeled by the same rule, and pieces do not touch: so the order in which the whole would be peeled to
    nothing holds inside every piece, and a member is left out if its piece is still too large at its turn. Going
    through that order backwards, pieces only grow.
    """
    place = {member: number for number, member in enumerate(component)}
    order = _peeling_order(component, neighbours)
    sets, sizes = DisjointSets(len(component)), [1] * len(component)
    present: set[int] = set()
    dropped = set()
    for member in reversed(order):
        present.add(member)
        for other in neighbours[member] & present:
            a, b = sets.find(place[member]), sets.find(place[other])
            if a != b:
                sizes[min(a, b)] = sizes[a] + sizes[b]
                sets.union(a, b)
        if sizes[sets.find(place[member])] > max_size:
            dropped.add(member)
    return dropped


def _peeling_order(component: list[int], neighbours: dict[int, set[int]]) -> list[int]:
    """All members, each time the one with most neighbours that are still there, ties by number."""
    degree = {member: len(neighbours[member]) for member in component}
    heap = [(-count, member) for member, count in degree.items()]
    heapify(heap)
    order = []
    while heap:
        count, member = heappop(heap)
        if degree.get(member) != -count:
            continue
        order.append(member)
        del degree[member]
        for other in neighbours[member]:
            if other in degree:
                degree[other] -= 1
                heappush(heap, (-degree[other], other))
    return order


def _components(members: set[int], neighbours: dict[int, set[int]]) -> list[list[int]]:
    """Connected pieces of at least two members."""
    pieces = []
    unseen = set(members)
    while unseen:
        piece = {unseen.pop()}
        edge = list(piece)
        while edge:
            found = neighbours[edge.pop()] & unseen
            unseen -= found
            piece |= found
            edge += found
        if len(piece) > 1:
            pieces.append(sorted(piece))
    return pieces
