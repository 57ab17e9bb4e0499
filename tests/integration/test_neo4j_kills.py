"""An export killed at any moment, batches under way included, leaves what the next one completes.

By hand with more: POLYHOP_KILLS=25 uv run pytest -n 0 tests/integration/test_neo4j_kills.py
"""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_processes import Commands
from graph_fixture import address_of, assert_whole_batches, connect_to, published_hashes
from neo4j_process import Neo4jServer

from polyhop.flows.export import run_export
from polyhop.flows.index import run_index
from polyhop.flows.maintain import run_verify
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jStore

pytestmark = [pytest.mark.rare, pytest.mark.neo4j]
INDEX = "harbours"
PASSAGES = 400
KILLS = int(os.environ.get("POLYHOP_KILLS", "3"))
LAST = 0.6
"""Share of all rows after which a kill is due at the latest."""
COUNT = (
    "RETURN COUNT { (:Document|Paragraph|Entity {index: $index}) } "
    "+ COUNT { (:Document|Paragraph|Entity {index: $index})-->() } AS count"
)


def _publish(settings: Settings, folder: Path) -> None:
    path = folder / "corpus.jsonl"
    rows = [
        {
            "id": f"p{n:05d}",
            "title": f"Port {n}",
            "text": f"Port {n} lies on Bay {n % 97}. Captain Odo {n} sailed to Cape {n % 89} with Admiral {n % 61}.",
        }
        for n in range(PASSAGES)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run_index(settings, IndexRequest(INDEX, path), DirectRunner())


def _kill_one(
    commands: Commands, settings: Settings, server: Neo4jServer, connection: Neo4jConnection, total: int
) -> None:
    """Starts an export and kills it when it has written more rows than were there, up to a number left to chance."""
    epoch = _epoch(connection)
    held = _count(connection)
    wanted = random.randint(held, max(held, int(LAST * total)))
    variables = {"POLYHOP_ROOT": str(settings.root), "NEO4J_URI": server.uri, "NEO4J_PASSWORD": server.password}
    with Path(os.devnull).open("w") as nothing:
        process = commands.start(("export", "neo4j", "--index", INDEX), settings.root, variables, nothing)
    end = time.monotonic() + 120
    try:
        while _epoch(connection) == epoch or _count(connection) < wanted:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < end, "it wrote too little in 120 s"
            time.sleep(random.uniform(0, 0.05))
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL


def _epoch(connection: Neo4jConnection) -> int:
    """How many exports have begun."""
    rows = connection.read("MATCH (v:PolyhopIndex {name: $index}) RETURN v.epoch AS epoch", {"index": INDEX})
    return int(rows[0]["epoch"]) if rows else 0


def _count(connection: Neo4jConnection) -> int:
    return int(connection.read(COUNT, {"index": INDEX})[0]["count"])


@pytest.fixture
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


def test_an_export_process_killed_at_any_moment_and_run_again_ends_right(
    commands: Commands, tmp_path: Path, neo4j_server: Neo4jServer, connection: Neo4jConnection
) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("bm25",))
    _publish(settings, tmp_path)
    wanted = published_hashes(settings, INDEX)
    total = sum(map(len, wanted.values()))
    for _ in range(KILLS):
        _kill_one(commands, settings, neo4j_server, connection, total)
        assert Neo4jStore(connection, INDEX).recorded() is None
        assert_whole_batches(connection, INDEX, wanted)
    assert not run_verify(settings, INDEX, address_of(neo4j_server)).ok
    run_export(settings, INDEX, address_of(neo4j_server), DirectRunner())
    report = run_verify(settings, INDEX, address_of(neo4j_server))
    assert [found for found in report.differences.values() if found] == []
    assert Neo4jStore(connection, INDEX).recorded() is not None
