"""A real Neo4j: exports of the difference alone, killed ones too; vectors; graphs that are read from it.

Races, and equality with a fresh export: tests/contract/test_graph_store.py. POLYHOP_KILLS=25 kills more of them.
"""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import graph_fixture as graphs
import numpy as np
import pytest
from command_processes import Commands
from neo4j_process import Neo4jServer
from real_index import RealIndex
from small_indexes import wait_for

from polyhop.api import open_index
from polyhop.doctor import check_neo4j
from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair, run_verify
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, SourceError, StoreUnavailableError
from polyhop.schemas.graph import XSD, Description, GraphLine, Neo4jMapping, Statement, StatementNode
from polyhop.schemas.ports import HUB_KINDS
from polyhop.schemas.records import Address, BadRecord, GraphServer
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import GraphSettings, Settings
from polyhop.schemas.text import node_id
from polyhop.warehouse.artefacts import GRAPH, vectors_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, entity_label, require_version, vector_index
from polyhop.warehouse.graph.neo4j_store import Neo4jStore
from polyhop.warehouse.open import find_address, open_published, read_graph_server

pytestmark = pytest.mark.neo4j
TOWNS = 24
EVIL = "Odd'}) DETACH DELETE (n) //`"


def records(numbers: range, edition: int = 1) -> list[dict[str, object]]:
    text = f"Castle {{}} stands near Lake {{}} in Norland. Edition {edition} says Bishop Odo built it."
    titles = {n: f"Town {n}" if n else EVIL for n in numbers}
    return [{"id": f"p{n:03d}", "title": title, "text": text.format(n, n % 5)} for n, title in titles.items()]


def export(index: RealIndex, connection: Neo4jConnection) -> ExportReport:
    return run_export(index.settings, index.name, connection.address, DirectRunner())


@pytest.fixture(scope="module")
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    opened = graphs.connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.fixture
def emptied(connection: Neo4jConnection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neo4jConnection]:
    """The server, empty, whose user and password are in the environment."""
    monkeypatch.setenv("NEO4J_USER", connection.address.user)
    monkeypatch.setenv("NEO4J_PASSWORD", connection.address.password)
    connection.write([("MATCH (n) DETACH DELETE n", {})])
    yield connection
    connection.write([("MATCH (n) DETACH DELETE n", {})])


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    """An index of six towns with vectors of entities, which no test changes."""
    made = RealIndex(tmp_path_factory.mktemp("few"), "towns", strategies=("naive-vector",))
    made.read(records(range(6)))
    return made


def test_the_delta_is_all_that_is_written(tmp_path: Path, emptied: Neo4jConnection) -> None:
    towns = RealIndex(tmp_path, "towns")
    towns.read(records(range(TOWNS)))
    export(towns, emptied)
    found = emptied.read(
        "MATCH (d:Document {index: 'towns', title: $title})-[:HAS_PARAGRAPH]->(p)-[m:MENTIONS]->(e:Entity) "
        "RETURN p.id AS id, min(m.tf) AS tf, count(e) > 0 AS mentions",
        {"title": EVIL},
    )
    assert found == [{"id": "p000", "tf": 1, "mentions": True}]
    before = graphs.published_hashes(towns.settings, "towns")
    towns.read([*records(range(4), edition=2), *records(range(8, TOWNS + 6))], replaces=True)
    after = graphs.published_hashes(towns.settings, "towns")
    graphs.mark_all(emptied, "towns")
    report, wanted = export(towns, emptied), graphs.changes(before, after)
    assert {"created": report.created, "updated": report.updated, "deleted": report.deleted} == wanted
    assert min(wanted.values()) > 0
    total = sum(map(len, after.values()))
    assert graphs.wipe_marks(emptied, "towns") == total - wanted["created"] - wanted["updated"] > total / 2
    assert run_verify(towns.settings, "towns", emptied.address).ok


