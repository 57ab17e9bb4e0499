"""The traversal strategy: hubs level by level from a topic, each with the path that leads to it (pure).

Knows no names and asks no model: a reader stops at the level that suffices it. Source: algorithms.md 4.8.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers
from polyhop.tasks.hubs.adjacency import Adjacency
from polyhop.tasks.hubs.roots import DirectedNode, RootSearch, trail_of, triples_of
from polyhop.worker.ranking.hubs.choice import HubChoice, HubRule, ScoredHub
from polyhop.worker.ranking.hubs.search import Scores


@dataclass(frozen=True, slots=True)
class Level:
    """What one level of a search found.

    Attributes:
        number: From 1. Levels that reach no hub are left out.
        hubs: The best, in descending order of hub score.
        paths_to_topic: Triples from the topic to each of them, in the order walked.
        found: How many hubs the level reached in all.
        not_indexed: Nodes that are hubs by definition, but whose paths no index run has found.
    """

    number: int
    hubs: tuple[ScoredHub, ...]
    paths_to_topic: tuple[tuple[int, ...], ...]
    found: int
    not_indexed: tuple[int, ...] = ()


class TopicWalk:
    """The graph of a version, ready for searches from a topic; shared by threads."""

    def __init__(self, graph: HubGraph, paths: HubPaths, unreached: Numbers) -> None:
        """For a version; `unreached` are the nodes that are hubs but have no paths in it."""
        self._graph = Adjacency(graph)
        self._paths = paths
        self._choice = HubChoice(paths)
        self._hub_of = np.full(graph.node_count, -1, dtype=np.int32)
        self._hub_of[paths.hubs] = np.arange(len(paths.hubs))
        is_hub = self._hub_of >= 0
        is_hub[unreached] = True
        self._is_hub = memoryview(is_hub.astype(np.uint8).data)

    def levels(
        self, topic: int, scores: Scores, rule: HubRule, *, most_levels: int, until_hub: bool = True
    ) -> Iterator[Level]:
        """The levels in which hubs are reached, one at a time, as they are asked for.

        The search begins at the topic in both directions and goes on from the candidates of all hubs of a level, those
        that are left out of it included.

        Args:
            topic: A node.
            scores: Of all paths.
            rule: How many hubs of a level, and of their paths.
            most_levels: beta.
            until_hub: eta: a level goes on along every path until it meets a hub; otherwise it is one step.
        """
        search = RootSearch(self._graph, self._is_hub)
        starts: Iterable[DirectedNode] = [DirectedNode(topic, is_left=True), DirectedNode(topic, is_left=False)]
        for number in range(1, most_levels + 1):
            reached, after = search.level(starts, until_hub=until_hub)
            hubs = self._hub_of[[place.node for place in reached]] if reached else np.empty(0, dtype=np.int32)
            places = dict(zip(hubs.tolist(), reached, strict=True))
            not_indexed = [place.node for place, hub in zip(reached, hubs, strict=True) if hub < 0]
            places.pop(-1, None)
            if reached:
                yield self._level(number, places, not_indexed, scores, rule)
            if number == most_levels:
                return
            starts = [*after, *self._candidates(places)]
            if not starts:
                return

    def _level(
        self,
        number: int,
        places: dict[int, DirectedNode],
        not_indexed: Sequence[int],
        scores: Scores,
        rule: HubRule,
    ) -> Level:
        found: NDArray[np.intp] = np.fromiter(places, dtype=np.intp, count=len(places))
        hubs = self._choice.best_of(scores, found, rule)
        walked = tuple(triples_of(places[hub.hub].path_to_topic) for hub in hubs)
        return Level(number, tuple(hubs), walked, len(places) + len(not_indexed), tuple(sorted(not_indexed)))

    def _candidates(self, places: dict[int, DirectedNode]) -> Iterator[DirectedNode]:
        """Where the next level begins: what is stored with these hubs, in their order."""
        paths = self._paths
        for hub, place in places.items():
            for number in range(int(paths.candidate_starts[hub]), int(paths.candidate_starts[hub + 1])):
                start, end = paths.candidate_triple_starts[number], paths.candidate_triple_starts[number + 1]
                trail = trail_of(paths.candidate_triples[start:end].tolist(), place.path_to_topic)
                yield DirectedNode(int(paths.candidates[number]), is_left=False, path_to_topic=trail)
