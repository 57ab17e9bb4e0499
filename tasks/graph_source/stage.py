"""A knowledge graph to entities, relations and quarantine, instead of ingestion, extraction and resolution.

It always reads the whole graph, because only that shows whether anything changed; memory does not grow with it, but
for Turtle. Relations have no sources and entities no mentions; passages are texts that were attached to nodes.

* Every node that has a relation is an entity; its id comes from the node's own, so that equal names stay different
  entities. Labels and types of RDF describe nodes and are no relations.
* A key is the folded name if no other node has that name; otherwise it is the folded name, ` #` and the node's own id.
  A name that several nodes share leads to all of them in the spelling of their `norm_name`, and nowhere in any other.
* Literals are entities without a proper name: they take no part in the arrays of names and have no vectors.

Source: algorithms.md 4.2, 4.3, 7.5; decisions/0016-rdf-and-neo4j-graphs.md.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.errors import SourceError
from polyhop.schemas.graph import Description, GraphLine, Neo4jMapping, StatementNode, name_without_label
from polyhop.schemas.names import name_tokens
from polyhop.schemas.records import BadRecord, GraphServer, Source, SourceRecord
from polyhop.schemas.tables import (
    DOCUMENTS,
    ENTITIES,
    NODE_PASSAGES,
    NODES,
    PASSAGES,
    QUARANTINE,
    RECORD_TABLES,
    RELATIONS,
    Column,
    Table,
    count,
    text_column,
)
from polyhop.schemas.text import content_hash, literal_id, names_in, node_id, norm_ws, record_id
from polyhop.tasks.passages.records import (
    Chunk,
    check_share,
    chunks,
    content_of_passages,
    fill_records,
    metadata_json,
    passages_table,
    quarantine_table,
    table_of_rows,
)
from polyhop.tasks.stage import BatchResult, Counts, SourceStage
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.files.corpora import read_graph_sources
from polyhop.warehouse.files.graph_files import read_graph
from polyhop.warehouse.open import read_graph_server, read_sparql
from polyhop.warehouse.statements import statement, statements

NODE_PARTS = Table(
    "node_parts",
    "Nodes as statements describe them: a row for each different description.",
    ("entity_id", "name", "types", "is_literal", "datatype"),
    (
        Column("entity_id", pa.string(), "sha256-derived from the node's own id, or from a literal's whole statement"),
        Column("node_id", pa.string(), "the node's own id, NULL for a literal without one", nullable=True),
        Column("name", pa.string(), "its name; where the statements give none its own id, or the last part of an IRI"),
        Column("folded", pa.string(), "words of the name, folded (polyhop.schemas.names.name_tokens)"),
        Column("norm_name", pa.string(), "name, NFC, lower case, runs of whitespace collapsed"),
        Column("types", pa.list_(pa.string()), "names of its types, in the statements' order"),
        Column("is_literal", pa.bool_(), "whether it is a value, NULL if the statements do not say so", nullable=True),
        Column("datatype", pa.string(), "of a literal, NULL if not stated", nullable=True),
        Column("language", pa.string(), "of a literal, NULL if not stated", nullable=True),
        Column("preference", pa.string(), "of several names the one with the smallest counts"),
        Column("uses", pa.int64(), "statements that give it this name, 0 if none gives one"),
    ),
)
STATEMENT_PARTS = Table(
    "statement_parts",
    "Statements: a row for each different triple.",
    ("source_id", "relation", "target_id"),
    (
        Column("source_id", pa.string(), "entity id of the subject"),
        Column("target_id", pa.string(), "entity id of the object"),
        Column("relation", pa.string(), "the predicate"),
        Column("norm_relation", pa.string(), "predicate, NFC, lower case, runs of whitespace collapsed"),
        Column("uses", pa.int64(), "statements of this triple"),
    ),
)


def statement_tables(lines: Iterable[GraphLine]) -> dict[str, pa.Table]:
    """Tables `nodes` and `statements` with the columns of NODE_PARTS and STATEMENT_PARTS; their order says nothing.

    Cost: O(lines) time; memory O(different nodes and triples).
    """
    nodes: Counter[tuple[str, StatementNode, str]] = Counter()
    triples: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        if isinstance(line, Description):
            nodes[node_id(line.node.id), line.node, line.preference] += 1
            continue
        value = line.object
        # a datatype never begins with @, and a value with a language has no other datatype
        kind = f"@{value.language.lower()}" if value.language else value.datatype
        literal = "" if value.id else literal_id(line.subject.id, line.predicate, kind, value.name)
        source_id, target_id = node_id(line.subject.id), literal or node_id(value.id)
        nodes[source_id, line.subject, ""] += 1
        nodes[target_id, line.object, ""] += 1
        triples[source_id, target_id, line.predicate] += 1
    rows = [_node_row(*key, count) for key, count in nodes.items()]
    normalised = {predicate: norm_ws(predicate) for _, _, predicate in triples}
    columns = {
        "source_id": [source_id for source_id, _, _ in triples],
        "target_id": [target_id for _, target_id, _ in triples],
        "relation": [predicate for _, _, predicate in triples],
        "norm_relation": [normalised[predicate] for _, _, predicate in triples],
        "uses": list(triples.values()),
    }
    stated = pa.Table.from_pydict(columns, schema=STATEMENT_PARTS.arrow)
    return {"nodes": table_of_rows(NODE_PARTS.arrow, rows), "statements": stated}


def _node_row(entity_id: str, node: StatementNode, preference: str, count: int) -> dict[str, object]:
    """A row of NODE_PARTS; uses without a label do not count for its name."""
    has_label = bool(node.name.strip())
    name = node.name if has_label else name_without_label(node.id)
    return {
        "entity_id": entity_id,
        "node_id": node.id or None,
        "name": name,
        "folded": " ".join(name_tokens(name)),
        "norm_name": norm_ws(name),
        "types": list(node.types),
        "is_literal": node.is_literal,
        "datatype": node.datatype or None,
        "language": node.language or None,
        "preference": preference,
        "uses": count if has_label else 0,
    }


_EXCERPT = 200  # characters, as the column `excerpt` of the quarantine says (schemas/tables.py)

ATTACHED_PARTS = Table(
    "attached_parts",
    "Rows of texts for nodes: every row that was read.",
    ("source", "line"),
    (
        text_column("node_id", "id that the row names, which the graph may not have"),
        text_column("record_id", "made of title and text"),
        text_column("source", "file"),
        count("line", "line or record number from 1"),
        text_column("metadata_json", "the row's metadata, as JSON with sorted keys"),
        text_column("excerpt", "beginning of the text"),
    ),
)

_PARTS = ("passages", "attached", "refused")
_FILLED_TEXTS = (
    ("attached_rows", ("attached",)),
    ("refused_rows", ("attached", "refused")),
    ("first_attached", ("passages",)),
)


def write_text_parts(build: Build, folder: Path) -> int:
    """Reads the texts, if there are any, and writes their parts; returns how many rows were read."""
    rows = read_graph_sources(build.graph_sources) if build.graph_sources is not None else iter(())
    read = 0
    attached: list[dict[str, object]] = []
    nothing: Chunk = [], [], 0  # one part at least
    for number, (pieces, bad, seen) in enumerate(chain(chunks(build, _without_node(rows, attached)), [nothing])):
        of_nodes = pa.Table.from_pylist(attached, schema=ATTACHED_PARTS.arrow)
        tables = dict(zip(_PARTS, (passages_table(pieces), of_nodes, quarantine_table(bad)), strict=True))
        write_part(folder, number, tables, is_complete=False)
        attached.clear()
        read += seen
    return read


def _without_node(
    rows: Iterable[SourceRecord | BadRecord], attached: list[dict[str, object]]
) -> Iterator[SourceRecord | BadRecord]:
    """The rows as records with their own ids; which node each belongs to is added to `attached`."""
    for row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        own_id = record_id(row.title, row.text)
        said = {"metadata_json": metadata_json(row.metadata), "excerpt": row.text[:_EXCERPT]}
        attached.append({"node_id": row.id, "record_id": own_id, "source": row.source, "line": row.line, **said})
        yield replace(row, id=own_id)


def fill_texts(build: Build, folder: Path, connection: duckdb.DuckDBPyConnection) -> Counts:
    """Fills documents, passages and their links to nodes, which are in their tables; notes the refused rows."""
    parts = {name: part_files(folder, name) for name in _PARTS}
    for name, read in _FILLED_TEXTS:
        connection.execute(statement("graph_texts", name), {part: parts[part] for part in read})
    for name in ("fill_passages", "fill_documents"):
        connection.execute(statement("ingest", name), {"passages": parts["passages"]})
    fill_records(connection, {"passages": parts["passages"]})
    connection.execute(statement("graph_texts", "fill_node_passages"))
    good, bad = connection.execute(statement("graph_texts", "count_rows")).fetchone() or (0, 0)
    refused = connection.execute(statement("graph_texts", "some_refused")).fetchall()
    check_share(build, good, bad, refused, source=build.graph_sources)
    documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    return {"texts": good, "documents": documents, "passages": passages} if build.graph_sources is not None else {}


NAME = "ingest-graph"
LINES_PER_PART = 50_000
"""Chosen: a part takes some 60 MB while it is put together, and a million statements make 20 files."""

_FILLED = (
    ("fill_relations", "statements"),
    ("names_of_nodes", "nodes"),
    ("types_of_nodes", "nodes"),
    ("described_nodes", "nodes"),
    ("fill_entities", ""),
    ("fill_nodes", ""),
)
"""The statements of graph_source.sql in the order that they run, and the parts that each reads."""


def parts_folder(build: Build) -> Path:
    """Folder of the graph's parts until they are tables."""
    return build.folder.staging / "parts" / NAME


