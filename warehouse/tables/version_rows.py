"""Rows of published versions: differences of two, decisions about names, exports, passages of relations."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from polyhop.schemas.graph import Decision
from polyhop.schemas.records import SourceKind
from polyhop.schemas.settings import ResolutionSettings
from polyhop.schemas.tables import CHANGE_KINDS
from polyhop.warehouse.build import kept_files
from polyhop.warehouse.files.disk import GRAPHML, JSON_LINES, named_file, require_writable, writing
from polyhop.warehouse.files.layout import Layout, VersionFolder
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import connect, literal


def compare_records(connection: duckdb.DuckDBPyConnection, before: Path | None, folders: list[Path]) -> dict[str, int]:
    """Fills the temporary table `changed_records`; returns how many there are of each kind.

    The connection is to the tables of the later version, `before` are those of the earlier one if there is one, and
    `folders` those of the arrays of both, in this order.
    """
    connection.execute(statement("changes", "kept"))
    for number, folder in enumerate(folders):
        files = sorted(map(str, folder.glob(kept_files("*")[0])))
        if files:
            with suppress(duckdb.Error):  # of a damaged file, metadata are unknown and sources unnamed
                connection.execute(statement("changes", "add_kept"), {"is_after": number == 0, "files": files})
    fill = ["all_records", "records_after", "no_records_before"]
    if before is not None:
        with suppress(duckdb.Error):
            connection.execute(f"ATTACH {literal(str(before))} AS before (READ_ONLY)")
            try:
                for name in ("differing_records", "records_before"):
                    connection.execute(statement("changes", name))
                fill = ["records_after"]
            finally:
                connection.execute("DETACH before")
    for name in fill:
        connection.execute(statement("changes", name))
    connection.execute(statement("changes", "changed_records"))
    counted = dict(connection.execute(statement("changes", "count_changes")).fetchall())
    return {kind: counted.get(kind, 0) for kind in CHANGE_KINDS}


_THINGS = (
    (
        "entities",
        ("added", "removed", "merged", "split", "renamed", "retyped"),
        ("changed_entities", "count_entities", "first_entities"),
    ),
    ("relations", ("added", "removed"), ("changed_relations", "count_relations", "first_relations")),
)
"""What is compared besides records: its kinds of changes, and the statements of diff.sql that fill, count and list."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Number of differing things of one sort between two versions, by kind, and the first of them."""

    counts: dict[str, int]
    first: list[dict[str, Any]]


def compare_versions(before: VersionFolder, after: VersionFolder, limit: int) -> dict[str, Compared]:
    """Records, entities and relations of two published versions, which their caller holds."""
    with connect(after.tables, read_only=True) as connection:
        records = compare_records(connection, before.tables, [after.arrays, before.arrays])
        connection.execute(f"ATTACH {literal(str(before.tables))} AS before (READ_ONLY)")
        found = {"records": Compared(records, _rows(connection, "first_records", limit))}
        for what, kinds, (fill, count, first) in _THINGS:
            connection.execute(statement("diff", fill))
            counted = dict(connection.execute(statement("diff", count)).fetchall())
            counts = {kind: counted.get(kind, 0) for kind in kinds}
            found[what] = Compared(counts, _rows(connection, first, limit))
    return found


def _rows(connection: duckdb.DuckDBPyConnection, name: str, limit: int) -> list[dict[str, Any]]:
    found = connection.execute(statement("diff", name), {"limit": limit})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@dataclass(frozen=True, slots=True)
class NameRecords:
    """Records of some names."""

    entities: dict[str, tuple[str, str | None]]  # Key to name and type, of entities.
    decisions: list[Decision]  # Decisions about the names, in order.
    nearest: dict[str, list[str]]  # Key to the most similar names in the index.
    method: str  # settings.resolution.method of the version.
    # Whether names were resolved at all; the nodes of a knowledge graph are entities as they are.
    is_resolved: bool = True


