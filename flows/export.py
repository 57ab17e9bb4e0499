"""A published version to Neo4j: only what differs from what the database holds, checked, and recorded last.

A run that was killed leaves a database that says it is incomplete; the next run writes what is still missing.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.flows.runner import DirectRunner
from polyhop.schemas import ports
from polyhop.schemas.errors import StoreError
from polyhop.schemas.records import Address
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import ID_LENGTH, content_hash
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.artefacts import ArrayFolder
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.open import open_graph_store
from polyhop.warehouse.tables.version_rows import export_rows

REVISION = 1  # counts changes of what is written for the same tables


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A node, or a relationship (with ends): an id unique in kind and index, properties, row of its vector or None."""

    id: str
    properties: Mapping[str, Any]
    source: str = ""
    target: str = ""
    number: int | None = None

    @property
    def hash(self) -> str:
        """sha256 over everything that is written of it."""
        return row_hash(self.properties, self.source, self.target)


def row_hash(properties: Mapping[str, Any], source: str | None, target: str | None) -> str:
    """sha256 over properties and ends, alike before writing and after reading; the vector has `content_hash`."""
    shown = {name: value for name, value in properties.items() if value is not None}
    return content_hash(json.dumps([source or "", target or "", shown], sort_keys=True, ensure_ascii=False))


def graph_row(row: ExportRow, vector: Sequence[float] | None) -> ports.GraphRow:
    """A row as a graph store takes it."""
    properties = {name: value for name, value in row.properties.items() if value is not None}
    return ports.GraphRow(row.id, row.hash, properties, row.source, row.target, vector)


def _document(row: Mapping[str, Any]) -> ExportRow:
    return ExportRow(row["document_id"], {"title": row["title"], "paragraph_count": row["passage_count"]})


def _paragraph(row: Mapping[str, Any]) -> ExportRow:
    shown = {"text": row["text"], "doc_title": row["title"], "text_hash": row["content_hash"]}
    return ExportRow(row["passage_id"], shown | {"ordinal": row["ordinal"], "record_id": row["record_id"]})


def _entity(row: Mapping[str, Any]) -> ExportRow:
    properties = {
        "key": row["norm_name"],
        "folded_key": row["key"],
        "name": row["name"],
        "type": row["type"],
        "description": row["description"],
        "content_hash": row["content_hash"],
        "is_named": row["is_named"],
        "doc_count": row["document_count"],
    }
    return ExportRow(row["entity_id"], properties, number=row["number"])


def _edge(kind: str, row: Mapping[str, Any], source: str, target: str, *names: str) -> ExportRow:
    ends = row[source], row[target]
    key = content_hash(kind, *ends)[:ID_LENGTH]
    return ExportRow(key, {name: row[name] for name in names}, *ends)


def _relation(row: Mapping[str, Any]) -> ExportRow:
    names = ("relation", "count", "confidence", "extractor", "provenance")
    return ExportRow(row["relation_id"], {n: row[n] for n in names}, row["source_id"], row["target_id"])


def _hub_path_id(row: Mapping[str, Any]) -> str:
    """Id of a path's node: hashes of paths are unique in a hub only."""
    return content_hash("hub path", row["hub_id"], row["path_hash"])[:ID_LENGTH]


def _hub_path_entity(row: Mapping[str, Any]) -> ExportRow:
    ends = _hub_path_id(row), row["entity_id"]
    key = content_hash("passes", str(row["ordinal"]), *ends)[:ID_LENGTH]  # a path may pass an entity again
    return ExportRow(key, {"ordinal": row["ordinal"], "relation": row["relation"]}, *ends)


_OF_HUB = ("definition", "index_level", "path_count", "left_out_count", "graph_hash")
_OF_PATH = ("hub_id", "path_hash", "length", "text", "textualiser", "end_kind")
MAKERS: Mapping[ports.GraphKind, Callable[[Mapping[str, Any]], ExportRow]] = {
    "documents": _document,
    "paragraphs": _paragraph,
    "entities": _entity,
    "document_paragraphs": lambda row: _edge("has", row, "document_id", "passage_id"),
    "document_mentions": lambda row: _edge("document", row, "document_id", "entity_id"),
    "paragraph_mentions": lambda row: _edge("paragraph", row, "passage_id", "entity_id", "tf"),
    "relations": _relation,
    "hubs": lambda row: ExportRow(row["hub_id"], {name: row[name] for name in _OF_HUB}),
    "hub_paths": lambda row: ExportRow(_hub_path_id(row), {name: row[name] for name in _OF_PATH}),
    "hub_entities": lambda row: _edge("hub", row, "hub_id", "entity_id"),
    "paths_of_hubs": lambda row: _edge("hub path", {**row, "path": _hub_path_id(row)}, "hub_id", "path", "ordinal"),
    "hub_path_entities": _hub_path_entity,
    "hub_candidates": lambda row: _edge("candidate", row, "hub_id", "next_entity_id", "kind", "path_hash"),
}
"""How the row of a table becomes a row of each kind."""


