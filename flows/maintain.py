"""Upkeep of what is stored: old versions pruned and caches vacuumed; every store compared with what it should hold.

Maintenance can be killed at any moment and run again; versions in use, and indexes that are being written, are left
alone. Verification compares tables, arrays and vectors with the manifest, and Neo4j with the tables, and changes
nothing unless asked to repair; then what the tables can give again is given again.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.flows.export import Difference, Published, compare, row_hash, vector_of, write_differences
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas import errors
from polyhop.schemas.manifest import VectorRecord
from polyhop.schemas.ports import GRAPH_KINDS, GraphKind, GraphStore
from polyhop.schemas.records import Address, source_of
from polyhop.schemas.requests import IndexRequest, MaintenanceReport, MaintenanceRequest, PartSize, Size
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import plural
from polyhop.tasks.publish.publish import begin_removal, clean_vectors
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.warehouse.artefacts import open_array
from polyhop.warehouse.cache.database import find_damaged_caches, set_aside
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files import disk, versions
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.index_reader import find_damage, read_vectors
from polyhop.warehouse.open import open_graph_store, open_questions
from polyhop.warehouse.open_models import close_encoders
from polyhop.warehouse.tables.connection import foreign_objects

_MB = 1e6  # bytes of a megabyte, as settings and messages count it
_MANY_EMPTY_BYTES = 1_000_000  # and the share below
_MANY_EMPTY_SHARE = 0.2
"""Chosen: writing the file again costs reading and writing all of it, and SQLite uses empty pages again anyway."""


def run_maintenance(settings: Settings, request: MaintenanceRequest) -> MaintenanceReport:
    """Maintains one index or all, the caches, and the queue if asked to."""
    layout = Layout(settings.root)
    names = layout.index_names()
    if request.index is not None and request.index not in names:
        raise errors.UnknownIndexError(request.index, names, str(layout.root))
    report = MaintenanceReport(request.dry_run)
    before = _sizes(layout, names)
    for name in names if request.index is None else [request.index]:
        _maintain_index(layout.index(name), settings, report)
    if layout.vector_cache.exists():
        _vacuum_vectors(layout, names, report)
    if request.queue_days is not None:
        with open_questions(settings) as queue:
            days = request.queue_days
            report.removed["jobs"] = queue.count_purgeable(days) if report.dry_run else queue.purge(days)
    for part, path in _database_files(layout).items():
        _compact(part, path, report)
    after = _sizes(layout, names)
    report.parts = [PartSize(part, size, after[part]) for part, size in before.items()]
    return report


def _maintain_index(index: IndexFolder, settings: Settings, report: MaintenanceReport) -> None:
    """Removes old versions and what killed runs left; an index in use is skipped."""
    try:
        with disk.writing(f"index '{index.name}'", index.path), versions.writer_lease(index.lease, index.name):
            current = versions.current_version(index)
            gone = [
                number for number in versions.published_versions(index)[: -settings.keep_versions] if number != current
            ]
            left = disk.old_leftovers(index)
            if report.dry_run:  # those in use stay
                gone = [number for number in gone if _is_free(index.version(number))]
            else:
                begin_removal(index)
                gone = [number for number in gone if versions.remove_version(index, number)]
                versions.remove_leftovers(index)
                disk.remove_paths(left)
                clean_vectors(index, at_once=True)
            report.removed_versions[index.name] = gone
            report.removed["leftovers"] = report.removed.get("leftovers", 0) + len(left)
    except errors.StoreConflictError as error:
        report.skipped.append(str(error))
    except errors.ManifestMismatchError as error:  # without a pointer it is unknown which version must stay
        report.skipped.append(f"Index '{index.name}' was skipped: {error}")


def _is_free(version: VersionFolder) -> bool:
    with versions.try_exclusive(version.manifest) as is_free:
        return is_free


def _vacuum_vectors(layout: Layout, names: Sequence[str], report: MaintenanceReport) -> None:
    """Removes cached vectors whose texts are in no published version."""
    unfinished = sorted(layout.indexes.glob("*/staging"))  # of an index that is being built, or whose run was killed
    if unfinished:
        name = unfinished[0].parent.name
        report.skipped.append(
            f"Cached vectors were not cleaned up: index '{name}' is being built, or its last run was interrupted "
            f"(indexes/{name}/staging goes after {disk.STAGING_DAYS:g} days)."
        )
        return
    with closing(VectorCache(layout.vector_cache)) as cache:
        used: set[str] = set()
        try:
            for index in map(layout.index, names):
                gone = report.removed_versions.get(index.name, ())
                for number in versions.published_versions(index):
                    arrays = index.version(number).arrays
                    # content hashes, the keys of the cache, of all vectors of a version that does not go
                    for file in sorted(arrays.glob("vectors-*_hashes.npy")) if number not in gone else ():
                        used.update(map(bytes.hex, map(np.ndarray.tobytes, open_array(arrays, file.stem))))
        except errors.DamagedStoreError as error:
            report.skipped.append(f"Cached vectors were not cleaned up: {error}")
            return
        # a run that began meanwhile keeps what it encodes in its own files; a removed vector costs encoding again
        unused = [key for key in cache.known_keys() if key not in used]
        report.removed["cached vectors"] = len(unused) if report.dry_run else cache.forget(unused)


def _compact(part: str, path: Path, report: MaintenanceReport) -> None:
    """Gives empty pages of a file back to the disk where they are many, unless anybody has it open."""
    try:
        empty = disk.empty_bytes(path)
        if empty < _MANY_EMPTY_BYTES or empty < _MANY_EMPTY_SHARE * path.stat().st_size:
            return
        if report.dry_run or disk.compact_file(path):
            report.compacted[part] = empty
        else:
            report.skipped.append(
                f"The {part} keeps {empty / _MB:.1f} MB of empty pages, because another process has it open; run "
                "maintenance again when it is closed."
            )
    except sqlite3.DatabaseError as error:
        report.skipped.append(f"The {part} was not compacted: {error}; run polyhop doctor to check it.")


def _database_files(layout: Layout) -> dict[str, Path]:
    return {
        "cache of vectors": layout.vector_cache,
        "cache of judged names": layout.name_cache,
        "cache of path vectors": layout.path_cache,
        "cache of documents": layout.document_cache,
        "cache of replies": layout.reply_cache,
        "queue": layout.queue,
    }


def _sizes(layout: Layout, names: Sequence[str]) -> dict[str, Size]:
    """By part: what every index, every cache and the queue's file take."""
    sizes: dict[str, Size] = {}
    for name in names:
        for part in ("versions", "vectors", "staging"):
            sizes[f"index {name}: {part}"] = disk.size_of(getattr(layout.index(name), part))
    for part, path in _database_files(layout).items():
        sizes[part] = disk.size_of(*(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")))
    return sizes


OLDER = "older_versions"
CACHES = "caches"
# of a similarity; chosen: far above float32's rounding (near 1e-7), far below what the vector of another text changes
_TOLERANCE = 1e-5
_SHOWN = 5  # ids of a difference that a line names; their number is said


@dataclass(slots=True)
class VerifyReport:
    """Differences by store, in sentences."""

    index: str
    version: int
    differences: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Returns whether no store differs."""
        return not self.sentences

    @property
    def sentences(self) -> list[str]:
        """Differences of all stores."""
        return [sentence for found in self.differences.values() for sentence in found]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop verify` (architecture.md section 9)."""
        stores = {name: {"ok": not found, "differences": found} for name, found in self.differences.items()}
        return {"index": self.index, "version": self.version, "stores": stores}


def run_verify(settings: Settings, index: str, address: Address | None = None) -> VerifyReport:
    """Compares every store with what it should hold; writes nothing."""
    layout = Layout(settings.root)
    folder = layout.index(index)
    with versions.hold_version(layout, index) as held:
        report = VerifyReport(index, held.number)
        manifest = versions.read_manifest(held.folder)
        damage = find_damage(folder, held.folder, manifest)
        report.differences["tables"] = [*dict.fromkeys(damage.tables.values())]
        if not damage.tables and (foreign := foreign_objects(held.folder.tables)):
            sentence = f"file 'index.duckdb' holds the {', the '.join(foreign)}, which Polyhop did not create"
            report.differences["tables"] = [sentence]
        report.differences["arrays"] = [*damage.arrays.values()]
        report.differences["vectors"] = [*damage.vectors.values()]
        for kind, record in manifest.vectors.items():
            if kind not in damage.vectors:
                report.differences["vectors"] += _vectors_of(folder, held.folder, kind, record)
        # Nothing is built on versions that are not current, but `versions --use` may want one.
        older = [number for number in versions.published_versions(folder) if number != held.number]
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
        pinned = versions.pinned_version(folder)
        if pinned is not None:
            versions.point_to(folder, pinned)  # unpinned, so that the run derives from it and replaces it
        try:
            run_index(settings, _rebuilding(layout, report.index), DirectRunner())
        finally:
            if pinned is not None:
                versions.point_to(folder, versions.current_version(folder) or pinned, is_pinned=True)
    with versions.writer_lease(folder.lease, report.index):
        begin_removal(folder)
        for number in versions.published_versions(folder):
            if any(_damage_of(folder, number)):
                versions.remove_version(folder, number)
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
    _, folder = versions.require_version(layout, index)
    manifest = versions.read_manifest(folder)
    damage = find_damage(layout.index(index), folder, manifest)
    kind = source_kind(manifest.stages)
    first = stages_for(manifest.artefacts, kind)[0]
    is_foreign = layout.index(index).pull_marker.exists()  # then a manifest does not decide which files are read here
    if not manifest.source or is_foreign or not damage.concerns(first.table_names, first.arrays):
        return IndexRequest(index, None, full=True)
    source = source_of(manifest.source)
    texts = Path(manifest.graph_sources) if manifest.graph_sources else None
    if any(isinstance(path, Path) and not path.exists() for path in (source, texts)):
        return IndexRequest(index, None, full=True)
    return IndexRequest(index, source, full=True, kind=kind, graph_sources=texts)


def _damage_of(index: IndexFolder, number: int) -> Iterator[str]:
    folder = index.version(number)
    try:
        yield from find_damage(index, folder, versions.read_manifest(folder)).sentences()
    except errors.ManifestMismatchError as error:
        yield str(error).split("; ", 1)[0]


def _vectors_of(index: IndexFolder, folder: VersionFolder, kind: str, record: VectorRecord) -> Iterator[str]:
    try:
        table = read_vectors(index, folder, kind)
    except errors.StoreError as error:
        yield f"vectors of kind '{kind}' cannot be read: {error}"
        return
    if table.num_rows != record.rows:
        yield f"vectors of kind '{kind}': {plural(table.num_rows, 'row')} instead of {record.rows}"
        return
    try:
        matrix = open_array(folder.arrays, f"vectors-{kind}_matrix")  # damage was looked for
    except errors.DamagedStoreError:
        return  # said among the arrays
    column = table.column("vector").combine_chunks()
    rows = [column.values.to_numpy().reshape(table.num_rows, -1), np.asarray(matrix)]
    stored, own = (each[np.lexsort(each.T[::-1])] if len(each) else each for each in rows)  # in any order
    if not np.array_equal(stored, own):
        yield f"vectors of kind '{kind}' differ from the version's own"


def graph_differences(published: Published, store: GraphStore) -> list[str]:
    """Differences between a published version and a graph store, in sentences."""
    record = store.recorded()
    found = []
    if record is None or record.fingerprint != published.fingerprint:
        held = f"version {record.version}" if record is not None else "no complete version"
        found.append(f"Neo4j says that it holds {held}, not version {published.version}")
    for name, difference in _in_graph(published, store):
        missing, changed, surplus = difference.missing, difference.changed, difference.surplus
        for what, ids in (("are missing", missing), ("differ", changed), ("are too many", surplus)):
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
