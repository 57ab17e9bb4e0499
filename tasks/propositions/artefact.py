"""How the arrays of the proposition stages are opened for strategies; knows no store."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from polyhop.schemas.artefacts import Artefact, Restriction, Stored
from polyhop.schemas.proposition_origin import GraphName, PropositionOrigin, PropositionSettings
from polyhop.schemas.propositions import PropositionGraph
from polyhop.schemas.restricting import gathered, new_numbers, restricted_texts
from polyhop.schemas.stored_texts import StoredTexts
from polyhop.tasks.propositions.graph import proposition_graph
from polyhop.warehouse.artefacts import statements_left

_ENTITIES = "SELECT key, name FROM entities SEMI JOIN query_table($tables) USING (entity_id) ORDER BY key"
_COUNT = "SELECT count(DISTINCT proposition_id) FROM query_table($tables)"


@dataclass(frozen=True, slots=True)
class StoredPropositions:
    """The graph over propositions, their texts, and keys and names of its entities, all in number order.

    `synonym_threshold` is the least cosine of two names at which they are synonyms here.
    """

    graph: PropositionGraph
    texts: StoredTexts
    keys: tuple[str, ...]
    names: tuple[str, ...]
    synonym_threshold: float = PropositionSettings().synonym_threshold


def _open(stored: Stored, name: GraphName) -> StoredPropositions:
    settings = PropositionSettings.model_validate(stored.settings.get("propositions", {}))
    origin = PropositionOrigin.of(name, settings.include)
    rows = stored.rows(_ENTITIES, {"tables": origin.tables("entities")})
    (count,) = stored.rows(_COUNT, {"tables": origin.tables("passages")})[0]
    parts = [*PropositionGraph.array_names(), "text-starts", "texts"]
    arrays = {part: stored.array(name, part) for part in parts}
    graph = PropositionGraph.of(arrays)
    texts = StoredTexts(arrays["text-starts"].astype(np.int64, copy=False), arrays["texts"].astype(np.uint8))
    shape = (int(count), len(rows), len(stored.passage_ids))
    stored.require(name, fits=graph.is_consistent(shape) and texts.is_consistent(shape[0]))
    keys, entities = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return StoredPropositions(graph, texts, keys, entities, settings.synonym_threshold)


def _left(handle: Artefact[StoredPropositions], restriction: Restriction, name: GraphName) -> StoredPropositions:
    """Propositions that allowed passages state; entities keep their numbers, and have no edges where none names them.

    The text of a proposition whose passages are several is the one that the whole version has.
    """
    stored, kept = restriction.whole(handle), statements_left(name, restriction)
    graph = stored.graph
    moved = new_numbers(restriction.allowed, len(restriction.is_allowed))
    pairs = {}
    for part in ("entities", "passages"):
        rows = getattr(graph, part)
        starts, offsets = gathered(rows.indptr, kept)
        pairs[part] = np.stack((np.repeat(np.arange(len(kept)), np.diff(starts)), rows.indices[offsets]), axis=1)
    pairs["passages"][:, 1] = moved[pairs["passages"][:, 1]]
    is_named = np.zeros(graph.entity_propositions.count, dtype=np.bool_)
    is_named[pairs["entities"][:, 1]] = True
    first, second = graph.synonyms.owners, graph.synonyms.indices
    is_left = is_named[first] & is_named[second] & (first < second)
    left = proposition_graph(
        pairs["entities"],
        pairs["passages"][pairs["passages"][:, 1] >= 0],
        np.stack((first[is_left], second[is_left]), axis=1),
        np.asarray(graph.similarities)[is_left],
        (len(kept), graph.entity_propositions.count, len(restriction.allowed)),
    )
    return replace(stored, graph=left, texts=restricted_texts(stored.texts, kept))


STORED_PROPOSITIONS = Artefact(
    "graph:propositions",
    partial(_open, name="propositions"),
    strategy="proprag",
    restrict=partial(_left, name="propositions"),
)
"""What an index takes as propositions, with their entities and passages, and what links these."""

STORED_TRIPLES = Artefact(
    "graph:triples", partial(_open, name="triples"), strategy="triple-ppr", restrict=partial(_left, name="triples")
)
"""The same of triples alone."""
