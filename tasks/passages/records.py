"""Records of a source as passages (long texts cut where a reader would pause), metadata and quarantined rows.

Offsets are exact: `record.text[p.start:p.end] == p.text` for every passage `p`.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import pairwise

import duckdb
import pyarrow as pa

from polyhop.schemas.errors import QuarantineExceededError
from polyhop.schemas.names import split_sentences
from polyhop.schemas.records import (
    BadRecord,
    Passage,
    Source,
    SourceRecord,
    is_heading_only,
    location_of,
    some_of,
    values_of,
)
from polyhop.schemas.tables import (
    DOCUMENTS,
    LOCATIONS,
    METADATA_COLUMNS,
    METADATA_VALUES,
    PASSAGES,
    QUARANTINE,
    RECORDS,
    Column,
    Table,
)
from polyhop.schemas.text import content_hash, document_id, norm_ws, plural, printable_line, record_id
from polyhop.tasks.stage import fault_reason
from polyhop.warehouse.build import Build, clear_tables, replace_rows
from polyhop.warehouse.statements import statement

MIN_SECTION_CHARACTERS = 200  # Chosen: two sentences; a shorter passage seldom says what it is about.

_NOT_BLANK = re.compile(r"\S")
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n")
_UP_TO_BLANK = re.compile(r".*(?=\s)", re.DOTALL)
# characters after the longest piece, in which the next sentence begins or does not: that decides where the last one
# ends. Chosen.
_LOOK_AHEAD = 200
Span = tuple[int, int]


def split_record(
    record: SourceRecord,
    *,
    max_characters: int,
    overlap_sentences: int = 0,
    min_section_characters: int = MIN_SECTION_CHARACTERS,
) -> list[Passage]:
    """The passages of a record: itself, or pieces that together hold all its words; none of whitespace only.

    A record with sections is first cut where one begins: always where a slide, sheet or chapter does, and where a
    heading does, unless what stands before it is a heading alone or too short for a passage. What is still too long
    is cut at the last empty line, else the last end of a sentence, in the second half of what still fits; else at the
    last of either at all, else at the last whitespace, else after `max_characters`. Pieces are trimmed. A piece repeats
    `overlap_sentences` of the one before, at most half a passage and never across a heading.

    Its id may be empty; then it is made of title and text. Pieces have the ids `<record id>#0`, `#1`…
    Cost: O(characters + sections), with whitespace or without.
    """
    text = record.text
    if not text.strip():
        return []
    blocks = _blocks(record, max_characters, min_section_characters) if record.sections else [(0, len(text))]
    spans: list[Span] = []
    for block in blocks:
        is_whole = len(blocks) == 1 and len(text) <= max_characters
        spans += [block] if is_whole else _pieces(text, block, max_characters, overlap_sentences)
    own_id = record.id or record_id(record.title, text)
    is_file = own_id == record.source  # two files of one title are two documents
    document = document_id(norm_ws(own_id if is_file else record.title) or norm_ws(own_id))
    passages = []
    for number, (start, end) in enumerate(spans):
        passage_id = own_id if len(spans) == 1 else f"{own_id}#{number}"
        passages.append(Passage(passage_id, own_id, document, number, record.title, text[start:end], start, end))
    return passages


def _blocks(record: SourceRecord, max_characters: int, min_characters: int) -> list[Span]:
    """Spans that no passage crosses; together they are the whole text."""
    sections, text = record.sections, record.text
    starts = [0]
    has_body = False  # whether more than headings stands between the last start and the section before this one
    for number, (before, section) in enumerate(pairwise(sections)):
        has_body = has_body or not is_heading_only(sections, text, number)
        length = section.start - starts[-1]
        end = sections[number + 2].start if number + 2 < len(sections) else len(text)
        if (before.container != section.container or before.headings != section.headings) and (
            before.container != section.container
            or (has_body and (length >= min_characters or end - starts[-1] > max_characters))
        ):
            starts.append(section.start)
            has_body = False
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _pieces(text: str, block: Span, max_characters: int, overlap_sentences: int) -> Iterator[Span]:
    """Spans of at most `max_characters` that hold all words of a block."""
    begin = _NOT_BLANK.search(text, *block)
    if begin is None:
        return
    start = done = begin.start()
    while True:
        end = _end(text, start, block[1], max_characters)
        if end <= done:  # only what is repeated would fit: repeat nothing
            start = done
            end = _end(text, start, block[1], max_characters)
        yield start, start + len(text[start:end].rstrip())
        begin = _NOT_BLANK.search(text, end, block[1])
        if begin is None:
            return
        done = begin.start()
        # The next piece repeats whole sentences of this one; all of them would be the same piece again.
        spans = split_sentences(text[start:done])[1:][-overlap_sentences:] if overlap_sentences else []
        lengths = [done - start - first for first, _ in spans]
        start = done - max((length for length in lengths if length * 2 <= max_characters), default=0)


def _end(text: str, start: int, block_end: int, max_characters: int) -> int:
    if block_end - start <= max_characters:
        return block_end
    return start + _cut(text[start : min(block_end, start + max_characters + _LOOK_AHEAD)], max_characters)


def _cut(text: str, max_characters: int) -> int:
    """Length of the piece that a text begins with, from 1 to `max_characters`; it may be cut after that and 200 more.

    The text is longer than `max_characters`, and its first character is not whitespace.
    """
    window = text[: max_characters + 1]
    paragraph = max((match.start() for match in _EMPTY_LINE.finditer(window)), default=0)
    if paragraph * 2 >= max_characters:
        return paragraph
    # the last span may continue after the window, so it does not end there
    spans = split_sentences(text)[:-1]
    sentence = max((end for _, end in spans if end <= max_characters), default=0)
    if sentence * 2 >= max_characters:
        return sentence
    word = _UP_TO_BLANK.match(window)
    return max(paragraph, sentence) or (word.end() if word else max_characters)


def quarantine_table(bad: Iterable[BadRecord]) -> pa.Table:
    """A table with the columns of polyhop.schemas.tables.QUARANTINE."""
    return pa.Table.from_pylist(list(map(asdict, bad)), schema=QUARANTINE.arrow)


FEWEST_COUNTED = 20
"""The share counts from so many records of a source on, and from so many unusable files of a folder, unless nothing can
be used. Chosen: with the share of .05 a single bad record would refuse any smaller source, and the run lists them."""


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
    counted = bad - (lacking + (files if files < FEWEST_COUNTED else 0) if good else 0)
    if counted <= share * (good + counted) or (good and good + counted < FEWEST_COUNTED):
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
    location = f"{source} line {line}" if line else str(source)  # a whole file, or a line that is not known
    return printable_line(f"{location}: {reason}")


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
                    record, max_characters=settings.max_passage_characters, overlap_sentences=settings.overlap_sentences
                )
            except Exception as error:  # noqa: BLE001 - one odd text must not end the run; the quarantine says it
                bad.append(BadRecord(record.source, record.line, fault_reason(error), record.text[:_EXCERPT]))
            else:
                pieces += ((passage, record) for passage in split)
        if len(pieces) + len(bad) >= build.settings.batch_size:
            yield pieces, bad, seen
            pieces, bad, seen = [], [], 0
    if seen:
        yield pieces, bad, seen


_WORD = re.compile(r"\w+")
_ASCII_WORDS = bytes(code if _WORD.match(chr(code)) else ord(" ") for code in range(256))
"""Every other byte becomes a space."""

_LOCATION = pa.struct([pa.field(field.name, field.type) for field in LOCATIONS.arrow if field.name != "passage_id"])
PASSAGE_PARTS = Table(
    "passage_parts",
    "Passages as ingestion leaves them: every record that was read, also one that was read twice.",
    ("origin", "source", "line", "passage_id"),
    (
        *(column for column in PASSAGES.columns if column.name != "ordinal"),  # which only whole documents have
        Column("record_hash", pa.string(), "sha256 of title and whole text of the record"),
        Column("source", pa.string(), "file"),
        Column("line", pa.int64(), "line or record number from 1, 0 for a whole file"),
        Column("metadata_json", pa.string(), "the record's metadata, as JSON with sorted keys"),
        Column("origin", pa.string(), "name of the source"),
        Column("location", _LOCATION, "its row of locations, if it has one", nullable=True),
    ),
)


def passages_table(pieces: Iterable[Piece], origin: str = "") -> pa.Table:
    """A table with the columns of PASSAGE_PARTS, one row for each passage and the record it was cut from."""
    rows = []
    last: SourceRecord | None = None
    of_record: dict[str, object] = {}
    for passage, record in pieces:
        if record is not last:
            last = record
            of_record = {
                "record_hash": content_hash(record.title, record.text),
                "source": record.source,
                "line": record.line,
                "metadata_json": metadata_json(record.metadata),
            }
        found = location_of(record.sections, record.text, passage.start, passage.end) if record.sections else None
        rows.append(
            {
                "passage_id": passage.passage_id,
                "record_id": passage.record_id,
                "document_id": passage.document_id,
                "title": passage.title,
                "text": passage.text,
                "start_offset": passage.start,
                "end_offset": passage.end,
                "token_count": count_words(passage.title, passage.text),
                "content_hash": content_hash(passage.title, passage.text),
                **of_record,
                "origin": origin,
                "location": None if found is None else asdict(found),
            }
        )
    return table_of_rows(PASSAGE_PARTS.arrow, rows)


def table_of_rows(schema: pa.Schema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """A table of rows by name; column by column, which takes a third of the time of `from_pylist`."""
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def count_words(*texts: str) -> int:
    """Runs of letters, digits and underscores in title and text."""
    return sum(
        # the same for ASCII, in two thirds of the time
        len(text.encode().translate(_ASCII_WORDS).split()) if text.isascii() else len(_WORD.findall(text))
        for text in texts
    )


def metadata_json(metadata: Mapping[str, object]) -> str:
    """The metadata as JSON that any store takes: keys sorted, half characters escaped."""
    if not metadata:
        return "{}"
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


_RECORDS_AT_ONCE = 20_000  # chosen: a few million values take some 100 MB while they become a table


def fill_records(connection: duckdb.DuckDBPyConnection, parts: dict[str, list[str]]) -> None:
    """Fills the tables of records, after passages and documents."""
    connection.execute(statement("ingest", "fill_records"), parts)
    last = ""
    while found := connection.execute(
        statement("records", "records_with_metadata"), {"after": last, "limit": _RECORDS_AT_ONCE}
    ).fetchall():
        connection.register("found_values", _values(found))
        connection.execute(statement("records", "add_values"))
        connection.unregister("found_values")
        last = found[-1][0]
    connection.execute(statement("records", "fill_columns"))


def _values(found: Iterable[tuple[str, str]]) -> pa.Table:
    """The values of records, of which the metadata is given as JSON."""
    rows = []
    for record, metadata in found:
        ordinals: Counter[str] = Counter()
        for name, value in values_of(json.loads(metadata)):
            rows.append({"record_id": record, "name": name, "ordinal": ordinals[name], **asdict(value)})
            ordinals[name] += 1
    return table_of_rows(METADATA_VALUES.arrow, rows)


MOST_FRESH = (
    0.2  # changed records relative to unchanged ones, above which all is filled again; chosen, as of resolution
)


def update_records(build: Build, connection: duckdb.DuckDBPyConnection, quarantine: Sequence[str]) -> bool:
    """Changes the rows of passages, records and documents that differ from those of the version before.

    What was read is in the tables `same_records` and `fresh_passages`. False, and nothing is changed, if anything was
    refused or an id has several records: what that means for rows depends on the order of all.
    Cost: O(records) to look through, O(records that differ) to write.
    """
    read = {"quarantine": list(quarantine), "most": MOST_FRESH}
    connection.execute(statement("ingest_update", "fresh_records"))
    (is_update,) = connection.execute(statement("ingest_update", "is_update"), read).fetchone() or (False,)
    if not is_update:
        return False
    for name in ("touched_records", "touched_documents"):
        connection.execute(statement("ingest_update", name))
    of_records, of_documents = "record_id IN (FROM touched_records)", "document_id IN (FROM touched_documents)"
    of_passages = f"passage_id IN (SELECT passage_id FROM passages WHERE {of_documents})"
    kept = "SELECT passage_id FROM passages SEMI JOIN (FROM same_records WHERE is_kept) USING (record_id)"
    of_locations = f"passage_id NOT IN ({kept})"
    outdated = ((PASSAGES, of_passages), (RECORDS, of_records), (DOCUMENTS, of_documents), (LOCATIONS, of_locations))
    for table, condition in outdated:
        replace_rows(build, connection, table, statement("ingest_update", table.name), condition)
    found = connection.execute(statement("ingest_update", "touched_metadata")).fetchall()
    connection.register("found_values", _values(found))
    replace_rows(build, connection, METADATA_VALUES, "SELECT * FROM found_values", of_records)
    connection.unregister("found_values")
    clear_tables(build, connection, [METADATA_COLUMNS])
    connection.execute(statement("records", "fill_columns"))
    return True


def content_of_passages(connection: duckdb.DuckDBPyConnection) -> str:
    """sha256 of the ids, titles and texts of all passages, "" without any; no text holds them all."""
    found, content, joint = connection.execute(statement("ingest", "content_of_passages")), sha256(), ""
    while rows := found.fetchmany(_RECORDS_AT_ONCE):
        content.update((joint + "\n".join(line for (line,) in rows)).encode())
        joint = "\n"
    return content.hexdigest() if joint else ""


def drop_records(connection: duckdb.DuckDBPyConnection) -> None:
    """Removes records whose passages are all gone."""
    for name in ("drop_records", "drop_values", "drop_columns", "fill_columns"):
        connection.execute(statement("records", name))
