"""Personalised PageRank whose cost follows what a walk touches, not the graph.

A few frequent entities (countries, years) carry every walk to all passages within three half-steps. What follows from
such an entity is the same for every question up to a factor: it is computed once per version and added as a column,
and only the rest of the walk is followed, along the edges of the nodes that it reaches. Finds no seeds.
Source: algorithms.md 2.6, 2B.3 step 2; equals `walk_passages` up to the order of sums.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.pagerank import BipartiteTransition, WalkSeeds, stuck_mass, walk_passages

LEAST_EDGES = 1_000_000
"""On smaller graphs whole steps take no longer (5 steps on 273,000 edges: 1.5 ms) and keep one order of sums."""

FREQUENT_SHARE = 1 / 256
"""Share of the passages above which an entity is frequent; chosen, flat between 1/64 and 1/1024 at 300,000 passages."""

COLUMN_BYTES = 128 * 2**20
"""Of the columns that are kept per walk: 53 of 300,000 passages, 6 of 2,500,000."""

_WHOLE_STEP_SHARE = 1 / 8
"""A step along more than this share of the edges is one product with the whole matrix, which reads them in order."""

_WHOLE_SUM_SHARE = 1 / 64
"""Sums over more arrivals than this share of the nodes are taken over all nodes, fewer are sorted."""

_BLOCK = 1 << 15
"""Passages that columns are added for at once, so that their sum stays in the processor's cache."""

