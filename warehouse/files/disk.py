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

from polyhop.schemas.errors import ConfigurationError, SourceError, StoreError
from polyhop.warehouse.files.layout import owner_of

READ_ONLY = "it, or its folder, may only be read; choose another place (--root) or change the owner"
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
def named_file(path: Path, what: str) -> Iterator[Path]:
    """Where to write a file that people named: it is there whole when the block ends well, or is as it was before.

    A pipe, a device or a symbolic link is written in place.

    Raises:
        ConfigurationError: If the file is one of Polyhop's own.
        StoreError: If the disk refuses.
    """
    require_place(path, what)
    with writing(what, path):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            yield path
            return
        with replacing(path) as temporary:
            yield temporary


def require_place(path: Path, what: str) -> None:
    """Finds out before long work that a file that people named cannot be written afterwards.

    Raises:
        ConfigurationError: If the file is one of Polyhop's own.
        StoreError: If its folder does not exist or may not be written, or the file is a folder.
    """
    require_foreign(path)
    if path.is_dir():
        raise StoreError(f"Cannot write {what} to {path}: that is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"Cannot write {what} to {path}: there is no folder {path.parent}; create it first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreError(f"Cannot write {what} to {path}: {_REASONS[errno.EACCES]}.")


def require_foreign(path: Path) -> None:
    """Makes sure that nothing of Polyhop's own is written over.

    Raises:
        ConfigurationError: If the path leads to or below what a root holds: an index, a cache, the queue.
    """
    root = owner_of(path)
    if root is not None:
        raise ConfigurationError(
            f"{path} is among Polyhop's own files below {root}; name a file outside its folders to write to."
        )


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
