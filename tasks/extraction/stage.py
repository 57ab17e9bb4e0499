"""The extraction stage: passages, batch by batch, to raw mentions, relations, propositions and triples in part files.

Decides no name itself: rules.py, model_batch.py and import_batch.py do.
"""

from collections import Counter
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet as pq

from polyhop.schemas.chat import Role
from polyhop.schemas.corpus import Passage
from polyhop.schemas.ids import content_hash
from polyhop.schemas.settings import ExtractionSettings
from polyhop.schemas.tables import EXTRACTION_LEDGER
from polyhop.tasks.extraction.contract import Contract, contract_settings
from polyhop.tasks.extraction.import_batch import import_pages, left_over
from polyhop.tasks.extraction.ledger import counts_table, ledger_table
from polyhop.tasks.extraction.matching import Matches, match_rows
from polyhop.tasks.extraction.model_batch import DOCUMENT_CHARACTERS, model_pages
from polyhop.tasks.extraction.parts import raw_tables
from polyhop.tasks.extraction.plan import is_by_rules, plan, unit
from polyhop.tasks.extraction.questions import changed_lengths, questions
from polyhop.tasks.extraction.results import BatchPages
from polyhop.tasks.extraction.rows import arrow_table
from polyhop.tasks.extraction.rule_batches import (
    join_rows,
    kept_count,
    rules_batches,
    rules_of,
    run_rules,
)
from polyhop.tasks.faults import FAULTS
from polyhop.tasks.raw_rows import PREFIX, RAW, RawRows, keeps_rows, raw_rows
from polyhop.tasks.stage import BatchResult, Counts, Stage, language_setting
from polyhop.warehouse.build import Build, chain_fingerprint, is_part_done, part_files, write_part
from polyhop.warehouse.files.disk import file_hash
from polyhop.warehouse.files.extractions import read_extractions
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect

REVISION = 4
"""Raise it with every change of the extraction code that changes what is extracted."""

_IMPORT = "import:"


def settings(build: Build) -> dict[str, object]:
    """Who finds names, and how."""
    extraction = build.settings.extraction
    chosen: dict[str, object] = {"ner": extraction.ner, **language_setting(build)}
    if extraction.ner == "spacy":
        chosen["spacy_model"] = extraction.spacy_model
    if extraction.ner == "regex" and not extraction.regex_drop_stopwords:
        chosen["regex_drop_stopwords"] = False
    if extraction.extractor != "rules":
        chosen |= {"on_failure": extraction.on_failure, **contract_settings(extraction)}
    if extraction.extractor == "model":
        chosen |= {"model": build.settings.models.extract, "document_characters": DOCUMENT_CHARACTERS}
        chosen |= changed_lengths(build.settings.models.longest_reply)
    return chosen


def files(build: Build) -> dict[str, str]:
    """What a model is asked, or the extractions to import.

    Raises:
        SourceError: If there is no file to import.
    """
    extraction = build.settings.extraction
    if extraction.extractor == "model":
        return {"questions": questions(demonstration=extraction.demonstration).hash}
    if extraction.extractor.startswith(_IMPORT):
        return {"import": file_hash(_imported_file(extraction), "the extractions")}
    return {}


def outcome(build: Build) -> str:
    """Hash of what was extracted: a model's replies are not determined by the fingerprint."""
    if build.settings.extraction.extractor != "model":
        return build.fingerprint("extract")
    folder = build.parts("extract")
    parts = {name: part_files(folder, name) for name in RAW}
    if not all(parts.values()):
        return content_hash("extract")
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("extract", "content_of_parts"), parts).fetchone() or ()
    return content_hash("extract", *map(str, row))


