"""Hubs of a small graph in a real Neo4j: found by Cypher; after a change of the graph as a fresh export has them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from export_fixture import changes, mark_all, published_hashes, wipe_marks
from graph_fixture import address_of, connect_to
from neo4j_process import Neo4jServer

from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.ports import HUB_KINDS
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import parse_settings
from polyhop.schemas.text import node_id
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection

pytestmark = pytest.mark.neo4j

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


@pytest.fixture
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    opened.write([("MATCH (n) DETACH DELETE n", {})])
    yield opened
    opened.close()


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
