"""Every SQL and Cypher statement that is kept in a file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from graph_fixture import connect_to

from polyhop.schemas.ports import GRAPH_KINDS
from polyhop.schemas.tables import CHANGES, LOCATIONS, NODE_PASSAGES, NODES, TABLES
from polyhop.tasks.corpus.stage import RECORD_PARTS
from polyhop.tasks.embeddings.stage import SCHEMA as THINGS
from polyhop.tasks.extraction.rows import RAW_MENTIONS, RAW_PROPOSITIONS, RAW_RELATIONS, RAW_TRIPLES
from polyhop.tasks.extraction.stage import EXTRACTED
from polyhop.tasks.graph.stage import TITLE_CHUNKS
from polyhop.tasks.graph_source.stage import ATTACHED_PARTS, NODE_PARTS, STATEMENT_PARTS
from polyhop.tasks.hubs.stage import HUB_CANDIDATES, HUB_PATHS, HUB_TEXTS
from polyhop.tasks.hubs.stage import HUBS_TABLE as HUBS
from polyhop.tasks.passages.records import PASSAGE_PARTS
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, entity_label, file_of
from polyhop.warehouse.statements import CYPHER_FOLDER, SQL_FOLDER, activation_query, cypher_statements, statements
from polyhop.warehouse.tables.connection import create_statement

PROJECT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in SQL_FOLDER.glob("*.sql"))
RUN_AS_A_WHOLE = {
    "entity_invariants",
    "graph_invariants",
    "hub_invariants",
    "hub_path_invariants",
    "passage_invariants",
    "text_invariants",
    "views",
}


@pytest.mark.parametrize("file", FILES)
def test_every_statement_is_used(file: str) -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("flows", "schemas", "tasks", "warehouse")
        for path in (PROJECT / folder).rglob("*.py")
    )
    unused = [name for name in statements(file) if file not in RUN_AS_A_WHOLE and f'"{name}"' not in sources]
    assert unused == []


@pytest.mark.parametrize("file", FILES)
def test_names_are_not_used_twice(file: str) -> None:
    text = (SQL_FOLDER / f"{file}.sql").read_text(encoding="utf-8")
    names = re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert names == list(statements(file))


def test_duckdb_accepts_every_statement(tmp_path: Path) -> None:
    connection = duckdb.connect()
    for table in (*TABLES, LOCATIONS, NODES, NODE_PASSAGES, TITLE_CHUNKS, HUBS, HUB_CANDIDATES, HUB_PATHS, HUB_TEXTS):
        connection.execute(create_statement(table))
    connection.execute("CREATE VIEW things AS " + statements("vectors")["passages"])
    connection.execute("CREATE VIEW covered_nodes AS SELECT 0 AS n, true AS is_covered")
    connection.execute("CREATE VIEW covered_triples AS SELECT 0 AS predicate, true AS is_covered")
    connection.execute(
        "CREATE TEMP TABLE first_in_source AS SELECT '' AS origin, '' AS record_id, '' AS record_hash, ('', 0) AS place"
    )
    connection.execute("CREATE TEMP TABLE found_chunks AS FROM title_chunks")
    connection.execute("CREATE VIEW found_values AS FROM metadata_values")
    connection.execute("ATTACH ':memory:' AS before")
    connection.execute("ATTACH ':memory:' AS published")
    for database in ("before", "published"):
        for name in ("passages", "entities", "aliases", "relations", "relation_sources"):
            connection.execute(f"CREATE TABLE {database}.{name} AS SELECT * FROM {name}")
    connection.execute(create_statement(CHANGES))
    connection.execute("CREATE TEMP TABLE refused AS SELECT * FROM quarantine")
    connection.execute("CREATE TEMP TABLE kept_refused AS SELECT * FROM quarantine")
    parts = _empty_parts(connection, tmp_path)
    _show_raw(connection, parts)
    values = {
        "kind": "passage",
        "limit": 1,
        "offset": 0,
        "ids": ["a"],
        "keys": ["a"],
        "types": ["a"],
        "labels": ["a"],
        "noun": "triple",
        "model": "m",
        "dimension": 3,
        "adds_triples": True,
        "origin": "corpus",
        "read": ["a"],
        "is_after": True,
        "version": 1,
        "passages": ["a"],
        "recipe": "r",
        "line": -1,
        "gone": ["a"],
        "database": "memory",
        "name": "passages",
        "lacking": "a",
        "after": "a",
        "field": "id",
        "role": "birth",
        "reason": "a",
    }
    for file in sorted(FILES, key="views".__ne__):  # which other statements read
        for name, sql in statements(file).items():
            names = set(re.findall(r"\$(\w+)", sql))
            chosen = {n: parts[f"{file}.{n}"] if f"{file}.{n}" in parts else values[n] for n in names}
            body = re.sub(r"^(--[^\n]*\n)+", "", sql)
            if body.startswith(("SELECT", "INSERT", "WITH", "DELETE")):
                connection.execute("EXPLAIN " + sql, chosen)
            else:
                connection.execute(sql, chosen)
            assert sql.startswith("-- "), f"{file}.{name} needs a line that says what it is for"


def _show_raw(connection: duckdb.DuckDBPyConnection, parts: dict[str, list[str]]) -> None:
    """The views of raw rows that resolution reads."""
    for name in ("mentions", "relations", "propositions", "triples"):
        for view in (f"all_{name}", f"{name}_before"):
            connection.execute(f"CREATE VIEW {view} AS FROM read_parquet({parts[f'resolve.{name}']})")
    for table in ("resolved_mentions", "placed_mentions"):
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT *, key AS own_key FROM all_mentions")
    for table in ("names_now", "names_before"):
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT key FROM all_mentions")
    connection.execute("CREATE TEMP TABLE stated_relations AS FROM all_relations")
    for table in ("stated", "naming", "stated_now", "differing"):
        connection.execute(f"CREATE TEMP TABLE {table} AS FROM all_propositions")


def _empty_parts(connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, list[str]]:
    """Empty parquet parts with the columns that each statement reads."""
    parts = {}
    with_id = ", NULL::VARCHAR AS proposition_id"
    extra = {"relations": ", NULL::VARCHAR AS norm_relation", "propositions": with_id, "triples": with_id}
    raw = (RAW_MENTIONS, RAW_RELATIONS, RAW_PROPOSITIONS, RAW_TRIPLES)
    for name, table in ((table.name.removeprefix("raw_"), table) for table in raw):
        path = folder / f"{name}.parquet"
        connection.register("empty", table.arrow.empty_table())
        connection.execute(f"COPY (SELECT *{extra.get(name, '')} FROM empty) TO '{path}' (FORMAT parquet)")
        parts[f"resolve.{name}"] = [str(path)]
        parts[f"extract.{name}"] = [str(path)]
    pq.write_table(EXTRACTED.arrow.empty_table(), folder / "extracted.parquet")
    parts["extract.extracted"] = [str(folder / "extracted.parquet")]
    aliases = folder / "aliases.parquet"
    connection.execute(
        f"COPY (SELECT ''::VARCHAR AS alias_key, ''::VARCHAR AS canonical LIMIT 0) TO '{aliases}' (FORMAT parquet)"
    )
    parts["resolve.title_aliases"] = [str(aliases)]
    passages = folder / "passages.parquet"
    pq.write_table(PASSAGE_PARTS.arrow.empty_table(), passages)
    ledger = folder / "ledger.parquet"
    connection.execute(f"COPY extraction_ledger TO '{ledger}' (FORMAT parquet)")
    counts = folder / "counts.parquet"
    connection.execute(f"COPY (SELECT ''::VARCHAR AS name, 0::BIGINT AS number LIMIT 0) TO '{counts}' (FORMAT parquet)")
    parts |= {"extract.ledger": [str(ledger)], "extract.counts": [str(counts)]}
    quarantine = folder / "quarantine.parquet"
    connection.execute(f"COPY quarantine TO '{quarantine}' (FORMAT parquet)")
    faults = folder / "faults.parquet"
    connection.execute(
        f"COPY (SELECT ''::VARCHAR AS passage_id, ''::VARCHAR AS reason LIMIT 0) TO '{faults}' (FORMAT parquet)"
    )
    parts |= {"ingest.faults": [str(faults)], "graph_source.quarantine": [str(quarantine)]}
    pq.write_table(THINGS.empty_table(), folder / "things.parquet")
    parts["vectors.things"] = [str(folder / "things.parquet")]
    pq.write_table(HUB_PATHS.arrow.empty_table(), folder / "hub_paths.parquet")
    parts["hubs.paths"] = [str(folder / "hub_paths.parquet")]
    for name, table in (("nodes", NODE_PARTS), ("statements", STATEMENT_PARTS)):
        pq.write_table(table.arrow.empty_table(), folder / f"{name}.parquet")
        parts[f"graph_source.{name}"] = [str(folder / f"{name}.parquet")]
    pq.write_table(ATTACHED_PARTS.arrow.empty_table(), folder / "attached.parquet")
    parts |= {"graph_texts.attached": [str(folder / "attached.parquet")], "graph_texts.refused": [str(quarantine)]}
    parts |= {"graph_texts.passages": [str(passages)], "graph_texts.quarantine": [str(quarantine)]}
    pq.write_table(RECORD_PARTS.empty_table(), folder / "records.parquet")
    parts |= {"sources.records": [str(folder / "records.parquet")], "sources.passages": [str(passages)]}
    parts |= {"sources.same": [str(folder / "records.parquet")], "changes.files": [str(folder / "records.parquet")]}
    parts |= {f"changes.{name}": [str(folder / "records.parquet")] for name in ("before", "after")}
    parts |= {"sources.quarantine": [str(quarantine)], "sources.files": [str(quarantine)]}
    lines = folder / "lines.parquet"
    connection.execute(f"COPY (SELECT 0::BIGINT AS good LIMIT 0) TO '{lines}' (FORMAT parquet)")
    parts["graph_source.lines"] = [str(lines)]
    return parts | {"ingest.passages": [str(passages)], "ingest.quarantine": [str(quarantine)]}


CYPHER_FILES = sorted(path.stem for path in CYPHER_FOLDER.glob("*.cypher"))
NOT_EXPLAINED = {"activation"}  # its pieces are explained together
VALUES: dict[str, Any] = {
    "index": "towns",
    "name": "polyhop_towns",
    "options": {
        "indexConfig": {
            "vector.dimensions": 2,
            "vector.similarity_function": "cosine",
            "vector.quantization.enabled": False,
        }
    },
    "seconds": 1,
    "record": {},
    "rows": [],
    "ids": [],
    "predicates": [],
    "label": "Entity_0",
    "probe": [1.0],
    "names": [],
    "keys": [],
    "folded": "",
    "vector": [1.0],
    "vector_index": "none",
    "seed_score": "question",
    "k_per_name": 1,
    "k_fetch": 1,
    "threshold": 0.01,
    "decay": 0.7,
    "is_gated": True,
    "needs_embedding": True,
    "is_per_edge": False,
    "k_chains": 1,
    "max_length": 4,
    "max_paths": 1,
}


@pytest.fixture(scope="module")
def connection(neo4j_server: Any) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.mark.parametrize("file", CYPHER_FILES)
def test_every_cypher_statement_is_used(file: str) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "warehouse").rglob("*.py"))
    of_kinds = {
        f"{verb}_{kind}"
        for kind in GRAPH_KINDS
        if file_of(kind) == file
        for verb in ("stored", "read", "write", "delete")
    }
    unused = [name for name in cypher_statements(file) if f'"{name}"' not in sources and name not in of_kinds]
    assert unused == []
    assert of_kinds <= cypher_statements(file).keys()


@pytest.mark.parametrize("file", CYPHER_FILES)
def test_cypher_names_are_not_used_twice_and_say_what_they_are_for(file: str) -> None:
    text = (CYPHER_FOLDER / f"{file}.cypher").read_text(encoding="utf-8")
    names = re.findall(r"^// name: (\w+)$", text, re.MULTILINE)
    assert names == list(cypher_statements(file))
    assert all(body.startswith("// ") for body in cypher_statements(file).values())


@pytest.mark.neo4j
@pytest.mark.parametrize("file", [file for file in CYPHER_FILES if file not in NOT_EXPLAINED])
def test_neo4j_accepts_every_statement(connection: Neo4jConnection, file: str) -> None:
    for text in cypher_statements(file).values():
        statement = text.replace("{label}", entity_label("towns"))
        names = re.findall(r"\$\(?(\w+)", statement)
        connection.alter("EXPLAIN " + statement, {name: VALUES[name] for name in names})


@pytest.mark.neo4j
@pytest.mark.parametrize(("steps", "length"), [(0, 1), (1, 2), (3, 4), (4, 6)])
def test_neo4j_accepts_the_whole_query(connection: Neo4jConnection, steps: int, length: int) -> None:
    text = activation_query(steps, length)
    names = re.findall(r"\$(\w+)", text)
    connection.alter("EXPLAIN " + text, {name: VALUES[name] for name in names})
    assert text.count("UNWIND state AS st\n    RETURN") == steps
