"""Personalised PageRank: graphs, seeds, pruning, matrices; by power iteration, push, or touched walk.

The matrices are built once per version; a walk computes the half of a step that it needs. Source: algorithms.md 0.4,
2.4, 2.5, 2.6, 2B.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import NoSeedError
from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, gathered
from polyhop.worker.ranking.fusion import DECIMALS, best, contenders

if TYPE_CHECKING:
    from scipy import sparse


Weighting = Literal["rank", "raw", "softmax"]
Mixing = Literal["mass", "fixed", "adaptive"]


@dataclass(frozen=True, slots=True)
class WalkSeeds:
    """Where a walk on passages and entities starts; all weights together sum to 1."""

    entities: NDArray[np.intp]  # Shape (m,): distinct entity numbers.
    entity_weights: NDArray[np.float64]  # Shape (m,), at least 0.
    passages: NDArray[np.intp]  # Shape (k,): distinct passage numbers.
    passage_weights: NDArray[np.float64]  # Shape (k,), at least 0.


def entity_weights(df: NDArray[np.int64], penalty: float) -> NDArray[np.float64]:
    """`df ** -penalty`: rare entities weigh more; penalty 0 makes all equal. Source: algorithms.md 2.5, q."""
    return np.asarray(df.astype(np.float64) ** -penalty)


def passage_weights(scores: NDArray[np.float64], weighting: Weighting) -> NDArray[np.float64]:
    """Seed weights of the first passages.

    Args:
        scores: Shape (k,), in descending order of score.
        weighting: `rank` is 1/rank, `raw` the score if positive, `softmax` with temperature 1.

    Returns:
        Shape (k,), at least 0, not normalised except by softmax.
    Source: algorithms.md 2.5.
    """
    if weighting == "rank":
        return 1.0 / np.arange(1, len(scores) + 1)
    if weighting == "raw":
        return np.maximum(scores, 0.0)
    powers = np.exp(scores - scores.max()) if len(scores) else np.zeros(0)
    return np.asarray(powers / powers.sum()) if len(scores) else powers


def mix(
    entities: NDArray[np.float64], passages: NDArray[np.float64], mixing: Mixing = "mass", entity_share: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both parts scaled so that together they sum to 1.

    Args:
        entities: Shape (m,), at least 0: weights of question entities.
        passages: Shape (k,), at least 0: weights of seed passages.
        mixing: `mass` keeps the raw proportion; `fixed` gives the entities `entity_share`; `adaptive` gives them
            (n_e + 1) / (n_e + n_d + 2), n counting weights above 0.
        entity_share: Share of the entities under `fixed`, 0 to 1.

    Returns:
        The scaled parts. A part without mass leaves everything to the other; two of them stay 0.
    Source: algorithms.md 2.5, 2.7 (MIX).
    """
    entity_mass, passage_mass = float(entities.sum()), float(passages.sum())
    if entity_mass == 0 or passage_mass == 0 or mixing == "mass":
        total = entity_mass + passage_mass
        return (entities / total, passages / total) if total else (entities, passages)
    share = entity_share
    if mixing == "adaptive":
        counts = np.count_nonzero(entities), np.count_nonzero(passages)
        share = (counts[0] + 1) / (counts[0] + counts[1] + 2)
    return _scaled(entities, entity_mass, share), _scaled(passages, passage_mass, 1 - share)


def _scaled(weights: NDArray[np.float64], mass: float, share: float) -> NDArray[np.float64]:
    """Weights that sum to `mass`, scaled to sum to `share`."""
    if mass < np.finfo(np.float64).tiny:  # share / mass would be infinite
        return weights / mass * share
    return weights * (share / mass)


@dataclass(frozen=True, slots=True)
class BipartiteTransition:
    """Where a step from one side arrives on the other. Both are stored by passage, the order of the graph's arrays."""

    # Shape (n_entities, n_passages), CSC float64: columns sum to 1, or 0 for passages without entity.
    to_entities: "sparse.csc_array"
    # Shape (n_passages, n_entities), CSR float64: columns sum to 1, or 0 for entities without passage.
    to_passages: "sparse.csr_array"
    dangling: NDArray[np.bool_]  # Shape (n_passages,), bool: passages without entity.


def edge_weights(graph: BipartiteGraph) -> NDArray[np.float64]:
    """`tf * ln((N + 1) / (df + 1)) + 1` of every edge, in the graph's order. Source: algorithms.md 2.4."""
    weights: NDArray[np.float64] = np.log((graph.passage_count + 1) / (graph.df + 1))[graph.indices]
    weights *= graph.tf
    weights += 1.0
    return weights


