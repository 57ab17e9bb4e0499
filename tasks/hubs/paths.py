"""FindPathsInHub: the paths that leave a hub, by one breadth-first pass over outgoing edges (pure).

Knows no definition of a hub: it is told which nodes are. Source: algorithms.md 4.5, with its corrections.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from polyhop.schemas.hubs import HUB, LEAF, LIMIT, REVISIT
from polyhop.tasks.hubs.adjacency import Adjacency

Path = tuple[int, ...]
"""Triple numbers, from the hub on."""


@dataclass(slots=True)
class PathsOfHub:
    """What leaves a hub.

    Attributes:
        paths: Different ones, in emission order; none is empty.
        end_kinds: Of each path, a number in END_KINDS.
        candidates: Node to (HUB or LIMIT, the path that reached it first), in the order of first arrival.
        left_out: Paths beyond `max_paths`.
    """

    paths: list[Path] = field(default_factory=list)
    end_kinds: list[int] = field(default_factory=list)
    candidates: dict[int, tuple[int, Path]] = field(default_factory=dict)
    left_out: int = 0

    def add(self, graph: Adjacency, path: Path, kind: int, max_paths: int) -> None:
        """Takes a path that is not among them; beyond `max_paths` (0: no limit) it is counted, its candidate kept."""
        if max_paths and len(self.paths) >= max_paths:
            self.left_out += 1
        else:
            self.paths.append(path)
            self.end_kinds.append(kind)
        if kind in (HUB, LIMIT):
            self.candidates.setdefault(graph.objects[path[-1]], (kind, path))


def find_paths_in_hub(
    graph: Adjacency, is_hub: Sequence[int], hub: int, max_length: int, max_paths: int = 0
) -> PathsOfHub:
    """The paths of one hub, and where search goes on from them.

    Args:
        graph: The triples.
        is_hub: Per node, true for hubs.
        hub: Node of the hub.
        max_length: Triples of the longest path; 0 or less: any number.
        max_paths: Paths to keep, the first; 0: all. Those beyond are counted, their candidates kept.

    Returns:
        Every edge of the hub's region whose subject lies fewer than `max_length` steps away is in a path, except those
        into the hub itself.

    Cost: O(edges of the region * path length).
    """
    found = PathsOfHub()
    seen: set[Path] = set()
    expanded: set[int] = set()
    waiting: deque[tuple[int, Path]] = deque([(hub, ())])
    while waiting:
        node, path = waiting.popleft()
        edges = [triple for triple in graph.outgoing(node) if graph.objects[triple] != hub]
        if node in expanded:
            ended = [(path, REVISIT)]
        elif 0 < max_length <= len(path):
            ended = [(path, LIMIT if edges else LEAF)]
        else:
            expanded.add(node)
            ended, further = _expanded(graph, is_hub, path, edges)
            waiting.extend(further)
            ended += [(path, LEAF)] if path and not edges else []
        for ending, kind in ended:
            if ending not in seen:
                seen.add(ending)
                found.add(graph, ending, kind, max_paths)
    return found


def _expanded(
    graph: Adjacency, is_hub: Sequence[int], path: Path, edges: Sequence[int]
) -> tuple[list[tuple[Path, int]], list[tuple[int, Path]]]:
    """What one step over these edges ends, with its kind, and where it can go on."""
    ended: list[tuple[Path, int]] = []
    further: list[tuple[int, Path]] = []
    passed = {graph.subjects[triple] for triple in path}
    for triple in edges:
        target, longer = graph.objects[triple], (*path, triple)
        if is_hub[target]:
            ended.append((longer, HUB))
        elif target in passed or target == graph.subjects[triple]:
            ended.append((longer, REVISIT))
        else:
            further.append((target, longer))
    return ended, further
