"""How the arrays of the proposition stages are opened for strategies; knows no store."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from polyhop.schemas.artefacts import Artefact, Stored
from polyhop.schemas.proposition_origin import GraphName, PropositionOrigin, PropositionSettings
from polyhop.schemas.propositions import PropositionGraph
from polyhop.schemas.stored_texts import StoredTexts

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


STORED_PROPOSITIONS = Artefact("graph:propositions", partial(_open, name="propositions"), strategy="proprag")
"""What an index takes as propositions, with their entities and passages, and what links these."""

STORED_TRIPLES = Artefact("graph:triples", partial(_open, name="triples"), strategy="triple-ppr")
"""The same of triples alone."""
