"""PRUNE: which edges of the entity-passage graph a walk does without.

Weights stay those of the whole graph (pagerank.py): df is the df before pruning. Source: algorithms.md 2.7.
"""

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph
from polyhop.worker.ranking.order import DECIMALS
from polyhop.worker.ranking.pagerank import edge_weights

_RATIO_DECIMALS = 9
"""Products of counts and shares are rounded so, lest 29 % of 100 be 28."""


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

    Args:
        graph: Passages and the entities they mention.
        hub_top_percent: Share of the entities that lose all edges, see `hubs`; 0 prunes none.
        edge_cap: Passages that an entity keeps, those of largest weight (ties: passage number); 0 keeps all.

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
