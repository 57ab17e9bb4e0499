"""Cosines of a question with all passages or entities, and what naive-vector makes of them.

Encodes nothing. Source: algorithms.md 0.1, 1.7, 6.2.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.order import DECIMALS

if TYPE_CHECKING:
    from scipy import sparse


def cosines(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosines of one vector with every row.

    One product per question, never a block of questions, whose sums would depend on who else is in the batch.

    Args:
        matrix: Shape (n, d), float32, rows of length 1 (or 0: missing), row-major.
        vector: Shape (d,), length 1.

    Returns:
        Shape (n,), float64.

    Raises:
        AlgorithmError: If the dimensions differ.
    Source: algorithms.md 0.1.
    Cost: O(n d) in float32.
    """
    if vector.shape != matrix.shape[1:]:
        raise AlgorithmError(
            f"The question's vector has shape {vector.shape}, the index has vectors of shape {matrix.shape[1:]}; "
            "encode questions with the model that built the index."
        )
    return np.asarray(matrix @ vector.astype(np.float32, copy=False), dtype=np.float64)


def mentioned_in(graph: BipartiteGraph) -> "sparse.csr_array":
    """The graph by entity: shape (n_entities, n_passages), CSR, an entry where a passage mentions the entity."""
    from scipy import sparse

    shape = (graph.passage_count, graph.entity_count)
    return sparse.csr_array((graph.tf, graph.indices, graph.indptr), shape=shape).T.tocsr()


def passages_of_entities(
    mentioned_in: "sparse.csr_array", entities: NDArray[np.intp], scores: NDArray[np.float64], count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Passages that mention some scored entities: by the largest score, then the sum, then number.

    Args:
        mentioned_in: Shape (n_entities, n_passages), CSR: an entry where the passage mentions the entity.
        entities: Shape (m,): entity numbers.
        scores: Shape (m,): their scores.
        count: Passages to return at most.

    Returns:
        Passage numbers and their largest entity score, in descending order of score.
    Source: algorithms.md 6.2.
    Cost: O(mentions of these entities, sorted).
    """
    starts, ends = mentioned_in.indptr[entities], mentioned_in.indptr[entities + 1]
    edges = [mentioned_in.indices[start:end] for start, end in zip(starts, ends, strict=True)]
    if not edges:
        return np.empty(0, dtype=np.intp), np.empty(0)
    passages, places = np.unique(np.concatenate(edges), return_inverse=True)
    values = np.repeat(scores, ends - starts)
    largest = np.full(len(passages), -np.inf)
    np.maximum.at(largest, places, values)
    sums = np.bincount(places, values, len(passages))
    order = np.lexsort((passages, -np.round(sums, DECIMALS), -np.round(largest, DECIMALS)))[:count]
    return passages[order].astype(np.intp), largest[order]
