"""Settings to open stores: the only module that constructs their adapters (models: open_models.py).

Each adapter is imported by the function that opens it, so that a command without a queue does not pay for SQLAlchemy.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from polyhop.schemas.errors import ConfigurationError, SourceError, remember_secrets
from polyhop.schemas.records import BY_OPTION, Address, GraphServer
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyhop.schemas.graph import GraphLine, Neo4jMapping
    from polyhop.schemas.ports import GraphStore
    from polyhop.schemas.records import BadRecord
    from polyhop.warehouse.graph.neo4j_server import GraphServerHealth
    from polyhop.warehouse.index_reader import PublishedIndex
    from polyhop.warehouse.queue.queue import QuestionQueue


def open_questions(settings: Settings) -> "QuestionQueue":
    """The question queue: the configured database, or queue.sqlite under the root."""
    from polyhop.warehouse.queue.queue import open_queue
    from polyhop.warehouse.queue.schema import sqlite_url

    return open_queue(settings.queue.url or sqlite_url(Layout(settings.root).queue))


@lru_cache(maxsize=1)
def _use_one_blas_thread() -> None:
    """For the whole process: rankings get the same bits on any number of cores, and workers don't fight for cores.

    The products of one question are bound by memory, a second thread gains little.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def open_published(root: Path, name: str, version: int | None = None) -> "PublishedIndex":
    """A published version of an index, held until closed."""
    from polyhop.warehouse.index_reader import PublishedIndex

    _use_one_blas_thread()
    return PublishedIndex(Layout(root), name, version)


def find_address(
    uri: str | None,
    user: str | None,
    password: str | None,
    database: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    named_by: str = BY_OPTION,
) -> Address:
    """The address from what was given, else from NEO4J_URI, NEO4J_USER (or NEO4J_USERNAME), NEO4J_PASSWORD.

    `named_by` is the option or variable that a user names the server with: messages name no option that is not there.
    """
    found_uri = uri or environment.get("NEO4J_URI", "")
    found_password = password or environment.get("NEO4J_PASSWORD", "")
    if not found_uri:
        option = f"use {named_by} bolt://HOST:7687 or " if named_by.startswith("--") else ""
        raise ConfigurationError(f"No Neo4j server is named; {option}set NEO4J_URI.")
    if not found_password:
        option = " (or use --password)" if named_by == BY_OPTION else ""
        raise ConfigurationError(f"Neo4j needs a password; set NEO4J_PASSWORD{option}.")
    # an address may hold user:password@, which no message may show
    remember_secrets([found_password, *([found_uri] if "@" in found_uri else [])])
    found_user = user or environment.get("NEO4J_USER") or environment.get("NEO4J_USERNAME") or "neo4j"
    found_database = database or environment.get("NEO4J_DATABASE") or "neo4j"
    return Address(found_uri, found_user, found_password, found_database, named_by)


def read_graph_server(server: GraphServer, mapping: "Neo4jMapping") -> "Iterator[GraphLine | BadRecord]":
    """Yields the lines of a graph in a database, as the user and with the password of the environment."""
    from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, source_lines

    with closing(Neo4jConnection(find_address(server.uri, None, None, named_by="--graph"))) as connection:
        yield from source_lines(connection, mapping)


def read_sparql(
    server: GraphServer, languages: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ
) -> "Iterator[GraphLine | BadRecord]":
    """Yields the lines of a graph at a SPARQL endpoint, which are copied into a folder first."""
    from polyhop.warehouse.files.graph_files import graph_reader, read_graph
    from polyhop.warehouse.graph.sparql import SparqlEndpoint

    password = environment.get("SPARQL_PASSWORD", "")
    remember_secrets([password] if password else [])
    address = Address(server.uri, environment.get("SPARQL_USER", ""), password, named_by="--graph")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as copied:
        path = Path(copied) / "graph.nt"
        graph_reader(path)  # says at once if the extra is missing
        with closing(SparqlEndpoint(address)) as endpoint:
            if not endpoint.copy(path):
                raise SourceError(f"The SPARQL endpoint {server} has no triple without blank nodes; check the address.")
        yield from read_graph(path, languages)


def examine_graph_server() -> "GraphServerHealth":
    """Examines the server that the environment names (NEO4J_URI, NEO4J_USER, NEO4J_PASSWORD)."""
    from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, examine

    with closing(Neo4jConnection(find_address(None, None, None))) as connection:
        return examine(connection)


def open_graph_store(address: Address, index: str) -> "GraphStore":
    """The part of a graph database that belongs to an index; to be closed."""
    from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
    from polyhop.warehouse.graph.neo4j_store import Neo4jStore

    return Neo4jStore(Neo4jConnection(address), index)