def read_name_records(layout: Layout, index: str, keys: Sequence[str]) -> NameRecords:
    """Reads the current version's records of these names, and of the entities that they lead to."""
    asked = {"keys": list(keys)}
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        manifest = read_manifest(held.folder)
        settings = manifest.settings.get("resolution", {"method": "off"})
        rows = connection.execute(statement("explain", "decisions_on_names"), asked).fetchall()
        decisions = [
            Decision(key, kind, scope, to, why, is_ambiguous=several) for key, kind, scope, to, several, why in rows
        ]
        meant = [*keys, *(decision.canonical for decision in decisions if decision.canonical)]
        found = connection.execute(statement("explain", "entities_by_keys"), {"keys": meant}).fetchall()
        near = connection.execute(statement("explain", "nearest_names"), asked).fetchall()
    nearest: dict[str, list[str]] = {}
    for key, name in near:
        nearest.setdefault(key, []).append(name)
    method = ResolutionSettings.model_validate(settings).method
    entities = {row[0]: (row[1], row[2]) for row in found}
    return NameRecords(entities, decisions, nearest, method, is_resolved="resolve" in manifest.stages)


def read_types(layout: Layout, index: str) -> list[str]:
    """Types that named entities of the current version have, sorted."""
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        return [row[0] for row in connection.execute(statement("explain", "types_of_entities")).fetchall()]


def read_named_entities(layout: Layout, index: str) -> list[tuple[str, str, str | None]]:
    """Key, name and type of the named entities of the current version, most mentioned first."""
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        return [
            (key, name, kind)
            for key, name, kind in connection.execute(statement("explain", "named_entities")).fetchall()
        ]


@dataclass(frozen=True, slots=True)
class MentionedPassage:
    """A passage and where it mentions entities: by key, [[start, end], …] in its text as JSON."""

    title: str
    text: str
    spans: Mapping[str, str]


def read_mentioned_passages(layout: Layout, index: str, keys: Sequence[str], limit: int) -> list[MentionedPassage]:
    """Passages of the current version that mention named entities, those of `keys` first."""
    with hold_version(layout, index) as held, connect(held.folder.tables, read_only=True) as connection:
        asked = {"keys": list(keys), "limit": limit}
        rows = connection.execute(statement("explain", "mentioned_passages"), asked).fetchall()
    return [MentionedPassage(title, text, dict(zip(keys, spans, strict=True))) for title, text, keys, spans in rows]


_ROWS_OF_GROUP = 100_000  # of a Parquet file; chosen: near DuckDB's own 122,880
_AT_ONCE = 5000  # chosen: bounds the rows in memory, and any number gives the same
_OWN_IDS: Mapping[SourceKind, str] = {"graph": "own_ids_of_graph", "corpus": "own_ids_of_corpus"}


def export_rows(tables: Path, kind: str, source: SourceKind) -> Iterator[dict[str, Any]]:
    """All rows of a kind (a statement of sql/export.sql), in the order of their keys."""
    with connect(tables, read_only=True) as connection:
        if kind == "hub_path_entities":
            connection.execute(statements("export")[_OWN_IDS[source]])
        cursor = connection.execute(statements("export")[kind])
        names = [column[0] for column in cursor.description or ()]
        while rows := cursor.fetchmany(_AT_ONCE):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def export_extractions(tables: Path, target: Path) -> int:
    """Writes the extractions of an index as openie-like JSON lines, which import:FILE reads back; says how many.

    A line is {id, entities: [{name, type}], triples: [[s, p, o]], propositions: [{text, entities}]}, one per passage.
    """
    opener = gzip.open if target.name.lower().endswith(".gz") else open
    count = 0
    with connect(tables, read_only=True) as connection, named_file(target, "the extractions", JSON_LINES) as unfinished:
        found = connection.execute(statement("extract", "passage_extractions"), {"ids": None})
        with opener(unfinished, "wt", encoding="utf-8") as file:
            while rows := found.fetchmany(_AT_ONCE):
                for passage_id, entities, triples, propositions in rows:
                    row = {"id": passage_id, "entities": entities, "triples": triples, "propositions": propositions}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += len(rows)
    return count


