"""One Neo4j server: layout of labels, connecting, named statements, its errors in our words, and its health."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polyhop.schemas.errors import ConfigurationError, StatementRejectedError, StoreError, StoreUnavailableError
from polyhop.schemas.ports import HUB_KINDS, NODE_KINDS, GraphKind
from polyhop.schemas.records import Address
from polyhop.schemas.text import content_hash
from polyhop.warehouse.statements import cypher, slow_noted

if TYPE_CHECKING:
    from neo4j import Driver


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


CONNECT_SECONDS = 15.0  # chosen: servers that run answer in milliseconds, far away ones in a second or two
_LOG = logging.getLogger(__name__)
_READ_ONLY = re.compile(r"read[- ]?only", re.IGNORECASE)


class Neo4jConnection:
    """An open server, of a version that will do."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._driver = _open_driver(address)
        try:
            self.version = self._ask_version()
            require_version(self.version, address.uri)
        except BaseException:  # Ctrl-C, too, must not leave connections open
            self._driver.close()
            raise

    def _ask_version(self) -> str:
        """The version, asked once and without a transaction's retries: a server that is down is said at once."""
        with self._session("", is_reading=True) as session:
            record: Any = session.run(cypher("schema", "server_version")).single(strict=True)
            return str(record["version"])

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

    def write(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[list[dict[str, Any]]]:
        """The records of statements run in one transaction, which is repeated if the server says it may be."""

        def work(transaction: Any) -> list[list[dict[str, Any]]]:
            return [transaction.run(text, dict(values)).data() for text, values in statements]

        with self._session(statements[0][0] if statements else "", is_reading=False) as session:
            found: list[list[dict[str, Any]]] = session.execute_write(work)
            return found

    def write_held(
        self,
        hold: tuple[str, Mapping[str, Any]],
        wanted: Mapping[str, Any],
        then: tuple[str, Mapping[str, Any]],
        refusal: StoreError,
    ) -> None:
        """Runs `hold` and, if its record is `wanted`, `then` in the same transaction; otherwise raises `refusal`."""

        def work(transaction: Any) -> None:
            record = transaction.run(hold[0], dict(hold[1])).single()
            if record is None or record.data() != dict(wanted):
                raise refusal
            transaction.run(then[0], dict(then[1])).consume()

        with self._session(then[0], is_reading=False) as session:
            session.execute_write(work)

    def alter(self, text: str, values: Mapping[str, Any] | None = None) -> None:
        """Runs a statement on the schema, in a transaction of its own."""
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
    """Refuses servers that lack what the statements need.

    Raises:
        ConfigurationError: If it is older than Neo4j 5.26.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise ConfigurationError(f"Neo4j at {uri} is version {version}; Polyhop needs {wanted} or newer.")


def _open_driver(address: Address) -> "Driver":
    from neo4j import GraphDatabase
    from neo4j.exceptions import ConfigurationError as DriverConfigurationError

    try:
        return GraphDatabase.driver(
            address.uri,
            auth=(address.user, address.password),
            connection_timeout=CONNECT_SECONDS,
            max_transaction_retry_time=30.0,
            notifications_min_severity="OFF",
        )
    except (DriverConfigurationError, ValueError) as error:
        raise ConfigurationError(
            f"'{address.uri}' is not an address of a Neo4j server; it looks like bolt://HOST:7687 or neo4j+s://HOST."
        ) from error


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Turns the driver's errors inside the block into ours.

    Raises:
        ConfigurationError: For wrong credentials or a database that does not exist.
        StoreUnavailableError: If no server answers, or not in time.
        StoreError: If the server does not accept writes.
        StatementRejectedError: If it refuses a statement for any other reason.
    """
    from neo4j.exceptions import (
        AuthError,
        ClientError,
        DriverError,
        Neo4jError,
        ServiceUnavailable,
        SessionExpired,
        TransientError,
    )

    uri = address.uri
    try:
        yield
    except AuthError as error:
        raise ConfigurationError(
            f"Neo4j at {uri} refuses user '{address.user}'; check {address.credentials}."
        ) from error
    except (ServiceUnavailable, SessionExpired, TransientError, OSError) as error:
        if "Memory" in (getattr(error, "code", None) or ""):
            raise StoreError(
                f"A statement needs more memory than Neo4j at {uri} gives it; raise server.memory.heap.max_size."
            ) from error
        raise StoreUnavailableError(
            f"No Neo4j server answers at {uri} ({_first_line(error)}); start it (docker compose up -d) or check "
            f"{address.named_by}."
        ) from error
    except (ClientError, Neo4jError, DriverError) as error:
        code = getattr(error, "code", None) or ""
        if "DatabaseNotFound" in code:
            raise ConfigurationError(f"Neo4j at {uri} has no database '{address.database}'.") from error
        if _READ_ONLY.search(f"{code} {error}"):
            raise StoreError(f"Neo4j at {uri} is read-only; export to a server that accepts writes.") from error
        raise StatementRejectedError(f"Neo4j at {uri} refused a statement: {_first_line(error)}.") from error


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
