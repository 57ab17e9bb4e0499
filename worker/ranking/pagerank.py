"""Personalised PageRank: graphs, seeds, pruning, matrices; by power iteration, by push, or along thick mass.

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
from polyhop.worker.ranking.fusion import DECIMALS, best

if TYPE_CHECKING:
    from scipy import sparse


Weighting = Literal["rank", "raw", "softmax"]
Mixing = Literal["mass", "fixed", "adaptive"]


@dataclass(frozen=True, slots=True)
class WalkSeeds:
    """Start of a walk on passages and entities; all weights together sum to 1."""

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
    """Transitions from one side to the other, both stored by passage in the order of the graph's arrays."""

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
    # multiplied into existing arrays: fresh memory costs more than the arithmetic; a product with ones adds in order
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
    """Settled scores and remaining residual of a push."""

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
        for index in range(len(targets)):
            target = targets[index]
            residual[target] += (1 - restart) * mass * shares[index]
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


# Source: algorithms.md 2.6, 2B.3 step 2.

LEAST_EDGES = 1_000_000
"""On smaller graphs whole steps take no longer: 5 steps on 1,050,000 edges, 10 ms."""

THINNEST = 3e-5
"""Mass that spreads thinner than this share of the thickest is not followed in large versions; chosen:
benchmarks/README.md, "A million passages"."""

_WHOLE_STEP_SHARE = 1 / 8
"""A walk with a step along more than this share of the edges, as from all passages, is better taken in whole steps."""

_WHOLE_SUM_SHARE = 1 / 64
"""Sums over more arrivals than this share of the nodes are taken over all nodes, fewer are sorted."""

Mass = tuple[NDArray[np.integer], NDArray[np.float64]]  # Ascending numbers of the nodes that hold some, and how much.


