"""Does what is stored agree with itself? Tables, arrays and vectors with the manifest, Neo4j with the tables.

Changes nothing unless asked to repair; then what the tables can give again is given again.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.flows.export import Published, vector_of, write_differences
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import DamagedStoreError, ManifestMismatchError, StoreError
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.ports import GRAPH_KINDS, GraphKind, GraphStore
from polyhop.schemas.records import Address, source_of
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import plural
from polyhop.tasks.export.rows import Difference, compare, row_hash
from polyhop.tasks.publish.publish import begin_removal, clean_vectors
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.warehouse.artefacts import open_array
from polyhop.warehouse.cache.database import find_damaged_caches, set_aside
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import (
    current_version,
    hold_version,
    pinned_version,
    point_to,
    published_versions,
    read_manifest,
    remove_version,
    require_version,
    writer_lease,
)
from polyhop.warehouse.index_reader import find_damage, open_vector_store
from polyhop.warehouse.open import open_graph_store
from polyhop.warehouse.open_models import close_encoders

OLDER = "older_versions"
CACHES = "caches"
# of a similarity; chosen: far above float32's rounding (near 1e-7), far below what the vector of another text changes
_TOLERANCE = 1e-5
_SHOWN = 5  # ids of a difference that a line names; their number is said


@dataclass(slots=True)
class VerifyReport:
    """What differs, by store, in sentences."""

    index: str
    version: int
    differences: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.sentences

    @property
    def sentences(self) -> list[str]:
        """What differs, of all stores."""
        return [sentence for found in self.differences.values() for sentence in found]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop verify` (architecture.md section 9)."""
        stores = {name: {"ok": not found, "differences": found} for name, found in self.differences.items()}
        return {"index": self.index, "version": self.version, "stores": stores}


def run_verify(settings: Settings, index: str, address: Address | None = None) -> VerifyReport:
    """Compares every store with what it should hold; writes nothing."""
    layout = Layout(settings.root)
    folder = layout.index(index)
    with hold_version(layout, index) as held:
        report = VerifyReport(index, held.number)
        manifest = read_manifest(held.folder)
        damage = find_damage(folder, held.folder, manifest)
        report.differences["tables"] = [*dict.fromkeys(damage.tables.values())]
        report.differences["arrays"] = [*damage.arrays.values()]
        report.differences["vectors"] = [*damage.vectors.values()]
        for kind, record in manifest.vectors.items():
            if kind not in damage.vectors:
                report.differences["vectors"] += _vectors_of(folder, held.folder, kind, record)
        # Nothing is built on versions that are not current, but `versions --use` may want one.
        older = [number for number in published_versions(folder) if number != held.number]
        report.differences[OLDER] = [f"version {n}: {sentence}" for n in older for sentence in _damage_of(folder, n)]
    report.differences[CACHES] = [*find_damaged_caches(layout).values()]
    if address is not None:
        with Published(settings, index) as published, closing(open_graph_store(address, index)) as store:
            report.differences["neo4j"] = graph_differences(published, store)
    return report


def repair(settings: Settings, report: VerifyReport, address: Address | None = None) -> None:
    """Fixes what `report` found: derives the version again, writes to Neo4j what differs there.

    Damaged caches are set aside first, because everything is derived from them. An older version that is damaged cannot
    be derived again: it is removed, unless it is in use.
    """
    layout = Layout(settings.root)
    folder = layout.index(report.index)
    if report.differences.get(CACHES):
        close_encoders()
        for path in find_damaged_caches(layout):
            set_aside(path)
    if any(report.differences.get(name) for name in ("tables", "arrays", "vectors")):
        pinned = pinned_version(folder)
        if pinned is not None:
            point_to(folder, pinned)  # unpinned, so that the run derives from it and takes its place
        try:
            run_index(settings, _rebuilding(layout, report.index), DirectRunner())
        finally:
            if pinned is not None:
                point_to(folder, current_version(folder) or pinned, is_pinned=True)
    with writer_lease(folder.lease, report.index):
        begin_removal(folder)
        for number in published_versions(folder):
            if any(_damage_of(folder, number)):
                remove_version(folder, number)
        clean_vectors(folder)
    if address is None:
        return
    with Published(settings, report.index) as published, closing(open_graph_store(address, report.index)) as store:
        repair_graph(published, store)


def repair_graph(published: Published, store: GraphStore) -> None:
    """Writes to a graph store what differs there from a published version, whatever hashes it carries."""
    store.prepare(has_hubs=published.has_hubs)
    differences = dict(_in_graph(published, store))
    store.claim()
    write_differences(published, store, differences)
    store.index_vectors(published.dimension, is_new=not store.has_vector_index(published.dimension))
    store.record(published.record())