NODES_FILE, EDGES_FILE = "nodes.parquet", "edges.parquet"
_GRAPHML = "http://graphml.graphdrawing.org/xmlns"
_ATTRIBUTES = {
    "node": {"name": "string", "type": "string", "description": "string", "df": "long"},
    "edge": {"label": "string", "weight": "long", "confidence": "double", "passages": "string"},
}
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""By XML 1.0 section 2.2; a document that holds any other character is none, even where it is escaped."""


def export_graphml(tables: Path, target: Path) -> tuple[int, int]:
    """Writes entities and relations as GraphML, streamed; says how many. Passages are a JSON list in a text."""
    from lxml import etree

    counts = {"node": 0, "edge": 0}
    with (
        connect(tables, read_only=True) as connection,
        named_file(target, "the graph", GRAPHML) as unfinished,
        etree.xmlfile(str(unfinished), encoding="utf-8") as file,
    ):
        file.write_declaration()
        with file.element("graphml", nsmap={None: _GRAPHML}):
            for kind, types in _ATTRIBUTES.items():
                for name, type_ in types.items():
                    said = {"id": f"{kind}_{name}", "for": kind, "attr.name": name, "attr.type": type_}
                    file.write(etree.Element("key", said), pretty_print=True)
            with file.element("graph", edgedefault="directed"):
                for kind, types in _ATTRIBUTES.items():
                    found = connection.execute(statement("export", f"graph_{kind}s"))
                    names = [column[0] for column in found.description or ()]
                    while rows := found.fetchmany(_AT_ONCE):
                        counts[kind] += len(rows)
                        for row in (dict(zip(names, values, strict=True)) for values in rows):
                            element = etree.Element(kind, {name: row[name] for name in names if name not in types})
                            for name in types:
                                if row[name] is not None:
                                    value = row[name] if name != "passages" else json.dumps(row[name])
                                    data = etree.SubElement(element, "data", key=f"{kind}_{name}")
                                    data.text = _NOT_IN_XML.sub("\ufffd", str(value))
                            file.write(element, pretty_print=True)
    return counts["node"], counts["edge"]


def export_parquet(tables: Path, folder: Path) -> tuple[int, int]:
    """Writes entities and relations as two Parquet files in a folder, which is made if need be; says how many."""
    if not folder.is_dir():
        require_writable(folder, "the graph")
        with writing("the graph", folder):
            folder.mkdir()
    with (
        connect(tables, read_only=True) as connection,
        named_file(folder / NODES_FILE, "the graph") as nodes,
        named_file(folder / EDGES_FILE, "the graph") as edges,
    ):
        for name, path in (("graph_nodes", nodes), ("graph_edges", edges)):
            batches = connection.sql(statement("export", name)).to_arrow_reader(_ROWS_OF_GROUP)
            with pq.ParquetWriter(path, batches.schema, compression="zstd") as file:
                for batch in batches:
                    file.write_batch(batch)
        return pq.read_metadata(nodes).num_rows, pq.read_metadata(edges).num_rows


Stated = tuple[str, str, str]  # key of the source, label, key of the target


@dataclass(frozen=True, slots=True)
class RelationPassages:
    """The first passages that state a relation, ascending, and how many do in all."""

    passage_ids: tuple[str, ...]
    count: int


def read_relation_passages(
    layout: Layout, index: str, version: int, keys: Sequence[str], limit: int
) -> dict[Stated, RelationPassages]:
    """Passages of every relation from one of these entities to another, at most `limit` for each."""
    with hold_version(layout, index, version) as held, connect(held.folder.tables, read_only=True) as connection:
        values = {"keys": list(keys), "limit": limit}
        rows = connection.execute(statement("connect", "relation_passages"), values).fetchall()
    return {(source, label, target): RelationPassages(tuple(ids), count) for source, label, target, count, ids in rows}
