"""Damage to the files of LanceDB: found by checksums of our own, for LanceDB has none, and said in one sentence.

LanceDB never changes a file but a tag that moves, it adds and removes some; so a file that differs from its checksum is
damaged. The list is written whenever a run has finished with the database. Repairs nothing (tasks/publish does).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from polyhop.schemas.errors import DamagedStoreError, StoreError
from polyhop.schemas.ids import content_hash
from polyhop.warehouse.files.disk import disk_sentence, file_checksum, write_whole
from polyhop.warehouse.files.layout import index_of

CHECKSUMS = "checksums.json"
CHECKED_BYTES = 64 * 2**20
"""Files up to this size are checked when a table is opened to be searched; as for arrays (graph/arrays.py)."""
_UNLISTED = "latest_version_hint.json"
"""The one file that LanceDB overwrites: where to begin to look for the latest version; any content does."""


@contextmanager
def translated(database: Path) -> Iterator[None]:
    """Turns LanceDB's errors inside the block, panics of its Rust code among them, into ours.

    Raises:
        StoreError: If the disk is full or not writable.
        DamagedStoreError: Otherwise: what was asked is right, so the files are not.
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        raise _ours(error, database) from error
    except BaseException as error:  # pyo3's PanicException derives from it, and no module exports that class
        if type(error).__name__ != "PanicException":
            raise
        raise _ours(error, database) from error


def _ours(error: BaseException, database: Path) -> StoreError:
    reason = disk_sentence(error)
    if reason is not None:
        return StoreError(f"Cannot write vectors to {database}: {reason}.")
    said = str(error).strip().split("\n", 1)[0].removeprefix("lance error: ").split(", /root/")[0]
    return DamagedStoreError(database, index_of(database), f"LanceDB says: {said[:120]}")


@dataclass(frozen=True, slots=True)
class FileList:
    """Checksums of the files of a database by relative path.

    Attributes:
        files: sha256 by path.
        is_changing: Whether a run that may remove files has begun and not ended: then a missing one is not damage.
    """

    files: dict[str, str]
    is_changing: bool = False


def begin_changes(database: Path) -> None:
    """Says that files may come and go from now on; a damaged list stays as it is, so that damage stays visible."""
    try:
        listed = read_list(database)
    except DamagedStoreError:
        return
    if listed is not None and listed.is_changing:
        return
    database.mkdir(parents=True, exist_ok=True)
    _write(database, FileList({} if listed is None else listed.files, is_changing=True))


def is_changing(database: Path) -> bool:
    """Whether changes began and never ended: to who holds the writer's lease, that a process was killed meanwhile."""
    if _unfinished_lists(database):
        return True
    try:
        listed = read_list(database)
    except DamagedStoreError:
        return False
    return listed is not None and listed.is_changing


def write_list(database: Path) -> None:
    """Lists the files that are there; one that was listed before keeps its checksum, so that damage stays visible."""
    for temporary in _unfinished_lists(database):
        temporary.unlink()
    known = _known(database)
    files = {name: known.get(name) or file_checksum(database / name) for name in _present(database)}
    _write(database, FileList(files))


def _unfinished_lists(database: Path) -> list[Path]:
    """Lists of killed processes that never got their name: an index has one writer, and that is writing none now."""
    return list(database.glob(f".{CHECKSUMS}.*.tmp"))


def forget_tag(database: Path, table: str, tag: str) -> None:
    """Takes a tag off the list before it is moved: its file is about to have another content."""
    known = _known(database)
    if known.pop(f"{table}.lance/_refs/tags/{tag}.json", None) is not None:
        _write(database, FileList(known, is_changing=True))


def _known(database: Path) -> dict[str, str]:
    """What is listed; nothing if the list itself is damaged, for then no table is built on (`find_damage`)."""
    try:
        listed = read_list(database)
    except DamagedStoreError:
        return {}
    return listed.files if listed is not None else {}


def read_list(database: Path) -> FileList | None:
    """The list; None if there is none yet.

    Raises:
        DamagedStoreError: If it is not as it was written.
    """
    path = database / CHECKSUMS
    try:
        document = json.loads(path.read_bytes())
        listed = FileList(dict(document["files"]), bool(document["is_changing"]))
        is_whole = document["checksum"] == _checksum(listed)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStoreError(path, index_of(path)) from error
    if not is_whole:
        raise DamagedStoreError(path, index_of(path))
    return listed


def find_damage(database: Path, table: str) -> list[str]:
    """What is wrong with the files of a table, in sentences; nothing is known of a database without a list."""
    try:
        listed = read_list(database)
    except DamagedStoreError:
        return [f"file '{CHECKSUMS}' of the vectors is damaged"]
    found = []
    for name, checksum in sorted(listed.files.items()) if listed is not None else ():
        if not name.startswith(f"{table}.lance/"):
            continue
        held = _digest(database / name)
        if held is None and listed is not None and not listed.is_changing:
            found.append(f"file '{name}' of the vectors is missing")
        elif held not in (None, checksum):
            found.append(f"file '{name}' of the vectors has another content than was written")
    return found


def require_whole(database: Path, table: str) -> None:
    """Makes sure, before a table is searched, that its files are those that were written, as far as that is cheap.

    Raises:
        DamagedStoreError: If one of up to `CHECKED_BYTES` has another content.
    """
    listed = read_list(database)
    for name, checksum in sorted(listed.files.items()) if listed is not None else ():
        path = database / name
        if name.startswith(f"{table}.lance/") and path.is_file() and path.stat().st_size <= CHECKED_BYTES:
            held = _digest(path)
            if held not in (None, checksum):  # None: an index run has just removed it
                raise DamagedStoreError(path, index_of(path))


def _digest(path: Path) -> str | None:
    try:
        return file_checksum(path)
    except FileNotFoundError:
        return None


def _present(database: Path) -> list[str]:
    files = (file for file in database.glob("*.lance/**/*") if file.is_file() and file.name != _UNLISTED)
    return sorted(file.relative_to(database).as_posix() for file in files)


def _write(database: Path, listed: FileList) -> None:
    document = {"files": listed.files, "is_changing": listed.is_changing, "checksum": _checksum(listed)}
    write_whole(database / CHECKSUMS, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def _checksum(listed: FileList) -> str:
    return content_hash("files", json.dumps([listed.files, listed.is_changing], sort_keys=True))
