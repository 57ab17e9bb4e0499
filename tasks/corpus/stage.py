"""Ingestion: a source to documents, passages and quarantine.

It always reads the whole source, because only that shows whether anything changed; memory does not grow with it.
"""

import shutil
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.corpus import BadRecord, SourceRecord, Tombstone, Unread
from polyhop.schemas.errors import SourceError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.record_tables import RECORD_TABLES
from polyhop.schemas.tables import DOCUMENTS, LOCATIONS, PASSAGES, QUARANTINE
from polyhop.tasks.corpus.records import (
    Mentions,
    drop_deleted,
    kept_content,
    load_refused,
    records_table,
    still_kept,
    write_kept,
)
from polyhop.tasks.corpus.unchanged import Unchanged
from polyhop.tasks.cycles import no_search_for_cycles
from polyhop.tasks.passages.chunks import Piece, chunks
from polyhop.tasks.passages.metadata import drop_records, fill_records
from polyhop.tasks.passages.records import passages_table
from polyhop.tasks.quarantine import check_share, quarantine_table
from polyhop.tasks.stage import BatchResult, Counts, Stage, named
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.formats import INSTALL_OFFICE
from polyhop.warehouse.files.kept_records import PREFIX
from polyhop.warehouse.files.readers import read_corpus
from polyhop.warehouse.statements import statement, statements

_LACKING = {"lacking": INSTALL_OFFICE}


def parts_folder(build: Build) -> Path:
    """Where the parts of the source lie until they are tables."""
    return build.folder.staging / "parts" / "ingest"


def ingest_batch(build: Build, batch: int) -> BatchResult:
    """Reads the source from start to end, then what is kept of others, and writes parts of `batch_size` passages.

    Raises:
        SourceError: If the source as a whole cannot be used.
    """
    with no_search_for_cycles():
        return _read(build, batch)


def _read(build: Build, batch: int) -> BatchResult:
    folder = parts_folder(build)
    shutil.rmtree(folder, ignore_errors=True)
    unread = Unread()
    mentions = Mentions(build.is_partial)
    numbers, records = count(batch), 0
    unchanged = Unchanged(build.earlier_tables("ingest", INGEST.recipe(build), ["passages"]), folder, numbers)
    read = unchanged.others(mentions.noted(_source_records(build, unread)), build.source_name)
    for pieces, bad, seen in chunks(build, read):
        write_part(folder, next(numbers), _parts(pieces, build.source_name) | {"quarantine": quarantine_table(bad)})
        records += seen
    unchanged.write()
    records += unchanged.count
    drop_deleted(folder, mentions.deleted)
    if not records and not mentions.deleted and not build.reads_kept_only:
        raise SourceError(f"There is no record in {build.source}; a corpus needs at least one passage.")
    for kept in build.kept:
        of_records = "carried" if kept.name == build.source_name else "others"
        gone = mentions.ids if kept.name == build.source_name else set[str]()
        left = unchanged.kept(kept, gone, of_records)
        for pieces, _, _ in chunks(build, still_kept(kept, gone, left)):
            tables = _parts(pieces, kept.name)
            tables[of_records] = tables.pop("records")
            write_part(folder, next(numbers), tables)
    files = pa.table({"source": pa.array(sorted(mentions.files), pa.string())})
    nothing = {**_parts([], build.source_name), "quarantine": quarantine_table([])}
    write_part(folder, next(numbers), {**nothing, "files": files})
    return BatchResult(records, records, unread=dict(unread), unread_files=tuple(unread.names))


def _settings(build: Build) -> dict[str, object]:
    """What has a say in the passages of a record."""
    return {"max_passage_characters": build.settings.corpus.max_passage_characters}


def _source_records(build: Build, unread: Unread) -> Iterator[SourceRecord | BadRecord | Tombstone]:
    """What is read: the source, or nothing where only what is kept of others stays."""
    if build.reads_kept_only:
        return
    if not isinstance(build.source, Path):
        raise SourceError("There is nothing to read; name a corpus.")
    settings = build.settings.corpus
    limits = ConversionLimits(
        settings.max_file_mb,
        settings.max_unpacked_mb,
        settings.conversion_seconds,
        settings.conversion_memory_mb,
        settings.max_passage_characters,
    )
    with Converter(limits, build.layout.document_cache) as converter:
        yield from read_corpus(
            build.source, convert=converter.convert, follow_links=settings.follow_links, unread=unread
        )


def _parts(pieces: Sequence[Piece], origin: str) -> dict[str, pa.Table]:
    return {"passages": passages_table(pieces, origin), "records": records_table(pieces, origin)}


