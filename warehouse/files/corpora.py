"""Any corpus as a stream of records: text and document files alone or in folders, rows, question sets and graphs.

Hidden files and folders are skipped, links out of the folder too unless asked.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from polyhop.schemas.errors import ConfigurationError, PolyhopError, SourceError, StoreError
from polyhop.schemas.records import LINK_OUT, BadRecord, Document, SourceRecord, Tombstone, Unread, unread_words
from polyhop.warehouse.files import records
from polyhop.warehouse.files.formats import (
    DOCUMENTS,
    INSTALL_OFFICE,
    ROWS,
    TEXTS,
    folder_endings,
    formats_of_others,
    is_of_others,
    records_of_others,
    row_reader,
    text_reader,
)
from polyhop.warehouse.files.graph_files import GRAPHS
from polyhop.warehouse.files.questions import paragraph_record, question_set_of
from polyhop.warehouse.files.rows import NoColumnError

_EMPTY = b" \t\r\n\v\f\xef\xbb\xbf"  # whitespace, and the mark of UTF-8
_HEAD_BYTES = 4096  # chosen: most files that are not empty show it here

UNOPENED = "the folder cannot be opened"  # how the reason begins for which nothing below a folder was read

Convert = Callable[[Path], Document]  # reads a document file; raises FaultError if it is of no use


def not_converted(_path: Path) -> Document:
    """For callers that read texts only."""
    raise records.FaultError("files of this kind are not read here")


def read_text_file(path: Path) -> Iterator[SourceRecord | BadRecord]:
    """The one record of a text file that was named itself; nothing if it holds whitespace only."""
    if not _is_empty(path):
        yield _record(path, path.name)


def read_folder(
    folder: Path, *, convert: Convert, follow_links: bool = False, unread: Unread | None = None
) -> Iterator[SourceRecord | BadRecord]:
    """A record for each text and document below a folder, and those of CSV files and of other packages' files.

    In the order of the paths' parts. Text files that hold whitespace only are passed over.
    """
    others = Unread() if unread is None else unread
    is_empty = True
    for path, reason in _Walk(folder, others, follow_links=follow_links).files(folder):
        name = path.relative_to(folder).as_posix()
        if reason:
            yield records.bad_record(name, 0, f"{UNOPENED}: {reason}")
        elif _is_read(path):
            is_empty = False
            yield from file_records(path, name, convert, others)
        else:
            others.add(path.suffix.lower() or "no suffix", name)
    if is_empty:
        only = f"only others ({unread_words(others)}); name such a file itself"
        raise SourceError(
            f"{folder} has no file that ends in {', '.join(folder_endings())}, "
            f"{only if others else 'none at all; name another folder'}. No record was deleted."
        )


def file_records(path: Path, name: str, convert: Convert, unread: Unread) -> Iterator[SourceRecord | BadRecord]:
    """The records of a file of a folder; one that cannot be read to its end is a bad record."""
    ending = path.suffix.lower()
    try:
        if ending == ".csv":
            yield from _csv_records(path, name, convert, unread)
        elif ending in DOCUMENTS:
            yield from document_records(path, name, convert, unread)
        elif ending not in TEXTS:
            yield from records_of_others(path, records.suffix_of(path), name)
        elif not _is_empty(path):
            yield _record(path, name)
    except (ConfigurationError, StoreError):
        raise  # a package that does not load and a full disk are no faults of the file
    except PermissionError:
        yield records.bad_record(name, 0, "the file cannot be read: permission denied")
    except Exception as error:  # noqa: BLE001 - what parses a file from outside may fail in any way
        why = str(error) if isinstance(error, PolyhopError | OSError | EOFError | zlib.error) else records.damage(error)
        yield records.bad_record(name, 0, f"the file cannot be read to its end: {why}".rstrip("."))


def _csv_records(path: Path, name: str, convert: Convert, unread: Unread) -> Iterator[SourceRecord | BadRecord]:
    """The rows of a CSV file with a column of texts, their ids below its path; else the file as a table."""
    try:
        for row in row_reader(".csv")(path, records.TEXT_FIELDS):
            found = row if isinstance(row, BadRecord) else records.to_record(row, name)
            if isinstance(found, BadRecord):
                yield replace(found, source=name)
            else:
                yield replace(found, id=f"{name}/{found.id}" if found.id else "")
    except NoColumnError:
        yield from document_records(path, name, convert, unread)


class _Walk:
    """A walk over the files of a folder: nothing hidden, nothing twice, nothing outside unless links are followed."""

    def __init__(self, root: Path, unread: Unread, *, follow_links: bool) -> None:
        self._folder = root
        self._root = root.resolve()
        self._unread = unread
        self._follow_links = follow_links
        self._reached = {self._root}

    def files(self, folder: Path) -> Iterator[tuple[Path, str]]:
        """Files below a folder, sorted, however deep; and each folder that cannot be opened, with the reason."""
        waiting = _entries(folder)
        while waiting:
            entry = waiting.pop()
            path = Path(entry.path)
            if not self._is_wanted(path, is_link=entry.is_symlink()):
                continue
            try:
                if entry.is_dir():
                    waiting += _entries(path)
                elif entry.is_file():
                    yield path, ""
                else:
                    self._note("special file", path)
            except OSError as error:
                yield path, (error.strerror or str(error) or "no reason given").lower()

    def _note(self, kind: str, path: Path) -> None:
        self._unread.add(kind, path.relative_to(self._folder).as_posix())

    def _is_wanted(self, path: Path, *, is_link: bool) -> bool:
        """Returns whether to read an entry here: not if it is read elsewhere too, or outside; counts the latter."""
        if not is_link and not self._follow_links:
            return True
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a circle, in Python before 3.13
            self._note("broken link", path)
            return False
        is_inside = target.is_relative_to(self._root)
        if is_link and is_inside and (target.is_dir() or _is_read(target)):
            below = target.relative_to(self._root).parts
            if not any(part.startswith(".") for part in below):  # it is read under its own name
                return False
        if target in self._reached:
            return False
        if not self._follow_links and not is_inside:
            self._note(LINK_OUT, path)
            return False
        self._reached.add(target)
        return True


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    """Visible entries of a folder, the last first."""
    with os.scandir(folder) as found:
        shown = (entry for entry in found if not entry.name.startswith("."))
        return sorted(shown, key=lambda entry: entry.name, reverse=True)


def _is_read(path: Path) -> bool:
    return path.suffix.lower() in {*TEXTS, *DOCUMENTS} or is_of_others(records.suffix_of(path))


def _is_empty(path: Path) -> bool:
    with path.open("rb") as file:
        return not file.read(_HEAD_BYTES).strip(_EMPTY) and not file.read(records.MAX_RECORD_BYTES).strip(_EMPTY)


def _record(path: Path, name: str) -> SourceRecord | BadRecord:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > records.MAX_RECORD_BYTES:
            raise records.FaultError(
                f"the file is larger than {records.size_words(records.MAX_RECORD_BYTES)}; split it or use JSON lines"
            )
        found = text_reader(path.suffix.lower())(path.read_bytes(), path.stem)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a parser may fail in any way on a file of any content
        return records.bad_record(name, 0, records.fault_words(error))
    return of_document(found, name)


def document_records(path: Path, name: str, convert: Convert, unread: Unread) -> Iterator[SourceRecord | BadRecord]:
    """The record of a PDF, Office, EPUB or e-mail file, then of each file attached to it; bad ones have the reason."""
    try:
        found = convert(path)
    except records.FaultError as fault:
        if str(fault).endswith(INSTALL_OFFICE):
            unread.add(f"{path.suffix.lower()} without the extra office", name)
        yield records.bad_record(name, 0, str(fault))
    else:
        yield from _with_attached(found, name, unread)


def _with_attached(found: Document, name: str, unread: Unread) -> Iterator[SourceRecord | BadRecord]:
    """The record of a message unless it has no text, and those of what is attached to it."""
    if found.text or not found.attached:
        yield of_document(found, name)
    for part, kind in found.unread.items():
        unread.add(kind, f"{name}/{part}")
    for part, document in found.attached.items():
        own = f"{name}/{part}"
        if isinstance(document, str):
            if document.endswith(INSTALL_OFFICE):
                unread.add(f"attached {PurePosixPath(part).suffix.lower()} without the extra office", own)
            yield records.bad_record(own, 0, document)
            continue
        # an attached document, with what is known of the message that it came with
        title = document.title or PurePosixPath(part).stem
        has_headers = "from" in document.metadata  # it is a message itself
        headers = {} if has_headers else {key: value for key, value in found.metadata.items() if key != "attachments"}
        metadata = {**headers, **document.metadata, "attached_to": name, "attachment": part}
        named = replace(document, title=f"{title} ({found.title})" if found.title else title, metadata=metadata)
        yield from _with_attached(named, own, unread)


def of_document(found: Document, name: str) -> SourceRecord | BadRecord:
    """The record of a document file, whose id is its path below the folder; bad if it breaks a rule for records."""
    fields = {"title": found.title, "text": found.text, "metadata": found.metadata}
    return records.to_record(records.Row(0, fields, found.text[:800], found.sections), name, record_id=name)


# Source: algorithms.md 6.5 for question sets.

_Records = Iterator[SourceRecord | BadRecord]
_Items = Iterator[SourceRecord | BadRecord | Tombstone]
_CORPUS_FIELDS = (*records.TEXT_FIELDS, "context", "paragraphs")


def read_corpus(
    source: Path, *, convert: Convert = not_converted, follow_links: bool = False, unread: Unread | None = None
) -> _Items:
    """Yields the records of a corpus, and the rows that delete one, in its order; memory does not grow with its size.

    A file of HotpotQA, 2WikiMultiHopQA or MuSiQue questions is the corpus of all their paragraphs, each once; that is
    decided by its first record. Only there memory grows, by about 80 bytes for each different paragraph.

    Args:
        source: A file of a known format, or a folder of such texts and documents.
        convert: Reads a document file (polyhop.warehouse.documents.converter).
        follow_links: Whether symbolic links out of a folder are read.
        unread: Gets the files of a folder, and those attached to messages, that are not read, while iterating.

    Raises:
        SourceError: At once if it cannot be read at all; while iterating if it breaks off or holds no record.
    """
    suffix = records.suffix_of(source)
    if suffix in GRAPHS and suffix not in CORPUS_FORMATS and source.is_file():
        raise SourceError(f"{source} is a knowledge graph, not a corpus; name it with --graph.")
    # Documents, and what other packages read, need not be text.
    others = lambda: {*DOCUMENTS, *formats_of_others()}  # noqa: E731
    records.check_source(source, CORPUS_FORMATS, accepts_folder=True, others=others)
    if source.is_dir():
        found = read_folder(source, convert=convert, follow_links=follow_links, unread=unread)
        return records.guarded(source, found, "record")
    if suffix in DOCUMENTS and suffix not in CORPUS_FORMATS:
        return records.guarded(
            source, document_records(source, source.name, convert, Unread() if unread is None else unread), "record"
        )
    if is_of_others(suffix):
        return records.guarded(source, records_of_others(source, suffix, source.name), "record")
    if suffix == ".csv":
        rows = _table_or_rows(source, convert, Unread() if unread is None else unread)
        return records.guarded(source, rows, "record")
    return records.guarded(source, CORPUS_FORMATS[suffix](source), "record")


def _table_or_rows(source: Path, convert: Convert, unread: Unread) -> _Items:
    """Yields the rows of a CSV file with a column of texts, else the file as one document with a table."""
    try:
        yield from CORPUS_FORMATS[".csv"](source)
    except NoColumnError:
        yield from document_records(source, source.name, convert, unread)


def read_graph_sources(source: Path) -> _Records:
    """Yields texts for the nodes of a graph: records whose id is a node's own; several may have the same."""
    records.check_source(source, ROWS, accepts_folder=False)

    def texts() -> _Records:
        is_first = True
        for row in row_reader(records.suffix_of(source))(source, records.TEXT_FIELDS):
            record = row if isinstance(row, BadRecord) else records.to_record(row, source.name)
            if is_first and isinstance(row, records.Row):
                records.refuse_statements(source, row.fields)
                is_first = False
            if isinstance(row, records.Row) and isinstance(record, SourceRecord) and not record.id:
                record = records.bad_row(source.name, row, "missing id of a node: expected a field named id or _id")
            yield record

    return records.guarded(source, texts(), "record")


