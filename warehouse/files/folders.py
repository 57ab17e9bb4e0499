"""Text and document files, alone or in folders: each is one record, named by its path below the folder.

Decodes nothing (markup.py does). Hidden files and folders are skipped, links out of the folder too unless asked.
"""

import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from polyhop.schemas.corpus import LINK_OUT, BadRecord, SourceRecord, unread_words
from polyhop.schemas.errors import SourceError
from polyhop.schemas.sections import Document
from polyhop.warehouse.files.formats import (
    DOCUMENTS,
    INSTALL_OFFICE,
    TEXTS,
    folder_endings,
    is_of_others,
    records_of_others,
    text_reader,
)
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, size_words
from polyhop.warehouse.files.records import FaultError, Row, bad_record, to_record
from polyhop.warehouse.files.sources import suffix_of

UNOPENED = "the folder cannot be opened: permission denied"
"""Why nothing below a folder was read."""

Convert = Callable[[Path], Document]
"""Reads a document file; raises FaultError if it is of no use."""


def not_converted(_path: Path) -> Document:
    """For whoever reads texts alone.

    Raises:
        FaultError: Always.
    """
    raise FaultError("files of this kind are not read here")


def read_text_file(path: Path) -> Iterator[SourceRecord | BadRecord]:
    """The one record of a text file that was named itself; nothing if it holds whitespace only."""
    record = _record(path, path.name)
    if isinstance(record, SourceRecord) or path.read_bytes().strip(b" \t\r\n\xef\xbb\xbf"):
        yield record


def read_folder(
    folder: Path, *, convert: Convert, follow_links: bool = False, unread: Counter[str] | None = None
) -> Iterator[SourceRecord | BadRecord]:
    """A record for each text file below a folder, and those of other packages' files, in the order of the paths' parts.

    Args:
        folder: The folder.
        convert: Reads a document file.
        follow_links: Whether links out of the folder are read.
        unread: Gets the number of files that are not read, by kind.

    Raises:
        SourceError: If there is none; it counts the files of other kinds.
    """
    others = Counter() if unread is None else unread
    is_empty = True
    for path in _Walk(folder, others, follow_links=follow_links).files(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            yield bad_record(name, 0, UNOPENED)
        elif path.suffix.lower() in TEXTS:
            is_empty = False
            yield _record(path, name)
        elif path.suffix.lower() in DOCUMENTS:
            is_empty = False
            record = document_record(path, name, convert)
            if _needs_office(record):
                others[f"{path.suffix.lower()} without the extra office"] += 1
            yield record
        elif is_of_others(suffix_of(path)):
            is_empty = False
            yield from _other_records(path, name)
        else:
            others[path.suffix.lower() or "no suffix"] += 1
    if is_empty:
        raise SourceError(_nothing_usable(folder, others))


def _needs_office(record: SourceRecord | BadRecord) -> bool:
    """Whether a document file was not read because the extra office is not installed."""
    return isinstance(record, BadRecord) and record.reason.endswith(INSTALL_OFFICE)


def _nothing_usable(folder: Path, others: Counter[str]) -> str:
    only = f"only others ({unread_words(others)}); name such a file itself"
    return (
        f"{folder} has no file that ends in {', '.join(folder_endings())}, "
        f"{only if others else 'none at all; name another folder'}. No record was deleted."
    )


class _Walk:
    """A walk over the files of a folder: nothing hidden, nothing twice, nothing outside unless links are followed."""

    def __init__(self, root: Path, unread: Counter[str], *, follow_links: bool) -> None:
        self._root = root.resolve()
        self._unread = unread
        self._follow_links = follow_links
        self._reached = {self._root}

    def files(self, folder: Path) -> Iterator[Path]:
        """Files below a folder, sorted; a folder that may not be opened is yielded itself."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            yield folder
            return
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith(".") or not self._is_wanted(path, is_link=entry.is_symlink()):
                continue
            if entry.is_dir():
                yield from self.files(path)
            elif entry.is_file():
                yield path
            else:
                self._unread["special file"] += 1

    def _is_wanted(self, path: Path, *, is_link: bool) -> bool:
        """Whether an entry is to be read here: not if it is elsewhere too, or outside; counts the latter."""
        if not is_link and not self._follow_links:
            return True
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a circle, in Python before 3.13
            self._unread["broken link"] += 1
            return False
        if target in self._reached or (is_link and self._is_walked(target)):
            return False
        if not self._follow_links and not target.is_relative_to(self._root):
            self._unread[LINK_OUT] += 1
            return False
        self._reached.add(target)
        return True

    def _is_walked(self, target: Path) -> bool:
        """Whether the target of a link is read under its own name."""
        if not target.is_relative_to(self._root):
            return False
        is_hidden = any(part.startswith(".") for part in target.relative_to(self._root).parts)
        return not is_hidden and (target.is_dir() or _is_read(target))


def _is_read(path: Path) -> bool:
    return path.suffix.lower() in {*TEXTS, *DOCUMENTS} or is_of_others(suffix_of(path))


def _other_records(path: Path, name: str) -> Iterator[SourceRecord | BadRecord]:
    """Records of a file in another package's format; one that cannot be read to its end does not end the folder."""
    try:
        yield from records_of_others(path, suffix_of(path), name)
    except (OSError, EOFError, zlib.error, SourceError) as error:
        yield bad_record(name, 0, f"the file cannot be read to its end: {error}".rstrip("."))


def _record(path: Path, name: str) -> SourceRecord | BadRecord:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MAX_RECORD_BYTES:
            raise FaultError(f"the file is larger than {size_words(MAX_RECORD_BYTES)}; split it or use JSON lines")
        found = text_reader(path.suffix.lower())(path.read_bytes(), path.stem)
    except FaultError as fault:
        return bad_record(name, 0, str(fault))
    except PermissionError:
        return bad_record(name, 0, "the file cannot be read: permission denied")
    return of_document(found, name)


def document_record(path: Path, name: str, convert: Convert) -> SourceRecord | BadRecord:
    """The record of a PDF, Office, EPUB or e-mail file; bad, with the reason, if it cannot be read."""
    try:
        return of_document(convert(path), name)
    except FaultError as fault:
        return bad_record(name, 0, str(fault))
    except PermissionError:
        return bad_record(name, 0, "the file cannot be read: permission denied")


def of_document(found: Document, name: str) -> SourceRecord | BadRecord:
    """The record of a document file, whose id is its path below the folder; bad if it breaks a rule for records."""
    fields = {"title": found.title, "text": found.text, "metadata": found.metadata}
    return to_record(Row(0, fields, found.text[:800], found.sections), name, record_id=name)