def bipartite_transition(
    graph: BipartiteGraph, *, hub_penalty: float = 0.0, title_boost: float = 1.0, kept: NDArray[np.bool_] | None = None
) -> BipartiteTransition:
    """The two halves of a step.

    Args:
        graph: Passages and the entities they mention.
        hub_penalty: Steps from passages to entities are scaled by df ** -hub_penalty before norming (SPRIG's p).
        title_boost: Steps from entities to passages named by them are scaled by it before norming (bridge's beta).
        kept: Shape (nnz,): edges that are walked (None: all); the others count for df and weights only.

    Returns:
        Both matrices, normalised by where a step starts.
    Source: algorithms.md 2.4, 2.7 (PRUNE), 2B.3.
    Cost: O(edges), once per version.
    """
    from scipy import sparse

    weights, walked = edge_weights(graph), graph
    if kept is not None:
        weights, walked = weights[kept], graph.with_only(kept)
    indices, is_title, indptr = walked.indices, walked.is_title, walked.indptr
    shape, lengths = (graph.passage_count, graph.entity_count), np.diff(indptr)
    starts = indptr.astype(np.int32) if indptr[-1] < np.iinfo(np.int32).max else indptr
    # in place, for memory that nobody had yet costs more than the arithmetic; a product with ones adds in order
    to_entities = sparse.csc_array((weights, indices, starts), shape=shape[::-1])
    to_passages = sparse.csr_array((weights.copy(), indices, starts), shape=shape)
    np.multiply(to_passages.data, title_boost, out=to_passages.data, where=is_title)
    if hub_penalty:
        to_entities.data *= graph.df.astype(np.float64)[indices] ** -hub_penalty
    by_edge = np.repeat(np.asarray(np.ones(shape[1]) @ to_entities), lengths)
    to_entities.data /= by_edge
    np.asarray(np.ones(shape[0]) @ to_passages).take(indices, out=by_edge, mode="clip")
    to_passages.data /= by_edge
    return BipartiteTransition(to_entities, to_passages, dangling=lengths == 0)


def joined(parts: BipartiteTransition) -> "sparse.csr_array":
    """Both halves as one walk over all entities, then all passages, in number order.

    Returns:
        Shape (n, n), CSR float64, columns ascending: rows sum to 1, or 0 for nodes without an edge.
    Cost: O(edges), once per version.
    """
    from scipy import sparse

    backward = sparse.block_array([[None, parts.to_entities], [parts.to_passages, None]], format="csr")
    return backward.T.tocsr().sorted_indices()


