"""Hubs level by level, each with its paths (pure): FindHubRoots, then FindPathsInHub, until nothing new is found.

Source: algorithms.md 4.7; the split of long paths 4.3.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import LIMIT, HubGraph, Numbers
from polyhop.tasks.hubs.adjacency import Adjacency
from polyhop.tasks.hubs.definition import SPLIT
from polyhop.tasks.hubs.paths import PathsOfHub, find_paths_in_hub
from polyhop.tasks.hubs.roots import DirectedNode, RootSearch


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far hubs and paths are searched; the fields are settings of the section `hubs`, 0 is no limit."""

    split: bool = False
    max_path_length: int = 10
    max_paths_per_hub: int = 1000
    search_until_hub: bool = True
    max_depth: int = -1


@dataclass(frozen=True, slots=True)
class FoundHub:
    """A hub and its paths, flat.

    Attributes:
        level: Of the search at which it was found, from 0.
        lengths: Triples of each path.
        triples: Of all paths, one after the other.
        end_kinds: Of each path.
        candidates: Nodes.
        candidate_kinds: Of each candidate.
        candidate_lengths: Triples of the path to each.
        candidate_triples: Of these paths.
        left_out: Paths beyond the limit.
    """

    level: int
    lengths: "array[int]"
    triples: "array[int]"
    end_kinds: bytes
    candidates: "array[int]"
    candidate_kinds: bytes
    candidate_lengths: "array[int]"
    candidate_triples: "array[int]"
    left_out: int

    @classmethod
    def of(cls, level: int, found: PathsOfHub) -> "FoundHub":
        """From the paths of a hub."""
        ways = [path for _, path in found.candidates.values()]
        return cls(
            level,
            array("i", map(len, found.paths)),
            array("i", (triple for path in found.paths for triple in path)),
            bytes(found.end_kinds),
            array("i", found.candidates),
            bytes(kind for kind, _ in found.candidates.values()),
            array("i", map(len, ways)),
            array("i", (triple for path in ways for triple in path)),
            found.left_out,
        )


@dataclass(slots=True)
class HubSearch:
    """What a search found.

    Attributes:
        rules: Shape (n,): why each node is a hub (tasks/hubs/definition.py); those that a split made are among them.
        hubs: By node, in the order of finding.
    """

    rules: NDArray[np.uint8]
    hubs: dict[int, FoundHub] = field(default_factory=dict)

    @property
    def unreached(self) -> Numbers:
        """Nodes that are hubs and that the search did not find, ascending."""
        return np.setdiff1d(np.flatnonzero(self.rules), list(self.hubs)).astype(np.int32)


def search_hubs(
    graph: HubGraph, rules: NDArray[np.uint8], starts: Sequence[int] | None, limits: SearchLimits
) -> HubSearch:
    """Finds hubs and their paths.

    Args:
        graph: The triples.
        rules: Shape (n,): why each node is a hub, 0 if it is none; not modified.
        starts: Nodes from which hubs are searched in both directions; None: all hubs, in order.
        limits: How far.

    Cost: O(edges) for hubs, and for each of them O(edges of its region * path length).
    """
    found, adjacent = HubSearch(rules.copy()), Adjacency(graph)
    is_hub = bytearray(rules.tobytes())
    search, level = RootSearch(adjacent, is_hub), 0
    roots = _roots(np.flatnonzero(rules).tolist() if starts is None else starts, both_ways=starts is not None)
    while roots and (limits.max_depth < 0 or level <= limits.max_depth):
        places, roots = search.level(roots, until_hub=limits.search_until_hub)
        candidates: dict[int, int] = {}
        for place in places:
            paths = find_paths_in_hub(adjacent, is_hub, place.node, limits.max_path_length, limits.max_paths_per_hub)
            found.hubs[place.node] = FoundHub.of(level, paths)
            candidates |= {node: kind for node, (kind, _) in paths.candidates.items()}
        if limits.split:
            for node in _ends(candidates, graph):
                is_hub[node] = found.rules[node] = SPLIT
        roots += _roots(candidates, both_ways=False)
        level += 1
    return found


def _ends(candidates: Mapping[int, int], graph: HubGraph) -> list[int]:
    """Where paths ended for their length; never a literal."""
    return [node for node, kind in candidates.items() if kind == LIMIT and not graph.is_literal[node]]


def _roots(nodes: Iterable[int], *, both_ways: bool) -> list[DirectedNode]:
    """Where a level begins. If all hubs are starts, none is left to be found against the direction of edges."""
    ways = (True, False) if both_ways else (False,)
    return [DirectedNode(node, is_left=is_left) for node in nodes for is_left in ways]
