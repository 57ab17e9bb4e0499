"""Personalised PageRank on passages and entities: seeds and their mixture, transition matrices, and power iteration.

The matrices are built once per version; a walk computes the half of a step that it needs. Finds no seeds (strategies
do) and pushes nothing (push.py). Source: algorithms.md 0.4, 2.4, 2.5, 2.6, 2B.3.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import NoSeedError
from polyhop.schemas.graph import BipartiteGraph

if TYPE_CHECKING:
    from scipy import sparse

Weighting = Literal["rank", "raw", "softmax"]
Mixing = Literal["mass", "fixed", "adaptive"]


@dataclass(frozen=True, slots=True)
class WalkSeeds:
    """Where a walk on passages and entities starts; all weights together sum to 1.

    Attributes:
        entities: Shape (m,): distinct entity numbers.
        entity_weights: Shape (m,), at least 0.
        passages: Shape (k,): distinct passage numbers.
        passage_weights: Shape (k,), at least 0.
    """

    entities: NDArray[np.intp]
    entity_weights: NDArray[np.float64]
    passages: NDArray[np.intp]
    passage_weights: NDArray[np.float64]


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
    """Where a step from one side arrives on the other. Both are stored by passage, the order of the graph's arrays.

    Attributes:
        to_entities: Shape (n_entities, n_passages), CSC float64: columns sum to 1, or 0 for passages without entity.
        to_passages: Shape (n_passages, n_entities), CSR float64: columns sum to 1, or 0 for entities without passage.
        dangling: Shape (n_passages,), bool: passages without entity.
    """

    to_entities: "sparse.csc_array"
    to_passages: "sparse.csr_array"
    dangling: NDArray[np.bool_]


def edge_weights(graph: BipartiteGraph) -> NDArray[np.float64]:
    """`tf * ln((N + 1) / (df + 1)) + 1` of every edge, in the graph's order. Source: algorithms.md 2.4.

    Args:
        graph: Passages and the entities they mention.

    Returns:
        Shape (nnz,), at least 1.
    """
    rarity = np.log((graph.passage_count + 1) / (graph.df + 1))
    return np.asarray(graph.tf * rarity[graph.indices] + 1.0)


def bipartite_transition(
    graph: BipartiteGraph,
    *,
    hub_penalty: float = 0.0,
    title_boost: float = 1.0,
    kept: NDArray[np.bool_] | None = None,
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

    weights, rows, indices, is_title = edge_weights(graph), graph.rows, graph.indices, graph.is_title
    if kept is not None:
        weights, rows, indices, is_title = weights[kept], rows[kept], indices[kept], is_title[kept]
    shape = (graph.passage_count, graph.entity_count)
    out_of_passages = weights * graph.df.astype(np.float64)[indices] ** -hub_penalty
    out_of_passages /= np.bincount(rows, out_of_passages, shape[0])[rows]
    out_of_entities = np.where(is_title, weights * title_boost, weights)
    out_of_entities /= np.bincount(indices, out_of_entities, shape[1])[indices]
    row_starts = graph.indptr if kept is None else np.searchsorted(rows, np.arange(shape[0] + 1))
    indptr = _short(row_starts)
    return BipartiteTransition(
        to_entities=sparse.csc_array((out_of_passages, indices, indptr), shape=shape[::-1]),
        to_passages=sparse.csr_array((out_of_entities, indices, indptr), shape=shape),
        dangling=np.diff(row_starts) == 0,
    )


def joined(parts: BipartiteTransition) -> "sparse.csr_array":
    """Both halves as one walk over all entities, then all passages, in number order.

    Returns:
        Shape (n, n), CSR float64, columns ascending: rows sum to 1, or 0 for nodes without an edge.
    Cost: O(edges), once per version.
    """
    from scipy import sparse

    backward = sparse.block_array([[None, parts.to_entities], [parts.to_passages, None]], format="csr")
    return backward.T.tocsr().sorted_indices()


def _short(indptr: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.int32]:
    """Row starts of the same width as the column numbers, so that scipy shares the latter and steps stay narrow."""
    return indptr.astype(np.int32) if indptr[-1] < np.iinfo(np.int32).max else indptr


def normalised_seeds(seeds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seeds that sum to 1; entries that are negative or not finite count as 0.

    Args:
        seeds: Shape (n,); not modified.

    Returns:
        Same shape, summing to 1.

    Raises:
        NoSeedError: If nothing is left.
    Source: algorithms.md 0.4.
    """
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
            scores = _half_step(transition, scores, 1 - restart, from_passages=not at_passages)
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


def _half_step(
    transition: BipartiteTransition, scores: NDArray[np.float64], factor: float, *, from_passages: bool
) -> NDArray[np.float64]:
    """`factor` times the product, scaled where there are fewer numbers, on the passages' side."""
    if from_passages:
        return np.asarray(transition.to_entities @ (scores * factor))
    arrived = np.asarray(transition.to_passages @ scores)
    arrived *= factor
    return arrived