def normalised_seeds(seeds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seeds that sum to 1; entries that are negative or not finite count as 0. Source: algorithms.md 0.4."""
    cleaned = np.where(np.isfinite(seeds) & (seeds > 0), seeds, 0.0)
    total = cleaned.sum()
    if total == 0:
        raise NoSeedError("A walk needs at least one seed above 0; apply the strategy's fallback before walking.")
    return np.asarray(cleaned / total)


def walk_passages(
    transition: BipartiteTransition, seeds: WalkSeeds, restart: float, steps: int, *, return_dangling: bool
) -> NDArray[np.float64]:
    """The passages' part of a walk after `steps` power steps.

    On two sides a step's passages depend on the entities before it only, so half of the products suffice; what dangling
    passages hold depends on their seeds alone and is carried as one number.

    Args:
        transition: The halves of a step.
        seeds: Where it starts.
        restart: Probability of returning to the seeds, 0 to 1.
        steps: Number of steps, at least 0.
        return_dangling: Mass on passages without entity returns to the seeds (SPRIG); otherwise it is lost (bridge).

    Returns:
        Shape (n_passages,).
    Source: algorithms.md 2.6, 2B.3 step 2.
    Cost: O(steps * edges); 5 steps on 273,000 edges take 1.5 ms.
    """
    stuck = stuck_mass(transition, seeds) if return_dangling else 0.0
    at_passages = steps % 2 == 0
    entity_count, passage_count = transition.to_entities.shape
    scores = np.zeros(passage_count if at_passages else entity_count)
    held, back = stuck, 1.0
    for step in range(steps + 1):
        if step > 0:
            # scaled where there are fewer numbers, on the passages' side
            keep = 1 - restart
            moved = transition.to_passages @ scores * keep if at_passages else transition.to_entities @ (scores * keep)
            scores = np.asarray(moved)
            back = restart + (1 - restart) * held
            held = back * stuck
        if at_passages:
            scores[seeds.passages] += back * seeds.passage_weights
        else:
            scores[seeds.entities] += back * seeds.entity_weights
        at_passages = not at_passages
    return scores


def stuck_mass(transition: BipartiteTransition, seeds: WalkSeeds) -> float:
    """Share of the seeds on passages without entity, from which no step leads on."""
    return float(seeds.passage_weights[transition.dangling[seeds.passages]].sum())


# Source: algorithms.md 2.7.

_RATIO_DECIMALS = 9  # Products of counts and shares are rounded so, lest 29 % of 100 be 28.


def hubs(df: NDArray[np.int64], percent: float) -> NDArray[np.intp]:
    """The `floor(|E| * percent / 100)` entities of largest df, without those that only one passage mentions.

    Args:
        df: Shape (n_entities,): passages that mention each; entities without any are not nodes.
        percent: Share of the entities, 0 to 100.

    Returns:
        Entity numbers, ascending; ties at the cut go to the smaller number (the smaller key).
    Source: algorithms.md 2.7.
    """
    count = int(round(np.count_nonzero(df) * percent / 100, _RATIO_DECIMALS))
    first = np.argsort(-df, kind="stable")[:count]
    return np.sort(first[df[first] > 1])


def kept_edges(graph: BipartiteGraph, hub_top_percent: float, edge_cap: int) -> NDArray[np.bool_] | None:
    """Edges that pruning leaves, both directions of an edge alike.

    Returns:
        Shape (nnz,), in the graph's order; None if nothing is pruned.
    Source: algorithms.md 2.7.
    Cost: O(edges log edges), once per version.
    """
    kept = np.ones(len(graph.indices), dtype=np.bool_)
    if hub_top_percent > 0:
        is_hub = np.zeros(graph.entity_count, dtype=np.bool_)
        is_hub[hubs(graph.df, hub_top_percent)] = True
        kept &= ~is_hub[graph.indices]
    if edge_cap > 0:
        order = np.lexsort((graph.rows, -np.round(edge_weights(graph), DECIMALS), graph.indices))
        starts = np.concatenate(([0], np.cumsum(graph.df)[:-1])).astype(np.int64)
        rank = np.arange(len(order)) - starts[graph.indices[order]]
        kept[order[rank >= edge_cap]] = False
    return None if kept.all() else kept


def most_passages(passage_count: int, ratio: float) -> int:
    """The largest df whose share of the passages is not greater than `ratio`. Source: algorithms.md 2.3, 2.4."""
    return int(round(ratio * passage_count, _RATIO_DECIMALS))


# Source: algorithms.md 2.6 (Andersen, Chung, Lang 2006, with a degree-normalised threshold).

MAX_PUSHES = 1_000_000  # algorithms.md 2.6.

_Edges = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float64]]
_Start = tuple[NDArray[np.integer], NDArray[np.float64], NDArray[np.float64]]
_Result = tuple[NDArray[np.float64], NDArray[np.float64], int]


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push settled and what it left."""

    scores: NDArray[np.float64]  # Shape (n,): at most the exact PageRank everywhere.
    residual: NDArray[np.float64]  # Shape (n,): its sum is the sum of what is missing from `scores`.
    pushes: int  # Nodes pushed.


def ppr_push(
    transition: "sparse.csr_array", seeds: NDArray[np.float64], restart: float, eps: float, max_pushes: int = MAX_PUSHES
) -> Pushed:
    """Personalised PageRank by forward push.

    Args:
        transition: Shape (n, n), rows sum to 1, or 0 for dangling nodes, whose mass goes to the seeds.
        seeds: Shape (n,), see `normalised_seeds`.
        restart: Probability of returning to the seeds, above 0, at most 1.
        eps: A node is pushed while its residual exceeds eps times its number of edges (at least 1); above 0.
        max_pushes: Stop after so many pushes.

    Returns:
        Scores, residual and the number of pushes; scores and residual together sum to 1.

    Source: algorithms.md 2.6: first in, first out, from ascending nodes, over ascending neighbours.
    Cost: O(n + 1 / (restart * eps)) edge visits.
    """
    start = normalised_seeds(seeds)
    seeded = np.flatnonzero(start).astype(transition.indices.dtype)
    scores, residual, pushes = _compiled()(
        (transition.indptr, transition.indices, transition.data),
        (seeded, start[seeded], start),
        restart,
        eps,
        max_pushes,
    )
    return Pushed(scores, residual, int(pushes))


def _push(edges: _Edges, start: _Start, restart: float, eps: float, max_pushes: int) -> _Result:
    """The loop itself. A queued node's residual only grows, so every node taken is still above its threshold."""
    indptr, indices, data = edges
    seeded, seed_weights, residual = start[0], start[1], start[2].copy()
    n = len(residual)
    thresholds = eps * np.maximum(1, indptr[1:] - indptr[:-1])
    scores = np.zeros(n)
    waiting = residual > thresholds
    queue = np.empty(n, dtype=np.int64)
    head, size, pushes = 0, 0, 0
    for node in seeded[waiting[seeded]]:
        queue[size] = node
        size += 1
    while size > 0 and pushes < max_pushes:
        node = queue[head]
        head = (head + 1) % n
        size -= 1
        pushes += 1
        waiting[node] = False
        mass = residual[node]
        residual[node] = 0.0
        scores[node] += restart * mass
        targets, shares = indices[indptr[node] : indptr[node + 1]], data[indptr[node] : indptr[node + 1]]
        if len(targets) == 0:
            targets, shares = seeded, seed_weights
        for place in range(len(targets)):
            target = targets[place]
            residual[target] += (1 - restart) * mass * shares[place]
            if not waiting[target] and residual[target] > thresholds[target]:
                waiting[target] = True
                queue[(head + size) % n] = target
                size += 1
    return scores, residual, pushes


@cache
def _compiled() -> Callable[[_Edges, _Start, float, float, int], _Result]:
    from numba import njit

    compiled: Callable[[_Edges, _Start, float, float, int], _Result] = njit(cache=True)(_push)
    return compiled


# Source: algorithms.md 2.6, 2B.3 step 2; equals `walk_passages` up to the order of sums.

LEAST_EDGES = 1_000_000
"""On smaller graphs whole steps take no longer (5 steps on 273,000 edges: 1.5 ms) and keep one order of sums."""

FREQUENT_SHARE = 1 / 256
"""Share of the passages above which an entity is frequent; chosen, flat between 1/64 and 1/1024 at 300,000 passages."""

COLUMN_BYTES = 256 * 2**20  # Of the columns of a walk: of 16 entities and 5 steps at a million passages.

_WHOLE_STEP_SHARE = 1 / 8
"""A step along more than this share of the edges is one product with the whole matrix, which reads them in order."""

_WHOLE_SUM_SHARE = 1 / 64
"""Sums over more arrivals than this share of the nodes are taken over all nodes, fewer are sorted."""

THINNEST = 3e-5
"""Mass that spreads thinner than this share of the thickest is not followed in large versions; chosen:
benchmarks/README.md, "A million passages"."""

_BLOCK = 1 << 15  # Passages that columns are added for at once, so that their sum stays in the processor's cache.

Mass = tuple[NDArray[np.integer], NDArray[np.float64]]  # Ascending numbers of the nodes that hold some, and how much.

_Column = tuple[NDArray[np.float64], float, float]  # By passage, its factor, and its largest value.

_LEAST_ARRIVAL = 1e-5
"""Entities that bring any passage less than this share of the largest arrival are left to `Masses.exact`."""

_LEAST_COLUMN = 1e-4
"""Likewise columns, of the largest mass."""

_FEW_ROWS = 1 / 64  # Share of the passages up to which masses are summed one by one.


@dataclass(frozen=True, slots=True)
class Masses:
    """What passages hold after a walk: bounds for all, exactly for the few that are asked for."""

    held: NDArray[np.float64]  # Shape (n,), or that of `rows`: at least this much, as an argument of `part`.
    error: float  # And at most so much more, up to the order of sums.
    exact: Callable[[NDArray[np.intp]], NDArray[np.float64]]  # Passage numbers to masses.
    part: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None  # Never decreases; None: the mass itself.
    rows: NDArray[np.integer] | None = None  # Ascending numbers of the only passages that hold some; None: all may.

    @property
    def least(self) -> NDArray[np.float64]:
        """As `held`: at least this much."""
        return self.held if self.part is None else self.part(self.held)

    def contenders(self, count: int) -> NDArray[np.intp]:
        """Ascending numbers of all passages that can be among the `count` that hold most, and few others."""
        near = contenders(self.least, count, self.error)
        return near if self.rows is None else self.rows[near].astype(np.intp)

    def most(self, count: int) -> NDArray[np.intp]:
        """Ascending numbers of the `count` passages that hold most by these bounds, and few others that hold some."""
        near = contenders(self.held, count)
        near = near[self.held[near] > 0]
        return near if self.rows is None else self.rows[near].astype(np.intp)

    def best(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Numbers and masses of the `count` passages that hold most; see `fusion.best`."""
        near = self.contenders(count)
        masses = self.exact(near)
        first = best(masses, count)
        return near[first], masses[first]

    def on(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of all passages, shape (n,), and at least so much as these hold beside it."""
        if self.rows is None:
            return scores + self.least
        found = scores.copy()
        found[self.rows] += self.least
        return found

    def plus(self, added: NDArray[np.float64]) -> "Masses":
        """The same with what each passage, shape (n,), gets beside it."""
        held = added if self.rows is None else added[self.rows]
        return Masses(self.least + held, self.error, lambda rows: self.exact(rows) + added[rows], rows=self.rows)


def exact_masses(masses: NDArray[np.float64]) -> Masses:
    """Masses that are all known, shape (n,)."""
    return Masses(masses, 0.0, masses.__getitem__)


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
        self._from_entities = self._transition.to_passages.tocsc()
        passage_count, entity_count = self._from_entities.shape
        degrees = np.diff(self._from_entities.indptr)
        least = passage_count * FREQUENT_SHARE if frequent is None else frequent
        stops = max(1, (self._steps - 1) // 2)  # half-steps at which an entity may have a column
        most = max(1, COLUMN_BYTES // (8 * max(1, passage_count) * stops))
        order = np.argsort(-degrees, kind="stable")[:most]
        self._frequent = np.sort(order[degrees[order] > least])
        self._place_of = np.full(entity_count, -1, dtype=np.int32)
        self._place_of[self._frequent] = np.arange(len(self._frequent), dtype=np.int32)
        self._columns: dict[tuple[int, int], tuple[NDArray[np.float64], float]] = {}
        self._largest = np.zeros(entity_count)  # share of one passage, by entity
        starts = self._from_entities.indptr[:-1]
        self._largest[degrees > 0] = np.maximum.reduceat(self._from_entities.data, starts[degrees > 0])
        self._most_entities = int(np.diff(self._transition.to_passages.indptr).max(initial=0))

    def passages(self, seeds: WalkSeeds) -> NDArray[np.float64]:
        """The passages' part of a walk, shape (n_passages,).

        Source: algorithms.md 2.6, 2B.3 step 2.
        Cost: O(edges of the infrequent nodes touched + frequent entities touched * passages); a step that touches more
            than a quarter of all edges costs O(edges).
        """
        if self._is_small:
            return walk_passages(
                self._transition, seeds, self._restart, self._steps, return_dangling=self._return_dangling
            )
        return self._all(*self._walked(seeds))

    def masses(self, seeds: WalkSeeds) -> Masses:
        """As `passages`, bit by bit, without the small parts of the last half-step for passages nobody asks for.

        Source: algorithms.md 2.6.
        Cost: O(edges of the infrequent nodes touched before the last half-step + edges by which much mass arrives +
            edges of the passages asked for + passages for what is returned).
        """
        if self._is_small:
            return exact_masses(self.passages(seeds))
        held, added, columns = self._walked(seeds)
        passage_count = self._from_entities.shape[0]
        kept, error = (held[0], held[1] * (1 - self._restart)), 0.0
        if added is None:
            least = np.zeros(passage_count)
            least[held[0]] = held[1]
        else:
            most = kept[1] * self._largest[kept[0]]  # that any passage gets from each entity
            is_large = most > _LEAST_ARRIVAL * most.max(initial=0.0)
            error = min(self._most_entities * most[~is_large].max(initial=0.0), float(most[~is_large].sum()))
            least = np.asarray(self._from_entities[:, kept[0][is_large]] @ kept[1][is_large])
            least[added[0]] += added[1]
        allowed = _LEAST_COLUMN * float(least.max(initial=0.0))
        error += sum(value * highest for _, value, highest in columns if value * highest <= allowed)
        _add([column for column in columns if column[1] * column[2] > allowed], least)

        def exact(rows: NDArray[np.intp]) -> NDArray[np.float64]:
            if len(rows) > _FEW_ROWS * passage_count:
                return self._all(held, added, columns)[rows]
            if added is None:
                found = _at(held, rows)
            else:
                matrix = self._transition.to_passages
                starts, edges = gathered(matrix.indptr, rows)
                arrived = matrix.data[edges] * _at(kept, matrix.indices[edges])
                passages = np.repeat(np.arange(len(rows)), np.diff(starts))
                found = np.bincount(passages, arrived, len(rows)) + _at(_sorted(added), rows)
            before = np.zeros(len(rows))
            for column, value, _ in columns:
                before += column[rows] * value
            return np.asarray(found + before)

        return Masses(least, error, exact)

    def _walked(self, seeds: WalkSeeds) -> tuple[Mass, Mass | None, list[_Column]]:
        """The walk before or after its last half-step.

        Returns:
            What entities hold before it and what then returns to the passages among the seeds, or what passages hold
            after it and None; and the columns that come to it, with their factors and largest values.
        """
        stuck = stuck_mass(self._transition, seeds) if self._return_dangling else 0.0
        at_passages = self._steps % 2 == 0
        columns: list[_Column] = []
        held: Mass = (np.empty(0, dtype=np.intp), np.empty(0))
        back, dangling = 1.0, stuck
        for step in range(self._steps + 1):
            if step > 0:
                back = self._restart + (1 - self._restart) * dangling
                dangling = back * stuck
            start = (seeds.passages, seeds.passage_weights) if at_passages else (seeds.entities, seeds.entity_weights)
            added = (start[0], start[1] * back)
            if step == self._steps and self._is_wide(held, to_passages=at_passages):
                return held, added, columns
            held = self._moved(held, added, to_passages=at_passages)
            if not at_passages and step < self._steps - 1:
                held = self._without_frequent(held, self._steps - step, columns)
            at_passages = not at_passages
        return held, None, columns

    def _all(self, held: Mass, added: Mass | None, columns: list[_Column]) -> NDArray[np.float64]:
        """What every passage holds after a walk, from `_walked`."""
        result = np.zeros(self._from_entities.shape[0])
        _add(columns, result)
        if added is None:
            result[held[0]] += held[1]
            return result
        arrived = self._moved_all(held, added, to_passages=True)
        arrived += result
        return arrived

    def _moved(self, held: Mass, added: Mass, *, to_passages: bool) -> Mass:
        """One half-step and what returns to the seeds."""
        matrix = self._from_entities if to_passages else self._transition.to_entities
        if self._is_wide(held, to_passages=to_passages):
            return _nonzero(self._moved_all(held, added, to_passages=to_passages))
        edges, values = matrix[:, held[0]], held[1] * (1 - self._restart)
        if edges.nnz > _WHOLE_SUM_SHARE * matrix.shape[0]:
            arrived = np.asarray(edges @ values)
            arrived[added[0]] += added[1]
            return _nonzero(arrived)
        shares = edges.data * np.repeat(values, np.diff(edges.indptr))
        return _summed(np.concatenate((edges.indices, added[0])), np.concatenate((shares, added[1])))

    def _is_wide(self, held: Mass, *, to_passages: bool) -> bool:
        """Whether a half-step is better computed for all nodes at once."""
        matrix = self._from_entities if to_passages else self._transition.to_entities
        edge_count = (matrix.indptr[held[0] + 1] - matrix.indptr[held[0]]).sum()
        return bool(edge_count > _WHOLE_STEP_SHARE * matrix.nnz)

    def _moved_all(self, held: Mass, added: Mass, *, to_passages: bool) -> NDArray[np.float64]:
        """As `_moved`, as one number per node."""
        matrix = self._transition.to_passages if to_passages else self._transition.to_entities
        scores = np.zeros(matrix.shape[1])
        scores[held[0]] = held[1] * (1 - self._restart)
        arrived = np.asarray(matrix @ scores)
        arrived[added[0]] += added[1]
        return arrived

    def _without_frequent(self, held: Mass, steps_left: int, columns: list[_Column]) -> Mass:
        """What the infrequent entities hold; what follows from the others is put to `columns`."""
        places = self._place_of[held[0]]
        is_frequent = places >= 0
        for place, value in zip(places[is_frequent].tolist(), held[1][is_frequent].tolist(), strict=True):
            column, highest = self._column(place, steps_left)
            columns.append((column, value, highest))
        return held[0][~is_frequent], held[1][~is_frequent]

    def _column(self, place: int, steps_left: int) -> tuple[NDArray[np.float64], float]:
        """What every passage holds of a unit of mass at a frequent entity so many half-steps later, and the most."""
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
        self._columns[key] = column, float(column.max(initial=0.0))
        return self._columns[key]


class ThinWalk:
    """Walks along thick mass on a large graph: a step is computed for the edges that it takes, none before.

    Args:
        graph: Passages and the entities they mention.
        restart: Probability of returning to the seeds, 0 to 1.
        steps: Number of steps, at least 0.
        thinnest: Mass that spreads thinner than this share of the thickest is not followed, 0 to 1.
        return_dangling: See `walk_passages`.
        hub_penalty: See `bipartite_transition`, as for the arguments that follow.
        title_boost: Likewise.
        kept: Likewise.

    Source: algorithms.md 2.4, 2.6, 2B.3 step 2.
    Cost: one pass over the edges by entity; a walk, O(edges of the nodes that hold thick mass).
    """

    def __init__(
        self,
        graph: BipartiteGraph,
        restart: float,
        steps: int,
        thinnest: float,
        *,
        return_dangling: bool,
        hub_penalty: float = 0.0,
        title_boost: float = 1.0,
        kept: NDArray[np.bool_] | None = None,
    ) -> None:
        self._restart, self._steps, self._thinnest = restart, steps, thinnest
        self._return_dangling = return_dangling
        self._idf = np.log((graph.passage_count + 1) / (graph.df + 1))
        self._penalties = entity_weights(np.maximum(graph.df, 1), hub_penalty) if hub_penalty else None
        self._graph = graph if kept is None else graph.with_only(kept)
        self._starts, self._passages, tf, is_title = self._graph.by_entity
        lengths = np.diff(self._starts)
        shares = np.repeat(self._idf, lengths) * tf + 1.0  # as `edge_weights`, by entity; then parts of their sums
        np.multiply(shares, title_boost, out=shares, where=is_title)
        has_edge = lengths > 0
        first = self._starts[:-1][has_edge]
        totals = np.add.reduceat(shares, first)
        self._largest = np.zeros(graph.entity_count)  # share of one passage, by entity
        self._largest[has_edge] = np.maximum.reduceat(shares, first) / totals
        shares /= np.repeat(totals, lengths[has_edge])
        self._shares = shares

    def masses(self, seeds: WalkSeeds) -> Masses:
        """What the passages hold at the end that thick mass arrives at; the others hold nothing."""
        sides = (seeds.passages, seeds.passage_weights), (seeds.entities, seeds.entity_weights)
        is_dangling = self._graph.indptr[seeds.passages + 1] == self._graph.indptr[seeds.passages]
        stuck = float(seeds.passage_weights[is_dangling].sum()) if self._return_dangling else 0.0
        held, back = _sorted(sides[self._steps % 2]), 1.0
        for left in range(self._steps - 1, -1, -1):
            numbers, weights = sides[left % 2]
            back = self._restart + (1 - self._restart) * back * stuck
            held = self._moved(*held, (numbers, weights * back), to_passages=left % 2 == 0)
        return Masses(held[1], 0.0, lambda rows: _at(held, rows), rows=held[0])

    def _moved(
        self, nodes: NDArray[np.integer], masses: NDArray[np.float64], added: Mass, *, to_passages: bool
    ) -> Mass:
        """Half a step of the thick mass, and what returns to the seeds."""
        spread = masses * self._largest[nodes] if to_passages else masses  # a passage has few entities
        is_thick = spread >= self._thinnest * spread.max(initial=0.0)
        nodes, masses = nodes[is_thick], masses[is_thick] * (1 - self._restart)
        starts, edges = gathered(self._starts if to_passages else self._graph.indptr, nodes)
        lengths = np.diff(starts)
        if to_passages:
            targets, shares = self._passages[edges], self._shares[edges]
        else:
            targets = self._graph.indices[edges]
            shares = self._graph.tf[edges] * self._idf[targets] + 1.0
            if self._penalties is not None:
                shares *= self._penalties[targets]
            totals = np.bincount(np.repeat(np.arange(len(nodes)), lengths), shares, len(nodes))
            masses = np.divide(masses, totals, out=masses, where=lengths > 0)
        shares *= np.repeat(masses, lengths)
        targets, shares = np.concatenate((targets, added[0])), np.concatenate((shares, added[1]))
        count = self._graph.passage_count if to_passages else self._graph.entity_count
        if len(targets) > _WHOLE_SUM_SHARE * count:
            return _nonzero(np.asarray(np.bincount(targets, shares, count), dtype=np.float64))
        return _summed(targets, shares)


def walk_of(
    graph: BipartiteGraph,
    restart: float,
    steps: int,
    thinnest: float,
    *,
    return_dangling: bool,
    hub_penalty: float = 0.0,
    title_boost: float = 1.0,
    kept: NDArray[np.bool_] | None = None,
) -> Callable[[WalkSeeds], Masses]:
    """Seeds to the masses of the passages: with `thinnest` above 0 a `ThinWalk` on a large graph, else all of it."""
    if thinnest and len(graph.indices) >= LEAST_EDGES:
        return ThinWalk(
            graph,
            restart,
            steps,
            thinnest,
            return_dangling=return_dangling,
            hub_penalty=hub_penalty,
            title_boost=title_boost,
            kept=kept,
        ).masses
    transition = bipartite_transition(graph, hub_penalty=hub_penalty, title_boost=title_boost, kept=kept)
    return TouchedWalk(transition, restart, steps, return_dangling=return_dangling).masses


def _add(columns: list[_Column], result: NDArray[np.float64]) -> None:
    """Adds columns, each times its factor, to `result`."""
    scaled = np.empty(min(_BLOCK, len(result)))
    for begin in range(0, len(result) if columns else 0, _BLOCK):
        part = result[begin : begin + _BLOCK]
        for column, value, _ in columns:
            part += np.multiply(column[begin : begin + _BLOCK], value, out=scaled[: len(part)])


def _at(held: Mass, nodes: NDArray[np.integer]) -> NDArray[np.float64]:
    """What these nodes hold, in any order and repeated or not."""
    if not len(held[0]):
        return np.zeros(len(nodes))
    places = np.minimum(np.searchsorted(held[0], nodes), len(held[0]) - 1)
    return np.where(held[0][places] == nodes, held[1][places], 0.0)


def _summed(nodes: NDArray[np.integer], masses: NDArray[np.float64]) -> Mass:
    """What arrives at each node in several parts."""
    distinct, places = np.unique(nodes, return_inverse=True)
    return distinct, np.bincount(places, masses, len(distinct)).astype(np.float64, copy=False)


def _sorted(held: Mass) -> Mass:
    order = np.argsort(held[0])
    return held[0][order], held[1][order]


def _nonzero(scores: NDArray[np.float64]) -> Mass:
    numbers = np.flatnonzero(scores > 0)  # several times as fast on booleans
    return numbers, scores[numbers]


def relabelled(graph: BipartiteGraph, labels: Sequence[str]) -> BipartiteGraph:
    """The graph under other labels; entities that share one become one, and their counts in a passage add up.

    Returns:
        The graph with the distinct labels as keys, ascending; the passages stay, also those left without entity.
    Source: algorithms.md 2.3.
    Cost: O(edges log edges).
    """
    keys = sorted({label for label in labels if label})
    number_of = {key: number for number, key in enumerate(keys)}
    numbers = np.array([number_of.get(label, -1) for label in labels], dtype=np.int64)
    entities = numbers[graph.indices]
    stays = entities >= 0
    width = max(len(keys), 1)
    cells, places = np.unique(graph.rows[stays].astype(np.int64) * width + entities[stays], return_inverse=True)
    per_passage = np.bincount(cells // width, minlength=graph.passage_count)
    return BipartiteGraph(
        indptr=np.concatenate(([0], np.cumsum(per_passage))).astype(np.int64),
        indices=(cells % width).astype(np.int32),
        tf=np.asarray(np.bincount(places, graph.tf[stays], len(cells)), dtype=np.float64),
        is_title=np.bincount(places, graph.is_title[stays], len(cells)) > 0,
        keys=tuple(keys),
    )


def without_short_names(graph: BipartiteGraph, characters: int) -> BipartiteGraph:
    """The graph without entities of shorter keys; the same object if all stay. Source: algorithms.md 2.3."""
    if min(map(len, graph.keys), default=characters) >= characters:
        return graph
    return relabelled(graph, [key if len(key) >= characters else "" for key in graph.keys])


def term_graph(lexical: LexicalIndex, min_df: int, max_df_ratio: float) -> BipartiteGraph:
    """Passages and their terms, as the entity-passage graph.

    Returns:
        The graph with the terms as keys; no edge is a title's.
    Source: algorithms.md 2.4 (TF-IDF term graph, after MixPR).
    Cost: O(postings), once per version.
    """
    from scipy import sparse

    passage_count = len(lexical.lengths)
    df = np.diff(lexical.indptr)
    chosen = np.flatnonzero((df >= min_df) & (df <= most_passages(passage_count, max_df_ratio)))
    terms = list(lexical.terms)
    by_term = sparse.csc_array((lexical.tf, lexical.passages, lexical.indptr), shape=(passage_count, len(terms)))
    by_passage = by_term[:, chosen].tocsr().sorted_indices()
    return BipartiteGraph(
        indptr=by_passage.indptr.astype(np.int64),
        indices=by_passage.indices.astype(np.int32),
        tf=by_passage.data.astype(np.float64),
        is_title=np.zeros(by_passage.nnz, dtype=np.bool_),
        keys=tuple(terms[number] for number in chosen.tolist()),
    )
