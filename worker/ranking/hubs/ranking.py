"""Triples and passages in the order that the kept paths of hubs give them (pure).

Looks nothing up (it is given which passages state a triple or belong to a hub). Decided here: levels come one after the
other, so that a search that ends at an earlier level ranks a prefix; a passage takes the best score of the kept paths
whose last triple it states and of the hubs it is linked to (hub score times its own cosine).
Source: algorithms.md 4.8 (order of levels), 4.9, 4.10 (contexts).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths
from polyhop.worker.ranking.hubs.choice import ScoredHub
from polyhop.worker.ranking.hubs.search import Scores
from polyhop.worker.ranking.order import DECIMALS

Pairs = NDArray[np.int64]


class Linked:
    """Pairs of numbers by the first: passages of a triple, passages of a hub."""

    def __init__(self, pairs: Pairs, count: int) -> None:
        """From pairs in any order, shape (e, 2); first numbers are below `count`."""
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        self._seconds: NDArray[np.int64] = pairs[order, 1]
        self._starts = np.searchsorted(pairs[order, 0], np.arange(count + 1))

    def of(self, number: int) -> NDArray[np.int64]:
        """The second numbers of one first, ascending."""
        return self._seconds[self._starts[number] : self._starts[number + 1]]


@dataclass(frozen=True, slots=True)
class UsedPath:
    """A path with its score and the rank of its hub, from 0."""

    path: int
    score: float
    hub_rank: int


def used_paths(hubs: Sequence[ScoredHub], scores: Scores) -> list[UsedPath]:
    """The kept paths of hubs that stand in order."""
    return [UsedPath(path, float(scores[path]), rank) for rank, hub in enumerate(hubs) for path in hub.paths]


def rank_triples(levels: Iterable[Sequence[UsedPath]], paths: HubPaths) -> list[tuple[int, float]]:
    """Triples with the score of the path that placed them, each once.

    Within a level paths stand by score, then rank of their hub, then hash; each gives its last triple, and all their
    other triples follow in the same order.

    Args:
        levels: Paths of each level, in any order.
        paths: Of the version.

    Source: algorithms.md 4.10 (contexts).
    """
    placed: dict[int, float] = {}
    for used in levels:
        ordered = in_context_order(used, paths)
        for one in ordered:
            placed.setdefault(int(paths.triples_of(one.path)[-1]), one.score)
        for one in ordered:
            for triple in paths.triples_of(one.path)[:-1].tolist():
                placed.setdefault(triple, one.score)
    return list(placed.items())


def in_context_order(used: Sequence[UsedPath], paths: HubPaths) -> list[UsedPath]:
    """Paths by score, then rank of their hub, then hash. Source: algorithms.md 4.10."""
    return sorted(used, key=lambda one: (-round(one.score, DECIMALS), one.hub_rank, paths.hashes[one.path].tobytes()))


def linked_passages(
    passages: NDArray[np.int64], cosines: Callable[[NDArray[np.int64]], Scores], count: int
) -> list[tuple[int, float]]:
    """The passages of a hub that are nearest to the question, with their cosines; ties to the smaller number.

    Args:
        passages: Of the hub.
        cosines: Of passages by number.
        count: How many at most.

    Source: algorithms.md 4.9.
    """
    if not len(passages) or count <= 0:
        return []
    values = cosines(passages)
    order = np.lexsort((passages, -np.round(values, DECIMALS)))[:count]
    return list(zip(passages[order].tolist(), values[order].tolist(), strict=True))


def rank_passages(
    levels: Iterable[tuple[Sequence[ScoredHub], Sequence[Sequence[tuple[int, float]]]]],
    scores: Scores,
    paths: HubPaths,
    stating: Linked,
) -> list[tuple[int, float]]:
    """Passages with their scores, each once, level by level; equal scores by passage number.

    Args:
        levels: Hubs of each level, and the linked passages of each of these hubs with their cosines.
        scores: Of all paths.
        paths: Of the version.
        stating: Passages by triple.
    """
    ranked: dict[int, float] = {}
    for hubs, linked in levels:
        found: dict[int, float] = {}
        for hub, near in zip(hubs, linked, strict=True):
            for path in hub.paths:
                for passage in stating.of(int(paths.triples_of(path)[-1])).tolist():
                    found[passage] = max(found.get(passage, 0.0), float(scores[path]))
            for passage, cosine in near:
                found[passage] = max(found.get(passage, 0.0), hub.score * max(cosine, 0.0))
        for passage, score in sorted(found.items(), key=lambda pair: (-round(pair[1], DECIMALS), pair[0])):
            ranked.setdefault(passage, score)
    return list(ranked.items())
