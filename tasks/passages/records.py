"""Passages as Arrow tables: the part files that a batch of ingestion writes.

Writes no file; SQL puts the parts together and settles ids that were used twice.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from polyhop.schemas.columns import Column, Table
from polyhop.schemas.corpus import Passage, SourceRecord
from polyhop.schemas.ids import content_hash
from polyhop.schemas.sections import location_of

_WORD = re.compile(r"\w+")
_ASCII_WORDS = bytes(code if _WORD.match(chr(code)) else ord(" ") for code in range(256))
"""Every other byte becomes a space."""

PASSAGE_PARTS = Table(
    "passage_parts",
    "Passages as ingestion leaves them: every record that was read, also one that was read twice.",
    ("origin", "source", "line", "passage_id"),
    (
        Column("passage_id", pa.string(), "the record's id; with #n where a long record was split"),
        Column("record_id", pa.string(), "id of the record in the source, or made of its title and text"),
        Column("document_id", pa.string(), "document it belongs to"),
        Column("title", pa.string(), "title of the record"),
        Column("text", pa.string(), "its text"),
        Column("start_offset", pa.int64(), "first character in the record's text"),
        Column("end_offset", pa.int64(), "offset after its last character in the record's text"),
        Column("token_count", pa.int64(), "words in title and text"),
        Column("content_hash", pa.string(), "sha256 of title and text"),
        Column("record_hash", pa.string(), "sha256 of title and whole text of the record"),
        Column("source", pa.string(), "file"),
        Column("line", pa.int64(), "line or record number from 1, 0 for a whole file"),
        Column("metadata_json", pa.string(), "the record's metadata, as JSON with sorted keys"),
        Column("origin", pa.string(), "name of the source"),
        Column("first_page", pa.int64(), "page that it begins on", nullable=True),
        Column("last_page", pa.int64(), "page that it ends on", nullable=True),
        Column("slide", pa.int64(), "its slide", nullable=True),
        Column("sheet", pa.string(), "name of its sheet", nullable=True),
        Column("chapter", pa.string(), "title of its chapter", nullable=True),
        Column("headings", pa.list_(pa.string()), "its headings, NULL if nothing of this is known", nullable=True),
        Column("first_row", pa.int64(), "first row of its sheet or table", nullable=True),
        Column("last_row", pa.int64(), "its last row", nullable=True),
    ),
)


def passages_table(pieces: Iterable[tuple[Passage, SourceRecord]], origin: str = "") -> pa.Table:
    """A table with the columns of PASSAGE_PARTS, one row for each passage and the record it was cut from.

    Args:
        pieces: Passages and their records; those of one record follow each other.
        origin: Name of the source.
    """
    rows = []
    last: SourceRecord | None = None
    of_record: tuple[object, ...] = ()
    for passage, record in pieces:
        if record is not last:
            last, of_record = record, _record_columns(record)
        rows.append((*_passage_columns(passage), *of_record, origin, *_location_columns(passage, record)))
    return table_of_rows(PASSAGE_PARTS.arrow, rows)


def table_of_rows(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """A table of rows whose values are in the order of the schema; three times as fast as one of dictionaries."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def count_words(title: str, text: str) -> int:
    """Runs of letters, digits and underscores in title and text."""
    return _words(title) + _words(text)


def _words(text: str) -> int:
    if text.isascii():
        return len(text.encode().translate(_ASCII_WORDS).split())  # the same, in two thirds of the time
    return len(_WORD.findall(text))


def metadata_json(metadata: Mapping[str, object]) -> str:
    """The metadata as JSON that any store takes: keys sorted, half characters escaped."""
    if not metadata:
        return "{}"
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _passage_columns(passage: Passage) -> tuple[object, ...]:
    """In the order of PASSAGE_PARTS."""
    return (
        passage.passage_id,
        passage.record_id,
        passage.document_id,
        passage.title,
        passage.text,
        passage.start,
        passage.end,
        count_words(passage.title, passage.text),
        content_hash(passage.title, passage.text),
    )


_NOWHERE = (None,) * 8


def _location_columns(passage: Passage, record: SourceRecord) -> tuple[object, ...]:
    """In the order of PASSAGE_PARTS, last of all."""
    if not record.sections:
        return _NOWHERE
    found = location_of(record.sections, record.text, passage.start, passage.end)
    if found is None:
        return _NOWHERE
    rows = (found.first_row, found.last_row)
    return found.first_page, found.last_page, found.slide, found.sheet, found.chapter, list(found.headings), *rows


def _record_columns(record: SourceRecord) -> tuple[object, ...]:
    """In the order of PASSAGE_PARTS, after those of the passage."""
    return content_hash(record.title, record.text), record.source, record.line, metadata_json(record.metadata)
