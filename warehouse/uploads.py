"""The uploaded files of an index: a folder that its runs read as one source.

A file appears, or is replaced, by one rename. A file that is switched off is moved to the hidden folder `.off`, since
folders of documents are read without hidden names. A marker says that a run has not read the last change yet.
"""

import os
import shutil
import stat
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from zlib import error as ZlibError  # noqa: N812 - its own name is that of a value

from polyhop.schemas.errors import SourceError
from polyhop.schemas.text import printable_line
from polyhop.warehouse.files.disk import locked_file, make_folder, sync_file, sync_folder, write_whole, writing
from polyhop.warehouse.files.formats import folder_endings
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.records import suffix_of

UPLOADS = "uploads"
"""Name of the source."""
MAX_FILES = 5_000  # of one upload; chosen: a browser and a page of the list cope with as many
MAX_FILE_BYTES = 256 << 20  # of one file; as many as a document may have to be converted
MAX_UPLOAD_BYTES = 1 << 30  # of one upload, unpacked; chosen: 16 times what a request may have
_MAX_PART_BYTES, _MAX_PATH = 200, 500  # of a path; file systems allow 255 a part, and a temporary name is longer
_OFF, _NEW, _LOCK, _CHANGED = ".off", ".new", ".lock", ".changed"
_PIECE = 1 << 20  # bytes that are copied at once

NamedFile = tuple[str, Callable[[], AbstractContextManager[IO[bytes]]]]
"""Path of an uploaded file below the folder, as the sender states it, and how to open its content."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file: its path below the folder, its size, and whether runs read it."""

    id: str
    size_bytes: int
    is_on: bool


def upload_path(stated: str) -> PurePosixPath:
    """The path below the folder that a sender states for a file.

    Raises:
        SourceError: If it leads out of the folder, is hidden, or no file could have it.
    """
    parts = stated.split("/")
    has_dots = any(part.startswith(".") for part in parts)
    is_long = len(stated) > _MAX_PATH or any(len(part.encode(errors="replace")) > _MAX_PART_BYTES for part in parts)
    if not all(parts) or has_dots or is_long or "\\" in stated or not stated.isprintable():
        raise SourceError(
            f"'{printable_line(stated[:100])}' cannot be the path of an uploaded file; use names without '..', without "
            f"a leading '/' or '.', and of at most {_MAX_PART_BYTES} bytes. No file was kept."
        )
    return PurePosixPath(stated)


def is_hidden(stated: str) -> bool:
    """Returns whether a file is one that systems add to folders and archives, and that runs would not read."""
    parts = stated.split("/")
    return any(part.startswith(".") and part.strip(".") for part in parts) or parts[0] == "__MACOSX"


def is_read(name: str) -> bool:
    """Returns whether runs read files with the ending of this name."""
    return PurePosixPath(name).suffix.lower() in folder_endings() or suffix_of(Path(name)) in folder_endings()


@contextmanager
def unpacked(archive: IO[bytes], name: str) -> Iterator[list[NamedFile]]:
    """Yields the files of a zip archive, which are read inside the block.

    Raises:
        SourceError: If it is damaged or encrypted, holds a link, too many files, or too much once it is unpacked.
    """
    shown = printable_line(name[:100])
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [one for one in opened.infolist() if not one.is_dir() and not is_hidden(one.filename)]
            _check_archive(entries, shown)
            yield [(one.filename, partial(opened.open, one)) for one in entries]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, ZlibError) as error:
        raise SourceError(f"Archive '{shown}' is damaged or of an unknown kind; pack it again as .zip.") from error


def _check_archive(entries: Sequence[zipfile.ZipInfo], shown: str) -> None:
    if len(entries) > MAX_FILES:
        raise SourceError(f"Archive '{shown}' holds {len(entries):,} files; upload at most {MAX_FILES:,} at once.")
    if sum(one.file_size for one in entries) > MAX_UPLOAD_BYTES:
        raise SourceError(
            f"Archive '{shown}' holds more than {MAX_UPLOAD_BYTES >> 20:,} MB once it is unpacked; upload it in parts."
        )
    for one in entries:
        if one.flag_bits & 1:
            raise SourceError(f"Archive '{shown}' is encrypted; pack it again without a password.")
        if stat.S_ISLNK(one.external_attr >> 16):
            link = printable_line(one.filename[:100])
            raise SourceError(f"Archive '{shown}' holds the link '{link}'; pack it again with the file itself.")


def keep_uploads(folder: IndexFolder, files: Iterable[NamedFile]) -> list[str]:
    """Keeps files, each under its path, instead of what was there; returns their paths. A file that was off is on.

    Raises:
        SourceError: If there is none, a path cannot be one, or a limit is exceeded; none is kept.
        StoreError: If the disk refuses them.
    """
    new = folder.files / _NEW
    with _changing(folder):
        shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
        new.mkdir()
        try:
            paths = _received(new, files)
            if not paths:
                raise SourceError("No file was chosen; choose at least one.")
            for path in paths:
                _require_free(folder.files, path)
            _mark(folder)
            for number, path in enumerate(paths):
                target = folder.files / path
                target.parent.mkdir(parents=True, exist_ok=True)
                (new / str(number)).replace(target)
                _remove(folder.files / _OFF, path)
            sync_folder(folder.files)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return [str(path) for path in paths]


