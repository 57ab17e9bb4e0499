"""A knowledge graph to entities, relations and quarantine, in place of ingestion, extraction and resolution.

It always reads the whole graph, because only that shows whether anything changed; memory does not grow with it, but for
Turtle. Relations have no sources and entities no mentions; passages are texts that were attached to nodes (texts.py).

* Every node that has a relation is an entity; its id comes from the node's own, so that equal names stay different
  entities. Labels and types of RDF describe nodes and are no relations.
* A key is the folded name if no other node has that name; otherwise it is the folded name, ` #` and the node's own id.
  A name that several nodes share leads to all of them in the spelling of their `norm_name`, and nowhere in any other.
* Literals are entities without a proper name: they take no part in the arrays of names and have no vectors.

Source: algorithms.md 4.2, 4.3, 7.5; decisions/0016-rdf-and-neo4j-graphs.md.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from polyhop.schemas.corpus import BadRecord, GraphServer, Source
from polyhop.schemas.errors import SourceError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.record_tables import RECORD_TABLES
from polyhop.schemas.requests import names_in
from polyhop.schemas.statements import GraphLine, Neo4jMapping
from polyhop.schemas.tables import DOCUMENTS, ENTITIES, NODE_PASSAGES, NODES, PASSAGES, QUARANTINE, RELATIONS
from polyhop.tasks.graph_source.parts import statement_tables
from polyhop.tasks.graph_source.texts import fill_texts, write_text_parts
from polyhop.tasks.quarantine import check_share, quarantine_table
from polyhop.tasks.stage import BatchResult, Counts, Stage, named
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.files.graph_files import read_graph
from polyhop.warehouse.open import read_graph_server
from polyhop.warehouse.statements import statement, statements

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
    """Where the parts of the graph lie until they are tables."""
    return build.folder.staging / "parts" / NAME


def read_batch(build: Build, batch: int) -> BatchResult:
    """Reads the graph from start to end and writes parts of `LINES_PER_PART` lines.

    Raises:
        SourceError: If the file as a whole cannot be used.
    """
    if build.source is None:
        raise SourceError("There is nothing to read; name a graph.")
    folder = parts_folder(build)
    shutil.rmtree(folder, ignore_errors=True)
    lines = 0
    for number, (good, bad) in enumerate(_chunks(build, build.source), start=batch):
        counted = pa.table({"good": [len(good)]})
        write_part(folder, number, {**statement_tables(good), "quarantine": quarantine_table(bad), "lines": counted})
        lines += len(good) + len(bad)
    lines += write_text_parts(build, folder)
    return BatchResult(lines, lines)


def _lines(build: Build, source: Source) -> Iterator[GraphLine | BadRecord]:
    """The graph, wherever it is, as the settings say."""
    graph = build.settings.graph
    if isinstance(source, GraphServer):
        named = (graph.neo4j_ids, graph.neo4j_names, graph.neo4j_types, graph.neo4j_predicates)
        return read_graph_server(source, Neo4jMapping(*map(names_in, named)))
    return read_graph(source, names_in(graph.languages.lower()))


def _chunks(build: Build, source: Source) -> Iterator[tuple[list[GraphLine], list[BadRecord]]]:
    good: list[GraphLine] = []
    bad: list[BadRecord] = []
    for line in _lines(build, source):
        if isinstance(line, BadRecord):
            bad.append(line)
        else:
            good.append(line)
        if len(good) + len(bad) >= LINES_PER_PART:
            yield good, bad
            good, bad = [], []
    if good or bad:
        yield good, bad


def finish(build: Build) -> Counts:
    """Fills the tables; refuses a graph with too many unusable lines, and its texts likewise.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first ten bad lines.
        SourceError: If no line states a relation.
    """
    folder = parts_folder(build)
    with build.tables() as connection:
        for name, parts in _FILLED:
            connection.execute(statement("graph_source", name), {parts: part_files(folder, parts)} if parts else None)
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


def contents(build: Build) -> dict[str, str]:
    """Hashes of all that was read ("source"), of the graph alone ("entities"), and of the texts alone ("passages")."""
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("graph_source", "content_of_graph")).fetchone() or ("", "", "")
        rest = connection.execute(statement("graph_source", "content_of_the_rest")).fetchone() or ("", "")
        passages = connection.execute(statement("ingest", "content_of_passages")).fetchone() or ("",)
        places = connection.execute(statement("ingest", "content_of_the_rest")).fetchone() or ("",)
    graph = map(str, row)
    return {
        "source": content_hash(NAME, *map(str, (*row, *rest, *passages, *places))),
        "passages": content_hash("passages", passages[0]),
        "entities": content_hash("nodes", *graph),
    }


INGEST_GRAPH = Stage(
    NAME,
    reads=(),
    writes=("source", "passages", "entities"),
    finish=finish,
    batches=lambda _: [0],
    run=read_batch,
    unit=named("statements"),
    tables=(DOCUMENTS, PASSAGES, *RECORD_TABLES, ENTITIES, RELATIONS, NODES, NODE_PASSAGES, QUARANTINE),
    contents=contents,
    invariants=statements("entity_invariants") | statements("graph_invariants") | statements("passage_invariants"),
    sources=("graph",),
)
