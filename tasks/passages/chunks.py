"""Records of a source as parts of about `batch_size` passages, with the records that cannot be used.

Reads no file: whoever calls has the records.
"""

from collections.abc import Iterable, Iterator

from polyhop.schemas.corpus import BadRecord, Passage, SourceRecord
from polyhop.tasks.faults import fault_reason
from polyhop.tasks.passages.split import split_record
from polyhop.warehouse.build import Build

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
