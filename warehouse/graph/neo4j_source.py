"""An existing graph in Neo4j as lines of a graph: nodes with labels and properties, and relationships.

Nodes and relationships arrive in pages of the driver, so that memory does not grow with the graph.
Source: reference/graphs.md.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from polyhop.schemas.errors import SourceError
from polyhop.schemas.graph import XSD, Description, GraphLine, Neo4jMapping, Node, Statement
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.records import FaultError, bad_record, check_characters, checked_name
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.statements import cypher

MOST_NUMBERS = 16
"""Longer lists of fractions are vectors, which are not read; chosen: encoders have hundreds of numbers."""

_WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
_TEMPORAL = {"Date": "date", "Time": "time", "DateTime": "dateTime", "Duration": "duration"}
"""Types of the driver's values, and of XML Schema."""


def source_lines(connection: Neo4jConnection, mapping: Neo4jMapping) -> Iterator[GraphLine | BadRecord]:
    """Descriptions of all nodes, statements of their properties, then the relationships; not what Polyhop exported."""
    uri = connection.address.uri
    found = connection.read(cypher("source", "duplicate_ids"), {"ids": list(mapping.ids)})
    if found:
        count, own_id = found[0]["count"], found[0]["id"]
        raise SourceError(
            f"{count} nodes at {uri} have the id '{own_id}' (the first of the properties "
            f"{', '.join(mapping.ids)} that each has); set graph.neo4j_ids to properties whose values are unique in "
            "the whole database, or to nothing: then they have Neo4j's own ids, which no dump keeps."
        )
    number = 0
    for row in connection.stream(cypher("source", "nodes")):
        number += 1
        yield from _guarded(uri, number, _node_lines(row, mapping))
    if not number:
        raise SourceError(
            f"Neo4j at {uri} holds no node in database '{connection.address.database}'; check NEO4J_DATABASE."
        )
    values = {"ids": list(mapping.ids), "predicates": list(mapping.predicates)}
    for row in connection.stream(cypher("source", "relationships"), values):
        number += 1
        yield from _guarded(uri, number, _relationship_lines(row))


def _guarded(uri: str, number: int, lines: Iterator[GraphLine]) -> Iterator[GraphLine | BadRecord]:
    """The lines of a node or relationship, or what is wrong with it: all of it is refused, or nothing."""
    try:
        yield from list(lines)
    except FaultError as fault:
        yield bad_record(uri, number, str(fault))


def _node_lines(row: Mapping[str, Any], mapping: Neo4jMapping) -> Iterator[GraphLine]:
    properties: Mapping[str, Any] = row["properties"]
    identified = _first(properties, mapping.ids)
    named = _first(properties, mapping.names)
    own_id = checked_name("id", properties[identified] if identified else row["element"])
    if not own_id.strip():
        raise FaultError(f"the property {identified}, the node's id, is empty")
    name = str(properties[named]) if named else ""
    check_characters("name", name)
    yield Description(Node(own_id, name, _types(row, mapping), is_literal=False))
    subject = Node(own_id, "", is_literal=False)
    kept = {*mapping.types, *filter(None, (identified, named))}
    for property_name in sorted(properties.keys() - kept):
        predicate = checked_name("name of a property", property_name)
        for value in _values(properties[property_name]):
            check_characters(f"property {property_name}", value.name)
            yield Statement(subject, predicate, value)


def _relationship_lines(row: Mapping[str, Any]) -> Iterator[GraphLine]:
    ends = [Node(checked_name("id", row[end]), "", is_literal=False) for end in ("source", "target")]
    predicate = checked_name("predicate", row["predicate"])
    if not predicate.strip() or not all(end.id.strip() for end in ends):
        raise FaultError("the predicate or the id of an end is empty")
    yield Statement(ends[0], predicate, ends[1])


def _first(properties: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these properties that holds a text or a whole number, "" if none does."""
    held = ((name, properties.get(name)) for name in names)
    return next((n for n, value in held if isinstance(value, (str, int)) and not isinstance(value, bool)), "")


def _types(row: Mapping[str, Any], mapping: Neo4jMapping) -> tuple[str, ...]:
    """The values of the properties that hold types, or the labels."""
    held = [row["properties"].get(name) for name in mapping.types] if mapping.types else [sorted(row["labels"])]
    listed = [value for one in held for value in (one if isinstance(one, list) else [one])]
    names = (checked_name("type", value) for value in listed if isinstance(value, str) and value.strip())
    return tuple(dict.fromkeys(names))


def _values(value: Any) -> Iterator[Node]:
    """The literals of a property: one, or one for each element of a list; none for vectors and bytes."""
    if isinstance(value, list):
        if len(value) <= MOST_NUMBERS or not all(isinstance(element, float) for element in value):
            for element in value:
                yield from _values(element)
        return
    text, datatype = _literal(value)
    if datatype is not None:
        yield Node("", text, (), is_literal=True, datatype=datatype)


def _literal(value: Any) -> tuple[str, str | None]:
    """A value as text and the IRI of its datatype, None for what is not a literal."""
    kind = type(value).__name__
    if isinstance(value, str):
        return value, ""
    if isinstance(value, bool):
        return str(value).lower(), f"{XSD}boolean"
    if isinstance(value, int):
        return str(value), f"{XSD}integer"
    if isinstance(value, float):
        return repr(value), f"{XSD}double"
    if kind in _TEMPORAL:
        return value.iso_format(), XSD + _TEMPORAL[kind]
    if hasattr(value, "srid"):
        return f"POINT({' '.join(map(repr, value))})", _WKT
    return "", None