def _received(new: Path, files: Iterable[NamedFile]) -> list[PurePosixPath]:
    """Writes the files as 0, 1, …; returns their paths in that order."""
    paths: list[PurePosixPath] = []
    known, folders = set[PurePosixPath](), set[PurePosixPath]()
    left = MAX_UPLOAD_BYTES
    for stated, open_content in files:
        path = upload_path(stated)
        folders.update(path.parents)
        if path in known or path in folders or not folders.isdisjoint(known):
            raise SourceError(f"'{path}' is in the upload twice; leave one out. No file was kept.")
        if len(paths) == MAX_FILES:
            raise SourceError(f"The upload has more than {MAX_FILES:,} files; send it in parts. No file was kept.")
        target = new / str(len(paths))
        size = 0
        with target.open("wb") as written, open_content() as content:
            while piece := content.read(_PIECE):
                size += len(piece)
                if size > min(left, MAX_FILE_BYTES):
                    limit = f"a file may have {MAX_FILE_BYTES >> 20} MB, an upload {MAX_UPLOAD_BYTES >> 20:,} MB"
                    raise SourceError(f"'{path}' is too large: {limit}. No file was kept.")
                written.write(piece)
        sync_file(target)
        left -= size
        paths.append(path)
        known.add(path)
    return paths


def _require_free(files: Path, path: PurePosixPath) -> None:
    """Raises SourceError if a folder is where a file should be, or a file where one of its folders should be."""
    taken = [above for above in path.parents if (files / above).is_file()]
    if (files / path).is_dir() or taken:
        other = f"a file '{taken[0]}'" if taken else "a folder of that name"
        raise SourceError(f"'{path}' cannot be kept because there is {other}; rename one. No file was kept.")


def delete_upload(folder: IndexFolder, id_: str) -> None:
    """Deletes a file, on or off, that `uploads` lists."""
    path = upload_path(id_)
    with _changing(folder):
        _mark(folder)
        for home in (folder.files, folder.files / _OFF):
            _remove(home, path)


def switch_upload(folder: IndexFolder, id_: str, *, is_on: bool) -> None:
    """Moves a file that `uploads` lists to where runs read it, or do not."""
    path = upload_path(id_)
    homes = folder.files / _OFF, folder.files
    source, target = homes if is_on else homes[::-1]
    with _changing(folder):
        if is_on:
            _require_free(folder.files, path)
        if (source / path).is_file():
            _mark(folder)
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).replace(target / path)
            _remove(source, path)


def _remove(home: Path, path: PurePosixPath) -> None:
    """Deletes a file, and the folders above it that are empty then."""
    (home / path).unlink(missing_ok=True)
    for above in list(path.parents)[:-1]:
        with suppress(OSError):
            (home / above).rmdir()


def uploads(folder: IndexFolder) -> list[Upload]:
    """The uploaded files, in the order of their paths."""
    found = [*_files(folder.files, is_on=True), *_files(folder.files / _OFF, is_on=False)]
    return sorted(found, key=lambda one: one.id)


def _files(home: Path, *, is_on: bool) -> Iterator[Upload]:
    for above, folders, names in os.walk(home):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(above, name)
            if not name.startswith(".") and not path.is_symlink():
                with suppress(FileNotFoundError):  # deleted meanwhile
                    yield Upload(path.relative_to(home).as_posix(), path.stat().st_size, is_on)


def is_changed(folder: IndexFolder) -> bool:
    """Returns whether a run has still to read the last change."""
    return (folder.files / _CHANGED).is_file()


def mark_changed(folder: IndexFolder) -> None:
    """Makes the next run read the files again."""
    with _changing(folder):
        _mark(folder)


@contextmanager
def taken_changes(folder: IndexFolder) -> Iterator[bool]:
    """Yields to a run whether there is a change to read; if the block succeeds, it counts as read unless more came."""
    with _changing(folder):
        before = _marker(folder)
    yield bool(before)
    if before:
        with _changing(folder):
            if _marker(folder) == before:
                (folder.files / _CHANGED).unlink()


def _marker(folder: IndexFolder) -> bytes:
    path = folder.files / _CHANGED
    return path.read_bytes() if path.is_file() else b""


def _mark(folder: IndexFolder) -> None:
    """Called before a change, so that a kill in the middle of it leaves the marker."""
    write_whole(folder.files / _CHANGED, uuid.uuid4().bytes)


@contextmanager
def _changing(folder: IndexFolder) -> Iterator[None]:
    """The lock of all who change the files, and of runs that look at the marker."""
    with writing(f"the files of index '{folder.name}'", folder.files):
        make_folder(folder.files)
        with locked_file(folder.files / _LOCK):
            yield
