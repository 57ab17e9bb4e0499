"""Any corpus as a stream of records: the front of all corpus readers.

Splits nothing, and compares no ids: the same id may come twice. Source: algorithms.md 6.5 for question sets.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from polyhop.schemas.corpus import BadRecord, SourceRecord, Tombstone, Unread
from polyhop.schemas.errors import SourceError
from polyhop.warehouse.files.folders import Convert, document_records, not_converted, read_folder, read_text_file
from polyhop.warehouse.files.formats import (
    DOCUMENTS,
    ROWS,
    TEXTS,
    formats_of_others,
    is_of_others,
    records_of_others,
    row_reader,
)
from polyhop.warehouse.files.graph_files import GRAPHS
from polyhop.warehouse.files.question_sets import QuestionSet, paragraph_record, question_set_of
from polyhop.warehouse.files.records import (
    TEXT_FIELDS,
    Row,
    bad_record,
    bad_row,
    refuse_statements,
    to_record,
    to_tombstone,
    usable,
)
from polyhop.warehouse.files.sources import check_source, guarded, suffix_of

_Records = Iterator[SourceRecord | BadRecord]
_Items = Iterator[SourceRecord | BadRecord | Tombstone]
_CORPUS_FIELDS = (*TEXT_FIELDS, "context", "paragraphs")


def read_corpus(
    source: Path,
    *,
    convert: Convert = not_converted,
    follow_links: bool = False,
    unread: Unread | None = None,
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
    suffix = suffix_of(source)
    if suffix in GRAPHS and suffix not in CORPUS_FORMATS and source.is_file():
        raise SourceError(f"{source} is a knowledge graph, not a corpus; name it with --graph.")
    check_source(source, CORPUS_FORMATS, accepts_folder=True, others=_formats_besides, decoded=TEXTS)
    if source.is_dir():
        found = read_folder(source, convert=convert, follow_links=follow_links, unread=unread)
        return guarded(source, found, "record")
    if suffix in DOCUMENTS and suffix not in CORPUS_FORMATS:
        return guarded(
            source, document_records(source, source.name, convert, Unread() if unread is None else unread), "record"
        )
    if is_of_others(suffix):
        return guarded(source, records_of_others(source, suffix, source.name), "record")
    return guarded(source, CORPUS_FORMATS[suffix](source), "record")


def _formats_besides() -> Collection[str]:
    """Endings of files that need not be text: documents, and what other packages read."""
    return {*DOCUMENTS, *formats_of_others()}


def read_graph_sources(source: Path) -> _Records:
    """Yields texts for the nodes of a graph: records whose id is a node's own; several may have the same.

    Raises:
        SourceError: At once if the file cannot be read at all; while iterating if it breaks off or holds no record.
    """
    check_source(source, ROWS, accepts_folder=False)
    rows = row_reader(suffix_of(source))(source, TEXT_FIELDS)
    return guarded(source, _node_texts(rows, source), "record")


def _node_texts(rows: Iterator[Row | BadRecord], path: Path) -> _Records:
    is_first = True
    for row in rows:
        if is_first and isinstance(row, Row):
            refuse_statements(path, row.fields)
            is_first = False
        yield _node_text(row, path.name)


def _node_text(row: Row | BadRecord, source: str) -> SourceRecord | BadRecord:
    record = row if isinstance(row, BadRecord) else to_record(row, source)
    if isinstance(row, Row) and isinstance(record, SourceRecord) and not record.id:
        return bad_row(source, row, "there is no id of a node: expected a field named id or _id")
    return record


def _row_corpus(suffix: str) -> Callable[[Path], _Items]:
    return lambda path: _records(row_reader(suffix)(path, _CORPUS_FIELDS), path)


def _records(rows: Iterator[Row | BadRecord], path: Path) -> _Items:
    """Records and deletions of rows; the first row that is not bad decides whether they are items of a question set."""
    question_set, source = None, path.name
    is_first = True
    seen: set[bytes] = set()
    for row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        if is_first:
            refuse_statements(path, row.fields)
            question_set = question_set_of(row.fields)
            is_first = False
        if question_set is None:
            yield to_tombstone(row, source) or to_record(row, source)
        else:
            yield from _paragraph_records(question_set, row, source, seen)


def _paragraph_records(question_set: QuestionSet, row: Row, source: str, seen: set[bytes]) -> _Records:
    """Records of an item's paragraphs that were not seen before; adds them to `seen`."""
    paragraphs = usable(row, source, lambda row, _: question_set.paragraphs(row.fields))
    if isinstance(paragraphs, BadRecord):
        yield replace(paragraphs, reason=f"not a {question_set.name} item: {paragraphs.reason}")
        return
    for number, paragraph in enumerate(paragraphs, start=1):
        record = paragraph_record(paragraph, row.line, source)
        if isinstance(record, BadRecord):
            yield bad_record(record.source, record.line, f"paragraph {number}: {record.reason}", record.excerpt)
        elif (key := bytes.fromhex(record.id)) not in seen:
            seen.add(key)
            yield record


CORPUS_FORMATS: dict[str, Callable[[Path], _Items]] = {
    **{suffix: _row_corpus(suffix) for suffix in ROWS},
    **dict.fromkeys(TEXTS, read_text_file),
}
"""Our corpus formats: suffix to reader."""
