"""Writing whole files or none, and saying in words what a disk refused.

Knows no format.
"""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from polyhop.schemas.errors import SourceError, StoreError

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EACCES: "no permission to write there; choose another place (an index: --root) or change the folder's owner",
    errno.EPERM: "no permission to write there; choose another place (an index: --root) or change the folder's owner",
    errno.EROFS: "the file system is read-only; choose another place (an index: --root)",
    errno.ENOTDIR: "a file is where a folder is needed; choose another place (an index: --root)",
    errno.EEXIST: "a file is where a folder is needed; choose another place (an index: --root)",
}


@contextmanager
def writing(what: str, where: Path) -> Iterator[None]:
    """Turns what a disk refuses inside the block into one sentence.

    Raises:
        StoreError: If the disk is full, read-only or not writable.
    """
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) or disk_sentence(error) or error.strerror or str(error)
        raise StoreError(f"Cannot write {what} to {where}: {reason}.") from error


def disk_sentence(error: BaseException) -> str | None:
    """The reason in `error`'s text if a library wrapped a full disk or a missing permission in its own error."""
    text = str(error).lower()
    if "no space left" in text or "disk quota" in text or "could not write" in text or "out of disk" in text:
        return _REASONS[errno.ENOSPC]
    if "permission denied" in text:
        return _REASONS[errno.EACCES]
    return None


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader sees the old or the new content, never part of one (atomic rename)."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write; it takes that name when the block ends well, and vanishes when it does not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to read and append to, made if it is not there; whoever else locks it waits, also to replace it.

    Raises:
        OSError: If the disk refuses.
    """
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_same(file, path):
                continue  # replaced while we waited
            yield file
            return


def _is_same(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def file_hash(path: Path, what: str) -> str:
    """sha256 of a file's bytes, 64 hexadecimal digits.

    Raises:
        SourceError: If it cannot be read.
    """
    try:
        return file_checksum(path)
    except OSError as error:
        raise SourceError(f"Cannot read {what} {path}: {error.strerror}; check the path.") from error


def file_checksum(path: Path) -> str:
    """sha256 of a file's bytes, 64 hexadecimal digits; errors of the system as they are."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Makes renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Makes a file's content survive a power cut."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for an immutable file, or a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
