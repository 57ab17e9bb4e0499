"""FindHubRoots: the hubs that a search meets first on its way from some nodes (pure).

Serves indexing, which looks for hubs from the start nodes, and retrieval, which looks for them from a question's topic.
Source: algorithms.md 4.4.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyhop.tasks.hubs.adjacency import Adjacency

Trail = tuple["Trail", int] | None
"""A path as its last triple and the trail before it: a step costs the same at any length."""


def triples_of(trail: Trail) -> tuple[int, ...]:
    """Triple numbers of a trail, from its start."""
    triples = []
    while trail is not None:
        trail, triple = trail
        triples.append(triple)
    return tuple(reversed(triples))


@dataclass(frozen=True, slots=True)
class DirectedNode:
    """A node that a search has reached.

    Attributes:
        node: Its number.
        is_left: Whether the search goes against the direction of edges.
        path_to_topic: Triples from the start to it, with their stored direction.
    """

    node: int
    is_left: bool
    path_to_topic: Trail = None


class RootSearch:
    """A search over several levels: what was visited or found at an earlier level is not visited or found again."""

    def __init__(self, graph: Adjacency, is_hub: Sequence[int]) -> None:
        """A search that has not begun; `is_hub` says per node whether it is a hub, and may change between levels."""
        self._graph = graph
        self._is_hub = is_hub
        self._visited: set[tuple[int, bool]] = set()
        self._found: set[int] = set()

    def level(
        self, starts: Iterable[DirectedNode], *, until_hub: bool = True
    ) -> tuple[list[DirectedNode], list[DirectedNode]]:
        """One level of the search, breadth first.

        Args:
            starts: Where it begins, or goes on from the level before.
            until_hub: The thesis' eta: go on along every path until a hub is met; otherwise a level is one step.

        Returns:
            The hubs found, each once, in the order of finding; and where the next level begins (without the hubs'
            candidates), none if `until_hub`.
        """
        hubs: list[DirectedNode] = []
        after: list[DirectedNode] = []
        waiting = deque(starts)
        while waiting:
            place = waiting.popleft()
            if (place.node, place.is_left) in self._visited:
                continue
            self._visited.add((place.node, place.is_left))
            if self._is_hub[place.node]:
                if place.node not in self._found:
                    self._found.add(place.node)
                    hubs.append(place)
                if not place.is_left:
                    continue
            (waiting if until_hub else after).extend(self._neighbours(place))
        return hubs, after

    def _neighbours(self, place: DirectedNode) -> list[DirectedNode]:
        graph, trail, node = self._graph, place.path_to_topic, place.node
        if place.is_left:
            return [
                DirectedNode(graph.subjects[t], is_left=True, path_to_topic=(trail, t)) for t in graph.incoming(node)
            ]
        return [DirectedNode(graph.objects[t], is_left=False, path_to_topic=(trail, t)) for t in graph.outgoing(node)]
