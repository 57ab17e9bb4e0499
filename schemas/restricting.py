"""What is left of arrays where only some passages count: rows that go, numbers that move up (pure).

Everything is as if it had been built from the passages that are left: statistics (document frequencies, lengths) are
theirs. Names that only other passages mention are gone; those that no passage mentions (nodes of a graph) stay.
Source: decisions/0027-filters-of-questions.md. Cost: one pass over each array.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import BipartiteGraph, LexicalIndex, RelationGraph
from polyhop.schemas.propositions import Rows
from polyhop.schemas.stored_texts import StoredTexts

Numbers = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]


def new_numbers(kept: Integers, count: int) -> Numbers:
    """Shape (count,): the new number of each old one, -1 of those that are gone.

    Args:
        kept: Ascending: the old numbers that stay.
        count: Old numbers.
    """
    moved = np.full(count, -1, dtype=np.int64)
    moved[kept] = np.arange(len(kept))
    return moved


def gathered(indptr: NDArray[np.int64], rows: Integers) -> tuple[Numbers, Numbers]:
    """Where rows begin once only these are left (shape (rows + 1,)), and the offsets of what they hold."""
    starts, lengths = indptr[rows], indptr[np.add(rows, 1)] - indptr[rows]
    new = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return new, np.arange(new[-1], dtype=np.int64) + np.repeat(starts - new[:-1], lengths)


def kept_entities(graph: BipartiteGraph, allowed: Numbers) -> Numbers:
    """Numbers of the entities that an allowed passage mentions, and of those that no passage does; ascending."""
    _, offsets = gathered(graph.indptr, allowed)
    is_kept = graph.df == 0
    is_kept[graph.indices[offsets]] = True
    return np.flatnonzero(is_kept).astype(np.int64)


def restricted_graph(graph: BipartiteGraph, allowed: Numbers, kept: Numbers | None = None) -> BipartiteGraph:
    """Allowed passages and the entities that are left.

    Args:
        graph: All of them.
        allowed: Passages, ascending.
        kept: The entities that are left, ascending; edges to others are gone. None: those of `kept_entities`.
    """
    kept = kept_entities(graph, allowed) if kept is None else kept
    moved = new_numbers(kept, graph.entity_count)
    indptr, offsets = gathered(graph.indptr, allowed)
    numbers = moved[graph.indices[offsets]]
    indptr, offsets, numbers = _starts_without(indptr, numbers < 0), offsets[numbers >= 0], numbers[numbers >= 0]
    return BipartiteGraph(
        indptr=indptr,
        indices=numbers.astype(np.int32),
        tf=np.asarray(graph.tf[offsets]),
        is_title=np.asarray(graph.is_title[offsets]),
        keys=tuple(graph.keys[number] for number in kept.tolist()),
    )


def restricted_relations(
    graph: RelationGraph, statements: tuple[Numbers, Numbers], is_allowed: NDArray[np.bool_], kept: Numbers
) -> RelationGraph:
    """Relations that an allowed passage states, and those that no passage does (a graph's), between entities left.

    Args:
        graph: All relations.
        statements: Shape (s,) each: offset of a relation in `labels`, and a passage that states it, or -1.
        is_allowed: Shape (passages,).
        kept: The entities that are left, ascending.
    """
    relations, passages = statements
    is_stated = np.zeros(len(graph.labels), dtype=np.bool_)
    is_stated[relations[(passages < 0) | is_allowed[passages]]] = True
    moved = new_numbers(kept, graph.entity_count)
    rows = np.repeat(np.arange(graph.entity_count, dtype=np.int64), np.diff(graph.indptr))
    is_between = (moved[rows] >= 0) & (moved[graph.indices] >= 0)
    places = np.repeat(np.arange(len(graph.indices)), np.diff(graph.label_indptr))
    is_stated &= is_between[places]
    leaving = np.bincount(places[is_stated], minlength=len(graph.indices))
    # each pair is in the rows of both: sorted by (neighbour, row), the places are those of the pairs turned round
    turned = np.lexsort((rows, graph.indices))
    is_kept = (leaving > 0) | (leaving[turned] > 0)
    per_row = np.bincount(moved[rows[is_kept]], minlength=len(kept))
    return RelationGraph(
        indptr=_starts(per_row),
        indices=moved[graph.indices[is_kept]].astype(np.int32),
        label_indptr=_starts(leaving[is_kept]),
        labels=np.asarray(graph.labels[is_stated]),
        names=graph.names,
    )


def restricted_postings(index: LexicalIndex, allowed: Numbers) -> LexicalIndex:
    """Postings of the allowed passages; terms that only other passages have are gone."""
    moved = new_numbers(allowed, len(index.lengths))
    passages = moved[index.passages]
    is_kept = passages >= 0
    owners = np.repeat(np.arange(len(index.indptr) - 1), np.diff(index.indptr))[is_kept]
    per_term = np.bincount(owners, minlength=len(index.indptr) - 1)
    terms = [term for term, count in zip(index.terms, per_term.tolist(), strict=True) if count]
    return LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=_starts(per_term[per_term > 0]),
        passages=passages[is_kept].astype(np.int32),
        tf=np.asarray(index.tf[is_kept]),
        lengths=np.asarray(index.lengths[allowed]),
        language=index.language,
    )


def kept_statements(passages: Rows, is_allowed: NDArray[np.bool_]) -> Numbers:
    """Numbers of what an allowed passage states, and of what no passage does; ascending.

    Args:
        passages: Passages of each thing that is stated.
        is_allowed: Shape (passages,).
    """
    stated = np.bincount(passages.owners[is_allowed[passages.indices]], minlength=passages.count) > 0
    return np.flatnonzero(stated | (np.diff(passages.indptr) == 0)).astype(np.int64)


def restricted_texts(texts: StoredTexts, kept: Sequence[int] | Numbers) -> StoredTexts:
    """These texts, numbered in this order."""
    starts, offsets = gathered(np.asarray(texts.starts), np.asarray(kept, dtype=np.int64))
    return StoredTexts(starts, np.asarray(texts.data[offsets]))


def _starts_without(indptr: Numbers, is_gone: NDArray[np.bool_]) -> Numbers:
    """Where rows begin once some of what they hold is gone."""
    return indptr - np.concatenate(([0], np.cumsum(is_gone)))[indptr]


def _starts(counts: NDArray[np.int64]) -> Numbers:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
