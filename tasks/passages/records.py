"""Records of a source as passages, metadata and quarantined rows: the part files that a batch of ingestion writes."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa

from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.records import BadRecord, Passage, Source, SourceRecord, location_of, some_of, values_of
from polyhop.schemas.tables import METADATA_VALUES, QUARANTINE, Column, Table
from polyhop.schemas.text import content_hash, plural, printable_line
from polyhop.tasks.passages.split import split_record
from polyhop.tasks.stage import fault_reason
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement


def quarantine_table(bad: Iterable[BadRecord]) -> pa.Table:
    """A table with the columns of polyhop.schemas.tables.QUARANTINE."""
    rows = [{"source": b.source, "line": b.line, "reason": b.reason, "excerpt": b.excerpt} for b in bad]
    return pa.Table.from_pylist(rows, schema=QUARANTINE.arrow)


FEWEST_FILES = 20
"""Fewer unusable files than this never refuse a folder, however small, of which anything can be used. Chosen: with the
share of .05 it counts from 400 files on, and whoever has fewer reads the list of what was left out."""


def check_share(
    build: Build,
    good: int,
    bad: int,
    refused: Sequence[tuple[object, ...]],
    lacking: int = 0,
    files: int = 0,
    *,
    source: Source | None = None,
) -> None:
    """Refuses a source with too many unusable records."""
    share = build.settings.corpus.max_quarantine_share
    counted = bad - (lacking + (files if files < FEWEST_FILES else 0) if good else 0)
    if counted <= share * (good + counted):
        return
    advice = "Fix them."
    if good:
        needed = math.ceil(100 * counted / (good + counted)) / 100
        advice = f"Fix them, or go on without them: --set corpus.max_quarantine_share={needed:g}"
    lines = "\n  ".join(some_of([refused_words(*row) for row in refused], bad))
    raise QuarantineExceededError(
        f"{bad} of {plural(good + bad, 'record')} in {source or build.source or build.index} are unusable, more than "
        f"the allowed share of {share:g}. {advice}\n  {lines}"
    )


def refused_words(source: object, line: object, reason: object) -> str:
    """A record of no use in a line: where it is, and why."""
    place = f"{source} line {line}" if line else str(source)  # a whole file, or a line that is not known
    return printable_line(f"{place}: {reason}")


_EXCERPT = 200  # characters, as the column `excerpt` of the quarantine says (schemas/tables.py)
Piece = tuple[Passage, SourceRecord]
Chunk = tuple[list[Piece], list[BadRecord], int]
"""Passages with their records, bad records, and how many records both were."""


def chunks(build: Build, records: Iterable[SourceRecord | BadRecord]) -> Iterator[Chunk]:
    """Passages, bad records and number of records; a record without an id gets one from title and text."""
    settings = build.settings.corpus
    pieces: list[Piece] = []
    bad: list[BadRecord] = []
    seen = 0
    for record in records:
        seen += 1
        if isinstance(record, BadRecord):
            bad.append(record)
        else:
            try:
                split = split_record(
                    record,
                    max_characters=settings.max_passage_characters,
                    overlap_sentences=settings.overlap_sentences,
                    min_section_characters=settings.min_section_characters,
                )
            except Exception as error:  # noqa: BLE001 - one odd text must not end the run; the quarantine says it
                bad.append(BadRecord(record.source, record.line, fault_reason(error), record.text[:_EXCERPT]))
            else:
                pieces.extend((passage, record) for passage in split)
        if len(pieces) + len(bad) >= build.settings.batch_size:
            yield pieces, bad, seen
            pieces, bad, seen = [], [], 0
    if seen:
        yield pieces, bad, seen


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
    """A table with the columns of PASSAGE_PARTS, one row for each passage and the record it was cut from."""
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


_RECORDS_AT_ONCE = 20_000
"""Chosen: a few million values take some 100 MB while they become a table."""


def fill_records(connection: duckdb.DuckDBPyConnection, parts: dict[str, list[str]]) -> None:
    """Fills the tables of records, after passages and documents."""
    connection.execute(statement("ingest", "fill_records"), parts)
    last = ""
    while found := connection.execute(
        statement("records", "records_with_metadata"), {"after": last, "limit": _RECORDS_AT_ONCE}
    ).fetchall():
        connection.register("found_values", table_of_rows(METADATA_VALUES.arrow, list(_rows(found))))
        connection.execute(statement("records", "add_values"))
        connection.unregister("found_values")
        last = found[-1][0]
    connection.execute(statement("records", "fill_columns"))


def drop_records(connection: duckdb.DuckDBPyConnection) -> None:
    """Removes records whose passages are all gone."""
    for name in ("drop_records", "drop_values", "drop_columns", "fill_columns"):
        connection.execute(statement("records", name))


def _rows(records: Iterable[tuple[str, str]]) -> Iterable[tuple[object, ...]]:
    for record_id, metadata in records:
        ordinals: Counter[str] = Counter()
        for name, value in values_of(json.loads(metadata)):
            yield record_id, name, ordinals[name], value.kind, value.value, value.number, value.moment
            ordinals[name] += 1
