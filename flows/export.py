"""A published version to Neo4j: only what differs from what the database holds, checked, and recorded last.

Plain functions: `prefect_export.py` wraps the same ones into a flow run. A run that was killed leaves a database that
says it is incomplete; the next run writes what is still missing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StoreError
from schemas.ids import content_hash
from schemas.settings import Settings
from tasks.export.delta import Difference, compare, wanted_rows
from tasks.export.rows import MAKERS, ExportRow, to_values
from warehouse.files.layout import Layout
from warehouse.files.lease import SharedHold
from warehouse.files.versions import read_manifest, require_version
from warehouse.graph.arrays import open_array
from warehouse.graph.neo4j_layout import KINDS, NODES, RELATIONSHIPS, Kind
from warehouse.graph.neo4j_server import Address, Neo4jConnection
from warehouse.graph.neo4j_store import Neo4jStore
from warehouse.tables.export_rows import export_rows

REVISION = 1
"""Counts changes of what is written for the same tables."""

_TABLES = ("documents", "passages", "entities", "mentions", "relations", "relation_sources", "embeddings")
_NEW_SHARE = 0.25
"""Share of entities written above which the vector index is made anew: one filled at once answers faster."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export, and where to."""

    index: str
    address: Address


@dataclass(slots=True)
class ExportReport:
    """What an export did."""

    index: str
    version: int
    created: int = 0
    updated: int = 0
    deleted: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    has_vectors: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop export neo4j` (architecture.md section 9)."""
        return {
            "index": self.index,
            "version": self.version,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "counts": self.counts,
            "has_vectors": self.has_vectors,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


class StepRunner(Protocol):
    """Runs the steps of an export: directly, or as tasks of a flow run."""

    def step(self, name: str, run: Callable[[], None]) -> None:
        """Runs a step; it may be run again after a failure that may go away."""
        ...


class DirectSteps:
    """Runs every step at once, in this process."""

    def __init__(self, on_progress: Callable[[str, int, int], None] | None = None) -> None:
        self._on_progress = on_progress
        self._done = 0

    def step(self, name: str, run: Callable[[], None]) -> None:
        """Runs it and tells."""
        run()
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(f"export {name}", 1, 1)


class Published:
    """A published version as rows to export; held until the block ends."""

    def __init__(self, settings: Settings, index: str) -> None:
        self.version, self._folder = require_version(Layout(settings.root), index)
        self._hold = SharedHold(self._folder.manifest)
        self.index = index
        self.manifest = read_manifest(self._folder)
        self.has_vectors = "entity" in self.manifest.vectors

    def __enter__(self) -> "Published":
        return self

    def __exit__(self, *_: object) -> None:
        self._hold.close()

    @property
    def fingerprint(self) -> str:
        """sha256 of all that determines what is written."""
        checksums = [self.manifest.tables[name].checksum for name in _TABLES]
        return content_hash("neo4j", str(REVISION), *checksums)

    @property
    def dimension(self) -> int:
        """Length of the entities' vectors, 0 without."""
        return self.manifest.vectors["entity"].dimension if self.has_vectors else 0

    def rows(self, kind: Kind) -> Iterator[ExportRow]:
        """All rows of a kind."""
        make = MAKERS[kind.name]
        return (make(row) for row in export_rows(self._folder.tables, kind.name))

    def hashes(self, kind: Kind) -> dict[str, str]:
        """Hash by id of all rows of a kind."""
        return {row.id: row.hash for row in self.rows(kind)}

    def record(self, counts: Mapping[str, int] | None = None) -> dict[str, Any]:
        """What the database says, last of all, about itself.

        Args:
            counts: Rows by kind; counted if not given.
        """
        known = counts or {kind.name: sum(1 for _ in self.rows(kind)) for kind in KINDS}
        return {
            "version": self.version,
            "fingerprint": self.fingerprint,
            "dimension": self.dimension,
            **{f"{name}_count": count for name, count in known.items()},
        }

    def vectors(self) -> NDArray[np.float32]:
        """Shape (n, d): vectors by the number of a row."""
        return open_array(self._folder.arrays, "vectors-entity_matrix").astype(np.float32, copy=False)


def run_export(settings: Settings, request: ExportRequest, runner: StepRunner) -> ExportReport:
    """Makes the database hold the current version of an index.

    Raises:
        UnknownIndexError: If nothing was published under that name.
        ConfigurationError: If the address, the credentials or the server's version will not do.
        StoreError: If the server cannot be reached or written, or does not hold the version afterwards.
    """
    with Published(settings, request.index) as published, opened(request.address) as connection:
        export = _Export(published, Neo4jStore(connection, request.index))
        if not export.is_done():
            for name, step in export.steps():
                runner.step(name, export.timed(name, step))
        return export.report


@contextmanager
def opened(address: Address) -> Iterator[Neo4jConnection]:
    """A connection for the block."""
    connection = Neo4jConnection(address)
    try:
        yield connection
    finally:
        connection.close()


def write_differences(published: Published, store: Neo4jStore, differences: Mapping[str, Difference]) -> None:
    """Writes and deletes what differs: nodes, relationships, and last the nodes that nothing needs any more."""
    for kind in NODES:
        write_rows(published, store, kind, differences[kind.name])
    for kind in RELATIONSHIPS:
        store.delete(kind, differences[kind.name].surplus)
        write_rows(published, store, kind, differences[kind.name])
    for kind in NODES:
        store.delete(kind, differences[kind.name].surplus)


def write_rows(published: Published, store: Neo4jStore, kind: Kind, difference: Difference) -> None:
    """Writes the rows of a kind that are missing or changed."""
    if not difference.missing and not difference.changed:
        return
    vectors = published.vectors() if published.has_vectors and kind.name == "entities" else None
    rows = iter(wanted_rows(published.rows(kind), difference))
    while part := list(islice(rows, kind.batch)):
        store.write(kind, [to_values(row, published.index, vector_of(row, vectors)) for row in part])


def vector_of(row: ExportRow, vectors: NDArray[np.float32] | None) -> list[float] | None:
    """The vector of a row; None for none, and for one of zeros, which says nothing."""
    if vectors is None or row.number is None or not vectors[row.number].any():
        return None
    values: list[float] = vectors[row.number].astype(np.float64).tolist()
    return values


class _Export:
    """One export: compares kind by kind, writes, checks, records."""

    def __init__(self, published: Published, store: Neo4jStore) -> None:
        self._published = published
        self._store = store
        self._surplus: dict[str, tuple[str, ...]] = {}
        self._entities_written = 0
        self.report = ExportReport(published.index, published.version, has_vectors=published.has_vectors)

    def is_done(self) -> bool:
        """Whether the database already says that it holds exactly this."""
        recorded = self._store.recorded()
        wanted = {"complete": True, "fingerprint": self._published.fingerprint, "version": self._published.version}
        if any(recorded.get(name) != value for name, value in wanted.items()):
            return False
        self.report.counts = {kind.name: recorded[f"{kind.name}_count"] for kind in KINDS}
        return self._store.has_vector_index(self._published.dimension)

    def steps(self) -> Iterable[tuple[str, Callable[[], None]]]:
        """Names and functions, in order."""
        yield "schema", self._prepare
        for kind in KINDS:
            yield kind.name, lambda kind=kind: self._sync(kind)  # type: ignore[misc]
        yield "deletions", self._delete
        yield "vector index", self._index_vectors
        yield "verification", self._verify

    def timed(self, name: str, run: Callable[[], None]) -> Callable[[], None]:
        """The same step, with its seconds in the report."""

        def timed() -> None:
            begun = time.perf_counter()
            run()
            self.report.seconds[name] = time.perf_counter() - begun

        return timed

    def _prepare(self) -> None:
        self._store.prepare()
        self._store.claim()

    def _sync(self, kind: Kind) -> None:
        expected = self._published.hashes(kind)
        difference = compare(expected, self._store.stored(kind))
        if kind in RELATIONSHIPS:
            self._store.delete(kind, difference.surplus)
        write_rows(self._published, self._store, kind, difference)
        self._surplus[kind.name] = difference.surplus
        self.report.created += len(difference.missing)
        self.report.updated += len(difference.changed)
        self.report.deleted += len(difference.surplus)
        self.report.counts[kind.name] = len(expected)
        if kind.name == "entities":
            self._entities_written = len(difference.missing) + len(difference.changed)

    def _delete(self) -> None:
        for kind in NODES:
            self._store.delete(kind, self._surplus[kind.name])

    def _index_vectors(self) -> None:
        many = self._entities_written > _NEW_SHARE * self.report.counts["entities"]
        self._store.index_vectors(self._published.dimension, is_new=many)

    def _verify(self) -> None:
        for kind in KINDS:
            found = compare(self._published.hashes(kind), self._store.stored(kind))
            if found.count:
                first = (*found.missing, *found.changed, *found.surplus)[0]
                raise StoreError(
                    f"After the export {found.count} {kind.name.replace('_', ' ')} differ in Neo4j (first: {first}); "
                    f"does something else write them? Run: polyhop verify --index {self._published.index} --neo4j"
                )
        self._store.record(self._published.record(self.report.counts))
