"""Published versions: which there are, which is current, how one becomes current, which may go.

A version is a folder that appears by one rename and never changes; the pointer is a file replaced by one rename.
"""

import json
import shutil
from pathlib import Path

from pydantic import ValidationError

from schemas.errors import ManifestMismatchError, UnknownIdError, UnknownIndexError
from schemas.manifest import Manifest
from warehouse.files.disk import sync_file, sync_folder, write_whole
from warehouse.files.layout import IndexFolder, Layout, VersionFolder
from warehouse.files.lease import try_exclusive


def published_versions(index: IndexFolder) -> list[int]:
    """Numbers of all published versions, ascending."""
    if not index.versions.is_dir():
        return []
    return sorted(
        int(folder.name)
        for folder in index.versions.iterdir()
        if folder.name.isdigit() and (folder / "manifest.json").is_file()
    )


def current_version(index: IndexFolder) -> int | None:
    """Number of the current version, or None if nothing was published yet."""
    try:
        return int(index.current.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ManifestMismatchError(
            f"{index.current} does not hold a version number; "
            f"set it with: polyhop versions --index {index.name} --use N"
        ) from error


def require_version(layout: Layout, name: str, version: int | None = None) -> tuple[int, VersionFolder]:
    """The current (or the named) version of an index.

    Raises:
        UnknownIndexError: If nothing was published under that name.
        UnknownIdError: If that version does not exist (any more).
    """
    index = layout.index(name)
    number = current_version(index) if version is None else version
    if number is None:
        raise UnknownIndexError(name, layout.index_names(), str(layout.root))
    known = published_versions(index)
    if number not in known:
        raise UnknownIdError(f"Index '{name}' has no version {number}; it has {', '.join(map(str, known)) or 'none'}.")
    return number, index.version(number)


def read_manifest(folder: VersionFolder) -> Manifest:
    """The manifest of a version.

    Raises:
        ManifestMismatchError: If it cannot be understood.
    """
    try:
        return Manifest.model_validate_json(folder.manifest.read_bytes())
    except (ValidationError, ValueError) as error:
        raise ManifestMismatchError(
            f"{folder.manifest} is not a manifest that this version of Polyhop reads; "
            "build the index again from its SOURCE (what was encoded or paid for is not done twice)."
        ) from error


def publish_folder(index: IndexFolder, built: Path, manifest: Manifest) -> None:
    """Makes a built folder the next version and moves the pointer: two renames, no half version in between."""
    target = index.version(manifest.version)
    write_whole(built / "manifest.json", _manifest_bytes(manifest))
    for file in sorted(built.rglob("*")):
        if file.is_file():
            sync_file(file)
    index.versions.mkdir(parents=True, exist_ok=True)
    if target.path.exists():  # left by a crash between this rename and the pointer's: nobody ever read it
        shutil.rmtree(target.path)
    built.replace(target.path)
    sync_folder(index.versions)
    point_to(index, manifest.version)


def point_to(index: IndexFolder, version: int) -> None:
    """Makes a published version the current one."""
    write_whole(index.current, f"{version}\n".encode("ascii"))
    sync_folder(index.path)


def prune_versions(index: IndexFolder, keep: int) -> list[int]:
    """Removes all but the newest `keep` versions, the current one and those in use; returns what it removed."""
    current = current_version(index)
    removed = []
    for number in published_versions(index)[:-keep]:
        folder = index.version(number)
        if number == current:
            continue
        with try_exclusive(folder.manifest) as free:
            if free:
                folder.manifest.unlink()
                shutil.rmtree(folder.path)
                removed.append(number)
    return removed


def _manifest_bytes(manifest: Manifest) -> bytes:
    return (json.dumps(manifest.model_dump(mode="json"), indent=2, sort_keys=True) + "\n").encode()
