"""The relation graph level by level, entities by part of a name, and how passages are linked.

Relations count in both directions; every function returns in ascending number, which is ascending key. Source:
algorithms.md 5.2.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import log

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import QuestionNames
from polyhop.schemas.graph import BipartiteGraph, EdgesByEntity, RelationGraph, distinct, gathered
from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import Link
from polyhop.warehouse.artefacts import GRAPH
from polyhop.worker.ranking.activation import Search, nearest, seed_scores
from polyhop.worker.ranking.fusion import best

PER_MENTION = 0.1  # What a mention of an entity at hop 0 adds to a passage's score.

Integers = NDArray[np.integer]
NOTHING: Integers = np.empty(0, dtype=np.intp)  # No entities.
Path = tuple[int, ...]


def require_depth(depth: int) -> None:
    """Refuses a negative number of relations."""
    if depth < 0:
        raise AlgorithmError(f"The depth is {depth}; it must be at least 0.")


IsEnough = Callable[[NDArray[np.intp]], bool]
"""Decides between two levels if a traversal ends, from the hops of all entities: -1 for those not reached."""


def expand(
    graph: RelationGraph, starts: Sequence[int], depth: int, is_enough: IsEnough | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every entity within `depth` relations of some start, and its smallest number of hops.

    Args:
        graph: Entities and their relations.
        starts: Entity numbers, in any order; duplicates count once.
        depth: Relations to follow, at least 0.
        is_enough: Ends the traversal early, between two levels.

    Returns:
        Two arrays of one shape: entities ascending, the starts among them, and their hops, 0 for a start.

    Source: algorithms.md 5.2 (expand).
    Cost: O(edges of reached entities), besides O(n) to clear.
    """
    hops = _levels(graph, starts, depth, is_enough)
    reached = np.flatnonzero(hops >= 0)
    return reached, hops[reached]


