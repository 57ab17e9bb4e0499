"""The relation graph level by level: what is reached in how many hops, passages scored by that, shortest paths.

Finds no names (entity_search.py and the strategies do) and fuses nothing (fusion.py does). Relations count in both
directions; every function returns in ascending number, which is ascending key. Source: algorithms.md 5.2.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import RelationGraph
from polyhop.worker.ranking.order import best

if TYPE_CHECKING:
    from scipy import sparse

PER_MENTION = 0.1
"""What a mention of an entity at hop 0 adds to a passage's score."""

Integers = NDArray[np.integer]
NOTHING: Integers = np.empty(0, dtype=np.intp)
"""No entities."""
Path = tuple[int, ...]


def require_depth(depth: int) -> None:
    """Refuses a negative number of relations.

    Raises:
        AlgorithmError: If `depth` is negative.
    """
    if depth < 0:
        raise AlgorithmError(f"The depth is {depth}; it must be at least 0.")


def expand(graph: RelationGraph, starts: Sequence[int], depth: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every entity within `depth` relations of some start, and its smallest number of hops.

    Args:
        graph: Entities and their relations.
        starts: Entity numbers, in any order; duplicates count once.
        depth: Relations to follow, at least 0.

    Returns:
        Two arrays of one shape: entities ascending, the starts among them, and their hops, 0 for a start.

    Raises:
        AlgorithmError: If `depth` is negative.
    Source: algorithms.md 5.2 (expand).
    Cost: O(edges of reached entities), besides O(n) to clear.
    """
    hops = _levels(graph, starts, depth)
    reached = np.flatnonzero(hops >= 0)
    return reached, hops[reached]


def traverse(graph: RelationGraph, start: int, depth: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """What `expand` finds from one entity, without it, by hops, then number.

    Raises:
        AlgorithmError: If `depth` is negative.
    Source: algorithms.md 5.2 (traverse).
    """
    reached, hops = expand(graph, [start], depth)
    order = np.argsort(hops, kind="stable")[1:]
    return reached[order], hops[order]


def passages_mentioning(mentioned_in: "sparse.csr_array", entities: Sequence[int] | Integers) -> NDArray[np.intp]:
    """Passages that mention any of these entities, ascending, each once.

    Args:
        mentioned_in: Shape (n_entities, n_passages), CSR (similarity.mentioned_in).
        entities: Entity numbers.

    Source: algorithms.md 5.2 (chunks_for_entities).
    """
    found, _ = _rows(mentioned_in.indptr, mentioned_in.indices, np.asarray(entities, dtype=np.intp))
    return np.unique(found).astype(np.intp)


def shared_passages(mentioned_in: "sparse.csr_array", left: Sequence[int], right: Sequence[int]) -> NDArray[np.intp]:
    """Passages that mention some entity of both sets, ascending."""
    both = passages_mentioning(mentioned_in, left), passages_mentioning(mentioned_in, right)
    return np.intersect1d(*both, assume_unique=True)


def passages_by_hops(
    mentioned_in: "sparse.csr_array", entities: Integers, hops: Integers, decay: float, count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Passages by the sum of `0.1 * decay ** hop` over the distinct reached entities that they mention.

    Args:
        mentioned_in: Shape (n_entities, n_passages), CSR: one entry per passage and entity.
        entities: Shape (m,): reached entities, ascending.
        hops: Shape (m,): their hops.
        decay: What a hop leaves of a mention's worth, above 0, at most 1.
        count: Passages to return at most.

    Returns:
        Passage numbers and scores, in descending order of score, ties by number.
    Source: algorithms.md 5.2 (ranking of the graph list).
    Cost: O(mentions of reached entities, sorted).
    """
    edges, per_entity = _rows(mentioned_in.indptr, mentioned_in.indices, entities)
    worth = np.repeat(PER_MENTION * np.power(decay, hops, dtype=np.float64), per_entity)
    passages, places = np.unique(edges, return_inverse=True)
    scores = np.bincount(places, worth, len(passages)).astype(np.float64, copy=False)
    first = best(scores, count)
    return passages[first].astype(np.intp), scores[first]


def shortest_paths(
    graph: RelationGraph,
    sources: Sequence[int],
    targets: Sequence[int],
    max_length: int,
    limit: int,
    barred: Sequence[int] = (),
) -> list[Path]:
    """The shortest paths from any source to any target, all of one length.

    Args:
        graph: Entities and their relations.
        sources: Entity numbers where a path may begin.
        targets: Entity numbers where it may end.
        max_length: Relations that a path may have, at least 0.
        limit: Paths to return at most.
        barred: Entities that no path leads over; it may begin and end at them.

    Returns:
        Entity numbers of each path, its ends included; empty if there is none so short, and one entity where a source
        is a target. In the order of their first difference: the entity with fewer neighbours comes first, then the
        smaller number, so that paths over hubs come last.

    Raises:
        AlgorithmError: If `max_length` is negative.
    Cost: O(edges within `max_length` of the targets + limit * length * neighbours).
    """
    inside = np.setdiff1d(np.asarray(barred, dtype=np.intp), np.asarray(sources, dtype=np.intp))
    from_targets = _levels(graph, targets, max_length, until=sources, barred=inside)
    begins = np.unique(np.asarray(sources, dtype=np.intp))
    begins = begins[from_targets[begins] >= 0]
    if not len(begins):
        return []
    distance = from_targets[begins].min()
    first = _rare_first(graph, begins[from_targets[begins] == distance])
    ways = (path for start in first for path in _descend(graph, from_targets, (start,)))
    return list(islice(ways, max(limit, 0)))


def _descend(graph: RelationGraph, hops: Integers, path: Path) -> Iterator[Path]:
    """All ways on from a path's end to hop 0, one hop nearer at each step; none is a dead end."""
    end = path[-1]
    if hops[end] == 0:
        yield path
        return
    near = graph.indices[graph.indptr[end] : graph.indptr[end + 1]]
    for following in _rare_first(graph, near[hops[near] == hops[end] - 1]):
        yield from _descend(graph, hops, (*path, following))


def _rare_first(graph: RelationGraph, entities: Integers) -> list[int]:
    """Ascending entities by their number of neighbours, then number."""
    degrees = graph.indptr[entities + 1] - graph.indptr[entities]
    found: list[int] = entities[np.argsort(degrees, kind="stable")].tolist()
    return found


def _levels(
    graph: RelationGraph, starts: Sequence[int], depth: int, until: Sequence[int] = (), barred: Integers = NOTHING
) -> NDArray[np.intp]:
    """Shape (n,): hops from the nearest start, -1 beyond `depth` and for what is barred and no start.

    Ends at the level that reaches any of `until`.
    """
    require_depth(depth)
    hops = np.full(graph.entity_count, -1, dtype=np.intp)
    frontier = np.unique(np.asarray(starts, dtype=np.intp))
    wanted = np.asarray(until, dtype=np.intp)
    hops[barred] = depth + 1  # as if reached already, and further than anything is
    hops[frontier] = 0
    for hop in range(1, depth + 1):
        if not len(frontier) or (hops[wanted] >= 0).any():
            break
        near, _ = _rows(graph.indptr, graph.indices, frontier)
        frontier = np.unique(near[hops[near] < 0])
        hops[frontier] = hop
    hops[hops > depth] = -1
    return hops


def _rows(indptr: Integers, indices: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Entries of some rows of a compressed array, one row after the other, and how many each row has."""
    starts = indptr[rows]
    counts = indptr[rows + 1] - starts
    places = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return indices[places], counts
