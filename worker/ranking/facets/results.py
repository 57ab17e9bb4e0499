"""Triples and passages in the order that scored hub paths give them (pure).

Scores no path. Source: algorithms.md 4B, final score.
"""

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubPaths
from polyhop.worker.ranking.order import best, best_positive

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


def best_paths(scores: Floats, last_triples: NDArray[np.integer], count: int) -> NDArray[np.intp]:
    """The best path of each of the `count` best triples, in descending order of score; ties by path number.

    Args:
        scores: Shape (p,): of all paths; only those above 0 are ranked.
        last_triples: Shape (p,): the triple that each path ranks.
        count: Triples at most.

    Cost: O(p) unless most paths end in the same few triples.
    """
    wanted = max(count, 0)
    while True:
        order = best(scores, wanted)
        is_last = len(order) < wanted or scores[order[-1:]].min(initial=1.0) <= 0
        order = order[scores[order] > 0]
        _, firsts = np.unique(last_triples[order], return_index=True)
        if len(firsts) >= count or is_last:
            return np.asarray(order[np.sort(firsts)][: max(count, 0)])
        wanted *= 4


class LinkedPassages:
    """Passages that take the scores of paths: those that state a path's last triple, or those of its hub."""

    def __init__(self, paths: HubPaths, triple_passages: Pairs, hub_passages: Pairs) -> None:
        """Of a version.

        Args:
            paths: Hubs and their paths.
            triple_passages: Shape (e, 2): triples and passages; of a graph there are none.
            hub_passages: Shape (e, 2): hubs and passages, used where no passage states a triple.
        """
        count = paths.path_count
        if len(triple_passages):
            owners, pairs = paths.last_triples(), triple_passages
        else:
            owners, pairs = paths.path_hubs(), hub_passages
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        starts = np.searchsorted(pairs[:, 0], owners)
        lengths = np.searchsorted(pairs[:, 0], owners, side="right") - starts
        path_of = np.repeat(np.arange(count), lengths)
        offsets = np.arange(len(path_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        passages = pairs[np.repeat(starts, lengths) + offsets, 1]
        order = np.argsort(passages, kind="stable")
        self._paths = path_of[order]
        self._passages, self._starts = np.unique(passages[order], return_index=True)

    def rank(self, scores: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
        """At most `count` passages with their best path's score, in descending order; ties by passage number.

        Args:
            scores: Shape (p,): of all paths; a passage without a score above 0 is left out.
            count: Passages at most.
        """
        if not len(self._passages):
            return np.empty(0, dtype=np.intp), np.empty(0)
        values = np.maximum.reduceat(scores[self._paths], self._starts)
        order = best_positive(values, count)
        return self._passages[order].astype(np.intp), values[order]
