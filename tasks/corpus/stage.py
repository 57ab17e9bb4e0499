"""Ingestion: a source to documents, passages and quarantine.

It always reads the whole source, because only that shows whether anything changed; memory does not grow with it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from schemas.corpus import BadRecord, Passage, SourceRecord
from schemas.errors import QuarantineExceededError, SourceError
from schemas.ids import content_hash
from tasks.corpus.records import passages_table, quarantine_table
from tasks.corpus.split import split_record
from tasks.stage import BatchResult, Counts
from warehouse.build import Build, part_files, write_part
from warehouse.files.readers import read_corpus
from warehouse.tables.statements import statement

Piece = tuple[Passage, SourceRecord]


def parts_folder(build: Build) -> Path:
    """Where the parts of the source lie until they are tables."""
    return build.folder.staging / "parts" / "ingest"


def ingest_batch(build: Build, batch: int) -> BatchResult:
    """Reads the source from start to end and writes parts of `batch_size` passages.

    Raises:
        SourceError: If the source as a whole cannot be used.
    """
    if build.source is None:
        raise SourceError("There is nothing to read; name a corpus.")
    folder = parts_folder(build)
    shutil.rmtree(folder, ignore_errors=True)
    records = 0
    for number, (pieces, bad, seen) in enumerate(_chunks(build, build.source), start=batch):
        write_part(folder, number, {"passages": passages_table(pieces), "quarantine": quarantine_table(bad)})
        records += seen
    if not records:
        raise SourceError(f"There is no record in {build.source}; a corpus needs at least one passage.")
    return BatchResult(records, records)


def _chunks(build: Build, source: Path) -> Iterator[tuple[list[Piece], list[BadRecord], int]]:
    """Passages, bad records and number of records, in parts of about `batch_size` passages."""
    pieces: list[Piece] = []
    bad: list[BadRecord] = []
    seen = 0
    for record in read_corpus(source):
        seen += 1
        if isinstance(record, BadRecord):
            bad.append(record)
        else:
            split = split_record(record, max_characters=build.settings.corpus.max_passage_characters)
            pieces.extend((passage, record) for passage in split)
        if len(pieces) + len(bad) >= build.settings.batch_size:
            yield pieces, bad, seen
            pieces, bad, seen = [], [], 0
    if seen:
        yield pieces, bad, seen


def ingest_finish(build: Build) -> Counts:
    """Fills the tables; refuses a corpus with too many unusable records.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first bad record.
        SourceError: If no record is usable.
    """
    folder = parts_folder(build)
    parts = {name: part_files(folder, name) for name in ("passages", "quarantine")}
    with build.tables() as connection:
        connection.execute(statement("ingest", "first_use"), {"passages": parts["passages"]})
        connection.execute(statement("ingest", "fill_quarantine"), parts)
        connection.execute(statement("ingest", "drop_piece_ids"), {"passages": parts["passages"]})
        connection.execute(statement("ingest", "fill_passages"), {"passages": parts["passages"]})
        connection.execute(statement("ingest", "fill_documents"), {"passages": parts["passages"]})
        good, bad = connection.execute(statement("ingest", "count_records")).fetchone() or (0, 0)
        first = connection.execute(statement("ingest", "first_quarantined")).fetchone()
        documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    if first is not None and bad > build.settings.corpus.max_quarantine_share * (good + bad):
        share = build.settings.corpus.max_quarantine_share
        raise QuarantineExceededError(
            f"{bad} of {good + bad} records in {build.source} are unusable, more than the allowed share of {share:g}; "
            f"the first is {first[0]} line {first[1]}: {first[2]}. Mend them, or raise corpus.max_quarantine_share."
        )
    return {"records": good, "quarantined": bad, "documents": documents, "passages": passages}


def ingest_fingerprints(build: Build) -> dict[str, str]:
    """Fingerprints of all that was ingested ("ingest") and of ids, titles and texts alone ("passages")."""
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("ingest", "content_of_passages")).fetchone() or ("",)
        places = connection.execute(statement("ingest", "content_of_the_rest")).fetchone() or ("",)
    return {"ingest": content_hash("ingest", row[0], *places), "passages": content_hash("passages", row[0])}
