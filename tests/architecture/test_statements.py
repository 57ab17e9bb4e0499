"""Every SQL and Cypher statement that is kept in a file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
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
from polyhop.tasks.hubs.stage import HUB_CANDIDATES, HUB_COVERAGE, HUB_PATHS, HUB_TEXTS
from polyhop.tasks.hubs.stage import HUBS_TABLE as HUBS
from polyhop.tasks.passages.records import PASSAGE_PARTS
from polyhop.warehouse.graph.neo4j_server import Neo4jConnection, entity_label, file_of
from polyhop.warehouse.queue.schema import SQL_FOLDER as QUEUE_FOLDER
from polyhop.warehouse.statements import (
    CYPHER_FOLDER,
    SQL_FOLDER,
    activation_query,
    cypher_statements,
    read_statements,
    statements,
)
from polyhop.warehouse.tables.connection import create_statement

PROJECT = Path(__file__).resolve().parents[2]
CACHE_FOLDER = PROJECT / "warehouse" / "cache" / "sql"
FOLDERS = (SQL_FOLDER, QUEUE_FOLDER, CACHE_FOLDER, CYPHER_FOLDER)
PATHS = [path for folder in FOLDERS for path in sorted(folder.glob("*.*"))]
FILES = sorted(path.stem for path in SQL_FOLDER.glob("*.sql"))
CYPHER_FILES = sorted(path.stem for path in CYPHER_FOLDER.glob("*.cypher"))
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for pattern in (
        "flows/**/*.py",
        "schemas/**/*.py",
        "tasks/**/*.py",
        "warehouse/**/*.py",
        "polyhop/server/*.py",
        "polyhop/*.py",
    )
    for path in PROJECT.glob(pattern)
)
INVARIANTS = {f"{name}_invariants" for name in ("entity", "graph", "hub", "hub_path", "passage", "text")}
RUN_AS_A_WHOLE = INVARIANTS | {"views"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_every_statement_is_used_is_named_once_and_says_what_it_is_for(path: Path) -> None:
    found = read_statements(path)
    assert re.findall(r"^(?:--|//) name: (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE) == list(found)
    kinds = [kind for kind in GRAPH_KINDS if path.suffix == ".cypher" and file_of(kind) == path.stem]
    of_kinds = {f"{verb}_{kind}" for kind in kinds for verb in ("stored", "read", "write", "delete")}
    assert of_kinds <= found.keys()
    of_queue = path.parent == QUEUE_FOLDER
    said = r"(-- locking: (skip|wait)\n)?-- [A-Z].*\.$" if of_queue else "(--|//) "
    assert [name for name, body in found.items() if not re.match(said, body, re.MULTILINE)] == []
    prefix = f"{path.stem}." if of_queue else ""
    made = {name for name in found if path.parent == CACHE_FOLDER and name.startswith("create_")}
    unused = [name for name in found.keys() - of_kinds - made if f'"{prefix}{name}"' not in SOURCES]
    assert unused == [] or path.stem in RUN_AS_A_WHOLE


def test_duckdb_accepts_every_statement(tmp_path: Path) -> None:
    connection = duckdb.connect()
    of_hubs = (HUBS, HUB_CANDIDATES, HUB_COVERAGE, HUB_PATHS, HUB_TEXTS)
    for table in (*TABLES, LOCATIONS, NODES, NODE_PASSAGES, TITLE_CHUNKS, *of_hubs):
        connection.execute(create_statement(table))
    connection.execute("CREATE VIEW things AS " + statements("vectors")["passages"])
    connection.execute("CREATE VIEW covered_nodes AS SELECT 0 AS n, true AS is_covered")
    connection.execute("CREATE VIEW covered_triples AS SELECT 0 AS predicate, true AS is_covered")
    connection.execute(
        "CREATE TEMP TABLE first_in_source AS SELECT '' AS origin, '' AS record_id, '' AS record_hash, ('', 0) AS place"
    )
    connection.execute(
        "CREATE TEMP TABLE found_chunks AS FROM title_chunks; CREATE VIEW chosen_things AS SELECT '' AS id"
    )
    connection.execute("CREATE VIEW found_values AS FROM metadata_values")
    for database in ("before", "published", "version_before"):
        connection.execute(f"ATTACH ':memory:' AS {database}")
        for name in ("passages", "entities", "aliases", "relations", "relation_sources", "embeddings"):
            connection.execute(f"CREATE TABLE {database}.{name} AS SELECT * FROM {name}")
    connection.execute(create_statement(CHANGES))
    connection.execute("CREATE TEMP TABLE refused AS SELECT * FROM quarantine")
    connection.execute("CREATE TEMP TABLE kept_refused AS SELECT * FROM quarantine")
    parts = _empty_parts(connection, tmp_path)
    _show_raw(connection, parts)
    lists = ("files", "ids", "keys", "types", "labels", "read", "passages", "gone")
    words = ("origin", "recipe", "lacking", "after", "field", "role", "reason", "model")
    values: dict[str, Any] = dict.fromkeys(words, "a") | {name: ["a"] for name in lists}
    values |= {"limit": 1, "offset": 0, "dimension": 3, "version": 1, "line": -1, "kind": "passage", "noun": "triple"}
    values |= {"id": "a", "key": "a", "most": 1, "name": "passages", "adds_triples": True, "is_after": True}
    for file in sorted(FILES, key=lambda file: file not in {"updates", "views"}):  # which other statements read
        for sql in statements(file).values():
            names = set(re.findall(r"\$(\w+)", sql))
            chosen = {n: parts[f"{file}.{n}"] if f"{file}.{n}" in parts else values[n] for n in names}
            body = re.sub(r"^(--[^\n]*\n)+", "", sql)
            if body.startswith(("SELECT", "INSERT", "WITH", "DELETE")):
                connection.execute("EXPLAIN " + sql, chosen)
            else:
                connection.execute(sql, chosen)


def _show_raw(connection: duckdb.DuckDBPyConnection, parts: dict[str, list[str]]) -> None:
    """The views of raw rows that resolution reads."""
    for name in ("mentions", "relations", "propositions", "triples"):
        for view in (f"all_{name}", f"differing_{name}", f"moved_{name}"):
            connection.execute(f"CREATE VIEW {view} AS FROM read_parquet({parts[f'resolve.{name}']})")
    for table in ("resolved_mentions", "keyed_mentions"):
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT *, key AS own_key FROM all_mentions")
    connection.execute("CREATE TEMP TABLE phrases AS SELECT key FROM all_mentions")
    connection.execute("CREATE TEMP VIEW placed_mentions AS FROM keyed_mentions")
    connection.execute("CREATE TEMP VIEW stated_relations AS FROM all_relations")
    ids = "'' AS relation_id, '' AS source_id, '' AS target_id"
    connection.execute(f"CREATE TEMP VIEW derived_relations AS SELECT *, {ids} FROM all_relations")
    for table in ("passages_before", "rows_now", "rows_before"):
        connection.execute(f"CREATE TEMP TABLE {table} AS FROM all_propositions")
    for view in (
        "stated",
        "naming",
        "all_statements",
        "differing_statements",
        "moved_statements",
        "adjacent_statements",
    ):
        connection.execute(f"CREATE TEMP VIEW {view} AS FROM all_propositions")


EMPTY: dict[pa.Schema, tuple[str, ...]] = {
    EXTRACTED.arrow: ("extract.extracted",),
    THINGS: ("vectors.things",),
    HUB_PATHS.arrow: ("hubs.paths",),
    NODE_PARTS.arrow: ("graph_source.nodes",),
    STATEMENT_PARTS.arrow: ("graph_source.statements",),
    ATTACHED_PARTS.arrow: ("graph_texts.attached",),
    PASSAGE_PARTS.arrow: ("graph_texts.passages", "sources.passages", "ingest.passages", "ingest_update.passages"),
    RECORD_PARTS: (
        *("sources.records", "sources.same", "changes.files", "changes.before", "changes.after"),
        *(f"ingest_update.{name}" for name in ("same", "before", "records", "all", "others", "kept", "mentioned")),
    ),
}
"""Columns of parts, and the parameters that name such parts."""
EMPTY_ROWS = {
    "SELECT ''::VARCHAR AS name, 0::BIGINT AS number LIMIT 0": ("extract.counts",),
    "SELECT ''::VARCHAR AS passage_id, ''::VARCHAR AS reason LIMIT 0": ("ingest.faults",),
    "SELECT 0::BIGINT AS good LIMIT 0": ("graph_source.lines",),
    "SELECT ''::VARCHAR AS id, ''::VARCHAR AS column_name LIMIT 0": ("updates.files",),
    "FROM extraction_ledger": ("extract.ledger",),
    "FROM quarantine": (
        *("graph_source.quarantine", "graph_texts.refused", "graph_texts.quarantine"),
        *("sources.quarantine", "sources.files", "ingest.quarantine", "ingest_update.quarantine"),
    ),
}


def _empty_parts(connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, list[str]]:
    """Empty parquet parts with the columns that each statement reads."""
    with_id = ", NULL::VARCHAR AS proposition_id"
    extra = {"relations": ", NULL::VARCHAR AS norm_relation", "propositions": with_id, "triples": with_id}
    rows = dict(EMPTY_ROWS)
    for number, (columns, names) in enumerate(EMPTY.items()):
        connection.register(f"empty_{number}", columns.empty_table())
        rows[f"FROM empty_{number}"] = names
    for table in (RAW_MENTIONS, RAW_RELATIONS, RAW_PROPOSITIONS, RAW_TRIPLES):
        name = table.name.removeprefix("raw_")
        connection.register(f"empty_{name}", table.arrow.empty_table())
        rows[f"SELECT *{extra.get(name, '')} FROM empty_{name}"] = (f"resolve.{name}", f"extract.{name}")
    parts: dict[str, list[str]] = {}
    for number, (query, names) in enumerate(rows.items()):
        path = str(folder / f"{number}.parquet")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        parts |= {name: [path] for name in names}
    return parts


NOT_EXPLAINED = {"activation"}  # its pieces are explained together
OPTIONS = {"dimensions": 2, "similarity_function": "cosine", "quantization.enabled": False}
VALUES: dict[str, Any] = (
    {"index": "towns", "name": "polyhop_towns", "label": "Entity_0", "folded": "", "vector_index": "none"}
    | {"options": {"indexConfig": {f"vector.{name}": value for name, value in OPTIONS.items()}}, "record": {}}
    | {name: [] for name in ("rows", "ids", "predicates", "names", "keys")}
    | {"probe": [1.0], "vector": [1.0], "seed_score": "question", "threshold": 0.01, "decay": 0.7}
    | dict.fromkeys(("seconds", "k_per_name", "k_fetch", "k_chains", "max_length", "max_paths"), 1)
    | {"is_gated": True, "needs_embedding": True, "is_per_edge": False}
)


@pytest.fixture(scope="module")
def connection(neo4j_server: Any) -> Iterator[Neo4jConnection]:
    opened = connect_to(neo4j_server)
    yield opened
    opened.close()


@pytest.mark.neo4j
@pytest.mark.parametrize("file", [file for file in CYPHER_FILES if file not in NOT_EXPLAINED])
def test_neo4j_accepts_every_statement(connection: Neo4jConnection, file: str) -> None:
    for text in cypher_statements(file).values():
        statement = text.replace("{label}", entity_label("towns"))
        names = re.findall(r"\$\(?(\w+)", statement)
        connection.alter("EXPLAIN " + statement, {name: VALUES[name] for name in names})


@pytest.mark.rare
@pytest.mark.neo4j
@pytest.mark.parametrize(("steps", "length"), [(0, 1), (1, 2), (3, 4), (4, 6)])
def test_neo4j_accepts_the_whole_query(connection: Neo4jConnection, steps: int, length: int) -> None:
    text = activation_query(steps, length)
    names = re.findall(r"\$(\w+)", text)
    connection.alter("EXPLAIN " + text, {name: VALUES[name] for name in names})
    assert text.count("UNWIND state AS st\n    RETURN") == steps
