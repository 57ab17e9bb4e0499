"""Edge weights of the entity-passage graph and the walks' transition matrices.

Built once per version; the walks themselves are pagerank.py's. Source: algorithms.md 2.4, 2B.3.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from schemas.graph import BipartiteGraph


@dataclass(frozen=True, slots=True)
class BipartiteTransition:
    """Where a step from one side arrives on the other. Both are stored by passage, the order of the graph's arrays.

    Attributes:
        to_entities: Shape (n_entities, n_passages), CSC float64: columns sum to 1, or 0 for passages without entity.
        to_passages: Shape (n_passages, n_entities), CSR float64: columns sum to 1, or 0 for entities without passage.
        dangling: Shape (n_passages,), bool: passages without entity.
    """

    to_entities: sparse.csc_array
    to_passages: sparse.csr_array
    dangling: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Transition:
    """A walk over one set of nodes.

    Attributes:
        forward: Shape (n, n), CSR float64, columns ascending: rows sum to 1, or 0 for dangling nodes.
        backward: The transpose of `forward`, CSR.
        dangling: Shape (n,), bool: nodes without an edge out.
    """

    forward: sparse.csr_array
    backward: sparse.csr_array
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


def joined(parts: BipartiteTransition) -> Transition:
    """Both halves as one walk over all entities, then all passages, in number order.

    Cost: O(edges), once per version.
    """
    backward = sparse.block_array([[None, parts.to_entities], [parts.to_passages, None]], format="csr")
    return transition(backward.T.tocsr())


def transition(forward: sparse.csr_array) -> Transition:
    """A walk from its row-stochastic matrix; rows without entries dangle."""
    ordered = forward.sorted_indices()
    return Transition(ordered, ordered.T.tocsr(), np.diff(ordered.indptr) == 0)


def _short(indptr: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.int32]:
    """Row starts of the same width as the column numbers, so that scipy shares the latter and steps stay narrow."""
    return indptr.astype(np.int32) if indptr[-1] < np.iinfo(np.int32).max else indptr
