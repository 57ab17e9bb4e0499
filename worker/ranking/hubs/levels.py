"""The traversal strategy: hubs level by level from a topic, each with the path that leads to it (pure).

Knows no names and asks no model: a reader stops at the level that suffices it. Source: algorithms.md 4.8.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyhop.schemas.hubs import HubGraph, HubPaths, Numbers
from polyhop.worker.ranking.hubs.choice import ChoiceRule, HubChoice, ScoredHub
from polyhop.worker.ranking.hubs.search import Scores
from polyhop.worker.ranking.hubs.walk import RootWalk, joined, topic_layer


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
        self._graph = graph
        self._paths = paths
        self._choice = HubChoice(paths)
        self._hub_of = np.full(graph.node_count, -1, dtype=np.int32)
        self._hub_of[paths.hubs] = np.arange(len(paths.hubs))
        self._is_hub = self._hub_of >= 0
        self._is_hub[unreached] = True

    def levels(
        self, topic: int, scores: Scores, rule: ChoiceRule, *, most_levels: int, until_hub: bool = True
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
        walk = RootWalk(self._graph, self._paths, self._is_hub)
        starts = topic_layer(topic)
        for number in range(1, most_levels + 1):
            nodes, places, after = walk.level(starts, until_hub=until_hub)
            hubs = self._hub_of[nodes]
            if len(nodes):
                chosen = self._choice.best_of(scores, hubs[hubs >= 0].astype(np.intp), rule)
                ways = tuple(walk.triples_to(int(places[np.argmax(hubs == hub.hub)])) for hub in chosen)
                not_indexed = tuple(sorted(nodes[hubs < 0].tolist()))
                yield Level(number, tuple(chosen), ways, len(nodes), not_indexed)
            starts = joined(after, walk.candidates(hubs[hubs >= 0], places[hubs >= 0]))
            if not len(starts.nodes):
                return