def _rebuilding(layout: Layout, index: str) -> IndexRequest:
    """A full run; it reads the source again if the version's own copy is damaged and the source is still there."""
    _, folder = require_version(layout, index)
    manifest = read_manifest(folder)
    damage = find_damage(layout.index(index), folder, manifest)
    kind = source_kind(manifest.stages)
    first = stages_for(manifest.artefacts, kind)[0]
    if not manifest.source or not damage.concerns(first.table_names, first.arrays):
        return IndexRequest(index, None, full=True)
    source = source_of(manifest.source)
    texts = Path(manifest.graph_sources) if manifest.graph_sources else None
    if any(isinstance(path, Path) and not path.exists() for path in (source, texts)):
        return IndexRequest(index, None, full=True)
    return IndexRequest(index, source, full=True, kind=kind, graph_sources=texts)


def _damage_of(index: IndexFolder, number: int) -> Iterator[str]:
    folder = index.version(number)
    try:
        yield from find_damage(index, folder, read_manifest(folder)).sentences()
    except ManifestMismatchError as error:
        yield str(error).split("; ", 1)[0]


def _vectors_of(index: IndexFolder, folder: VersionFolder, kind: str, record: VectorRecord) -> Iterator[str]:
    try:
        table = open_vector_store(index).open(record.table, record.table_version).read()
    except StoreError as error:
        yield f"vectors of kind '{kind}' cannot be read: {error}"
        return
    if table.num_rows != record.rows:
        yield f"vectors of kind '{kind}': {plural(table.num_rows, 'row')} instead of {record.rows}"
        return
    try:
        matrix = open_array(folder.arrays, f"vectors-{kind}_matrix")  # damage was looked for
    except DamagedStoreError:
        return  # said among the arrays
    column = table.column("vector").combine_chunks()
    rows = [column.values.to_numpy().reshape(table.num_rows, -1), np.asarray(matrix)]
    stored, own = (each[np.lexsort(each.T[::-1])] if len(each) else each for each in rows)  # in any order
    if not np.array_equal(stored, own):
        yield f"vectors of kind '{kind}' differ from the version's own"


def graph_differences(published: Published, store: GraphStore) -> list[str]:
    """What differs between a published version and a graph store, in sentences."""
    record = store.recorded()
    found = []
    if record is None or record.fingerprint != published.fingerprint:
        held = f"version {record.version}" if record is not None else "no complete version"
        found.append(f"Neo4j says that it holds {held}, not version {published.version}")
    for name, difference in _in_graph(published, store):
        for what, ids in (
            ("are missing", difference.missing),
            ("differ", difference.changed),
            ("are too many", difference.surplus),
        ):
            if ids:
                more = ", …" if len(ids) > _SHOWN else ""
                found.append(f"{len(ids)} {name.replace('_', ' ')} {what}: {', '.join(ids[:_SHOWN])}{more}")
    if not store.has_vector_index(published.dimension):
        found.append("the vector index is missing, not ready, or of another dimension")
    return found


def _in_graph(published: Published, store: GraphStore) -> Iterator[tuple[GraphKind, Difference]]:
    """By kind, what differs between the tables and what is really there, whatever hash it carries."""
    probe = probe_vector(published.dimension)
    for kind in GRAPH_KINDS:
        rows = store.rows(kind, probe.tolist())
        held = [(row, row_hash(row.properties, row.source, row.target)) for row in rows]
        hashes = [(row.id, found if row.is_found and row.hash == found else "") for row, found in held]
        difference = compare(published.hashes(kind), hashes)
        if kind == "entities":
            difference = _with_vectors(published, difference, {row.id: row.similarity for row in rows})
        yield kind, difference


def _with_vectors(published: Published, difference: Difference, similarities: Mapping[str, float | None]) -> Difference:
    """The same, with entities whose vector is not the index's: judged by its similarity to one fixed vector."""
    probe = probe_vector(published.dimension)
    vectors = published.vectors() if published.has_vectors else None
    wrong = []
    for row in published.rows("entities"):
        vector = vector_of(row, vectors)
        held = similarities.get(row.id)
        if row.id in similarities and (vector is None) != (held is None):
            wrong.append(row.id)
        elif vector is not None and held is not None:
            cosine = float(np.dot(vector, probe) / np.linalg.norm(vector))
            if abs((1 + cosine) / 2 - held) > _TOLERANCE:
                wrong.append(row.id)
    changed = {*difference.changed, *wrong} - {*difference.missing}
    return Difference(difference.missing, tuple(sorted(changed)), difference.surplus)


def probe_vector(dimension: int) -> Any:
    """A fixed vector of length 1 to which hardly two others are equally alike. Shape (dimension,)."""
    values = np.random.default_rng(0).normal(size=max(1, dimension))
    return values / np.linalg.norm(values)
