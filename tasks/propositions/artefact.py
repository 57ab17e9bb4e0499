"""How the arrays of the proposition stage are opened for strategies; knows no store."""

from dataclasses import dataclass

import numpy as np

from polyhop.schemas.artefacts import Artefact, Stored
from polyhop.schemas.propositions import PropositionGraph, PropositionTexts

_PREFIX = "propositions"
_ENTITIES = """SELECT key, name FROM entities SEMI JOIN proposition_entities USING (entity_id) ORDER BY key"""


@dataclass(frozen=True, slots=True)
class StoredPropositions:
    """The graph over propositions, their texts, and keys and names of its entities, all in number order."""

    graph: PropositionGraph
    texts: PropositionTexts
    keys: tuple[str, ...]
    names: tuple[str, ...]


def _open(stored: Stored) -> StoredPropositions:
    rows = stored.rows(_ENTITIES)
    (count,) = stored.rows("SELECT count(*) FROM propositions")[0]
    names = [*PropositionGraph.array_names(), "text-starts", "texts"]
    arrays = {name: stored.array(_PREFIX, name) for name in names}
    graph = PropositionGraph.of(arrays)
    texts = PropositionTexts(arrays["text-starts"].astype(np.int64, copy=False), arrays["texts"].astype(np.uint8))
    shape = (int(count), len(rows), len(stored.passage_ids))
    stored.require(_PREFIX, fits=graph.is_consistent(shape) and texts.is_consistent(shape[0]))
    return StoredPropositions(graph, texts, tuple(row[0] for row in rows), tuple(row[1] for row in rows))


STORED_PROPOSITIONS = Artefact("graph:propositions", _open, strategy="proprag")
"""Propositions with their entities and passages, and what links these."""