@dataclass(frozen=True)
class Masses:
    """Mass of passages after a walk."""

    held: NDArray[np.float64]  # Shape (m,): mass of `rows`.
    rows: NDArray[np.integer]  # Shape (m,): ascending passage numbers; after a walk in whole steps all of them.

    def of(self, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Mass of these passages."""
        return self.held[passages]

    def most(self, count: int) -> NDArray[np.intp]:
        """Ascending numbers of the `count` passages with the most mass; fewer if fewer have any."""
        near = np.sort(best(self.held, count))
        return self.rows[near[self.held[near] > 0]].astype(np.intp)

    def best(self, count: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Numbers and masses of the `count` passages with the most mass; see `fusion.best`."""
        first = best(self.held, count)
        return self.rows[first].astype(np.intp), self.held[first]

    def mapped(self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> "Masses":
        """Masses after an elementwise function."""
        return Masses(function(self.held), self.rows)

    def plus(self, added: NDArray[np.float64]) -> "Masses":
        """Masses with `added`, shape (n,) for all passages, on top."""
        return Masses(self.held + added[self.rows], self.rows)


@dataclass(frozen=True)
class ThinMasses(Masses):
    """Mass of the passages that thick mass reached; of any passage computed when asked, thin mass included."""

    exact: Callable[[NDArray[np.intp]], NDArray[np.float64]]

    def of(self, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Mass of these passages, with the thin mass of the last half-step."""
        return self.exact(passages)

    def mapped(self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> "Masses":
        """Masses after an elementwise function."""
        return ThinMasses(function(self.held), self.rows, lambda passages: function(self.exact(passages)))

    def plus(self, added: NDArray[np.float64]) -> "Masses":
        """Masses with `added`, shape (n,) for all passages, on top."""
        held = self.held + added[self.rows]
        return ThinMasses(held, self.rows, lambda passages: self.exact(passages) + added[passages])


@dataclass(frozen=True, slots=True)
class WalkRule:
    """Parameters of a walk."""

    restart: float  # Probability of returning to the seeds, 0 to 1.
    steps: int  # Number of steps, at least 0.
    return_dangling: bool  # See `walk_passages`.
    hub_penalty: float = 0.0  # See `bipartite_transition`.
    title_boost: float = 1.0  # Likewise.
    thinnest: float = 0.0  # Mass that spreads thinner than this share of the thickest is not followed; 0: all of it is.


def walk_of(
    graph: BipartiteGraph, rule: WalkRule, kept: NDArray[np.bool_] | None = None
) -> Callable[[WalkSeeds], Masses]:
    """Seeds to what the passages hold in the end; `kept` as for `bipartite_transition`."""

    @cache
    def parts() -> BipartiteTransition:
        return bipartite_transition(graph, hub_penalty=rule.hub_penalty, title_boost=rule.title_boost, kept=kept)

    passages = np.arange(graph.passage_count)

    def whole(seeds: WalkSeeds) -> Masses:
        held = walk_passages(parts(), seeds, rule.restart, rule.steps, return_dangling=rule.return_dangling)
        return Masses(held, passages)

    if not rule.thinnest or len(graph.indices) < LEAST_EDGES:
        parts()  # on opening, not by the first question
        return whole
    thin = ThinWalk(graph, rule, kept)
    return lambda seeds: thin.masses(seeds) or whole(seeds)


class ThinWalk:
    """Walks along thick mass: a step is computed for the edges that it takes, and no matrix is built.

    What a passage is asked for holds what all entities give it in the last half-step, thin mass or not.

    Source: algorithms.md 2.4, 2.6, 2B.3 step 2; equals `walk_passages` up to the order of sums and thin mass.
    Cost: one pass over the edges by entity; a walk, O(edges of the nodes that hold thick mass).
    """

    def __init__(self, graph: BipartiteGraph, rule: WalkRule, kept: NDArray[np.bool_] | None = None) -> None:
        self._rule = rule
        self._idf = np.log((graph.passage_count + 1) / (graph.df + 1))
        self._penalties = entity_weights(np.maximum(graph.df, 1), rule.hub_penalty) if rule.hub_penalty else None
        self._graph = graph if kept is None else graph.with_only(kept)
        self._starts, self._passages, tf, is_title = self._graph.by_entity
        lengths = np.diff(self._starts)
        self._weights = np.repeat(self._idf, lengths)  # `edge_weights`, by entity
        self._weights *= tf
        self._weights += 1.0
        np.multiply(self._weights, rule.title_boost, out=self._weights, where=is_title)
        has_edge = lengths > 0
        first = self._starts[:-1][has_edge]
        self._totals, self._largest = np.ones(graph.entity_count), np.zeros(graph.entity_count)
        self._totals[has_edge] = np.add.reduceat(self._weights, first)
        self._largest[has_edge] = np.maximum.reduceat(self._weights, first)
        self._largest /= self._totals  # share of one passage, by entity

    def masses(self, seeds: WalkSeeds) -> Masses | None:
        """Final mass of the passages reached by thick mass; None without steps, or if one is too wide."""
        rule, indptr = self._rule, self._graph.indptr
        sides = (seeds.passages, seeds.passage_weights), (seeds.entities, seeds.entity_weights)
        is_dangling = indptr[seeds.passages + 1] == indptr[seeds.passages]
        stuck = float(seeds.passage_weights[is_dangling].sum()) if rule.return_dangling else 0.0
        held, back, before = _summed(*sides[rule.steps % 2]), 1.0, None
        for left in range(rule.steps - 1, -1, -1):
            back = rule.restart + (1 - rule.restart) * back * stuck
            to_passages, before = left % 2 == 0, held
            spread = held[1] * self._largest[held[0]] if to_passages else held[1]  # a passage has few entities
            is_thick = spread >= rule.thinnest * spread.max(initial=0.0)
            nodes, masses = held[0][is_thick], held[1][is_thick] * (1 - rule.restart)
            indptr = self._starts if to_passages else self._graph.indptr
            if (indptr[nodes + 1] - indptr[nodes]).sum() > _WHOLE_STEP_SHARE * len(self._weights):
                return None
            targets, shares = self._moved(nodes, masses, to_passages=to_passages)
            targets = np.concatenate((targets, sides[left % 2][0]))
            shares = np.concatenate((shares, sides[left % 2][1] * back))
            count = self._graph.passage_count if to_passages else self._graph.entity_count
            if len(targets) > _WHOLE_SUM_SHARE * count:
                arrived = np.bincount(targets, shares, count).astype(np.float64, copy=False)
                numbers = np.flatnonzero(arrived > 0)  # several times as fast on booleans
                held = numbers, arrived[numbers]
            else:
                held = _summed(targets, shares)
        if before is None:
            return None
        begun = _summed(seeds.passages, seeds.passage_weights * back)
        return ThinMasses(held[1], held[0], lambda passages: self._arriving(before, passages) + _found(begun, passages))

    def _arriving(self, entities: Mass, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Mass that entities pass to these passages in half a step."""
        starts, edges = gathered(self._graph.indptr, passages)
        numbers, weights = self._weighed(edges)
        weights[self._graph.is_title[edges]] *= self._rule.title_boost
        shares = weights / self._totals[numbers] * _found(entities, numbers) * (1 - self._rule.restart)
        rows = np.repeat(np.arange(len(passages)), np.diff(starts))
        return np.bincount(rows, shares, len(passages)).astype(np.float64, copy=False)

    def _weighed(self, edges: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Entities and `edge_weights` of edges by passage."""
        entities = self._graph.indices[edges]
        return entities, self._graph.tf[edges] * self._idf[entities] + 1.0

    def _moved(
        self, nodes: NDArray[np.integer], masses: NDArray[np.float64], *, to_passages: bool
    ) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
        """Targets and mass of half a step, edge by edge."""
        starts, edges = gathered(self._starts if to_passages else self._graph.indptr, nodes)
        lengths = np.diff(starts)
        if to_passages:
            return self._passages[edges], self._weights[edges] * np.repeat(masses / self._totals[nodes], lengths)
        entities, weights = self._weighed(edges)
        if self._penalties is not None:
            weights *= self._penalties[entities]
        totals = np.bincount(np.repeat(np.arange(len(nodes)), lengths), weights, len(nodes))
        return entities, weights * np.repeat(masses / np.where(lengths > 0, totals, 1.0), lengths)


def _found(mass: Mass, nodes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Mass of these nodes."""
    numbers, held = mass
    indices = np.searchsorted(numbers, nodes)
    return np.where(np.append(numbers, -1)[indices] == nodes, np.append(held, 0.0)[indices], 0.0)


def _summed(nodes: NDArray[np.integer], masses: NDArray[np.float64]) -> Mass:
    """Sums the mass that arrives at each node in several parts."""
    distinct, inverse = np.unique(nodes, return_inverse=True)
    return distinct, np.bincount(inverse, masses, len(distinct)).astype(np.float64, copy=False)


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
    cells, inverse = np.unique(graph.rows[stays].astype(np.int64) * width + entities[stays], return_inverse=True)
    per_passage = np.bincount(cells // width, minlength=graph.passage_count)
    return BipartiteGraph(
        indptr=np.concatenate(([0], np.cumsum(per_passage))).astype(np.int64),
        indices=(cells % width).astype(np.int32),
        tf=np.asarray(np.bincount(inverse, graph.tf[stays], len(cells)), dtype=np.float64),
        is_title=np.bincount(inverse, graph.is_title[stays], len(cells)) > 0,
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
