"""Knowledge graphs in a real Neo4j: read by address, exported whole, and their hubs found by Cypher."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from graph_fixture import TOLERANCE, address_of, changes, connect_to, mark_all, published_hashes, snapshot, wipe_marks
from neo4j_process import Neo4jServer

from polyhop.api import open_index
from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.graph import XSD, Description, GraphLine, Neo4jMapping, Node, Statement
from polyhop.schemas.ports import HUB_KINDS
from polyhop.schemas.records import BadRecord, GraphServer
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import GraphSettings, Settings, parse_settings
from polyhop.schemas.text import node_id
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


TOWNS = 12


def triples() -> list[Any]:
    """Towns in a ring, each its own neighbour too, with a year; every third has the same name."""
    towns = [{"id": f"t{n}", "name": "Newtown" if n % 3 == 0 else f"Town {n}", "types": ["Town"]} for n in range(TOWNS)]
    ring = [
        {"subject": towns[n], "predicate": predicate, "object": towns[(n + step) % TOWNS]}
        for n in range(TOWNS)
        for predicate, step in (("next to", 1), ("near", 0), ("road to", 5))
    ]
    return [*ring, *({"subject": towns[n], "predicate": "founded", "object": 1800 + n} for n in range(TOWNS))]


def test_a_graph_is_exported_whole_and_spreads_there_as_it_does_here(
    connection: Neo4jConnection, neo4j_server: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of(neo4j_server)
    settings = Settings(root=tmp_path / "root", strategies=("qasa",))
    source = tmp_path / "graph.jsonl"
    source.write_text("".join(json.dumps(triple) + "\n" for triple in triples()), encoding="utf-8")
    run_index(settings, IndexRequest("towns", source, kind="graph"), DirectRunner())

    report = run_export(settings, "towns", address, DirectRunner())
    held = snapshot(connection, "towns")
    expected = {name: sorted(hashes) for name, hashes in published_hashes(settings, "towns").items()}
    assert {name: [row[0] for row in rows] for name, rows in held.items()} == expected
    assert (len(held["entities"]), len(held["relations"])) == (2 * TOWNS, 4 * TOWNS)
    loops = connection.read("MATCH (e:Entity {index: 'towns'})-[r:RELATES_TO]->(e) RETURN count(r) AS count", {})
    assert loops == [{"count": TOWNS}]
    assert report.created == 6 * TOWNS
    assert run_export(settings, "towns", address, DirectRunner()).created == 0
    assert run_verify(settings, "towns", address).differences["neo4j"] == []

    for name, value in (("URI", address.uri), ("USER", address.user), ("PASSWORD", address.password)):
        monkeypatch.setenv(f"NEO4J_{name}", value)
    with open_index("towns", settings=settings) as index:
        question = "Which road leads from Newtown to Town 7?"
        thin = {"engine": "neo4j", "thin_client": True}
        here, there, thinly = (
            index.ask(question, strategy="qasa", parameters=p) for p in ({}, {"engine": "neo4j"}, thin)
        )
        for rows, number in (("nodes", "weight"), ("paths", "score"), ("seeds", "weight")):
            for other in (there, thinly):
                locally, remotely = here.evidence[rows], other.evidence[rows]
                assert [row | {number: 0} for row in locally] == [row | {number: 0} for row in remotely]
                sums = [row[number] for row in remotely]  # of cosines, which Neo4j computes in float32
                assert [row[number] for row in locally] == pytest.approx(sums, abs=TOLERANCE)
        assert len(here.evidence["nodes"]) == TOWNS
        # what only the server knows: no entity is called Newtown any more, and all are described otherwise
        altered = "MATCH (e:Entity {index: 'towns'}) SET e.description = 'As served.', e.key = 'other ' + e.key"
        connection.write([(altered, {})])
        there, thinly = (index.ask(question, strategy="qasa", parameters=p) for p in ({"engine": "neo4j"}, thin))
        described = [{node["description"] for node in one.evidence["nodes"]} for one in (there, thinly)]
        assert described == [{node["description"] for node in here.evidence["nodes"]}, {"As served."}]
        by_name = [[seed["match"] for seed in one.evidence["seeds"]].count("exact") for one in (there, thinly)]
        assert by_name == [TOWNS // 3, 0]


Triple = Mapping[str, object]


def thing(own_id: str, name: str, *types: str) -> dict[str, object]:
    return {"id": own_id, "name": name, "types": list(types)}


def stated(subject: Mapping[str, object], predicate: str, value: object) -> Triple:
    return {"subject": subject, "predicate": predicate, "object": value}


ONE, TWO, LOST = (thing(f"P{n}", f"Paper {n}", "Paper") for n in (1, 2, 3))
ADA, UNI = thing("A1", "Ada"), thing("U1", "Uni Y")
GRAPH = [
    stated(ONE, "author", ADA),
    stated(ADA, "works at", UNI),
    stated(UNI, "employs", ADA),
    stated(ONE, "cites", TWO),
    stated(TWO, "year", 2024),
    stated(LOST, "year", 1999),
]
CHANGED = [*GRAPH[:3], stated(ONE, "cites", LOST), *GRAPH[4:], stated(UNI, "lies in", thing("O", "Oslo"))]
PATHS = (
    "MATCH (e:Entity {index: $index})<-[:IS_ENTITY]-(h:Hub)-[has:HAS_PATH]->(p:HubPath)-[passes:PASSES]->(t:Entity) "
    "WITH e, h, has, p, passes, t ORDER BY passes.ordinal "
    "WITH e, h, has, p, collect([passes.relation, t.name]) AS steps ORDER BY e.name, has.ordinal "
    "RETURN e.name AS hub, h.path_count AS paths, p.length AS length, p.end_kind AS ends, p.text AS text, steps"
)
CANDIDATES = (
    "MATCH (h:Hub {index: $index})-[c:HAS_CANDIDATE]->(e:Entity) "
    "MATCH (h)-[:HAS_PATH]->(p:HubPath {path_hash: c.path_hash}) "
    "RETURN h.id AS hub, e.name AS name, c.kind AS kind, p.text AS text ORDER BY hub"
)


def paths(connection: Neo4jConnection) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in connection.read(PATHS, {"index": "papers"})]


def test_hubs_and_their_paths_are_found_by_cypher_and_follow_the_graph(
    connection: Neo4jConnection, neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    settings = parse_settings(
        {"flags": {"root": str(tmp_path / "root"), "strategies": "hublink", "hubs.types": "Paper", "hubs.start": "P1"}}
    )
    address = address_of(neo4j_server)

    def publish(triples: Sequence[Triple]) -> ExportReport:
        source = tmp_path / "graph.jsonl"
        source.write_text("".join(json.dumps(triple) + "\n" for triple in triples), encoding="utf-8")
        run_index(settings, IndexRequest("papers", source, kind="graph"), DirectRunner())
        return run_export(settings, "papers", address, DirectRunner())

    report = publish(GRAPH)
    ada_twice = [["author", "Ada"], ["works at", "Uni Y"], ["employs", "Ada"]]
    year = ("Paper 2", 1, 1, "leaf", "Paper 2 year 2024.", [["year", "2024"]])
    assert paths(connection) == [
        ("Paper 1", 2, 1, "hub", "Paper 1 cites Paper 2.", [["cites", "Paper 2"]]),
        ("Paper 1", 2, 3, "revisit", "Paper 1 author Ada; Ada works at Uni Y; Uni Y employs Ada.", ada_twice),
        year,
    ]
    assert connection.read(CANDIDATES, {"index": "papers"}) == [
        {"hub": node_id("P1"), "name": "Paper 2", "kind": "hub", "text": "Paper 1 cites Paper 2."}
    ]
    lost = connection.read(
        "MATCH (h:Hub {index: 'papers', id: $id}) RETURN properties(h) AS hub", {"id": node_id("P3")}
    )
    assert (lost[0]["hub"]["path_count"], "index_level" in lost[0]["hub"]) == (0, False)
    assert [report.counts[kind] for kind in HUB_KINDS] == [3, 3, 3, 3, 5, 1]
    assert run_verify(settings, "papers", address).ok

    before = published_hashes(settings, "papers")
    mark_all(connection, "papers")
    report = publish(CHANGED)
    after = published_hashes(settings, "papers")
    wanted = changes(before, after)
    assert {"created": report.created, "updated": report.updated, "deleted": report.deleted} == wanted
    total = sum(map(len, after.values()))
    assert wipe_marks(connection, "papers") == total - wanted["created"] - wanted["updated"]
    found = {text for *_, text, _ in paths(connection)}
    assert {"Paper 1 cites Paper 3.", "Paper 3 year 1999."} < found
    assert not found & {"Paper 1 cites Paper 2.", "Paper 2 year 2024."}
    assert run_verify(settings, "papers", address).ok


def test_a_database_without_hubs_gets_nothing_of_them(
    connection: Neo4jConnection, neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    for name in ("polyhop_hub_id", "polyhop_hub_path_id"):
        connection.alter(f"DROP CONSTRAINT {name} IF EXISTS")
    settings = parse_settings({"flags": {"root": str(tmp_path / "root"), "strategies": "bm25"}})
    source = tmp_path / "corpus.jsonl"
    source.write_text(json.dumps({"id": "a", "title": "Oslo", "text": "Oslo lies in Norway."}), encoding="utf-8")
    run_index(settings, IndexRequest("plain", source), DirectRunner())
    report = run_export(settings, "plain", address_of(neo4j_server), DirectRunner())
    assert not (report.counts.keys() | report.seconds.keys()) & set(HUB_KINDS)
    names = connection.read("SHOW CONSTRAINTS YIELD name RETURN collect(name) AS names", {})[0]["names"]
    assert not [name for name in names if "hub" in name]
    record = connection.read("MATCH (v:PolyhopIndex {name: 'plain'}) RETURN keys(v) AS keys", {})[0]["keys"]
    assert not [key for key in record if "hub" in key]