DAMAGE = {
    "a relation is there twice": "MATCH (s:Entity {index: 'towns'})-[r:RELATES_TO]->(t) WITH s, r, t LIMIT 1 "
    "CREATE (s)-[q:RELATES_TO]->(t) SET q = properties(r)",
    "a relation without id": "MATCH (s:Entity {index: 'towns'})-[r:RELATES_TO]->(t) WITH s, t LIMIT 1 "
    "CREATE (s)-[:RELATES_TO]->(t)",
    "a label is gone": f"MATCH (e:Entity {{index: 'towns'}}) WITH e LIMIT 1 REMOVE e:{entity_label('towns')}",
    "a vector is gone": "MATCH (e:Entity {index: 'towns'}) WHERE e.is_named WITH e LIMIT 1 REMOVE e.embedding",
    "a vector is another": "MATCH (e:Entity {index: 'towns'}) WHERE e.is_named WITH e LIMIT 1 "
    "SET e.embedding = [i IN range(1, 384) | 1]",
    "the vector index is gone": f"DROP INDEX {vector_index('towns')}",
}


def test_verify_finds_damage_and_repairs_it(few: RealIndex, emptied: Neo4jConnection) -> None:
    export(few, emptied)
    address, whole = emptied.address, graphs.snapshot(emptied, "towns")
    for damage, statement in DAMAGE.items():
        emptied.alter(statement)
        report = run_verify(few.settings, "towns", address)
        assert {name for name, found in report.differences.items() if found} == {"neo4j"}, damage
        repair(few.settings, report, address)
        assert run_verify(few.settings, "towns", address).ok, damage
        assert graphs.snapshot(emptied, "towns") == whole, damage


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        *(
            ({"uri": "bolt://127.0.0.1:1", "named_by": name}, StoreUnavailableError,
             rf"No Neo4j server answers at bolt://127\.0\.0\.1:1 .* check {name}\.$")
            for name in ("--uri", "--graph")
        ),
        ({"password": "wrong-secret"}, ConfigurationError, "refuses user 'neo4j'; check the user and NEO4J_PASSWORD"),
        ({"uri": "ftp://x"}, ConfigurationError, "'ftp://x' is not an address of a Neo4j server"),
        ({"database": "elsewhere"}, ConfigurationError, "has no database 'elsewhere'"),
    ],
    ids=["nobody --uri", "nobody --graph", "password", "no address", "database"],
)  # fmt: skip
def test_an_address_that_leads_nowhere_is_refused(neo4j_server: Any, changed: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        Neo4jConnection(replace(graphs.address_of(neo4j_server), **changed))
    assert "wrong-secret" not in str(caught.value)
    graphs.connect_to(neo4j_server).close()  # after three wrong passwords in a row Neo4j lets nobody in for a while


def test_an_old_server_is_refused_and_a_new_one_will_do() -> None:
    for older in ("5.25.9", "4.4.0", "5.9"):
        with pytest.raises(ConfigurationError, match=rf"is version {older}; Polyhop needs 5.26 or newer"):
            require_version(older, "bolt://old")
    for newer in ("5.26.0", "5.26.25", "2025.10.1"):
        require_version(newer, "bolt://new")


def test_addresses_come_from_options_before_the_environment() -> None:
    environment = {"NEO4J_URI": "bolt://env", "NEO4J_USERNAME": "eve", "NEO4J_PASSWORD": "p"}
    assert find_address(None, None, None, None, environment) == Address("bolt://env", "eve", "p")
    assert find_address("bolt://x", "u", "q", "d", environment) == Address("bolt://x", "u", "q", "d")
    assert find_address(None, None, None, None, environment | {"NEO4J_USER": "bob"}).user == "bob"
    with pytest.raises(ConfigurationError, match="set NEO4J_PASSWORD"):
        find_address("bolt://x", None, None, None, {})
    with pytest.raises(ConfigurationError, match="set NEO4J_URI"):
        find_address(None, None, "p", None, {})


def test_the_commands_keep_their_json(few: RealIndex, neo4j_server: Neo4jServer, polyhop: Callable[..., Any]) -> None:
    server = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    environment = server | {"POLYHOP_ROOT": str(few.root)}
    exported = json.loads(polyhop("export", "neo4j", "--index", "towns", "--json", env=environment).stdout)
    assert {"created", "updated", "deleted"} <= exported.keys()
    assert (exported["version"], exported["has_vectors"]) == (1, True)
    checked = polyhop("verify", "--index", "towns", "--neo4j", "--json", env=environment)
    assert checked.returncode == 0
    names = ("tables", "arrays", "vectors", "older_versions", "caches", "neo4j")
    assert json.loads(checked.stdout)["stores"] == {name: {"ok": True, "differences": []} for name in names}
    wrong = polyhop("export", "neo4j", "--index", "towns", env=environment | {"NEO4J_PASSWORD": "wrong"})
    assert (wrong.returncode, wrong.stderr[:18], wrong.stderr.count("\n")) == (2, "polyhop: Neo4j at ", 1)


def test_a_server_says_its_version_and_edition(neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    said = check_neo4j(Settings())
    assert "community edition" in said
    assert said.endswith(" indexes of Polyhop online")


HARBOURS = "harbours"
PASSAGES = 400
KILLS = int(os.environ.get("POLYHOP_KILLS", "3"))
LAST = 0.6
"""Share of all rows after which a kill is due at the latest."""


EPOCH = "MATCH (v:PolyhopIndex {name: $index}) RETURN v.epoch AS n"
COUNT = (
    "RETURN COUNT { (:Document|Paragraph|Entity {index: $index}) } "
    "+ COUNT { (:Document|Paragraph|Entity {index: $index})-->() } AS n"
)


def _kill_one(commands: Commands, settings: Settings, server: Any, connection: Neo4jConnection, total: int) -> None:
    """Starts an export and kills it when it has written more rows than were there, up to a number left to chance."""

    def at(query: str) -> int:
        return next((int(row["n"]) for row in connection.read(query, {"index": HARBOURS})), 0)

    epoch, held = at(EPOCH), at(COUNT)
    wanted = random.randint(held, max(held, int(LAST * total)))
    variables = {"POLYHOP_ROOT": str(settings.root), "NEO4J_URI": server.uri, "NEO4J_PASSWORD": server.password}
    with Path(os.devnull).open("w") as nothing:
        process = commands.start(("export", "neo4j", "--index", HARBOURS), settings.root, variables, nothing)
    try:
        wait_for(lambda: process.poll() is not None or (at(EPOCH) != epoch and at(COUNT) >= wanted), 120)
        assert process.poll() is None, "it ended before it was killed"
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL


@pytest.mark.rare
def test_an_export_process_killed_at_any_moment_and_run_again_ends_right(
    commands: Commands, tmp_path: Path, neo4j_server: Neo4jServer, connection: Neo4jConnection
) -> None:
    harbours = RealIndex(tmp_path, HARBOURS)
    settings, address = harbours.settings, connection.address
    text = "Port {0} lies on Bay {1}. Captain Odo {0} sailed to Cape {2} with Admiral {3}."
    rows = [
        {"id": f"p{n:05d}", "title": f"Port {n}", "text": text.format(n, n % 97, n % 89, n % 61)}
        for n in range(PASSAGES)
    ]
    harbours.read(rows)
    wanted = graphs.published_hashes(settings, HARBOURS)
    for _ in range(KILLS):
        _kill_one(commands, settings, neo4j_server, connection, sum(map(len, wanted.values())))
        assert Neo4jStore(connection, HARBOURS).recorded() is None
        graphs.assert_whole_batches(connection, HARBOURS, wanted)
    assert not run_verify(settings, HARBOURS, address).ok
    export(harbours, connection)
    report = run_verify(settings, HARBOURS, address)
    assert [found for found in report.differences.values() if found] == []
    assert Neo4jStore(connection, HARBOURS).recorded() is not None


def test_named_entities_have_searchable_vectors(few: RealIndex, tmp_path: Path, emptied: Neo4jConnection) -> None:
    without = RealIndex(tmp_path, "without")
    without.read(records(range(3)))
    for index in (few, without):
        export(index, emptied)
    rows = emptied.read(
        "MATCH (e:Entity {index: 'towns'}) WHERE e.is_named RETURN e.folded_key AS key, e.embedding AS v ORDER BY key"
    )
    published = open_published(few.settings.root, "towns")
    assert [row["key"] for row in rows] == list(published.artefact(GRAPH).keys)
    vectors = np.asarray(published.artefact(vectors_of("entity")))
    published.close()
    assert np.array([row["v"] for row in rows]) == pytest.approx(vectors, abs=1e-6)
    assert emptied.read("MATCH (e:Entity {index: 'without'}) WHERE e.embedding IS NOT NULL RETURN e") == []
    found = emptied.read(
        "CALL db.index.vector.queryNodes($name, 50, $vector) YIELD node, score RETURN node.index AS index, score",
        {"name": vector_index("towns"), "vector": vectors[0].tolist()},
    )
    assert {row["index"] for row in found} == {"towns"}
    assert max(row["score"] for row in found) == pytest.approx(1.0, abs=1e-5)


PEOPLE = """
CREATE (ada:Person:Writer {id: 'p1', name: 'Ada', born: date('1815-12-10'), tall: 1.65, noble: true})
SET ada.papers = ['A', 'B']
CREATE (bob:Person {id: 2, title: 'Bob', vector: [x IN range(1, 20) | x * 0.5], at: point({x: 1.0, y: 2.0}), sons: 8})
CREATE (bare {kind: ['Ghost', 'Shade'], seen: datetime('1840-01-01T10:00:00Z'), lived: duration('P36Y')})
CREATE (ada)-[:KNOWS {since: 1833, as: 'is a friend of'}]->(bob), (ada)-[:KNOWS]->(ada), (bare)-[:HAUNTS]->(bob)
"""
MAPPING = Neo4jMapping(("id", "uri"), ("name", "title"), (), ())


def read(connection: Neo4jConnection, mapping: Neo4jMapping = MAPPING) -> list[GraphLine | BadRecord]:
    return list(read_graph_server(GraphServer(connection.address.uri), mapping))


def test_nodes_properties_and_relationships_are_read(emptied: Neo4jConnection) -> None:
    emptied.write([(PEOPLE, {})])
    found = read(emptied)
    (element,) = (row["id"] for row in emptied.read("MATCH (n) WHERE n.seen IS NOT NULL RETURN elementId(n) AS id"))
    assert {line.node for line in found if isinstance(line, Description)} == {
        StatementNode("p1", "Ada", ("Person", "Writer"), is_literal=False),
        StatementNode("2", "Bob", ("Person",), is_literal=False),
        StatementNode(element, "", (), is_literal=False),
    }
    stated = [(line.subject.id, line.predicate, line.object) for line in found if isinstance(line, Statement)]
    ends = {(own_id, predicate, value.id) for own_id, predicate, value in stated if not value.is_literal}
    assert ends == {("p1", "KNOWS", "2"), ("p1", "KNOWS", "p1"), (element, "HAUNTS", "2")}
    literals = [(own_id, name, value) for own_id, name, value in stated if value.is_literal]
    wkt = "http://www.opengis.net/ont/geosparql#wktLiteral"
    assert {(own_id, name, value.name, value.datatype.removeprefix(XSD)) for own_id, name, value in literals} == {
        ("p1", "born", "1815-12-10", "date"),
        ("p1", "tall", "1.65", "double"),
        ("p1", "noble", "true", "boolean"),
        *(("p1", "papers", paper, "") for paper in "AB"),
        ("2", "at", "POINT(1.0 2.0)", wkt),
        ("2", "sons", "8", "integer"),
        *((element, "kind", kind, "") for kind in ("Ghost", "Shade")),
        (element, "seen", "1840-01-01T10:00:00.000000000+00:00", "dateTime"),
        (element, "lived", "P36Y", "duration"),
    }


def test_properties_mean_what_the_settings_say_and_an_odd_node_is_set_aside(emptied: Neo4jConnection) -> None:
    emptied.write([(PEOPLE, {}), ("CREATE (:Odd {id: 'o', name: 'a' + $control})", {"control": "\x01"})])
    found = read(emptied, Neo4jMapping(("name",), ("id",), ("kind",), ("none", "as")))
    described = [line.node for line in found if isinstance(line, Description)]
    assert {(one.id, one.name) for one in described if not one.types} >= {("Ada", "p1")}
    assert [one.types for one in described if one.types] == [("Ghost", "Shade")]
    stated = [line for line in found if isinstance(line, Statement)]
    assert {line.predicate for line in stated if not line.object.is_literal} == {"is a friend of", "KNOWS", "HAUNTS"}
    assert not {line.predicate for line in stated} & {"kind", "since"}
    bad = [(line.source, line.reason) for line in found if isinstance(line, BadRecord)]
    assert bad == [(emptied.address.uri, "the id contains a control character (U+0001)")]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE (:A {id: 1}), (:B {id: '1'})", "2 nodes at .* have the id '1' .*; set graph.neo4j_ids to properties"),
        ("MATCH (n) DETACH DELETE n", "holds no node in database 'neo4j'; check NEO4J_DATABASE"),
    ],
)
def test_an_unusable_database_is_refused_in_one_sentence(emptied: Neo4jConnection, statement: str, said: str) -> None:
    emptied.write([(statement, {})])
    with pytest.raises(SourceError, match=said):
        read(emptied)


