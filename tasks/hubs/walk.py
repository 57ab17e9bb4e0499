"""FindHubRoots over whole arrays, layer by layer, for index runs and for questions (pure).

The published search goes through a queue that is first in, first out: of equal nodes of a layer it visits the first,
as this one does. Source: algorithms.md 4.4.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers

Places = NDArray[np.int64]
_START = -1  # no step: numbers of triples begin at 0, candidates are -2 and below


@dataclass(frozen=True, slots=True)
class Layer:
    """Nodes that a search reaches, in the order of reaching them.

    Attributes:
        nodes: Shape (n,).
        is_left: Shape (n,): whether the search goes against the direction of edges.
        parents: Shape (n,): places of the nodes before, -1 for the topic.
        steps: Shape (n,): the triple that leads there; -2 - c if the stored path to candidate c does; -1 for the topic.
    """

    nodes: Places
    is_left: NDArray[np.bool_]
    parents: Places
    steps: Places

    def only(self, kept: NDArray[np.intp] | NDArray[np.bool_]) -> "Layer":
        """Some of them."""
        return Layer(self.nodes[kept], self.is_left[kept], self.parents[kept], self.steps[kept])


def layer_at(nodes: Sequence[int], *, both_ways: bool) -> Layer:
    """Where a search begins: at these nodes, along edges, and before that against them if it goes both ways."""
    ways = [True, False] if both_ways else [False]
    starts = np.full(len(nodes) * len(ways), _START, dtype=np.int64)
    places = np.repeat(np.asarray(nodes, dtype=np.int64), len(ways))
    return Layer(places, np.tile(np.array(ways, dtype=np.bool_), len(nodes)), starts, starts)


class RootWalk:
    """A search over several levels; what was visited or found at an earlier level is not visited or found again."""

    def __init__(self, graph: HubGraph, is_hub: NDArray[np.bool_]) -> None:
        """A search that has not begun; `is_hub` says per node whether it is a hub, and may change between levels."""
        self._graph = graph
        self._is_hub = is_hub
        self._visited = np.zeros(2 * graph.node_count, dtype=np.bool_)
        self._found = np.zeros(graph.node_count, dtype=np.bool_)
        self._first = np.empty(2 * graph.node_count, dtype=np.int64)  # written for some keys before it is read for them
        self._layers: list[Layer] = []
        self._starts: list[int] = []
        self._count = 0

    def level(self, starts: Layer, *, until_hub: bool = True) -> tuple[Places, Places, Layer]:
        """One level of the search.

        Returns:
            Nodes of the hubs found and their places, in the order of finding; and where the next level begins (without
            the hubs' candidates), nothing if `until_hub`.
        """
        nodes, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        layer = starts
        while len(layer.nodes):
            # The first of each node and direction that was not visited before; marks them.
            keys = 2 * layer.nodes + layer.is_left
            first = self._first_of(np.where(self._visited[keys], -1, keys))
            self._visited[keys[first]] = True
            layer = layer.only(first)
            own = self._keep(layer)
            is_hub = self._is_hub[layer.nodes]
            fresh = self._first_of(np.where(is_hub & ~self._found[layer.nodes], layer.nodes, -1))
            self._found[layer.nodes[fresh]] = True
            nodes.append(layer.nodes[fresh])
            places.append(own[fresh])
            goes_on = ~is_hub | layer.is_left
            layer = self._neighbours(layer.only(goes_on), own[goes_on])
            if not until_hub:
                break
        return np.concatenate(nodes), np.concatenate(places), layer

    def triples_to(self, place: int, paths: HubPaths | None = None) -> tuple[int, ...]:
        """Triples from the topic to a place, in the order walked; `paths` are those whose `candidates` were starts."""
        steps: list[int] = []
        while place != _START:
            number = bisect_right(self._starts, place) - 1
            layer, at = self._layers[number], place - self._starts[number]
            steps.append(int(layer.steps[at]))
            place = int(layer.parents[at])
        triples: list[int] = []
        for step in reversed(steps):
            if step >= 0:
                triples.append(step)
            elif step != _START and paths is not None:
                start, end = paths.candidate_triple_starts[-2 - step : -step]
                triples += paths.candidate_triples[start:end].tolist()
        return tuple(triples)

    def _first_of(self, keys: Places) -> NDArray[np.intp]:
        """Ascending places of the first of each key; those below 0 are left out. Cost: O(keys)."""
        known = np.flatnonzero(keys >= 0)
        keys = keys[known]
        self._first[keys[::-1]] = known[::-1]  # of equal keys the last assignment holds
        first: NDArray[np.intp] = known[self._first[keys] == known]
        return first

    def _keep(self, layer: Layer) -> Places:
        """The places of a layer, which are remembered for the way back."""
        self._layers.append(layer)
        self._starts.append(self._count)
        self._count += len(layer.nodes)
        return np.arange(self._starts[-1], self._count)

    def _neighbours(self, layer: Layer, places: Places) -> Layer:
        """What one step reaches, node by node; of each node by (predicate, neighbour)."""
        graph, left = self._graph, layer.is_left
        starts = np.where(left, graph.in_starts[layer.nodes], graph.out_starts[layer.nodes])
        ends = np.where(left, graph.in_starts[layer.nodes + 1], graph.out_starts[layer.nodes + 1])
        numbers, counts = _runs(starts, ends)
        is_left = np.repeat(left, counts)
        triples = numbers.copy()
        triples[is_left] = graph.in_triples[numbers[is_left]]
        nodes = np.where(is_left, graph.subjects[triples], graph.objects[triples]).astype(np.int64)
        return Layer(nodes, is_left, np.repeat(places, counts), triples)


def candidates(paths: HubPaths, hubs: Numbers, places: Places) -> Layer:
    """Where the next level begins: what is stored with some hubs that were found at these places, in their order."""
    numbers, counts = _runs(paths.candidate_starts[hubs], paths.candidate_starts[hubs + 1])
    nodes = paths.candidates[numbers].astype(np.int64)
    return Layer(nodes, np.zeros(len(nodes), dtype=np.bool_), np.repeat(places, counts), -2 - numbers)


def joined(first: Layer, second: Layer) -> Layer:
    """One after the other."""
    return Layer(
        np.concatenate([first.nodes, second.nodes]),
        np.concatenate([first.is_left, second.is_left]),
        np.concatenate([first.parents, second.parents]),
        np.concatenate([first.steps, second.steps]),
    )


def _runs(starts: Numbers, ends: Numbers) -> tuple[Places, Places]:
    """The numbers of several runs one after the other, and how many each has."""
    counts = (ends - starts).astype(np.int64)
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts), counts
