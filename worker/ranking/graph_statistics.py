"""Graphs made from graphs by other labels, and figures that describe a graph and what pruning hubs would cost.

Source: algorithms.md 2.3, 2.4, 7.5.
"""

from collections.abc import Sequence

import numpy as np

from polyhop.schemas.graph import BipartiteGraph, LexicalIndex
from polyhop.worker.ranking.pagerank import most_passages


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


def filtered(graph: BipartiteGraph, min_len: int, min_df: int, max_df_ratio: float) -> BipartiteGraph:
    """The graph without entities of a short key, a small df or a large one; the same object if all stay.

    Args:
        graph: Passages and the entities they mention.
        min_len: Characters that a key has at least.
        min_df: Passages that mention an entity at least.
        max_df_ratio: Share of the passages that mention it at most, 0 to 1.
    Source: algorithms.md 2.3.
    """
    lengths = np.fromiter(map(len, graph.keys), dtype=np.int64, count=graph.entity_count)
    stays = (lengths >= min_len) & (graph.df >= min_df) & (graph.df <= most_passages(graph.passage_count, max_df_ratio))
    if stays.all():
        return graph
    return relabelled(graph, [key if keep else "" for key, keep in zip(graph.keys, stays.tolist(), strict=True)])


def term_graph(lexical: LexicalIndex, min_df: int, max_df_ratio: float) -> BipartiteGraph:
    """Passages and their terms, as the entity-passage graph.

    Args:
        lexical: Postings by term.
        min_df: Passages with the term, at least.
        max_df_ratio: Share of the passages with the term, at most, 0 to 1.

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
