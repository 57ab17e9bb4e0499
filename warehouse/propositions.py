"""The graph over propositions from rows of numbers, and how its arrays are opened for strategies."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Integers, distinct, gathered, new_numbers
from polyhop.schemas.ports import Artefact, RestrictedIndex, Stored
from polyhop.schemas.propositions import NOUNS, CompressedRows, GraphName, PropositionGraph, StoredTexts
from polyhop.warehouse.artefacts import statements_left

# Source: algorithms.md 3.3 (3).

_DECIMALS = 12  # of cosines that are compared. Source: algorithms.md 0.3 (2).


Cosines = NDArray[np.floating]


def proposition_graph(
    entities: Integers, passages: Integers, synonyms: Integers, similarities: Cosines, shape: tuple[int, int, int]
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
    stored = CompressedRows.of(named[:, 0], named[:, 1], propositions)
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
        passages=CompressedRows.of(come_from[:, 0], come_from[:, 1], propositions),
        entity_propositions=CompressedRows.of(stored.indices, stored.owners, entity_count),
        passage_propositions=CompressedRows.of(come_from[:, 1], come_from[:, 0], passage_count),
        passage_entities=CompressedRows.of(contained[:, 0], contained[:, 1], passage_count),
        cliques=CompressedRows.of(linked[by_pair, 0], linked[by_pair, 1], entity_count),
        synonyms=CompressedRows.of(near[by_cosine, 0], near[by_cosine, 1], entity_count),
        clique_counts=np.tile(counts, 2)[by_pair].astype(np.int32),
        similarities=cosines[by_cosine],
    )


def _clique_pairs(entities: CompressedRows, entity_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _codes(pairs: Integers, width: int) -> NDArray[np.int64]:
    """One number per pair, ascending as pairs do; `width` is above every second number."""
    return pairs[:, 0].astype(np.int64) * width + pairs[:, 1]


def _distinct(pairs: Integers, width: int) -> NDArray[np.int64]:
    """Shape (k, 2): the pairs, each once, ascending."""
    return np.stack(np.divmod(distinct(_codes(pairs, width)), max(1, width)), axis=1)


_ENTITIES = "SELECT key, name FROM entities SEMI JOIN query_table($table) USING (entity_id) ORDER BY key"


@dataclass(frozen=True, slots=True)
class StoredPropositions:
    """The graph over propositions, their texts, and keys and names of its entities, all in number order."""

    graph: PropositionGraph
    texts: StoredTexts
    keys: tuple[str, ...]
    names: tuple[str, ...]


def _open(stored: Stored, name: GraphName) -> StoredPropositions:
    rows = stored.rows(_ENTITIES, {"table": f"{NOUNS[name]}_entities"})
    graph = PropositionGraph.of(partial(stored.array, name))
    if len(rows) != graph.entity_propositions.count:
        raise ConfigurationError(
            "This version was made with propositions.include, which was removed in 0.2. Run `polyhop index` again."
        )
    texts = StoredTexts(stored.array(name, "text-starts"), stored.array(name, "texts"))
    keys, names = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return StoredPropositions(graph, texts, keys, names)


def _left(stored: StoredPropositions, index: RestrictedIndex, name: GraphName) -> StoredPropositions:
    """Propositions that allowed passages state; entities keep their numbers, and have no edges where none names them.

    The text of a proposition whose passages are several is the one that the whole version has.
    """
    graph, kept = stored.graph, statements_left(name, index)
    pairs = {}
    for part in ("entities", "passages"):
        rows = getattr(graph, part)
        starts, offsets = gathered(rows.indptr, kept)
        pairs[part] = np.stack((np.repeat(np.arange(len(kept)), np.diff(starts)), rows.indices[offsets]), axis=1)
    pairs["passages"][:, 1] = new_numbers(index.allowed, len(index.is_allowed))[pairs["passages"][:, 1]]
    is_named = np.zeros(graph.entity_propositions.count, dtype=np.bool_)
    is_named[pairs["entities"][:, 1]] = True
    first, second = graph.synonyms.owners, graph.synonyms.indices
    is_left = is_named[first] & is_named[second] & (first < second)
    left = proposition_graph(
        pairs["entities"],
        pairs["passages"][pairs["passages"][:, 1] >= 0],
        np.stack((first[is_left], second[is_left]), axis=1),
        np.asarray(graph.similarities)[is_left],
        (len(kept), graph.entity_propositions.count, len(index.allowed)),
    )
    return replace(stored, graph=left, texts=stored.texts.restricted(kept))


STORED_PROPOSITIONS = Artefact(
    "graph:propositions",
    partial(_open, name="propositions"),
    strategy="proprag",
    restrict=partial(_left, name="propositions"),
)
"""Propositions with their entities and passages, and what links these."""

STORED_TRIPLES = Artefact(
    "graph:triples", partial(_open, name="triples"), strategy="triple-ppr", restrict=partial(_left, name="triples")
)
"""The same of triples alone."""
