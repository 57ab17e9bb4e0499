"""How indexes share one Neo4j database: names of labels and vector indexes, files and batches by kind of row.

Writes nothing. Why it is so: docs/decisions/0004-neo4j-layout.md.
"""

from collections.abc import Mapping

from polyhop.schemas.ids import content_hash
from polyhop.schemas.stores import HUB_KINDS, NODE_KINDS, GraphKind

MINIMUM_VERSION = (5, 26)  # the LTS of Neo4j 5, against which all statements are tested; architecture.md 7.


BATCH_ROWS: Mapping[GraphKind, int] = {
    "documents": 2000,
    "paragraphs": 1000,
    "entities": 500,
    "document_paragraphs": 5000,
    "document_mentions": 5000,
    "paragraph_mentions": 5000,
    "relations": 5000,
    "hubs": 2000,
    "hub_paths": 1000,
    "hub_entities": 5000,
    "paths_of_hubs": 5000,
    "hub_path_entities": 5000,
    "hub_candidates": 5000,
}
"""Rows per transaction."""


def file_of(kind: GraphKind) -> str:
    """File of the statements on a kind, whose names end with that of the kind."""
    if kind in HUB_KINDS:
        return "hubs"
    return "nodes" if kind in NODE_KINDS else "relationships"


def entity_label(index: str) -> str:
    """The label that only this index's entities have: letters and hexadecimal digits, whatever the index is called."""
    return f"Entity_{content_hash('neo4j', index)[:16]}"


def vector_index(index: str) -> str:
    """Name of the index's vector index."""
    return f"polyhop_{entity_label(index)}"
