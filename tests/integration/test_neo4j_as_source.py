"""A graph that somebody else keeps in a real Neo4j, indexed by its address: mapping, ids, literals, changes, faults."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_fixture import address_of, connect_to
from neo4j_process import Neo4jServer

from polyhop.flows.export import run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.graph import XSD, Description, GraphLine, Neo4jMapping, Node, Statement
from polyhop.schemas.records import BadRecord, GraphServer
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import GraphSettings, Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.open import read_graph_server

pytestmark = pytest.mark.neo4j

PEOPLE = """
CREATE (ada:Person:Writer {id: 'p1', name: 'Ada', born: date('1815-12-10'), tall: 1.65, noble: true})
SET ada.papers = ['A', 'B']
CREATE (bob:Person {id: 2, title: 'Bob', vector: [x IN range(1, 20) | x * 0.5], at: point({x: 1.0, y: 2.0}), sons: 8})
CREATE (bare {kind: ['Ghost', 'Shade'], seen: datetime('1840-01-01T10:00:00Z'), lived: duration('P36Y')})
CREATE (ada)-[:KNOWS {since: 1833, as: 'is a friend of'}]->(bob), (ada)-[:KNOWS]->(ada), (bare)-[:HAUNTS]->(bob)
"""
MAPPING = Neo4jMapping(("id", "uri"), ("name", "title"), (), ())


@pytest.fixture
def connection(neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neo4jConnection]:
    """The server, empty, whose user and password are in the environment."""
    address = address_of(neo4j_server)
    monkeypatch.setenv("NEO4J_USER", address.user)
    monkeypatch.setenv("NEO4J_PASSWORD", address.password)
    opened = connect_to(neo4j_server)
    opened.write([("MATCH (n) DETACH DELETE n", {})])
    yield opened
    opened.write([("MATCH (n) DETACH DELETE n", {})])
    opened.close()


def read(connection: Neo4jConnection, mapping: Neo4jMapping = MAPPING) -> list[GraphLine | BadRecord]:
    return list(read_graph_server(GraphServer(connection.address.uri), mapping))


def literals(found: list[GraphLine | BadRecord], own_id: str) -> set[tuple[str, str, str]]:
    return {
        (line.predicate, line.object.name, line.object.datatype.removeprefix(XSD))
        for line in found
        if isinstance(line, Statement) and line.subject.id == own_id and line.object.is_literal
    }


def test_nodes_properties_and_relationships_are_read(connection: Neo4jConnection) -> None:
    connection.write([(PEOPLE, {})])
    found = read(connection)
    (element,) = (row["id"] for row in connection.read("MATCH (n) WHERE n.seen IS NOT NULL RETURN elementId(n) AS id"))
    described = {line.node.id: line.node for line in found if isinstance(line, Description)}
    assert described == {
        "p1": Node("p1", "Ada", ("Person", "Writer"), is_literal=False),
        "2": Node("2", "Bob", ("Person",), is_literal=False),
        element: Node(element, "", (), is_literal=False),
    }
    stated = {
        (line.subject.id, line.predicate, line.object.id)
        for line in found
        if isinstance(line, Statement) and not line.object.is_literal
    }
    assert stated == {("p1", "KNOWS", "2"), ("p1", "KNOWS", "p1"), (element, "HAUNTS", "2")}
    assert literals(found, "p1") == {
        ("born", "1815-12-10", "date"),
        ("tall", "1.65", "double"),
        ("noble", "true", "boolean"),
        ("papers", "A", ""),
        ("papers", "B", ""),
    }
    wkt = "http://www.opengis.net/ont/geosparql#wktLiteral"
    assert literals(found, "2") == {("at", "POINT(1.0 2.0)", wkt), ("sons", "8", "integer")}
    assert literals(found, element) == {
        ("kind", "Ghost", ""),
        ("kind", "Shade", ""),
        ("seen", "1840-01-01T10:00:00.000000000+00:00", "dateTime"),
        ("lived", "P36Y", "duration"),
    }


def test_properties_mean_what_the_settings_say(connection: Neo4jConnection) -> None:
    connection.write([(PEOPLE, {})])
    found = read(connection, Neo4jMapping(("name",), ("id",), ("kind",), ("none", "as")))
    described = [line.node for line in found if isinstance(line, Description)]
    assert {(one.id, one.name) for one in described if not one.types} >= {("Ada", "p1")}
    assert [one.types for one in described if one.types] == [("Ghost", "Shade")]
    predicates = {line.predicate for line in found if isinstance(line, Statement) and not line.object.is_literal}
    assert predicates == {"is a friend of", "KNOWS", "HAUNTS"}
    assert not {line.predicate for line in found if isinstance(line, Statement)} & {"kind", "since"}


def test_a_node_that_cannot_be_stored_is_set_aside_alone(connection: Neo4jConnection) -> None:
    connection.write([(PEOPLE, {}), ("CREATE (:Odd {id: 'a' + $control, name: 'odd'})", {"control": "\x01"})])
    bad = [line for line in read(connection) if isinstance(line, BadRecord)]
    assert [(one.source, one.reason) for one in bad] == [
        (connection.address.uri, "the id contains a control character (U+0001)")
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE (:A {id: 1}), (:B {id: '1'})", "2 nodes at .* have the id '1' .*; set graph.neo4j_ids to properties"),
        ("MATCH (n) DETACH DELETE n", "holds no node in database 'neo4j'; check NEO4J_DATABASE"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_in_one_sentence(
    connection: Neo4jConnection, statement: str, said: str
) -> None:
    connection.write([(statement, {})])
    with pytest.raises(SourceError, match=said):
        read(connection)


def test_a_wrong_password_and_a_missing_one_are_said(
    connection: Neo4jConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "mistaken")
    with pytest.raises(ConfigurationError, match=r"refuses user 'neo4j'; check NEO4J_USER and NEO4J_PASSWORD"):
        read(connection)
    monkeypatch.delenv("NEO4J_PASSWORD")
    with pytest.raises(ConfigurationError, match=r"Neo4j needs a password; set NEO4J_PASSWORD\.$"):
        read(connection)


def indexed(settings: Settings, connection: Neo4jConnection) -> IndexReport:
    request = IndexRequest("people", GraphServer(connection.address.uri), kind="graph")
    return run_index(settings, request, DirectRunner())


def test_a_database_is_indexed_again_only_when_it_changes_and_not_by_our_own_export(
    connection: Neo4jConnection, neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    connection.write([(PEOPLE.replace("CREATE (bare {", "CREATE (bare {uri: 'x:bare', "), {})])
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",))
    first = indexed(settings, connection)
    assert (first.version, first.counts["relations"], first.counts["entities"]) == (1, 14, 14)
    assert run_export(settings, "people", address_of(neo4j_server), DirectRunner()).created > 0
    assert indexed(settings, connection).changed is False
    connection.write([("MATCH (n {id: 'p1'}) SET n.name = 'Ada Lovelace'", {})])
    assert indexed(settings, connection).version == 2
    assert run_verify(settings, "people").ok
    folder = Layout(settings.root).index("people")
    manifest = folder.version(2).path / "manifest.json"
    assert json.loads(manifest.read_text())["source"] == connection.address.uri
    password = connection.address.password
    held = [path for path in settings.root.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert held == []


def test_a_graph_of_many_pages_is_streamed(connection: Neo4jConnection, tmp_path: Path) -> None:
    connection.write([("UNWIND range(1, 6000) AS n CREATE (:Town {id: n, name: 'Town ' + n})", {})])
    connection.alter("CREATE INDEX town_ids IF NOT EXISTS FOR (n:Town) ON (n.id)")
    connection.alter("CALL db.awaitIndexes(60)")
    ring = "UNWIND range(1, 6000) AS n MATCH (a:Town {id: n}), (b:Town {id: n % 6000 + 1}) CREATE (a)-[:NEXT]->(b)"
    connection.write([(ring, {})])
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",), graph=GraphSettings(neo4j_ids="id"))
    report = indexed(settings, connection)
    connection.alter("DROP INDEX town_ids")
    assert (report.counts["entities"], report.counts["relations"]) == (6000, 6000)