def _row_records(path: Path) -> _Items:
    """Records and deletions of rows; the first row that is not bad decides whether they are items of a question set."""
    question_set, source = None, path.name
    is_first = True
    seen: set[bytes] = set()
    for row in row_reader(records.suffix_of(path))(path, _CORPUS_FIELDS):
        if isinstance(row, BadRecord):
            yield row
            continue
        if is_first:
            records.refuse_statements(path, row.fields)
            question_set = question_set_of(row.fields)
            is_first = False
        if question_set is None:
            yield records.to_tombstone(row, source) or records.to_record(row, source)
            continue
        item_paragraphs = question_set.paragraphs
        paragraphs = records.usable(row, source, lambda row, _: item_paragraphs(row.fields))  # noqa: B023 - called at once
        if isinstance(paragraphs, BadRecord):
            yield replace(paragraphs, reason=f"not a {question_set.name} item: {paragraphs.reason}")
            continue
        for number, paragraph in enumerate(paragraphs, start=1):
            record = paragraph_record(paragraph, row.line, source)
            if isinstance(record, BadRecord):
                yield records.bad_record(
                    record.source, record.line, f"paragraph {number}: {record.reason}", record.excerpt
                )
            elif (key := bytes.fromhex(record.id)) not in seen:
                seen.add(key)
                yield record


CORPUS_FORMATS: dict[str, Callable[[Path], _Items]] = {
    **dict.fromkeys(ROWS, _row_records),
    **dict.fromkeys(TEXTS, read_text_file),
}
"""Our corpus formats: suffix to reader."""