# Source: architecture.md section 7. Cost: O(rows).


@dataclass(frozen=True, slots=True)
class Difference:
    """Ids that differ between tables and database, ascending; what stands there twice is surplus, and missing."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    surplus: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of rows that differ."""
        return len({*self.missing, *self.changed, *self.surplus})


def compare(expected: Mapping[str, str], stored: Iterable[tuple[str, str]]) -> Difference:
    """The difference between hashes by id that should be there and (id, hash) that are."""
    pairs = list(stored)
    repeated = {key for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    held = {key: digest for key, digest in pairs if key not in repeated}
    return Difference(
        missing=tuple(sorted(expected.keys() - held.keys())),
        changed=tuple(sorted(key for key in expected.keys() & held.keys() if expected[key] != held[key])),
        surplus=tuple(sorted((held.keys() - expected.keys()) | repeated)),
    )


_TABLES = ("documents", "passages", "entities", "mentions", "relations", "relation_sources", "embeddings")
_HUB_TABLES = ("hubs", "hub_candidates", "hub_paths")
_NEW_SHARE = 0.25
"""Share of entities written above which the vector index is rebuilt: one filled at once answers faster."""


@dataclass(slots=True)
class ExportReport:
    """Result of an export."""

    index: str
    version: int
    created: int = 0
    updated: int = 0
    deleted: int = 0
    counts: dict[ports.GraphKind, int] = field(default_factory=dict)
    has_vectors: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop export neo4j` (architecture.md section 9)."""
        return asdict(self) | {"seconds": {name: round(value, 3) for name, value in self.seconds.items()}}


class Published:
    """A published version as rows to export; held until the block ends."""

    def __init__(self, settings: Settings, index: str) -> None:
        self._hold = hold_version(Layout(settings.root), index)
        self.version, self._folder = self._hold.number, self._hold.folder
        self.index = index
        self.manifest = read_manifest(self._folder)
        self.has_vectors = "entity" in self.manifest.vectors
        self.has_hubs = set(_HUB_TABLES) <= self.manifest.tables.keys()
        self.kinds = tuple(kind for kind in ports.GRAPH_KINDS if self.has_hubs or kind not in ports.HUB_KINDS)

    def __enter__(self) -> "Published":
        return self

    def __exit__(self, *_: object) -> None:
        self._hold.close()

    @property
    def fingerprint(self) -> str:
        """sha256 of all that determines what is written."""
        names = (*_TABLES, *(_HUB_TABLES if self.has_hubs else ()))
        checksums = [self.manifest.tables[name].checksum for name in names]
        return content_hash("neo4j", str(REVISION), *checksums)

    @property
    def dimension(self) -> int:
        """Length of the entities' vectors, 0 without."""
        return self.manifest.vectors["entity"].dimension if self.has_vectors else 0

    def rows(self, kind: ports.GraphKind) -> Iterator[ExportRow]:
        """All rows of a kind; none of one that the version does not have."""
        if kind not in self.kinds:
            return iter(())
        rows = export_rows(self._folder.tables, kind, source_kind(self.manifest.stages))
        return map(MAKERS[kind], rows)

    def hashes(self, kind: ports.GraphKind) -> dict[str, str]:
        """Hash by id of all rows of a kind."""
        return {row.id: row.hash for row in self.rows(kind)}

    def record(self, counts: Mapping[ports.GraphKind, int] | None = None) -> ports.GraphRecord:
        """The record that the database keeps about itself, written last; counts rows if no counts by kind are given."""
        known = counts or {kind: sum(1 for _ in self.rows(kind)) for kind in self.kinds}
        return ports.GraphRecord(self.version, self.fingerprint, self.dimension, known)

    def vectors(self) -> NDArray[np.float32]:
        """Shape (n, d): vectors by the number of a row."""
        return ArrayFolder(self._folder.arrays, self.manifest.arrays).array("vectors-entity", "matrix")


def run_export(settings: Settings, index: str, address: Address, runner: DirectRunner) -> ExportReport:
    """Makes the database hold the current version of an index."""
    with Published(settings, index) as published, closing(open_graph_store(address, index)) as store:
        return export_version(published, store, runner)


def export_version(published: Published, store: ports.GraphStore, runner: DirectRunner) -> ExportReport:
    """Makes a graph store hold a published version."""
    export = _Export(published, store)
    is_done = runner.step("export comparison", export.is_done)
    runner.progress("export comparison", 1, 1)
    for name, step in () if is_done else export.steps():
        begun = time.perf_counter()
        runner.step(f"export {name}", step)
        export.report.seconds[name] = time.perf_counter() - begun
        runner.progress(f"export {name}", 1, 1)
    return export.report


def write_differences(
    published: Published, store: ports.GraphStore, differences: Mapping[ports.GraphKind, Difference]
) -> None:
    """Writes and deletes what differs: nodes, relationships, and last the nodes that nothing needs any more."""
    for kind in ports.NODE_KINDS:
        write_rows(published, store, kind, differences[kind])
    for relation in ports.RELATIONSHIP_KINDS:
        store.delete(relation, differences[relation].surplus)
        write_rows(published, store, relation, differences[relation])
    for kind in ports.NODE_KINDS:
        store.delete(kind, differences[kind].surplus)


def write_rows(published: Published, store: ports.GraphStore, kind: ports.GraphKind, difference: Difference) -> None:
    """Writes the rows of a kind that are missing or changed."""
    if not difference.missing and not difference.changed:
        return
    vectors = published.vectors() if published.has_vectors and kind == "entities" else None
    wanted = {*difference.missing, *difference.changed}
    rows = (row for row in published.rows(kind) if row.id in wanted)
    store.write(kind, (graph_row(row, vector_of(row, vectors)) for row in rows))


def vector_of(row: ExportRow, vectors: NDArray[np.float32] | None) -> list[float] | None:
    """The vector of a row; None for none, and for one of zeros, which says nothing."""
    if vectors is None or row.number is None or not vectors[row.number].any():
        return None
    values: list[float] = vectors[row.number].astype(np.float64).tolist()
    return values


class _Export:
    """One export: compares kind by kind, writes, checks, records."""

    def __init__(self, published: Published, store: ports.GraphStore) -> None:
        self._published, self._store = published, store
        self._surplus: dict[ports.GraphKind, tuple[str, ...]] = {}
        self._entities_written = 0
        self.report = ExportReport(published.index, published.version, has_vectors=published.has_vectors)

    def is_done(self) -> bool:
        """Returns whether the database records that it holds exactly this version."""
        recorded = self._store.recorded()
        wanted = self._published.fingerprint, self._published.version
        if recorded is None or (recorded.fingerprint, recorded.version) != wanted:
            return False
        self.report.counts = dict(recorded.counts)
        return self._store.has_vector_index(self._published.dimension)

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Names and functions, in order; what is to be done is known when the steps before are."""
        store, published = self._store, self._published

        def prepare() -> None:
            store.prepare(has_hubs=published.has_hubs)
            store.claim()

        def delete() -> None:
            for kind in ports.NODE_KINDS:
                store.delete(kind, self._surplus.get(kind, ()))

        yield "schema", prepare
        for kind in ports.GRAPH_KINDS:
            if kind in published.kinds or store.hashes(kind):
                yield kind, partial(self._sync, kind)
        yield "deletions", delete
        is_new = self._entities_written > _NEW_SHARE * self.report.counts["entities"]
        yield "vector index", partial(store.index_vectors, published.dimension, is_new=is_new)
        yield "verification", self._verify

    def _sync(self, kind: ports.GraphKind) -> None:
        expected = self._published.hashes(kind)
        difference = compare(expected, self._store.hashes(kind))
        if kind in ports.RELATIONSHIP_KINDS:
            self._store.delete(kind, difference.surplus)
        write_rows(self._published, self._store, kind, difference)
        self._surplus[kind] = difference.surplus
        self.report.created += len(difference.missing)
        self.report.updated += len(difference.changed)
        self.report.deleted += len(difference.surplus)
        if kind in self._published.kinds:
            self.report.counts[kind] = len(expected)
        if kind == "entities":
            self._entities_written = len(difference.missing) + len(difference.changed)

    def _verify(self) -> None:
        for kind in ports.GRAPH_KINDS:
            found = compare(self._published.hashes(kind), self._store.hashes(kind))
            if found.count:
                first = (*found.missing, *found.changed, *found.surplus)[0]
                raise StoreError(
                    f"After the export {found.count} {kind.replace('_', ' ')} differ in Neo4j (first: {first}); "
                    f"does something else write them? Run: polyhop verify --index {self._published.index} --neo4j"
                )
        self._store.record(self._published.record(self.report.counts))
