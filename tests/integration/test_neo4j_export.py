"""Export to a real Neo4j: only the difference is written; verify finds and repairs what others did to it.

Kills, races and equality with a fresh export: tests/contract/test_graph_store.py, on the same server.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graph_fixture import address_of, changes, connect_to, mark_all, published_hashes, snapshot, wipe_marks
from neo4j_process import Neo4jServer

from polyhop.flows.export import ExportReport, run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import repair, run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError, StoreError, StoreUnavailableError
from polyhop.schemas.records import Address
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, entity_label, require_version
from polyhop.warehouse.graph.neo4j_store import Neo4jStore
from polyhop.warehouse.open import find_address

pytestmark = pytest.mark.neo4j
TOWNS = 24
EVIL = "Odd'}) DETACH DELETE (n) //`"


def records(numbers: range, edition: int = 1) -> list[dict[str, object]]:
    return [
        {
            "id": f"p{n:03d}",
            "title": EVIL if n == 0 else f"Town {n}",
            "text": f"Castle {n} stands near Lake {n % 5} in Norland. Edition {edition} says Bishop Odo built it.",
        }
        for n in numbers
    ]


class Corpus:
    """A root whose index is published from records, and exported."""

    def __init__(self, folder: Path, server: Neo4jServer) -> None:
        self._folder = folder
        self.settings = Settings(root=folder / "root", strategies=("bm25",))
        self.address = address_of(server)

    def publish(self, rows: list[dict[str, object]], index: str = "towns") -> int:
        path = self._folder / "corpus.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return run_index(self.settings, IndexRequest(index, path, replaces=True), DirectRunner()).version

    def export(self, index: str = "towns") -> ExportReport:
        return run_export(self.settings, index, self.address, DirectRunner())


@pytest.fixture(scope="module")
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, neo4j_server: Neo4jServer) -> Corpus:
    """An index of six towns, which no test changes."""
    made = Corpus(tmp_path_factory.mktemp("few"), neo4j_server)
    made.publish(records(range(6)))
    return made


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, neo4j_server: Neo4jServer) -> Corpus:
    """An index of all towns, which no test changes."""
    made = Corpus(tmp_path_factory.mktemp("many"), neo4j_server)
    made.publish(records(range(TOWNS)))
    return made


@pytest.fixture
def corpus(many: Corpus, tmp_path: Path, neo4j_server: Neo4jServer, connection: Neo4jConnection) -> Corpus:
    """An empty database, and a root of its own with the index of all towns."""
    connection.write([("MATCH (n) DETACH DELETE n", {})])
    shutil.copytree(many.settings.root, tmp_path / "root")
    return Corpus(tmp_path, neo4j_server)


def test_the_database_holds_what_the_tables_hold_and_an_export_again_writes_nothing(
    corpus: Corpus, connection: Neo4jConnection
) -> None:
    report = corpus.export()
    expected = {name: sorted(hashes) for name, hashes in published_hashes(corpus.settings, "towns").items()}
    held = snapshot(connection, "towns")
    assert {name: [row[0] for row in rows] for name, rows in held.items()} == expected
    assert report.created == sum(map(len, expected.values()))
    assert (report.version, report.updated, report.deleted) == (1, 0, 0)
    assert min(report.counts.values()) > 0
    found = connection.read(
        "MATCH (d:Document {index: 'towns', title: $title})-[:HAS_PARAGRAPH]->(p)-[m:MENTIONS]->(e:Entity) "
        "RETURN p.id AS id, min(m.tf) AS tf, count(e) > 0 AS mentions",
        {"title": EVIL},
    )
    assert found == [{"id": "p000", "tf": 1, "mentions": True}]
    record = Neo4jStore(connection, "towns").recorded()
    again = corpus.export()
    assert (again.created, again.updated, again.deleted) == (0, 0, 0)
    assert Neo4jStore(connection, "towns").recorded() == record


def test_the_delta_is_all_that_is_written(corpus: Corpus, connection: Neo4jConnection) -> None:
    corpus.export()
    before = published_hashes(corpus.settings, "towns")
    corpus.publish([*records(range(4), edition=2), *records(range(8, TOWNS + 6))])
    after = published_hashes(corpus.settings, "towns")
    mark_all(connection, "towns")
    report = corpus.export()
    wanted = changes(before, after)
    assert {"created": report.created, "updated": report.updated, "deleted": report.deleted} == wanted
    assert min(wanted.values()) > 0
    total = sum(map(len, after.values()))
    assert wipe_marks(connection, "towns") == total - wanted["created"] - wanted["updated"] > total / 2
    assert run_verify(corpus.settings, "towns", corpus.address).ok


def test_two_indexes_share_a_database_and_do_not_touch_each_other(corpus: Corpus, connection: Neo4jConnection) -> None:
    corpus.publish(records(range(6)), "other")
    corpus.export("towns")
    before = snapshot(connection, "towns")
    corpus.export("other")
    assert snapshot(connection, "towns") == before
    assert len(snapshot(connection, "other")["paragraphs"]) == 6
    corpus.publish(records(range(2)), "other")
    corpus.export("other")
    assert snapshot(connection, "towns") == before
    assert entity_label("towns") != entity_label("other")


DAMAGE = {
    "a property was changed": "MATCH (p:Paragraph {index: 'towns', id: 'p001'}) SET p.text = 'forged'",
    "a node is gone": "MATCH (e:Entity {index: 'towns'}) WITH e LIMIT 1 DETACH DELETE e",
    "a node is too many": "CREATE (:Document {index: 'towns', id: 'intruder', row_hash: 'x'})",
    "a relation is gone": "MATCH (:Entity {index: 'towns'})-[r:RELATES_TO]->() WITH r LIMIT 1 DELETE r",
    "a relation is there twice": "MATCH (s:Entity {index: 'towns'})-[r:RELATES_TO]->(t) WITH s, r, t LIMIT 1 "
    "CREATE (s)-[q:RELATES_TO]->(t) SET q = properties(r)",
    "a relation without id": "MATCH (s:Entity {index: 'towns'})-[r:RELATES_TO]->(t) WITH s, t LIMIT 1 "
    "CREATE (s)-[:RELATES_TO]->(t)",
    "a label is gone": f"MATCH (e:Entity {{index: 'towns'}}) WITH e LIMIT 1 REMOVE e:{entity_label('towns')}",
    "the record is gone": "MATCH (v:PolyhopIndex {name: 'towns'}) DELETE v",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_finds_damage_and_repairs_it(few: Corpus, connection: Neo4jConnection, damage: str) -> None:
    connection.write([("MATCH (n) DETACH DELETE n", {})])
    few.export()
    whole = snapshot(connection, "towns")
    assert run_verify(few.settings, "towns", few.address).ok
    connection.write([(DAMAGE[damage], {})])
    report = run_verify(few.settings, "towns", few.address)
    assert {name for name, found in report.differences.items() if found} == {"neo4j"}
    repair(few.settings, report, few.address)
    assert run_verify(few.settings, "towns", few.address).ok
    assert snapshot(connection, "towns") == whole


def test_nobody_at_the_address_is_said_in_one_sentence() -> None:
    for named_by in ("--uri", "--graph"):
        address = Address("bolt://127.0.0.1:1", "neo4j", "secret", named_by=named_by)
        with pytest.raises(
            StoreUnavailableError, match=rf"No Neo4j server answers at bolt://127\.0\.0\.1:1 .* check {named_by}\.$"
        ):
            Neo4jConnection(address)


def test_wrong_credentials_are_said_in_one_sentence(neo4j_server: Neo4jServer) -> None:
    with pytest.raises(ConfigurationError, match="refuses user 'neo4j'; check the user and NEO4J_PASSWORD") as caught:
        Neo4jConnection(Address(neo4j_server.uri, "neo4j", "wrong-secret"))
    assert "wrong-secret" not in str(caught.value)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'ftp://x' is not an address of a Neo4j server"):
        Neo4jConnection(Address("ftp://x", "neo4j", "secret"))


def test_an_unknown_database_is_refused(neo4j_server: Neo4jServer) -> None:
    with pytest.raises(ConfigurationError, match="has no database 'elsewhere'"):
        Neo4jConnection(Address(neo4j_server.uri, neo4j_server.user, neo4j_server.password, "elsewhere"))


@pytest.mark.parametrize("version", ["5.25.9", "4.4.0", "5.9"])
def test_an_old_server_is_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"is version {version}; Polyhop needs 5.26 or newer"):
        require_version(version, "bolt://old")


@pytest.mark.parametrize("version", ["5.26.0", "5.26.25", "2025.10.1"])
def test_a_new_server_will_do(version: str) -> None:
    require_version(version, "bolt://new")


def test_addresses_come_from_options_before_the_environment() -> None:
    environment = {"NEO4J_URI": "bolt://env", "NEO4J_USERNAME": "eve", "NEO4J_PASSWORD": "p"}
    assert find_address(None, None, None, None, environment) == Address("bolt://env", "eve", "p")
    assert find_address("bolt://x", "u", "q", "d", environment) == Address("bolt://x", "u", "q", "d")
    assert find_address(None, None, None, None, environment | {"NEO4J_USER": "bob"}).user == "bob"
    with pytest.raises(ConfigurationError, match="set NEO4J_PASSWORD"):
        find_address("bolt://x", None, None, None, {})
    with pytest.raises(ConfigurationError, match="set NEO4J_URI"):
        find_address(None, None, "p", None, {})


@pytest.mark.rare
def test_a_read_only_server_is_said_to_be_one(few: Corpus) -> None:
    server = Neo4jServer(heap="512m")
    try:
        server.start()
        server.stop()
        server.options = {"server.databases.read_only": "neo4j"}
        address = address_of(server.start())
        with pytest.raises(StoreError, match="is read-only; export to a server that accepts writes"):
            run_export(few.settings, "towns", address, DirectRunner())
    finally:
        server.throw_away()


def test_the_commands_keep_their_json(few: Corpus, neo4j_server: Neo4jServer, polyhop: Callable[..., Any]) -> None:
    environment = {
        "POLYHOP_ROOT": str(few.settings.root),
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_PASSWORD": neo4j_server.password,
    }
    exported = json.loads(polyhop("export", "neo4j", "--index", "towns", "--json", env=environment).stdout)
    assert {"created", "updated", "deleted", "version"} <= exported.keys()
    assert exported["version"] == 1
    assert exported["has_vectors"] is False
    checked = polyhop("verify", "--index", "towns", "--neo4j", "--json", env=environment)
    assert checked.returncode == 0
    stores = json.loads(checked.stdout)["stores"]
    names = ("tables", "arrays", "vectors", "older_versions", "caches", "neo4j")
    assert stores == {name: {"ok": True, "differences": []} for name in names}
    wrong = polyhop("export", "neo4j", "--index", "towns", env=environment | {"NEO4J_PASSWORD": "wrong"})
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("polyhop: Neo4j at ")
    assert len(wrong.stderr.splitlines()) == 1
