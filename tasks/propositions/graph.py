"""The graph over propositions from rows of numbers: cliques, containment, synonymy (pure).

Reads no table and finds no synonyms. Source: algorithms.md 3.3 (3).
"""

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.propositions import Integers, PropositionGraph, Rows

_DECIMALS = 12
"""Of cosines that are compared. Source: algorithms.md 0.3 (2)."""


def proposition_graph(
    entities: Integers,
    passages: Integers,
    synonyms: Integers,
    similarities: NDArray[np.floating],
    shape: tuple[int, int, int],
) -> PropositionGraph:
    """The graph of the rows of the tables.

    Args:
        entities: Shape (m, 2): proposition and entity, in stored order; repeated pairs count once.
        passages: Shape (k, 2): proposition and passage, in any order.
        synonyms: Shape (s, 2): pairs of entities, each pair once, in any order; an entity with itself is left out.
        similarities: Shape (s,): cosines of their names, above 0.
        shape: Numbers of propositions, entities and passages.

    Source: algorithms.md 3.3 (3). Cost: O(n log n) of the entity pairs inside propositions.
    """
    propositions, entity_count, passage_count = shape
    _, first = np.unique(_codes(entities, entity_count), return_index=True)
    named = entities[np.sort(first)]
    stored = Rows.of(named[:, 0], named[:, 1], propositions)
    come_from = _distinct(passages, passage_count)
    owners, offsets = stored.gathered(come_from[:, 0])
    contained = _distinct(np.stack((come_from[owners, 1], stored.indices[offsets]), axis=1), entity_count)
    pairs, counts = _clique_pairs(stored, entity_count)
    linked = _both_ways(pairs)
    by_pair = np.lexsort((linked[:, 1], linked[:, 0]))
    apart = synonyms[:, 0] != synonyms[:, 1]
    near, cosines = _both_ways(synonyms[apart]), np.tile(similarities[apart].astype(np.float64), 2)
    by_cosine = np.lexsort((near[:, 1], -np.round(cosines, _DECIMALS), near[:, 0]))
    return PropositionGraph(
        entities=stored,
        passages=Rows.of(come_from[:, 0], come_from[:, 1], propositions),
        entity_propositions=_turned(stored, entity_count),
        passage_propositions=Rows.of(come_from[:, 1], come_from[:, 0], passage_count),
        passage_entities=Rows.of(contained[:, 0], contained[:, 1], passage_count),
        cliques=Rows.of(linked[by_pair, 0], linked[by_pair, 1], entity_count),
        synonyms=Rows.of(near[by_cosine, 0], near[by_cosine, 1], entity_count),
        clique_counts=np.tile(counts, 2)[by_pair].astype(np.int32),
        similarities=cosines[by_cosine],
    )


def _clique_pairs(entities: Rows, entity_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Shape (p, 2): pairs of entities (smaller number first) that share a proposition, and how many they share."""
    left = np.arange(len(entities.indices))
    ends = np.repeat(entities.indptr[1:], np.diff(entities.indptr))
    found = []
    distance = 1
    while len(left := left[left + distance < ends[left]]):
        pair = np.stack((entities.indices[left], entities.indices[left + distance]), axis=1)
        found.append(_codes(np.sort(pair, axis=1), entity_count))
        distance += 1
    codes, counts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]), return_counts=True)
    return np.stack(np.divmod(codes, max(1, entity_count)), axis=1), counts


def _both_ways(pairs: Integers) -> Integers:
    """The pairs, then the same pairs the other way round."""
    return np.concatenate((pairs, pairs[:, ::-1]))


def _turned(rows: Rows, count: int) -> Rows:
    """By index: the rows that hold it, ascending."""
    return Rows.of(rows.indices, rows.owners, count)


def _codes(pairs: Integers, width: int) -> NDArray[np.int64]:
    """One number per pair, ascending as pairs do; `width` is above every second number."""
    return pairs[:, 0].astype(np.int64) * width + pairs[:, 1]


def _distinct(pairs: Integers, width: int) -> NDArray[np.int64]:
    """Shape (k, 2): the pairs, each once, ascending."""
    return np.stack(np.divmod(np.unique(_codes(pairs, width)), max(1, width)), axis=1)