def _lines(build: Build, source: Source) -> Iterator[GraphLine | BadRecord]:
    """The graph, wherever it is, as the settings say."""
    graph = build.settings.graph
    languages = names_in(graph.languages.lower())
    if isinstance(source, GraphServer) and source.is_sparql:
        return read_sparql(source, languages, build.folder.staging)
    if isinstance(source, GraphServer):
        named = (graph.neo4j_ids, graph.neo4j_names, graph.neo4j_types, graph.neo4j_predicates)
        return read_graph_server(source, Neo4jMapping(*map(names_in, named)))
    return read_graph(source, languages)


class IngestGraph(SourceStage):
    """A knowledge graph to entities, relations and passages."""

    name = NAME
    writes = ("source", "passages", "entities")
    tables = (DOCUMENTS, PASSAGES, *RECORD_TABLES, ENTITIES, RELATIONS, NODES, NODE_PASSAGES, QUARANTINE)
    unit = "statements"
    invariants = statements("entity_invariants") | statements("graph_invariants") | statements("passage_invariants")
    sources = ("graph",)

    def run(self, build: Build, batch: int) -> BatchResult:
        """Reads the graph from start to end and writes parts of `LINES_PER_PART` lines."""
        if build.source is None:
            raise SourceError("There is nothing to read; name a graph.")
        folder = parts_folder(build)
        shutil.rmtree(folder, ignore_errors=True)
        lines = 0
        number, read = batch, _lines(build, build.source)
        while some := list(islice(read, LINES_PER_PART)):
            good = [line for line in some if not isinstance(line, BadRecord)]
            bad = quarantine_table(line for line in some if isinstance(line, BadRecord))
            tables = {**statement_tables(good), "quarantine": bad, "lines": pa.table({"good": [len(good)]})}
            write_part(folder, number, tables)
            lines += len(some)
            number += 1
        lines += write_text_parts(build, folder)
        return BatchResult(lines, lines)

    def finish(self, build: Build) -> Counts:
        """Fills the tables; refuses a graph with too many unusable lines, and its texts likewise."""
        folder = parts_folder(build)
        with build.tables() as connection:
            for name, parts in _FILLED:
                values = {parts: part_files(folder, parts)} if parts else None
                connection.execute(statement("graph_source", name), values)
            read = {name: part_files(folder, name) for name in ("lines", "quarantine")}
            found = connection.execute(statement("graph_source", "count_records"), read).fetchone()
            good, bad, related = found or (0, 0, 0)
            refused = {"quarantine": read["quarantine"]}
            bad_lines = connection.execute(statement("graph_source", "some_bad_lines"), refused).fetchall()
            check_share(build, good, bad, bad_lines)
            if not related:
                raise SourceError(f"There is no usable statement in {build.source}; a graph needs at least one.")
            texts = fill_texts(build, folder, connection)
            connection.execute(statement("graph_texts", "fill_quarantine"), refused)
            row = connection.execute(statement("graph_source", "count_graph")).fetchone() or (0, 0, 0, 0, 0)
        counts = dict(zip(("quarantined", "entities", "literals", "relations", "self_loops"), row, strict=True))
        return {"statements": good, **counts, **texts}

    def contents(self, build: Build) -> dict[str, str]:
        """Hashes of all that was read ("source"), of the graph ("entities") and of the texts ("passages")."""
        with build.tables(read_only=True) as connection:
            row = connection.execute(statement("graph_source", "content_of_graph")).fetchone() or ("", "", "")
            rest = connection.execute(statement("graph_source", "content_of_the_rest")).fetchone() or ("", "")
            passages = content_of_passages(connection)
            texts_hashes = connection.execute(statement("ingest", "content_of_the_rest")).fetchone() or ("",)
        graph = map(str, row)
        return {
            "source": content_hash(NAME, *map(str, (*row, *rest, passages, *texts_hashes))),
            "passages": content_hash("passages", passages),
            "entities": content_hash("nodes", *graph),
        }


INGEST_GRAPH = IngestGraph()