def traverse(graph: RelationGraph, start: int, depth: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Expands one entity (itself excluded), by hops, then number. Source: algorithms.md 5.2 (traverse)."""
    reached, hops = expand(graph, [start], depth)
    order = np.argsort(hops, kind="stable")[1:]
    return reached[order], hops[order]


def passages_mentioning(mentions: EdgesByEntity, entities: Sequence[int] | Integers) -> NDArray[np.intp]:
    """Passages that mention any of these entities, ascending, each once.

    Source: algorithms.md 5.2 (chunks_for_entities).
    """
    _, offsets = gathered(mentions.indptr, np.asarray(entities, dtype=np.intp))
    return distinct(mentions.passages[offsets]).astype(np.intp)


def shared_passages(mentions: EdgesByEntity, left: Sequence[int], right: Sequence[int]) -> NDArray[np.intp]:
    """Passages that mention some entity of both sets, ascending."""
    both = passages_mentioning(mentions, left), passages_mentioning(mentions, right)
    return np.intersect1d(*both, assume_unique=True)


def passages_by_hops(
    mentions: EdgesByEntity, entities: Integers, hops: Integers, decay: float, count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Passages by the sum of `0.1 * decay ** hop` over the distinct reached entities that they mention.

    Args:
        mentions: Which passages mention each entity.
        entities: Shape (m,): reached entities, ascending.
        hops: Shape (m,): their hops.
        decay: What a hop leaves of a mention's worth, above 0, at most 1.
        count: Passages to return at most.

    Returns:
        Passage numbers and scores, in descending order of score, ties by number.
    Source: algorithms.md 5.2 (ranking of the graph list).
    Cost: O(mentions of reached entities, sorted).
    """
    starts, edges = gathered(mentions.indptr, entities)
    worth = np.repeat(PER_MENTION * np.power(decay, hops, dtype=np.float64), np.diff(starts))
    passages, inverse = np.unique(mentions.passages[edges], return_inverse=True)
    scores = np.bincount(inverse, worth, len(passages)).astype(np.float64, copy=False)
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

    Cost: O(edges within `max_length` of the targets + limit * length * neighbours).
    """
    begins = distinct(np.asarray(sources, dtype=np.intp))
    inside = np.setdiff1d(np.asarray(barred, dtype=np.intp), begins)
    from_targets = _levels(graph, targets, max_length, lambda hops: bool((hops[begins] >= 0).any()), inside)
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
    graph: RelationGraph,
    starts: Sequence[int],
    depth: int,
    is_enough: IsEnough | None = None,
    barred: Integers = NOTHING,
) -> NDArray[np.intp]:
    """Shape (n,): hops from the nearest start, -1 beyond `depth` and for what is barred and no start.

    Ends at the level that is enough.
    """
    require_depth(depth)
    hops = np.full(graph.entity_count, -1, dtype=np.intp)
    frontier: NDArray[np.integer] = distinct(np.asarray(starts, dtype=np.intp))
    hops[barred] = depth + 1  # as if reached already, and further than anything is
    hops[frontier] = 0
    for hop in range(1, depth + 1):
        if not len(frontier) or (is_enough is not None and is_enough(hops)):
            break
        near = graph.indices[gathered(graph.indptr, frontier)[1]]
        frontier = distinct(near[hops[near] < 0])
        hops[frontier] = hop
    hops[hops > depth] = -1
    return hops


QUESTION = "question"
EXPLAINED = 10  # So many passages are explained.


def connect(index: IndexReader, names: QuestionNames | None, passage_ids: Sequence[str]) -> list[Link]:
    """Connects the first passages of a retrieval to the question or to each other."""
    return strongest_links(index.artefact(GRAPH), index.number_of_passage, names, passage_ids[:EXPLAINED])


def strongest_links(
    graph: BipartiteGraph, number_of: Mapping[str, int], names: QuestionNames | None, passage_ids: Sequence[str]
) -> list[Link]:
    """For each passage its link through the rarest entity, if it has one.

    Args:
        graph: Passages and the entities they mention.
        number_of: A passage's number by its id.
        names: The question's.
        passage_ids: In the order of the ranking.

    Returns:
        At most one link per passage, in their order: through its rarest entity that the question or a passage before it
        has; of equally rare ones the smaller key; for one entity the question comes first, then the best passage. Its
        weight is the rarity `ln((N + 1) / (df + 1))` of the shared entity.
    Cost: O(mentions of these passages).
    """
    matched = names.matched if names and names.noun == "entities" else ()
    first_with = {graph.number_of[key]: QUESTION for key in matched if key in graph.number_of}
    links = []
    for passage_id in passage_ids:
        passage = number_of[passage_id]
        entities = graph.indices[graph.indptr[passage] : graph.indptr[passage + 1]].tolist()
        shared = [entity for entity in entities if entity in first_with]
        if shared:
            rarest = min(shared, key=lambda entity: (graph.df[entity], entity))
            weight = log((graph.passage_count + 1) / (int(graph.df[rarest]) + 1))
            links.append(Link(first_with[rarest], graph.keys[rarest], passage_id, weight))
        for entity in entities:
            first_with.setdefault(entity, passage_id)
    return links


_FLOAT32 = 1e-6  # Vectors are stored in float32: a cosine this close below a threshold is at the threshold.


class NameSearch:
    """All entity keys as one run of text, searched for fragments."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._text = "\n".join((*keys, ""))
        self._ends = np.cumsum([len(key) + 1 for key in keys], dtype=np.int64)

    def containing(self, name: str) -> list[int]:
        """Numbers of the entities whose key contains the key of `name`, ascending; none for a name without letters.

        Source: algorithms.md 5.2 (find_entities, fuzzy: one direction only).
        Cost: O(characters of all keys).
        """
        fragment = " ".join(name_tokens(name))
        found: list[int] = []
        offset = self._text.find(fragment) if fragment else -1
        while offset >= 0:
            number = int(np.searchsorted(self._ends, offset, side="right"))
            found.append(number)
            offset = self._text.find(fragment, int(self._ends[number]))
        return found

    def like(self, name: str) -> list[int]:
        """Finds keys as `containing` does, and keys that have every word of `name` in any order; ascending."""
        found = set(self.containing(name))
        words = set(name_tokens(name))
        for number in self.containing(max(words, key=len)) if words else ():
            key = self._text[int(self._ends[number - 1]) if number else 0 : int(self._ends[number])]
            if words.issubset(key.split()):
                found.add(number)
        return sorted(found)


def similar_entities(
    vectors: NDArray[np.float32],
    vector: NDArray[np.float32],
    count: int,
    min_similarity: float,
    search: Search | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Entities by cosine with a vector.

    Args:
        vectors: Shape (n, d), float32: of all entities; a row of zeros is a missing vector.
        vector: Shape (d,).
        count: Entities to return at most.
        min_similarity: Smallest cosine that counts, itself included.
        search: As of `activation.nearest`.

    Returns:
        Entity numbers and cosines, in descending order of cosine, ties by number; none without a vector.

    Source: algorithms.md 5.2 (find_entities_by_embedding).
    Cost: O(n d) in float32.
    """
    if count <= 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    near = nearest(vectors, vector, count, search)
    similarities = seed_scores(vectors[near], vector, vector, "entity")
    is_near = similarities >= min_similarity - _FLOAT32
    return near[is_near], similarities[is_near]
