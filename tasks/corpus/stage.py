"""Ingestion: a source to documents, passages and quarantine.

It always reads the whole source, because only that shows whether anything changed; memory does not grow with it.
"""

import shutil
from collections import Counter
from pathlib import Path

from polyhop.schemas.errors import SourceError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.tables import DOCUMENTS, PASSAGES, QUARANTINE
from polyhop.tasks.passages.chunks import chunks
from polyhop.tasks.passages.records import passages_table
from polyhop.tasks.quarantine import check_share, quarantine_table
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.build import Build, part_files, write_part
from polyhop.warehouse.files.readers import read_corpus
from polyhop.warehouse.statements import statement, statements


def parts_folder(build: Build) -> Path:
    """Where the parts of the source lie until they are tables."""
    return build.folder.staging / "parts" / "ingest"


def ingest_batch(build: Build, batch: int) -> BatchResult:
    """Reads the source from start to end and writes parts of `batch_size` passages.

    Raises:
        SourceError: If the source as a whole cannot be used.
    """
    if not isinstance(build.source, Path):
        raise SourceError("There is nothing to read; name a corpus.")
    folder = parts_folder(build)
    shutil.rmtree(folder, ignore_errors=True)
    records = 0
    unread: Counter[str] = Counter()
    corpus = read_corpus(build.source, follow_links=build.settings.corpus.follow_links, unread=unread)
    for number, (pieces, bad, seen) in enumerate(chunks(build, corpus), start=batch):
        write_part(folder, number, {"passages": passages_table(pieces), "quarantine": quarantine_table(bad)})
        records += seen
    if not records:
        raise SourceError(f"There is no record in {build.source}; a corpus needs at least one passage.")
    return BatchResult(records, records, unread=dict(unread))


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
    check_share(build, good, bad, first)
    return {"records": good, "quarantined": bad, "documents": documents, "passages": passages}


def quarantine_passages(build: Build, faults: list[str]) -> Counts:
    """Moves passages that a rule failed on to the quarantine, as if the source did not hold them.

    Args:
        build: The build, its source ingested.
        faults: Part files with the columns of polyhop.tasks.faults.FAULTS.

    Raises:
        QuarantineExceededError: Above `corpus.max_quarantine_share`; it names the first bad record.
    """
    parts = part_files(parts_folder(build), "passages") if build.source is not None else []
    with build.tables() as connection:
        # lines are known only where this run has read the source; the tables of a published version have none
        if parts:
            connection.execute(statement("ingest", "places_in_parts"), {"passages": parts})
        else:
            connection.execute(statement("ingest", "places_in_documents"))
        connection.execute(statement("ingest", "quarantine_faults"), {"faults": faults})
        connection.execute(statement("ingest", "drop_faults"), {"faults": faults})
        connection.execute(statement("ingest", "number_again"))
        connection.execute(statement("ingest", "drop_empty_documents"))
        connection.execute(statement("ingest", "count_again"))
        good, bad = connection.execute(statement("ingest", "count_left")).fetchone() or (0, 0)
        first = connection.execute(statement("ingest", "first_quarantined")).fetchone()
        documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    check_share(build, good, bad, first)
    return {"records": good, "quarantined": bad, "documents": documents, "passages": passages}


def ingest_contents(build: Build) -> dict[str, str]:
    """Hashes of all that was ingested ("source") and of ids, titles and texts alone ("passages")."""
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("ingest", "content_of_passages")).fetchone() or ("",)
        places = connection.execute(statement("ingest", "content_of_the_rest")).fetchone() or ("",)
    return {"source": content_hash("ingest", row[0], *places), "passages": content_hash("passages", row[0])}


INGEST = Stage(
    "ingest",
    reads=(),
    writes=("source", "passages"),
    finish=ingest_finish,
    batches=lambda _: [0],
    run=ingest_batch,
    tables=(DOCUMENTS, PASSAGES, QUARANTINE),
    contents=ingest_contents,
    quarantine=quarantine_passages,
    invariants=statements("passage_invariants"),
    sources=("corpus",),
)
