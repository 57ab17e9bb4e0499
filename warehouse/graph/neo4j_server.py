"""One Neo4j server: labels, statements, its errors in our words, its health, and an existing graph in it as lines.

Nodes and relationships of such a graph arrive in pages of the driver, so that memory does not grow with the graph.
Source: reference/graphs.md.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyhop.schemas import errors
from polyhop.schemas.graph import XSD, Description, GraphLine, Neo4jMapping, Statement, StatementNode
from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS, NODE_KINDS, GraphKind
from polyhop.schemas.records import Address, BadRecord
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.records import FaultError, bad_record, check_characters, checked_name
from polyhop.warehouse.statements import cypher, slow_noted

BATCH_ROWS: Mapping[GraphKind, int] = {
    **dict.fromkeys(GRAPH_KINDS, 5000),
    "documents": 2000,
    "paragraphs": 1000,
    "entities": 500,
    "hubs": 2000,
    "hub_paths": 1000,
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


_LOG = logging.getLogger(__name__)
Query = tuple[str, Mapping[str, Any]]  # A statement and its values.


class Neo4jConnection:
    """An open server, of a version that will do."""

    def __init__(self, address: Address) -> None:
        from neo4j import GraphDatabase, exceptions

        self.address = address
        # chosen: servers that run answer in milliseconds, far away ones in a second or two
        options: dict[str, Any] = {"connection_timeout": 15.0, "max_transaction_retry_time": 30.0}
        options |= {"auth": (address.user, address.password), "notifications_min_severity": "OFF"}
        try:
            self._driver = GraphDatabase.driver(address.uri, **options)
        except (exceptions.ConfigurationError, ValueError) as error:
            raise errors.ConfigurationError(
                f"'{address.uri}' is not an address of a Neo4j server; it looks like bolt://HOST:7687 or "
                "neo4j+s://HOST."
            ) from error
        try:
            # asked once and without a transaction's retries: a server that is down is said at once
            with self._session("", is_reading=True) as session:
                record: Any = session.run(cypher("schema", "server_version")).single(strict=True)
            self.version = str(record["version"])
            require_version(self.version, address.uri)
        except BaseException:  # Ctrl-C, too, must not leave connections open
            self._driver.close()
            raise

    def close(self) -> None:
        """Ends all connections."""
        self._driver.close()

    def read(self, text: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The records of one statement, in a read transaction: the server itself refuses writes in it."""
        with self._session(text, is_reading=True) as session:
            found: list[dict[str, Any]] = session.execute_read(
                lambda transaction: transaction.run(text, dict(values or {})).data()
            )
            return found

    def stream(self, text: str, values: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """The records of one reading statement as they arrive, in pages; nothing is tried again after the first one."""
        with self._session("", is_reading=True) as session:
            for record in session.run(text, dict(values or {})):
                yield record.data()

    def write(self, statements: Sequence[Query]) -> list[list[dict[str, Any]]]:
        """The records of statements run in one transaction, which is repeated if the server says it may be."""

        def work(transaction: Any) -> list[list[dict[str, Any]]]:
            return [transaction.run(text, dict(values)).data() for text, values in statements]

        with self._session(statements[0][0] if statements else "", is_reading=False) as session:
            found: list[list[dict[str, Any]]] = session.execute_write(work)
            return found

    def write_held(self, hold: Query, wanted: Mapping[str, Any], then: Query, refusal: errors.StoreError) -> None:
        """Runs `hold` and, if its record is `wanted`, `then` in the same transaction; otherwise raises `refusal`."""

        def work(transaction: Any) -> None:
            record = transaction.run(hold[0], dict(hold[1])).single()
            if record is None or record.data() != dict(wanted):
                raise refusal
            transaction.run(then[0], dict(then[1])).consume()

        with self._session(then[0], is_reading=False) as session:
            session.execute_write(work)

    def alter(self, text: str, values: Mapping[str, Any] | None = None) -> None:
        """Runs a statement on the schema, in a separate transaction."""
        with self._session(text, is_reading=False) as session:
            session.run(text, dict(values or {})).consume()

    @contextmanager
    def _session(self, text: str, *, is_reading: bool) -> Iterator[Any]:
        """A session for a statement, which is noted if it is slow, with the driver's errors in our words."""
        mode = "READ" if is_reading else "WRITE"
        opened = self._driver.session(database=self.address.database, default_access_mode=mode, fetch_size=5000)
        with translated(self.address), slow_noted(_LOG, "neo4j", text), opened as session:
            yield session


def require_version(version: str, uri: str) -> None:
    """Refuses servers that lack what the statements need: raises ConfigurationError before Neo4j 5.26."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < (5, 26):  # the LTS of Neo4j 5, against which all statements are tested; architecture.md 7
        raise errors.ConfigurationError(f"Neo4j at {uri} is version {version}; Polyhop needs 5.26 or newer.")


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Turns the driver's errors inside the block into ours.

    Raises:
        ConfigurationError: For wrong credentials or a database that does not exist.
        StoreUnavailableError: If no server answers, or not in time.
        StoreError: If the server does not accept writes.
        StatementRejectedError: If it refuses a statement for any other reason.
    """
    from neo4j import exceptions

    uri = address.uri
    try:
        yield
    except exceptions.AuthError as error:
        said = f"Neo4j at {uri} refuses user '{address.user}'; check {address.credentials}."
        raise errors.ConfigurationError(said) from error
    except (exceptions.ServiceUnavailable, exceptions.SessionExpired, exceptions.TransientError, OSError) as error:
        if "Memory" in (getattr(error, "code", None) or ""):
            raise errors.StoreError(
                f"A statement needs more memory than Neo4j at {uri} allows; raise server.memory.heap.max_size."
            ) from error
        raise errors.StoreUnavailableError(
            f"No Neo4j server answers at {uri} ({_first_line(error)}); start it (docker compose up -d) or check "
            f"{address.named_by}."
        ) from error
    except (exceptions.Neo4jError, exceptions.DriverError) as error:
        code = getattr(error, "code", None) or ""
        if "DatabaseNotFound" in code:
            raise errors.ConfigurationError(f"Neo4j at {uri} has no database '{address.database}'.") from error
        if re.search(r"read[- ]?only", f"{code} {error}", re.IGNORECASE):
            raise errors.StoreError(f"Neo4j at {uri} is read-only; export to a server that accepts writes.") from error
        raise errors.StatementRejectedError(f"Neo4j at {uri} refused a statement: {_first_line(error)}.") from error


def _first_line(error: BaseException) -> str:
    return (str(getattr(error, "message", None) or error).strip() or type(error).__name__).split("\n", 1)[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class GraphServerHealth:
    """A server that answers."""

    version: str
    edition: str
    indexes: dict[str, str]


def examine(connection: Neo4jConnection) -> GraphServerHealth:
    """Asks the server."""
    (edition,) = connection.read(cypher("schema", "server_edition"))
    rows = connection.read(cypher("schema", "index_states"))
    return GraphServerHealth(connection.version, str(edition["edition"]), {row["name"]: row["state"] for row in rows})


_TEMPORAL = {"Date": "date", "Time": "time", "DateTime": "dateTime", "Duration": "duration"}
"""Types of the driver's values, and of XML Schema."""


def source_lines(connection: Neo4jConnection, mapping: Neo4jMapping) -> Iterator[GraphLine | BadRecord]:
    """Descriptions of all nodes, statements of their properties, then the relationships; not what Polyhop exported."""
    uri = connection.address.uri
    found = connection.read(cypher("source", "duplicate_ids"), {"ids": list(mapping.ids)})
    if found:
        count, own_id = found[0]["count"], found[0]["id"]
        raise errors.SourceError(
            f"{count} nodes at {uri} have the id '{own_id}' (the first of the properties "
            f"{', '.join(mapping.ids)} that each has); set graph.neo4j_ids to properties whose values are unique in "
            "the whole database, or to nothing: then they have Neo4j's own ids, which no dump keeps."
        )
    number = 0

    def guarded(lines: Iterator[GraphLine]) -> Iterator[GraphLine | BadRecord]:
        """The lines of a node or relationship, or what is wrong with it: all of it is refused, or nothing."""
        nonlocal number
        number += 1
        try:
            yield from list(lines)
        except FaultError as fault:
            yield bad_record(uri, number, str(fault))

    for row in connection.stream(cypher("source", "nodes")):
        yield from guarded(_node_lines(row, mapping))
    if not number:
        raise errors.SourceError(
            f"Neo4j at {uri} holds no node in database '{connection.address.database}'; check NEO4J_DATABASE."
        )
    values = {"ids": list(mapping.ids), "predicates": list(mapping.predicates)}
    for row in connection.stream(cypher("source", "relationships"), values):
        yield from guarded(_relationship_lines(row))


def _node_lines(row: Mapping[str, Any], mapping: Neo4jMapping) -> Iterator[GraphLine]:
    properties: Mapping[str, Any] = row["properties"]
    identified = _first(properties, mapping.ids)
    named = _first(properties, mapping.names)
    own_id = checked_name("id", properties[identified] if identified else row["element"])
    if not own_id.strip():
        raise FaultError(f"the property {identified}, the node's id, is empty")
    name = str(properties[named]) if named else ""
    check_characters("name", name)
    yield Description(StatementNode(own_id, name, _types(row, mapping), is_literal=False))
    subject = StatementNode(own_id, "", is_literal=False)
    kept = {*mapping.types, *filter(None, (identified, named))}
    for property_name in sorted(properties.keys() - kept):
        predicate = checked_name("name of a property", property_name)
        for value in _values(properties[property_name]):
            check_characters(f"property {property_name}", value.name)
            yield Statement(subject, predicate, value)


def _relationship_lines(row: Mapping[str, Any]) -> Iterator[GraphLine]:
    ends = [StatementNode(checked_name("id", row[end]), "", is_literal=False) for end in ("source", "target")]
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


def _values(value: Any) -> Iterator[StatementNode]:
    """The literals of a property: one, or one for each element of a list; none for vectors and bytes."""
    if isinstance(value, list):
        # Longer lists of fractions are vectors, which are not read; chosen: encoders have hundreds of numbers.
        if len(value) <= 16 or not all(isinstance(element, float) for element in value):
            for element in value:
                yield from _values(element)
        return
    text, datatype = _literal(value)
    if datatype is not None:
        yield StatementNode("", text, (), is_literal=True, datatype=datatype)


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
        return f"POINT({' '.join(map(repr, value))})", "http://www.opengis.net/ont/geosparql#wktLiteral"
    return "", None
