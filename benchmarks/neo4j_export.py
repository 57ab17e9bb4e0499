"""Seconds of an export of a made-up graph with hubs to Neo4j: at first, again, and after a tenth of it has changed.

Run: uv run python benchmarks/neo4j_export.py [ENTITIES] [RELATIONS]   (20000 and 50000; vectors of 384 dimensions)
Every twentieth entity is a hub with ten paths of two entities each.
Starts a server of its own (tests/support/neo4j_process.py), with a throwaway folder.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from graph_fixture import address_of
from neo4j_process import Neo4jServer

from polyhop.flows.export import MAKERS, ExportRow, compare, graph_row
from polyhop.schemas.ports import GraphKind
from polyhop.schemas.text import ID_LENGTH, content_hash, entity_id
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection
from polyhop.warehouse.graph.neo4j_store import Neo4jStore

DIMENSION = 384
INDEX = "benchmark"
HUB_EVERY, PATHS = 20, 10


def main() -> None:
    """Prints a Markdown table."""
    entity_count, relation_count = (int(text) for text in (*sys.argv[1:3], *("20000", "50000")[len(sys.argv) - 1 :]))
    random = np.random.default_rng(0)
    vectors = random.normal(size=(entity_count, DIMENSION)).astype(np.float32)
    ids = [entity_id(str(n)) for n in range(entity_count)]
    ends = random.integers(0, entity_count, (relation_count, 2))
    server = Neo4jServer(heap="1g")
    try:
        connection = Neo4jConnection(address_of(server.start()))
        store = Neo4jStore(connection, INDEX)
        store.prepare(has_hubs=True)
        store.claim()
        print(
            f"{describe_machine()}\nNeo4j {connection.version}, {entity_count:,} entities, {relation_count:,} relations"
        )
        print("\n| | entities s | vector index s | relations s | hubs s | written |\n|---|---|---|---|---|---|")
        for name, edition, share in (("first", 1, 1.0), ("again", 1, 0.0), ("a tenth changed", 2, 0.1)):
            entities = [_entity(key, edition if n < share * entity_count else 1, n) for n, key in enumerate(ids)]
            relations = [
                _relation(ids[s], ids[t], n, edition if n < share * relation_count else 1)
                for n, (s, t) in enumerate(ends)
                if s != t
            ]
            begun = time.perf_counter()
            written = _sync(store, "entities", entities, vectors)
            loaded = time.perf_counter()
            store.index_vectors(DIMENSION, is_new=share == 1.0)
            indexed = time.perf_counter()
            written += _sync(store, "relations", relations, vectors)
            related = time.perf_counter()
            written += sum(_sync(store, kind, rows, vectors) for kind, rows in _hubs(ids, edition, share).items())
            done = time.perf_counter()
            print(
                f"| {name} | {loaded - begun:.1f} | {indexed - loaded:.1f} | {related - indexed:.1f} | "
                f"{done - related:.1f} | {written:,} |",
                flush=True,
            )
        connection.close()
    finally:
        server.throw_away()


def _sync(store: Neo4jStore, kind: GraphKind, rows: list[ExportRow], vectors: np.ndarray) -> int:
    difference = compare({row.id: row.hash for row in rows}, store.hashes(kind))
    wanted = {*difference.missing, *difference.changed}
    chosen = [row for row in rows if row.id in wanted]
    store.write(kind, (graph_row(r, vectors[r.number].tolist() if r.number is not None else None) for r in chosen))
    return len(chosen)


def _entity(key: str, edition: int, number: int) -> ExportRow:
    text = f"Entity {number} of edition {edition}."
    return ExportRow(
        key, {"folded_key": str(number), "name": text, "description": text, "is_named": True}, "", "", number
    )


def _relation(source: str, target: str, number: int, edition: int) -> ExportRow:
    key = content_hash("relation", source, str(number), target)[:ID_LENGTH]
    return ExportRow(
        key, {"relation": f"relation {number % 50}", "count": edition, "provenance": ["p"]}, source, target
    )


def _hubs(ids: list[str], edition: int, share: float) -> dict[GraphKind, list[ExportRow]]:
    """Hubs, their paths and what joins them; the texts of a share of the hubs' paths are of the edition."""
    hubs, paths, steps = [], [], []
    for number in range(0, len(ids), HUB_EVERY):
        hub = {"hub_id": ids[number], "definition": "type", "index_level": 0, "path_count": PATHS, "left_out_count": 0}
        hubs.append({**hub, "graph_hash": "", "entity_id": ids[number]})
        for ordinal in range(PATHS):
            path = {"hub_id": ids[number], "path_hash": f"{number}.{ordinal}", "length": 2, "ordinal": ordinal}
            text = f"Path {ordinal} of edition {edition if number < share * len(ids) else 1}."
            paths.append({**path, "text": text, "textualiser": "template", "end_kind": "leaf"})
            for step in (1, 2):
                passed = ids[(number + ordinal * step + step) % len(ids)]
                steps.append({**path, "ordinal": step, "entity_id": passed, "relation": "relation"})
    made: dict[GraphKind, list[dict[str, Any]]] = {
        "hubs": hubs,
        "hub_paths": paths,
        "hub_entities": hubs,
        "paths_of_hubs": paths,
        "hub_path_entities": steps,
    }
    return {kind: [MAKERS[kind](row) for row in rows] for kind, rows in made.items()}


if __name__ == "__main__":
    main()
