"""What a Neo4j server is: version, edition, state of Polyhop's indexes. Changes nothing."""

from dataclasses import dataclass

from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.statements import cypher


@dataclass(frozen=True, slots=True)
class GraphServerHealth:
    """A server that answers.

    Attributes:
        version: Its version.
        edition: community or enterprise.
        indexes: State of Polyhop's indexes by name: ONLINE, POPULATING, FAILED.
    """

    version: str
    edition: str
    indexes: dict[str, str]


def examine(connection: Neo4jConnection) -> GraphServerHealth:
    """Asks the server."""
    (edition,) = connection.read(cypher("schema", "server_edition"))
    rows = connection.read(cypher("schema", "index_states"))
    return GraphServerHealth(connection.version, str(edition["edition"]), {row["name"]: row["state"] for row in rows})
