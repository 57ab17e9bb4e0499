"""An index made from a knowledge graph in a real Neo4j: all of it is there, and both engines activate the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agreement import TOLERANCE
from export_fixture import published_hashes, snapshot
from graph_fixture import address_of, connect_to
from neo4j_process import Neo4jServer

from polyhop.api import open_index
from polyhop.flows.export import run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection

pytestmark = pytest.mark.neo4j

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


@pytest.fixture
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


def test_a_graph_is_exported_whole_and_spreads_there_as_it_does_here(
    connection: Neo4jConnection, neo4j_server: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.write([("MATCH (n) DETACH DELETE n", {})])
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