def ingest_finish(build: Build) -> Counts:
    """Fills the tables; refuses a corpus with too many unusable records.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first ten bad records.
        SourceError: If no record is left.
    """
    folder = parts_folder(build)
    passages = {"passages": part_files(folder, "passages")}
    with build.tables() as connection:
        if build.kept:
            _check_read(build, connection, folder)
        connection.execute(statement("sources", "first_in_source"), passages)
        connection.execute(statement("sources", "used_twice"), passages)
        load_refused(build, connection, folder)
        connection.execute(statement("ingest", "first_use"))
        connection.execute(statement("ingest", "fill_quarantine"), passages)
        connection.execute(statement("ingest", "drop_piece_ids"), passages)
        connection.execute(statement("ingest", "fill_passages"), passages)
        connection.execute(statement("ingest", "fill_locations"), passages)
        connection.execute(statement("ingest", "fill_documents"), passages)
        fill_records(connection, passages)
        write_kept(build, connection, folder)
        good, bad, *forgiven = connection.execute(statement("ingest", "count_records"), _LACKING).fetchone() or (0, 0)
        refused = connection.execute(statement("ingest", "some_quarantined")).fetchall()
        documents, found = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    check_share(build, good, bad, refused, *forgiven)
    if not found:
        raise SourceError(
            f"Nothing would be left of index '{build.index}' after {build.source or 'this'}; nothing was published. To "
            "be rid of the index, remove its folder."
        )
    return {"records": good, "quarantined": bad, "documents": documents, "passages": found}


def _check_read(build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Refuses a source that is itself unusable, however many records other sources have."""
    read = {"quarantine": part_files(folder, "quarantine")}
    counted = {**read, **_LACKING, "records": part_files(folder, "records")}
    good, bad, *forgiven = connection.execute(statement("sources", "count_read"), counted).fetchone() or (0, 0)
    refused = connection.execute(statement("sources", "some_refused"), read).fetchall()
    check_share(build, good, bad, refused, *forgiven)


def quarantine_passages(build: Build, faults: list[str]) -> Counts:
    """Moves passages that a rule failed on to the quarantine, as if the source did not hold them.

    Args:
        build: The build, its source ingested.
        faults: Part files with the columns of polyhop.tasks.faults.FAULTS.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first ten bad records.
    """
    is_read = build.source is not None or build.reads_kept_only
    parts = part_files(parts_folder(build), "passages") if is_read else []
    with build.tables() as connection:
        # lines are known only where this run has read the source; the tables of a published version have none
        if parts:
            connection.execute(statement("ingest", "places_in_parts"), {"passages": parts})
        else:
            connection.execute(statement("ingest", "places_in_documents"))
        connection.execute(statement("ingest", "quarantine_faults"), {"faults": faults})
        connection.execute(statement("ingest", "drop_faults"), {"faults": faults})
        connection.execute(statement("ingest", "drop_locations"))
        connection.execute(statement("ingest", "number_again"))
        connection.execute(statement("ingest", "drop_empty_documents"))
        connection.execute(statement("ingest", "count_again"))
        drop_records(connection)
        good, bad, *forgiven = connection.execute(statement("ingest", "count_left"), _LACKING).fetchone() or (0, 0)
        refused = connection.execute(statement("ingest", "some_quarantined")).fetchall()
        documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    check_share(build, good, bad, refused, *forgiven)
    return {"records": good, "quarantined": bad, "documents": documents, "passages": passages}


def ingest_contents(build: Build) -> dict[str, str]:
    """Hashes of all that was ingested ("source") and of ids, titles and texts alone ("passages")."""
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("ingest", "content_of_passages")).fetchone() or ("",)
        places = connection.execute(statement("ingest", "content_of_the_rest")).fetchone() or ("",)
        located = connection.execute(statement("ingest", "content_of_locations")).fetchone() or ("",)
    # nothing where nothing is known, so that a corpus of records is what it was before there were locations
    return {
        "source": content_hash("ingest", row[0], *places, *filter(None, located)),
        "passages": content_hash("passages", row[0]),
    }


INGEST = Stage(
    "ingest",
    reads=(),
    writes=("source", "passages"),
    finish=ingest_finish,
    batches=lambda _: [0],
    run=ingest_batch,
    revision=2,
    settings=_settings,
    unit=named("records"),
    tables=(DOCUMENTS, PASSAGES, *RECORD_TABLES, QUARANTINE, LOCATIONS),
    arrays=PREFIX,
    outcome=kept_content,
    contents=ingest_contents,
    quarantine=quarantine_passages,
    invariants=statements("passage_invariants"),
    sources=("corpus",),
)