def test_a_wrong_password_and_a_missing_one_are_said(emptied: Neo4jConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "mistaken")
    with pytest.raises(ConfigurationError, match=r"refuses user 'neo4j'; check NEO4J_USER and NEO4J_PASSWORD"):
        read(emptied)
    monkeypatch.delenv("NEO4J_PASSWORD")
    with pytest.raises(ConfigurationError, match=r"Neo4j needs a password; set NEO4J_PASSWORD\.$"):
        read(emptied)
    Neo4jConnection(emptied.address).close()  # as above


def indexed(settings: Settings, connection: Neo4jConnection) -> IndexReport:
    request = IndexRequest("people", GraphServer(connection.address.uri), kind="graph")
    return run_index(settings, request, DirectRunner())


def test_a_database_is_indexed_again_when_it_changes_other_than_by_us(emptied: Neo4jConnection, tmp_path: Path) -> None:
    emptied.write([(PEOPLE.replace("CREATE (bare {", "CREATE (bare {uri: 'x:bare', "), {})])
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",))
    first = indexed(settings, emptied)
    assert (first.version, first.counts["relations"], first.counts["entities"]) == (1, 14, 14)
    assert run_export(settings, "people", emptied.address, DirectRunner()).created > 0
    assert indexed(settings, emptied).changed is False
    emptied.write([("MATCH (n {id: 'p1'}) SET n.name = 'Ada Lovelace'", {})])
    assert indexed(settings, emptied).version == 2
    assert run_verify(settings, "people").ok
    folder = Layout(settings.root).index("people")
    manifest = folder.version(2).path / "manifest.json"
    assert json.loads(manifest.read_text())["source"] == emptied.address.uri
    password = emptied.address.password
    held = [path for path in settings.root.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert held == []


def test_a_graph_of_many_pages_is_streamed(emptied: Neo4jConnection, tmp_path: Path) -> None:
    emptied.write([("UNWIND range(1, 6000) AS n CREATE (:Town {id: n, name: 'Town ' + n})", {})])
    emptied.alter("CREATE INDEX town_ids IF NOT EXISTS FOR (n:Town) ON (n.id)")
    emptied.alter("CALL db.awaitIndexes(60)")
    ring = "UNWIND range(1, 6000) AS n MATCH (a:Town {id: n}), (b:Town {id: n % 6000 + 1}) CREATE (a)-[:NEXT]->(b)"
    emptied.write([(ring, {})])
    settings = Settings(root=tmp_path / "root", strategies=("graph-search",), graph=GraphSettings(neo4j_ids="id"))
    report = indexed(settings, emptied)
    emptied.alter("DROP INDEX town_ids")
    assert (report.counts["entities"], report.counts["relations"]) == (6000, 6000)


RING = 12


def triples() -> list[Any]:
    """Towns in a ring, each its own neighbour too, with a year; every third has the same name."""
    towns = [{"id": f"t{n}", "name": "Newtown" if n % 3 == 0 else f"Town {n}", "types": ["Town"]} for n in range(RING)]
    ring = [
        {"subject": towns[n], "predicate": predicate, "object": towns[(n + step) % RING]}
        for n in range(RING)
        for predicate, step in (("next to", 1), ("near", 0), ("road to", 5))
    ]
    return [*ring, *({"subject": towns[n], "predicate": "founded", "object": 1800 + n} for n in range(RING))]


def test_graphs_spread_there_as_here(emptied: Neo4jConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    towns = RealIndex(tmp_path, "towns", strategies=("qasa",))
    towns.read(triples(), kind="graph")
    assert export(towns, emptied).created == 6 * RING
    loops = emptied.read("MATCH (e:Entity {index: 'towns'})-[r:RELATES_TO]->(e) RETURN count(r) AS count", {})
    assert loops == [{"count": RING}]

    monkeypatch.setenv("NEO4J_URI", emptied.address.uri)
    question, thin = "Which road leads from Newtown to Town 7?", {"engine": "neo4j", "thin_client": True}
    with open_index("towns", settings=towns.settings) as index:
        ways: tuple[dict[str, object], ...] = ({}, {"engine": "neo4j"}, thin)
        here, there, thinly = (index.ask(question, strategy="qasa", parameters=way) for way in ways)
        for rows, number in (("nodes", "weight"), ("paths", "score"), ("seeds", "weight")):
            for other in (there, thinly):
                locally, remotely = here.evidence[rows], other.evidence[rows]
                assert [row | {number: 0} for row in locally] == [row | {number: 0} for row in remotely]
                sums = [row[number] for row in remotely]  # of cosines, which Neo4j computes in float32
                assert [row[number] for row in locally] == pytest.approx(sums, abs=graphs.TOLERANCE)
        assert len(here.evidence["nodes"]) == RING
        # what only the server knows: no entity is called Newtown any more, and all are described otherwise
        altered = "MATCH (e:Entity {index: 'towns'}) SET e.description = 'As served.', e.key = 'other ' + e.key"
        emptied.write([(altered, {})])
        there, thinly = (index.ask(question, strategy="qasa", parameters=p) for p in ({"engine": "neo4j"}, thin))
        described = [{node["description"] for node in one.evidence["nodes"]} for one in (there, thinly)]
        assert described == [{node["description"] for node in here.evidence["nodes"]}, {"As served."}]
        by_name = [[seed["match"] for seed in one.evidence["seeds"]].count("exact") for one in (there, thinly)]
        assert by_name == [RING // 3 + 1, 1]  # Newtown by its key, Town 7 by the folded one


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


STAFF = [("P1", "author", "Ada"), ("Ada", "works at", "Uni Y"), ("Uni Y", "employs", "Ada")]
PAPERS = [*STAFF, ("P1", "cites", "P2"), ("P2", "year", 2024), ("P3", "year", 1999)]


@pytest.mark.rare
def test_hubs_and_their_paths_are_found_by_cypher(emptied: Neo4jConnection, tmp_path: Path) -> None:
    papers = RealIndex(tmp_path, "papers", strategies=("hublink",), hubs={"types": ("Paper",), "start": ("P1",)})

    def node(name: object) -> object:
        is_paper = str(name).startswith("P")
        return {"id": name, "name": name, "types": ["Paper"] * is_paper} if isinstance(name, str) else name

    rows = [{"subject": node(one), "predicate": predicate, "object": node(other)} for one, predicate, other in PAPERS]
    papers.read(rows, kind="graph")
    report = export(papers, emptied)
    ada_twice = [["author", "Ada"], ["works at", "Uni Y"], ["employs", "Ada"]]
    assert [tuple(row.values()) for row in emptied.read(PATHS, {"index": "papers"})] == [
        ("P1", 2, 1, "hub", "P1 cites P2.", [["cites", "P2"]]),
        ("P1", 2, 3, "revisit", "P1 author Ada; Ada works at Uni Y; Uni Y employs Ada.", ada_twice),
        ("P2", 1, 1, "leaf", "P2 year 2024.", [["year", "2024"]]),
    ]
    (candidate,) = emptied.read(CANDIDATES, {"index": "papers"})
    assert candidate == {"hub": node_id("P1"), "name": "P2", "kind": "hub", "text": "P1 cites P2."}
    lost = emptied.read("MATCH (h:Hub {index: 'papers', id: $id}) RETURN properties(h) AS hub", {"id": node_id("P3")})
    assert (lost[0]["hub"]["path_count"], "index_level" in lost[0]["hub"]) == (0, False)
    assert [report.counts[kind] for kind in HUB_KINDS] == [3, 3, 3, 3, 5, 1]
    assert run_verify(papers.settings, "papers", emptied.address).ok
