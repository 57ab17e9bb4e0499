"""How indexes share one Neo4j database: names of labels, vector indexes and kinds of rows.

Writes nothing. Why it is so: docs/decisions/0004-neo4j-layout.md.
"""

from dataclasses import dataclass

from schemas.ids import content_hash

MINIMUM_VERSION = (5, 26)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of node or relationship: its name is part of the names of its statements.

    Attributes:
        name: As in `write_<name>`.
        file: File of its statements.
        batch: Rows per transaction.
    """

    name: str
    file: str
    batch: int


NODES = (
    Kind("documents", "nodes", 2000),
    Kind("paragraphs", "nodes", 1000),
    Kind("entities", "nodes", 500),
)
RELATIONSHIPS = (
    Kind("document_paragraphs", "relationships", 5000),
    Kind("document_mentions", "relationships", 5000),
    Kind("paragraph_mentions", "relationships", 5000),
    Kind("relations", "relationships", 5000),
)
KINDS = (*NODES, *RELATIONSHIPS)


def entity_label(index: str) -> str:
    """The label that only this index's entities have: letters and hexadecimal digits, whatever the index is called."""
    return f"Entity_{content_hash('neo4j', index)[:16]}"


def vector_index(index: str) -> str:
    """Name of the index's vector index."""
    return f"polyhop_{entity_label(index)}"
