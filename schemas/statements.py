"""What comes out of reading a knowledge graph: statements (a predicate between two nodes) and descriptions of nodes.

Holds no reader (warehouse/files does); what becomes of nodes and statements is tasks/graph_source's business.
Source: algorithms.md 4.2.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Node:
    """A node as one statement describes it.

    Attributes:
        id: The graph's own, without control characters; empty only for a literal.
        name: Its label, or the value of a literal; empty if the statement has none.
        types: Names of its types, in the statement's order.
        is_literal: Whether it is a value; None if the statement does not say so.
        datatype: Of a literal, empty if not stated.
        language: Tag of a literal's language (`en`), empty if not stated.
    """

    id: str
    name: str
    types: tuple[str, ...] = ()
    is_literal: bool | None = None
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One triple of a graph; `predicate` is not empty, and without control characters."""

    subject: Node
    predicate: str
    object: Node


@dataclass(frozen=True, slots=True)
class Description:
    """What a graph says of a node apart from its relations: a label, types.

    Attributes:
        node: The node with its label, if that is what is said, and its types.
        preference: Of several labels of a node the one with the smallest counts; empty where all count the same.
    """

    node: Node
    preference: str = ""


GraphLine = Statement | Description
"""One usable line of a graph."""


@dataclass(frozen=True, slots=True)
class Neo4jMapping:
    """What the properties of a graph in Neo4j mean; of several names the first that a node or relationship has counts.

    Attributes:
        ids: Properties that hold a node's own id; without one it has the database's, which a dump does not keep.
        names: Properties that hold a node's label.
        types: Properties that hold the names of a node's types; empty: its labels in Neo4j are its types.
        predicates: Properties of relationships that hold the predicate; without one it is the relationship's type.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    predicates: tuple[str, ...]


class NamedTriple(NamedTuple):
    """A triple of an index with the graph's own ids, and names; of a value without an id, its entity id."""

    subject_id: str
    subject: str
    predicate: str
    object_id: str
    object: str

    @property
    def ids(self) -> tuple[str, str, str]:
        """What it is known by: the subject's id, the predicate, the object's id."""
        return self.subject_id, self.predicate, self.object_id

    @property
    def subject_words(self) -> str:
        """The subject's name, its id without one."""
        return self.subject or self.subject_id

    @property
    def object_words(self) -> str:
        """The object's name, its id without one."""
        return self.object or self.object_id
