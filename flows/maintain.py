"""Maintenance: prunes old versions, frees vectors, vacuums caches and queue, removes what killed runs left.

It can be killed at any moment and run again. Versions in use, and indexes that are being written, are left alone.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from polyhop.schemas.errors import DamagedStoreError, ManifestMismatchError, StoreConflictError, UnknownIndexError
from polyhop.schemas.requests import MaintenanceReport, MaintenanceRequest, PartSize, Size
from polyhop.schemas.settings import Settings
from polyhop.tasks.publish.publish import begin_removal, clean_vectors
from polyhop.warehouse.artefacts import open_array
from polyhop.warehouse.cache.vectors import VectorCache
from polyhop.warehouse.files.disk import (
    STAGING_DAYS,
    compact_file,
    empty_bytes,
    old_leftovers,
    remove_paths,
    size_of,
    writing,
)
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import (
    current_version,
    published_versions,
    remove_leftovers,
    remove_version,
    try_exclusive,
    writer_lease,
)
from polyhop.warehouse.open import open_questions

_MB = 1e6  # bytes of a megabyte, as settings and messages count it
_MANY_EMPTY_BYTES = 1_000_000  # and the share below
_MANY_EMPTY_SHARE = 0.2
"""Chosen: writing the file again costs reading and writing all of it, and SQLite uses empty pages again anyway."""


def run_maintenance(settings: Settings, request: MaintenanceRequest) -> MaintenanceReport:
    """Maintains one index or all, the caches, and the queue if asked to."""
    layout = Layout(settings.root)
    names = layout.index_names()
    if request.index is not None and request.index not in names:
        raise UnknownIndexError(request.index, names, str(layout.root))
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
        with writing(f"index '{index.name}'", index.path), writer_lease(index.lease, index.name):
            current = current_version(index)
            gone = [number for number in published_versions(index)[: -settings.keep_versions] if number != current]
            left = old_leftovers(index)
            if report.dry_run:
                gone = [number for number in gone if _is_free(index.version(number))]
            else:
                begin_removal(index)
                gone = [number for number in gone if remove_version(index, number)]
                remove_leftovers(index)
                remove_paths(left)
                clean_vectors(index, at_once=True)
            report.removed_versions[index.name] = gone
            report.removed["leftovers"] = report.removed.get("leftovers", 0) + len(left)
    except StoreConflictError as error:
        report.skipped.append(str(error))
    except ManifestMismatchError as error:  # without a pointer nobody knows which version must stay
        report.skipped.append(f"Index '{index.name}' was left alone: {error}")


def _is_free(version: VersionFolder) -> bool:
    """Whether nobody uses a version."""
    with try_exclusive(version.manifest) as is_free:
        return is_free


def _vacuum_vectors(layout: Layout, names: Sequence[str], report: MaintenanceReport) -> None:
    """Removes cached vectors whose texts are in no published version.

    A run that begins meanwhile keeps what it encodes in files of its own; a removed vector costs encoding again.
    """
    unfinished = sorted(layout.indexes.glob("*/staging"))  # of an index that is being built, or whose run was killed
    if unfinished:
        name = unfinished[0].parent.name
        report.skipped.append(
            f"Cached vectors were left alone: index '{name}' is being built, or its last run was interrupted "
            f"(indexes/{name}/staging goes after {STAGING_DAYS:g} days)."
        )
        return
    with closing(VectorCache(layout.vector_cache)) as cache:
        used: set[str] = set()
        try:
            for index in map(layout.index, names):
                gone = report.removed_versions.get(index.name, ())
                for number in published_versions(index):
                    arrays = index.version(number).arrays
                    # content hashes, the keys of the cache, of all vectors of a version that does not go
                    for file in sorted(arrays.glob("vectors-*_hashes.npy")) if number not in gone else ():
                        used.update(map(bytes.hex, map(np.ndarray.tobytes, open_array(arrays, file.stem))))
        except DamagedStoreError as error:
            report.skipped.append(f"Cached vectors were left alone: {error}")
            return
        unused = [key for key in cache.known_keys() if key not in used]
        report.removed["cached vectors"] = len(unused) if report.dry_run else cache.forget(unused)


def _compact(part: str, path: Path, report: MaintenanceReport) -> None:
    """Gives empty pages of a file back to the disk where they are many, unless anybody has it open."""
    try:
        empty = empty_bytes(path)
        if empty < _MANY_EMPTY_BYTES or empty < _MANY_EMPTY_SHARE * path.stat().st_size:
            return
        if report.dry_run or compact_file(path):
            report.compacted[part] = empty
        else:
            report.skipped.append(
                f"The {part} keeps {empty / _MB:.1f} MB of empty pages, because another process has it open; run "
                "maintenance while none does."
            )
    except sqlite3.DatabaseError as error:
        report.skipped.append(f"The {part} was not compacted: {error}; polyhop doctor looks at it.")


def _database_files(layout: Layout) -> dict[str, Path]:
    """The SQLite files under a root, by part."""
    return {
        "cache of vectors": layout.vector_cache,
        "cache of path vectors": layout.path_cache,
        "cache of documents": layout.document_cache,
        "cache of replies": layout.reply_cache,
        "queue": layout.queue,
    }


def _sizes(layout: Layout, names: Sequence[str]) -> dict[str, Size]:
    """By part: what every index, every cache and the queue's file take."""
    sizes: dict[str, Size] = {}
    for name in names:
        index = layout.index(name)
        sizes[f"index {name}: versions"] = size_of(index.versions)
        sizes[f"index {name}: vectors"] = size_of(index.vectors)
        sizes[f"index {name}: staging"] = size_of(index.staging)
    for part, path in _database_files(layout).items():
        sizes[part] = size_of(*(path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")))
    return sizes
