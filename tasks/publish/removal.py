"""Removing old versions, and the vectors that only they held; what killed processes left of either goes, too.

For who holds the writer's lease. Which versions are in use is known to polyhop.warehouse.files.versions.
"""

from polyhop.schemas.errors import ManifestMismatchError
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.versions import prune_versions, published_versions, read_manifest, surplus_versions
from polyhop.warehouse.open import open_vector_store


def prune(build: Build, *, is_after_kill: bool = False) -> list[int]:
    """Removes versions beyond `keep_versions` that nobody uses, and the vectors that only they held.

    Args:
        build: The build.
        is_after_kill: Whether an earlier process was killed while it changed vectors: what it left goes, too.
    """
    begin_removal(build.folder)
    removed = prune_versions(build.folder, build.settings.keep_versions)
    clean_vectors(build.folder, at_once=is_after_kill)
    return removed


def tidy(build: Build, *, is_after_kill: bool) -> list[int]:
    """What `prune` does, for a run that publishes nothing: only if there is something to remove."""
    if is_after_kill or surplus_versions(build.folder, build.settings.keep_versions):
        return prune(build, is_after_kill=is_after_kill)
    return []


def begin_removal(index: IndexFolder) -> None:
    """Notes that versions and then their vectors go, so that a kill in between is known (`was_killed`)."""
    if index.vectors.is_dir():
        open_vector_store(index).begin_changes()


def was_killed(index: IndexFolder) -> bool:
    """Whether the last process that changed the vectors of an index was killed. For who holds the writer's lease."""
    return index.vectors.is_dir() and open_vector_store(index).is_changing()


def clean_vectors(index: IndexFolder, *, at_once: bool = False) -> None:
    """Frees the vectors that no published version holds, also those of versions that a killed run removed.

    Only for who holds the writer's lease; `at_once`: also files of no version at all, which killed runs left.
    """
    if not index.vectors.is_dir():
        return
    numbers = published_versions(index)
    try:
        manifests = [read_manifest(index.version(number)) for number in numbers]
    except ManifestMismatchError:
        return  # nobody knows what the damaged one holds
    tables = {record.table for manifest in manifests for record in manifest.vectors.values()}
    store = open_vector_store(index)
    store.begin_changes()
    store.clean([version_tag(number) for number in numbers], tables, at_once=at_once)
    store.end_changes()


def version_tag(number: int) -> str:
    """The name by which a version pins its vectors."""
    return f"v{number:06d}"
