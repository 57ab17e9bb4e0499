"""What comes out of reading a knowledge graph: statements, each a predicate between two nodes.

Holds no reader (warehouse/files does); what becomes of nodes and statements is tasks/graph_source's business.
Source: algorithms.md 4.2.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node as one statement describes it.

    Attributes:
        id: The graph's own, without control characters; empty only for a literal.
        name: Its label, or the value of a literal; empty if the statement has none.
        types: Names of its types, in the statement's order.
        is_literal: Whether it is a value; None if the statement does not say so.
        datatype: Of a literal, empty if not stated.
    """

    id: str
    name: str
    types: tuple[str, ...] = ()
    is_literal: bool | None = None
    datatype: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One triple of a graph; `predicate` is not empty, and without control characters."""

    subject: Node
    predicate: str
    object: Node
