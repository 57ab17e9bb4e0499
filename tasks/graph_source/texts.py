"""Texts for a graph's nodes (`--graph-sources`) to passages, and to the links between nodes and passages.

A passage's id is made of its title and text: the same text of several nodes is one passage, and neither the order of
the rows nor other texts of a node change it. Rows of nodes that the graph does not have go to the quarantine.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.columns import Table, count, text
from polyhop.schemas.corpus import BadRecord, SourceRecord
from polyhop.schemas.ids import record_id
from polyhop.tasks.passages.chunks import chunks
from polyhop.tasks.passages.metadata import fill_records
from polyhop.tasks.passages.records import metadata_json, passages_table
from polyhop.tasks.quarantine import check_share, quarantine_table
from polyhop.tasks.stage import Counts
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.files.readers import read_graph_sources
from polyhop.warehouse.statements import statement

_EXCERPT = 200  # characters, as the column `excerpt` of the quarantine says (schemas/tables.py)

ATTACHED_PARTS = Table(
    "attached_parts",
    "Rows of texts for nodes: every row that was read.",
    ("source", "line"),
    (
        text("node_id", "id that the row names, which the graph may not have"),
        text("record_id", "made of title and text"),
        text("source", "file"),
        count("line", "line or record number from 1"),
        text("metadata_json", "the row's metadata, as JSON with sorted keys"),
        text("excerpt", "beginning of the text"),
    ),
)

_PARTS = ("passages", "attached", "refused")
_FILLED = (
    ("attached_rows", ("attached",)),
    ("refused_rows", ("attached", "refused")),
    ("first_attached", ("passages",)),
)


def write_text_parts(build: Build, folder: Path) -> int:
    """Reads the texts, if there are any, and writes their parts; returns how many rows were read."""
    rows = read_graph_sources(build.graph_sources) if build.graph_sources is not None else iter(())
    read = 0
    attached: list[dict[str, object]] = []
    number = 0
    for pieces, bad, seen in chunks(build, _without_node(rows, attached)):
        _write(folder, number, pa.Table.from_pylist(attached, schema=ATTACHED_PARTS.arrow), passages_table(pieces), bad)
        attached.clear()
        read += seen
        number += 1
    if not number:
        _write(folder, number, ATTACHED_PARTS.arrow.empty_table(), passages_table([]), [])
    return read


def _write(folder: Path, number: int, attached: pa.Table, passages: pa.Table, bad: list[BadRecord]) -> None:
    tables = dict(zip(_PARTS, (passages, attached, quarantine_table(bad)), strict=True))
    write_part(folder, number, tables, is_complete=False)


def _without_node(
    rows: Iterable[SourceRecord | BadRecord], attached: list[dict[str, object]]
) -> Iterator[SourceRecord | BadRecord]:
    """The rows as records with ids of their own; which node each belongs to is added to `attached`."""
    for row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        own_id = record_id(row.title, row.text)
        attached.append(
            {
                "node_id": row.id,
                "record_id": own_id,
                "source": row.source,
                "line": row.line,
                "metadata_json": metadata_json(row.metadata),
                "excerpt": row.text[:_EXCERPT],
            }
        )
        yield replace(row, id=own_id)


def fill_texts(build: Build, folder: Path, connection: duckdb.DuckDBPyConnection) -> Counts:
    """Fills documents, passages and their links to nodes, which are in their tables; notes the refused rows.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first ten bad rows.
    """
    parts = {name: part_files(folder, name) for name in _PARTS}
    for name, read in _FILLED:
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