def batches(build: Build) -> list[int]:
    """Batches without a finished part: of documents for a model, else of passages, by rules of those not kept."""
    if build.settings.extraction.extractor == "rules":
        return rules_batches(build, recipe(build))
    with build.tables(read_only=True) as connection:
        documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    count = documents if build.settings.extraction.extractor == "model" else passages
    folder = build.parts("extract")
    size = build.settings.batch_size
    return [n for n in range((count + size - 1) // size) if not is_part_done(folder, n)]


def run_batch(build: Build, batch: int) -> BatchResult:
    """Extracts one batch and writes its part.

    Raises:
        BudgetExceededError: If a model's next call might exceed the budget; replies so far are cached.
        ConfigurationError: If no model is configured and one is asked for.
    """
    extractor = build.settings.extraction.extractor
    if extractor == "rules":
        return run_rules(build, batch, recipe(build))
    pages = _by_model(build, batch) if extractor == "model" else _by_import(build, batch)
    tables = {
        **raw_tables(pages.pages),
        "ledger": ledger_table(pages.ledger),
        "counts": counts_table(pages.counts),
        "faults": arrow_table(FAULTS, sorted(pages.faults)),
    }
    write_part(build.parts("extract"), batch, tables, is_complete=not pages.has_failed)
    return BatchResult(len(pages.pages), pages.computed)


def kept(build: Build) -> int:
    """Passages whose rows the version before has."""
    return kept_count(build, recipe(build)) if build.settings.extraction.extractor == "rules" else 0


def recipe(build: Build) -> str:
    """Hash of what determines a passage's rows besides its texts and the titles of the corpus."""
    return chain_fingerprint("extract", REVISION, {}, settings(build))


def _by_import(build: Build, batch: int) -> BatchPages:
    passages = _passages(build, "passage_range", batch)
    stand_in = rules_of(build)
    extraction = build.settings.extraction
    file = _imported_file(extraction)
    matches = _matches(str(build.staging.tables), build.fingerprint("extract"), file)
    split = sorted({p.record_id for p in passages if p.record_id != p.passage_id})
    siblings = _siblings(build, split) if split else {}
    stands_in = stand_in if extraction.on_failure == "rules" else None
    pages = import_pages(passages, siblings, matches, Contract.of(extraction), stands_in)
    if batch == 0:
        rest = left_over(matches)
        pages.ledger += rest.ledger
        pages.counts += rest.counts
    pages.computed = len(passages)
    return pages


def _siblings(build: Build, record_ids: list[str]) -> dict[str, list[Passage]]:
    """All pieces, in order, of records that were split."""
    siblings: dict[str, list[Passage]] = {}
    with build.tables(read_only=True) as connection:
        for row in connection.execute(statement("extract", "record_pieces"), {"ids": record_ids}).fetchall():
            siblings.setdefault(row[1], []).append(Passage(*row))
    return siblings


def _by_model(build: Build, batch: int) -> BatchPages:
    from polyhop.warehouse.open_models import expect_requests, open_chat

    extraction = build.settings.extraction
    passages = _passages(build, "document_range", batch)
    chat = open_chat(build.settings, Role.EXTRACT)
    expect_requests(_requests_from(build, batch))
    stands_in = rules_of(build) if extraction.on_failure == "rules" else None
    asked = questions(demonstration=extraction.demonstration)
    return model_pages(passages, chat, Contract.of(extraction), stands_in, extraction.ner, asked)


def _requests_from(build: Build, batch: int) -> int:
    """About how many requests this batch and all later ones are: one per document and two per passage."""
    with build.tables(read_only=True) as connection:
        documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    left = max(0, documents - batch * build.settings.batch_size)
    return left + round(2 * passages * left / documents) if documents else 0


def _passages(build: Build, query: str, batch: int) -> list[Passage]:
    size = build.settings.batch_size
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("ingest", query), {"limit": size, "offset": batch * size}).fetchall()
    return [Passage(*row) for row in rows]


def _imported_file(extraction: ExtractionSettings) -> Path:
    return Path(extraction.extractor.removeprefix(_IMPORT)).expanduser()


@lru_cache(maxsize=1)
def _matches(tables: str, _fingerprint: str, file: Path) -> Matches:
    """The rows of an imported file by passage; kept between the batches of one process (about 5 kB per row)."""
    with connect(Path(tables), read_only=True) as connection:
        ids = connection.execute(statement("extract", "passage_ids")).fetchall()
        known = {name for pair in ids for name in pair}
        return match_rows(
            read_extractions(file),
            known,
            lambda: connection.execute(statement("extract", "record_texts")).fetchall(),
        )


def faults(build: Build) -> list[str]:
    """Part files of the batches in which a rule failed on passages."""
    written = part_files(build.parts("extract"), FAULTS.name)
    return [file for file in written if pq.read_metadata(file).num_rows]


def finish(build: Build) -> Counts:
    """Fills the ledger, keeps what rules found for the next version, counts raw rows; the rest is resolution's work."""
    folder = build.parts("extract")
    counts: Counter[str] = Counter()
    with build.tables() as connection:
        ledger, counted = part_files(folder, "ledger"), part_files(folder, "counts")
        if ledger:
            connection.execute(statement("extract", "fill_ledger"), {"ledger": ledger})
        if counted:
            rows = connection.execute(statement("extract", "sum_counts"), {"counts": counted}).fetchall()
            counts.update(dict(rows))
    if keeps_rows(build):
        join_rows(build, recipe(build))
    return _raw_counts(build) | dict(sorted(counts.items()))


def _raw_counts(build: Build) -> dict[str, int]:
    """How many raw rows there are, by name."""
    with build.tables(read_only=True) as connection:

        def count(rows: RawRows) -> int:
            found = connection.execute(f"SELECT count(*) FROM ({rows.query})").fetchone() if rows.files else None
            return int(found[0]) if found else 0

        return {name: count(raw_rows(build, name)) for name in RAW}


EXTRACT = Stage(
    "extract",
    reads=("passages",),
    writes=("extraction",),
    finish=finish,
    revision=REVISION,
    settings=settings,
    files=files,
    batches=batches,
    run=run_batch,
    kept=kept,
    is_portable=is_by_rules,
    is_one_core=True,
    unit=unit,
    tables=(EXTRACTION_LEDGER,),
    arrays=PREFIX,
    outcome=outcome,
    faults=faults,
    plan=plan,
    sources=("corpus",),
)
