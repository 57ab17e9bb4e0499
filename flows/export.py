"""A published version to Neo4j: only what differs from what the database holds, checked, and recorded last.

A run that was killed leaves a database that says it is incomplete; the next run writes what is still missing.
"""

import time
from collections.abc import Callable, Iterator, Mapping
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
from polyhop.schemas.text import content_hash
from polyhop.tasks.export.rows import MAKERS, Difference, ExportRow, compare, graph_row, wanted_rows
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.artefacts import ArrayFolder
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.open import open_graph_store
from polyhop.warehouse.tables.version_rows import export_rows

REVISION = 1  # counts changes of what is written for the same tables
_TABLES = ("documents", "passages", "entities", "mentions", "relations", "relation_sources", "embeddings")
_HUB_TABLES = ("hubs", "hub_candidates", "hub_paths")
_NEW_SHARE = 0.25
"""Share of entities written above which the vector index is rebuilt: one filled at once answers faster."""


@dataclass(slots=True)
class ExportReport:
    """What an export did."""

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
        """What the database says, last of all, about itself; rows are counted if no counts by kind are given."""
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
    rows = wanted_rows(published.rows(kind), difference)
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
        """Whether the database already says that it holds exactly this."""
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