Mass = tuple[NDArray[np.integer], NDArray[np.float64]]
"""Ascending numbers of the nodes that hold some, and how much."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Half-steps from one side: shape (n_from + 1,) starts, and targets and shares of each node's edges."""

    starts: NDArray[np.integer]
    targets: NDArray[np.integer]
    shares: NDArray[np.float64]
    target_count: int

    def arrivals(self, held: Mass) -> Mass:
        """Targets of all edges of the nodes that hold mass, in order, repeated or not, and what arrives by each."""
        nodes, values = held
        begins = self.starts[nodes].astype(np.int64)
        counts = self.starts[nodes + 1] - begins
        ends = np.cumsum(counts)
        edges = np.repeat(begins - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        return self.targets[edges], self.shares[edges] * np.repeat(values, counts)

    def edge_count(self, nodes: NDArray[np.integer]) -> int:
        """Edges of these nodes."""
        return int((self.starts[nodes + 1] - self.starts[nodes]).sum())


class TouchedWalk:
    """Walks of one kind on one graph.

    Args:
        transition: The halves of a step.
        restart: Probability of returning to the seeds, 0 to 1.
        steps: Number of steps, at least 0.
        return_dangling: See `walk_passages`.
        least_edges: A graph with fewer is walked by `walk_passages`.
        frequent: Passages that an entity must exceed to be frequent; None: `FREQUENT_SHARE` of all.
    """

    def __init__(
        self,
        transition: BipartiteTransition,
        restart: float,
        steps: int,
        *,
        return_dangling: bool,
        least_edges: int = LEAST_EDGES,
        frequent: int | None = None,
    ) -> None:
        self._transition = transition
        self._restart = restart
        self._steps = steps
        self._return_dangling = return_dangling
        self._is_small = transition.to_passages.nnz < least_edges
        if not self._is_small:
            self._prepare(frequent)

    def _prepare(self, frequent: int | None) -> None:
        """By entity, where passages are, and which entities are frequent: at most those whose columns can be kept."""
        back, forth = self._transition.to_passages.tocsc(), self._transition.to_entities
        entity_count, passage_count = forth.shape
        self._from_entities = _Steps(back.indptr, back.indices, back.data, passage_count)
        self._from_passages = _Steps(forth.indptr, forth.indices, forth.data, entity_count)
        degrees = np.diff(back.indptr)
        least = passage_count * FREQUENT_SHARE if frequent is None else frequent
        most = max(1, COLUMN_BYTES // (8 * max(1, passage_count)))
        order = np.argsort(-degrees, kind="stable")[:most]
        self._frequent = np.sort(order[degrees[order] > least])
        self._place_of = np.full(entity_count, -1, dtype=np.int32)
        self._place_of[self._frequent] = np.arange(len(self._frequent), dtype=np.int32)
        self._columns: dict[tuple[int, int], NDArray[np.float64]] = {}

    def passages(self, seeds: WalkSeeds) -> NDArray[np.float64]:
        """The passages' part of a walk, shape (n_passages,).

        Args:
            seeds: Where it starts.

        Source: algorithms.md 2.6, 2B.3 step 2.
        Cost: O(edges of the infrequent nodes touched + frequent entities touched * passages); a step that touches more
            than a quarter of all edges costs O(edges).
        """
        if self._is_small:
            return walk_passages(
                self._transition, seeds, self._restart, self._steps, return_dangling=self._return_dangling
            )
        stuck = stuck_mass(self._transition, seeds) if self._return_dangling else 0.0
        at_passages = self._steps % 2 == 0
        result = np.zeros(self._from_entities.target_count)
        held: Mass = (np.empty(0, dtype=np.intp), np.empty(0))
        back, dangling = 1.0, stuck
        for step in range(self._steps + 1):
            if step > 0:
                back = self._restart + (1 - self._restart) * dangling
                dangling = back * stuck
            start = (seeds.passages, seeds.passage_weights) if at_passages else (seeds.entities, seeds.entity_weights)
            added = (start[0], start[1] * back)
            if step == self._steps and self._is_wide(held, to_passages=at_passages):
                return self._moved_all(held, added, to_passages=True, result=result)
            held = self._moved(held, added, to_passages=at_passages)
            if not at_passages and step < self._steps - 1:
                held = self._without_frequent(held, self._steps - step, result)
            at_passages = not at_passages
        result[held[0]] += held[1]
        return result

    def _moved(self, held: Mass, added: Mass, *, to_passages: bool) -> Mass:
        """One half-step and what returns to the seeds."""
        steps = self._from_entities if to_passages else self._from_passages
        if self._is_wide(held, to_passages=to_passages):
            return _nonzero(self._moved_all(held, added, to_passages=to_passages))
        targets, values = steps.arrivals((held[0], held[1] * (1 - self._restart)))
        targets, values = np.concatenate((targets, added[0])), np.concatenate((values, added[1]))
        if len(targets) > _WHOLE_SUM_SHARE * steps.target_count:
            return _nonzero(np.bincount(targets, values, steps.target_count).astype(np.float64, copy=False))
        distinct, places = np.unique(targets, return_inverse=True)
        return distinct, np.bincount(places, values, len(distinct)).astype(np.float64, copy=False)

    def _is_wide(self, held: Mass, *, to_passages: bool) -> bool:
        """Whether a half-step is better computed for all nodes at once."""
        steps = self._from_entities if to_passages else self._from_passages
        return steps.edge_count(held[0]) > _WHOLE_STEP_SHARE * len(steps.targets)

    def _moved_all(
        self, held: Mass, added: Mass, *, to_passages: bool, result: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """As `_moved`, as one number per node, added to `result`."""
        matrix = self._transition.to_passages if to_passages else self._transition.to_entities
        scores = np.zeros(matrix.shape[1])
        scores[held[0]] = held[1] * (1 - self._restart)
        arrived = np.asarray(matrix @ scores)
        arrived[added[0]] += added[1]
        if result is not None:
            arrived += result
        return arrived

    def _without_frequent(self, held: Mass, steps_left: int, result: NDArray[np.float64]) -> Mass:
        """What the infrequent entities hold; what follows from the others is added to `result`."""
        places = self._place_of[held[0]]
        is_frequent = places >= 0
        if not is_frequent.any():
            return held
        columns = [self._column(place, steps_left) for place in places[is_frequent].tolist()]
        scaled = np.empty(min(_BLOCK, len(result)))
        for begin in range(0, len(result), _BLOCK):
            part = result[begin : begin + _BLOCK]
            for column, value in zip(columns, held[1][is_frequent].tolist(), strict=True):
                part += np.multiply(column[begin : begin + _BLOCK], value, out=scaled[: len(part)])
        return held[0][~is_frequent], held[1][~is_frequent]

    def _column(self, place: int, steps_left: int) -> NDArray[np.float64]:
        """What every passage holds of a unit of mass at a frequent entity so many half-steps later."""
        key = (place, steps_left)
        known = self._columns.get(key)
        if known is not None:
            return known
        keep = 1 - self._restart
        column = np.zeros(len(self._place_of))
        column[self._frequent[place]] = 1.0
        for step in range(steps_left):
            matrix = self._transition.to_passages if step % 2 == 0 else self._transition.to_entities
            column = np.asarray(matrix @ (column * keep))
        while len(self._columns) * column.nbytes >= COLUMN_BYTES:
            self._columns.pop(next(iter(self._columns)), None)
        self._columns[key] = column
        return column


def _nonzero(scores: NDArray[np.float64]) -> Mass:
    numbers = np.flatnonzero(scores > 0)  # several times as fast on booleans
    return numbers, scores[numbers]
