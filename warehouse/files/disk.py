"""Writing whole files or none, what files and folders take on the disk, and a disk's refusals in words."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from polyhop.schemas.errors import ConfigurationError, SourceError, StoreError
from polyhop.warehouse.files.layout import IndexFolder, owner_of

if TYPE_CHECKING:
    from polyhop.schemas.requests import Size

CSV, GRAPHML, HTML, JSON_LINES, PARQUET = _FORMATS = (".csv", ".graphml", ".html", ".jsonl", ".parquet")
"""Suffixes of the formats that commands write."""
READ_ONLY = "the file or its folder is read-only; choose another folder (--root) or change the owner"
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EACCES: "no permission to write there; choose another folder (for an index: --root) or change the folder's "
    "owner",
    errno.EPERM: "no permission to write there; choose another folder (for an index: --root) or change the folder's "
    "owner",
    errno.EROFS: "the file system is read-only; choose another folder (for an index: --root)",
    errno.ENOTDIR: "a file is where a folder is needed; choose another folder (for an index: --root)",
    errno.EEXIST: "a file is where a folder is needed; choose another folder (for an index: --root)",
}


@contextmanager
def writing(what: str, where: Path) -> Iterator[None]:
    """Turns what a disk refuses inside the block into one sentence."""
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


_BELOW_A_ROOT = frozenset({"indexes", "caches", "evaluations", "tunings"})


def make_folder(folder: Path, *, is_root: bool = False) -> None:
    """Makes a folder and those above it; a root that is new with them is open to its owner alone.

    Folders below a root that exists get the usual permissions, so that the owner of a root can share it.
    """
    roots = [folder] if is_root else [above for below, above in pairwise((folder, *folder.parents)) if _is_own(below)]
    if roots and not roots[-1].exists():
        roots[-1].parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process has just made it
            roots[-1].mkdir(mode=0o700)
    folder.mkdir(parents=True, exist_ok=True)


def _is_own(folder: Path) -> bool:
    return not folder.exists() and folder.name in _BELOW_A_ROOT


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader sees the old or the new content, never part of one (atomic rename)."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file next to `path` to write; it takes that name when the block ends well, and vanishes when it does not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync_file(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def named_file(path: Path, what: str, *suffixes: str) -> Iterator[Path]:
    """Yields the path for writing a user's file, which is replaced as a whole if the block succeeds.

    A pipe, a device or a symbolic link is written directly.
    """
    require_writable(path, what, *suffixes)
    with writing(what, path):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            yield path
            return
        with replacing(path) as temporary:
            yield temporary


def require_writable(path: Path, what: str, *suffixes: str) -> None:
    """Refuses a file that people named before long work, if it could not be written afterwards or its name misleads.

    Args:
        path: The file.
        what: Contents of the file, for messages: `the scores`.
        suffixes: The suffixes of the formats that can be written. A single format takes any name but one with the
            suffix of another format of ours; of several formats the suffix chooses one.
    """
    root = owner_of(path)
    if root is not None:  # nothing of Polyhop's own is written over
        message = f"{path} is among Polyhop's own files below {root}; name a file outside its folders to write to."
        raise ConfigurationError(message)
    if path.is_dir():
        raise StoreError(f"Cannot write {what} to {path}: that is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"Cannot write {what} to {path}: there is no folder {path.parent}; create it first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreError(f"Cannot write {what} to {path}: {_REASONS[errno.EACCES]}.")
    suffix = path.suffix.lower()
    if suffixes and suffix not in suffixes and (len(suffixes) > 1 or suffix in _FORMATS):
        raise ConfigurationError(f"Cannot write {what} to {path}: the name must end in {' or '.join(suffixes)}.")


@contextmanager
def locked_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to read and append to, made if it is not there; other lockers wait, also to replace it."""
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not is_same_file(file, path):
                continue  # replaced while we waited
            yield file
            return


def is_same_file(file: IO[bytes], path: Path) -> bool:
    """Returns whether `path` is still the name of an open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def file_hash(path: Path, what: str) -> str:
    """sha256 of a file's bytes, 64 hexadecimal digits."""
    try:
        return file_checksum(path)
    except OSError as error:
        raise SourceError(f"Cannot read {what} {path}: {error.strerror}; check the path.") from error


def file_checksum(path: Path) -> str:
    """sha256 of a file's bytes, 64 hexadecimal digits; errors of the system as they are."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(min(_HASHED, max(1, path.stat().st_size))))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            digest.update(buffer[:read])
    return digest.hexdigest()


_HASHED = 8 * 2**20  # Bytes at once: between small pieces, threads that import something are waited for.


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


_SECONDS_PER_DAY = 86_400.0  # 24 * 3600, in units of time.time()
STAGING_DAYS = 7.0  # chosen: a run that broke before a weekend is continued after it
_TEMPORARY_DAYS = 1.0  # chosen: a file that is written under another name takes its own within seconds


def size_of(*paths: Path) -> "Size":
    """Files and bytes of files and of folders with all that is in them; a file with several names counts once."""
    from polyhop.schemas.requests import Size

    seen: dict[tuple[int, int], int] = {}
    for path in paths:
        for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
            try:
                state = file.lstat()
            except FileNotFoundError:
                continue  # removed meanwhile
            if not file.is_dir():
                seen[state.st_dev, state.st_ino] = state.st_size
    return Size(len(seen), sum(seen.values()))


def age_days(path: Path) -> float:
    """Days since a file, or the newest file in a folder, was written; 0 if it no longer exists."""
    try:
        newest = max([path.stat().st_mtime, *(file.stat().st_mtime for file in path.rglob("*"))])
    except FileNotFoundError:
        return 0.0
    return max(0.0, (time.time() - newest) / _SECONDS_PER_DAY)


def old_leftovers(index: IndexFolder) -> list[Path]:
    """Parts of an interrupted run not continued for this long, and files that were never renamed.

    Only for who holds the writer's lease.
    """
    temporary = [*index.path.glob(".*.tmp"), *index.vectors.glob(".*.tmp")]
    left = [path for path in temporary if age_days(path) >= _TEMPORARY_DAYS]
    return [*([index.staging] if index.staging.exists() and age_days(index.staging) >= STAGING_DAYS else []), *left]


def remove_paths(paths: Sequence[Path]) -> None:
    """Removes files, and folders with all that is in them."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def empty_bytes(path: Path) -> int:
    """Bytes of a file that hold nothing any more; 0 if there is no file."""
    if not path.is_file():
        return 0
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")]
        return int(pragmas[0] * pragmas[1])


def compact_file(path: Path) -> bool:
    """Writes a file again without its empty pages; False if another connection has it open: then nothing is done."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()  # refused while anybody else has it open
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                return False
            raise
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # in a write-ahead log the file shrinks now
        return True


def is_writable(path: Path) -> bool:
    """Returns whether a file, and SQLite's two next to it, can be created or changed."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def connect_read_only(path: Path, **options: Any) -> sqlite3.Connection:
    """A connection that only reads, for a file whose folder may not be written."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    connection: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if not path.exists() or (log.exists() and log.stat().st_size):
            raise
        connection = sqlite3.connect(f"{uri}&immutable=1", uri=True, **options)  # else it wants to make a log
    return connection


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]], what: str) -> int:
    """Writes rows one a line, as they come, and says how many; `what` they are is for the error: `the scores`."""
    count = 0
    with named_file(path, what, JSON_LINES) as target, target.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
