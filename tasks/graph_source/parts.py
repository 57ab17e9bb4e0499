"""Statements as Arrow tables: the part files that reading a graph writes (pure).

Writes no file; SQL puts the parts together, and settles what several statements say of one node.
"""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from polyhop.schemas.columns import Column, Table
from polyhop.schemas.ids import literal_id, node_id
from polyhop.schemas.iris import name_without_label
from polyhop.schemas.names import name_tokens
from polyhop.schemas.statements import Description, GraphLine, Node, Statement
from polyhop.schemas.text import norm_ws
from polyhop.tasks.passages.records import table_of_rows

NODE_PARTS = Table(
    "node_parts",
    "Nodes as statements describe them: a row for each different description.",
    ("entity_id", "name", "types", "is_literal", "datatype"),
    (
        Column("entity_id", pa.string(), "sha256-derived from the node's own id, or from a literal's whole statement"),
        Column("node_id", pa.string(), "the node's own id, NULL for a literal without one", nullable=True),
        Column("name", pa.string(), "its name; where the statements give none its own id, or the last part of an IRI"),
        Column("folded", pa.string(), "words of the name, folded (polyhop.schemas.names.name_tokens)"),
        Column("norm_name", pa.string(), "name, NFC, lower case, runs of whitespace collapsed"),
        Column("types", pa.list_(pa.string()), "names of its types, in the statements' order"),
        Column("is_literal", pa.bool_(), "whether it is a value, NULL if the statements do not say so", nullable=True),
        Column("datatype", pa.string(), "of a literal, NULL if not stated", nullable=True),
        Column("language", pa.string(), "of a literal, NULL if not stated", nullable=True),
        Column("preference", pa.string(), "of several names the one with the smallest counts"),
        Column("uses", pa.int64(), "statements that give it this name, 0 if none gives one"),
    ),
)
STATEMENT_PARTS = Table(
    "statement_parts",
    "Statements: a row for each different triple.",
    ("source_id", "relation", "target_id"),
    (
        Column("source_id", pa.string(), "entity id of the subject"),
        Column("target_id", pa.string(), "entity id of the object"),
        Column("relation", pa.string(), "the predicate"),
        Column("norm_relation", pa.string(), "predicate, NFC, lower case, runs of whitespace collapsed"),
        Column("uses", pa.int64(), "statements of this triple"),
    ),
)


def statement_tables(lines: Iterable[GraphLine]) -> dict[str, pa.Table]:
    """Tables `nodes` and `statements` with the columns of NODE_PARTS and STATEMENT_PARTS; their order says nothing.

    Cost: O(lines) time; memory O(different nodes and triples).
    """
    nodes: Counter[tuple[str, Node, str]] = Counter()
    triples: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        if isinstance(line, Description):
            nodes[node_id(line.node.id), line.node, line.preference] += 1
            continue
        source_id, target_id = node_id(line.subject.id), _object_id(line)
        nodes[source_id, line.subject, ""] += 1
        nodes[target_id, line.object, ""] += 1
        triples[source_id, target_id, line.predicate] += 1
    return {"nodes": _nodes_table(nodes), "statements": _statements_table(triples)}


def _object_id(statement: Statement) -> str:
    value = statement.object
    if value.id:
        return node_id(value.id)
    # a datatype never begins with @, and a value with a language has no other datatype
    kind = f"@{value.language.lower()}" if value.language else value.datatype
    return literal_id(statement.subject.id, statement.predicate, kind, value.name)


def _nodes_table(nodes: Counter[tuple[str, Node, str]]) -> pa.Table:
    rows = [_node_row(*key, count) for key, count in nodes.items()]
    return table_of_rows(NODE_PARTS.arrow, rows)


def _node_row(entity_id: str, node: Node, preference: str, count: int) -> tuple[object, ...]:
    """Values of a node as NODE_PARTS has them; uses without a label do not count for its name."""
    has_label = bool(node.name.strip())
    name = node.name if has_label else name_without_label(node.id)
    return (
        *(entity_id, node.id or None, name, " ".join(name_tokens(name)), norm_ws(name)),
        *(list(node.types), node.is_literal, node.datatype or None, node.language or None),
        *(preference, count if has_label else 0),
    )


def _statements_table(triples: Counter[tuple[str, str, str]]) -> pa.Table:
    normalised = {predicate: norm_ws(predicate) for _, _, predicate in triples}
    columns = {
        "source_id": [source_id for source_id, _, _ in triples],
        "target_id": [target_id for _, target_id, _ in triples],
        "relation": [predicate for _, _, predicate in triples],
        "norm_relation": [normalised[predicate] for _, _, predicate in triples],
        "uses": list(triples.values()),
    }
    return pa.Table.from_pydict(columns, schema=STATEMENT_PARTS.arrow)
