"""What tests and benchmarks of the export share: published versions as hashes, and a database as plain rows."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from polyhop.flows.export import Published
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.ports import GRAPH_KINDS, HeldRow
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.neo4j_server import BATCH_ROWS, Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jStore

_LABELS = "Document|Paragraph|Entity|Hub|HubPath"
Hashes = dict[str, dict[str, str]]
Snapshot = dict[str, list[tuple[str, str]]]


def published_hashes(settings: Settings, index: str) -> Hashes:
    """Hash by id of every row of the current version, by kind."""
    with Published(settings, index) as published:
        return {kind: published.hashes(kind) for kind in GRAPH_KINDS}


def changes(before: Hashes, after: Hashes) -> dict[str, int]:
    """Rows created, updated and deleted between two versions, all kinds together."""
    counts: Counter[str] = Counter(created=0, updated=0, deleted=0)
    for kind in GRAPH_KINDS:
        old, new = before[kind], after[kind]
        counts["created"] += len(new.keys() - old.keys())
        counts["deleted"] += len(old.keys() - new.keys())
        counts["updated"] += sum(old[key] != new[key] for key in old.keys() & new.keys())
    return dict(counts)


def snapshot(connection: Neo4jConnection, index: str) -> Snapshot:
    """Everything the database holds of an index, by kind, but the record of the export and the index's own name."""
    store = Neo4jStore(connection, index)
    return {kind: sorted((row.id, _shown(row)) for row in store.rows(kind, [1.0])) for kind in GRAPH_KINDS}


def mark_all(connection: Neo4jConnection, index: str) -> None:
    """Puts a mark on every node of an index and every relationship that leaves one; writing a row again wipes it."""
    for statement in (
        f"MATCH (n:{_LABELS} {{index: $index}}) SET n.marked = true",
        f"MATCH (:{_LABELS} {{index: $index}})-[r]->() SET r.marked = true",
    ):
        connection.write([(statement, {"index": index})])


def wipe_marks(connection: Neo4jConnection, index: str) -> int:
    """Takes the marks away and counts them."""
    values = {"index": index}
    nodes, edges = connection.write(
        [
            (f"MATCH (n:{_LABELS} {{index: $index, marked: true}}) REMOVE n.marked RETURN count(n) AS count", values),
            (
                f"MATCH (:{_LABELS} {{index: $index}})-[r]->() WHERE r.marked REMOVE r.marked RETURN count(r) AS count",
                values,
            ),
        ]
    )
    return int(nodes[0]["count"]) + int(edges[0]["count"])


def assert_whole_batches(connection: Neo4jConnection, index: str, wanted: Hashes) -> None:
    """Of a first export that was cut short, every kind is there completely or in whole batches."""
    store = Neo4jStore(connection, index)
    for kind in GRAPH_KINDS:
        count = len(store.hashes(kind))
        assert count == len(wanted[kind]) or count % BATCH_ROWS[kind] == 0, f"{count} {kind}"


def _shown(row: HeldRow) -> str:
    return json.dumps(asdict(row), sort_keys=True)


class KilledBefore(DirectRunner):
    """Ends before the step of that name, as a killed process would."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        if name == f"export {self._name}":
            raise KeyboardInterrupt
        return super().step(name, run)
