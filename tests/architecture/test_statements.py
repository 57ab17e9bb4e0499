"""Every SQL statement is named once, used somewhere and accepted by a real DuckDB."""

import re
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

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
from polyhop.warehouse.statements import SQL_FOLDER, statements
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
