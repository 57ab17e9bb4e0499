"""Passages as Arrow tables: the part files that a batch of ingestion writes.

Writes no file; SQL puts the parts together and settles ids that were used twice.
"""

import json
import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from polyhop.schemas.columns import Column, Table
from polyhop.schemas.corpus import Passage, SourceRecord
from polyhop.schemas.ids import content_hash

_WORD = re.compile(r"\w+")

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
    of_record: dict[str, object] = {}
    for passage, record in pieces:
        if record is not last:
            last, of_record = record, _record_columns(record)
        rows.append({**_passage_columns(passage), **of_record, "origin": origin})
    return pa.Table.from_pylist(rows, schema=PASSAGE_PARTS.arrow)


def count_words(title: str, text: str) -> int:
    """Runs of letters, digits and underscores in title and text."""
    return sum(1 for part in (title, text) for _ in _WORD.finditer(part))


def metadata_json(metadata: Mapping[str, object]) -> str:
    """The metadata as JSON that any store takes: keys sorted, half characters escaped."""
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _passage_columns(passage: Passage) -> dict[str, object]:
    return {
        "passage_id": passage.passage_id,
        "record_id": passage.record_id,
        "document_id": passage.document_id,
        "title": passage.title,
        "text": passage.text,
        "start_offset": passage.start,
        "end_offset": passage.end,
        "token_count": count_words(passage.title, passage.text),
        "content_hash": content_hash(passage.title, passage.text),
    }


def _record_columns(record: SourceRecord) -> dict[str, object]:
    return {
        "record_hash": content_hash(record.title, record.text),
        "source": record.source,
        "line": record.line,
        "metadata_json": metadata_json(record.metadata),
    }
