"""The extraction stage: passages, batch by batch, to raw mentions, relations and propositions in part files.

Decides no name itself: rules.py, model_batch.py and import_batch.py do.
"""

from collections import Counter
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.chat import Role
from schemas.corpus import Passage
from schemas.ids import content_hash, proposition_id
from schemas.ports import NameFinding
from schemas.settings import ExtractionSettings
from schemas.text import norm_ws
from tasks.extraction.contract import Contract, contract_settings
from tasks.extraction.import_batch import StandIn, import_pages, left_over
from tasks.extraction.ledger import counts_table, ledger_table
from tasks.extraction.matching import Matches, match_rows
from tasks.extraction.model_batch import DOCUMENT_CHARACTERS, model_pages
from tasks.extraction.questions import questions_hash
from tasks.extraction.results import BatchPages
from tasks.extraction.rows import bundle_of
from tasks.extraction.rules import rules_page
from tasks.stage import BatchResult, Counts, Stage
from warehouse.build import Build, chain_fingerprint, is_part_done, part_files, write_part
from warehouse.files.disk import file_hash
from warehouse.files.extractions import read_extractions
from warehouse.names import open_finder
from warehouse.tables.connection import connect
from warehouse.tables.statements import statement

REVISION = 1
"""Raise it with every change of the extraction code that changes what is extracted."""

_IMPORT = "import:"
_RAW = ("mentions", "relations", "propositions")


def fingerprint(build: Build) -> str:
    """Depends on ids, titles and texts of the passages and on who finds names, and how.

    Raises:
        SourceError: If there is no file to import.
    """
    extraction = build.settings.extraction
    settings: dict[str, object] = {"ner": extraction.ner}
    if extraction.ner == "spacy":
        settings["spacy_model"] = extraction.spacy_model
    if extraction.ner == "regex" and not extraction.regex_drop_stopwords:
        settings["regex_drop_stopwords"] = False
    inputs = {"passages": build.fingerprint("passages")}
    if extraction.extractor != "rules":
        settings |= {"on_failure": extraction.on_failure, **contract_settings(extraction)}
    if extraction.extractor == "model":
        inputs["questions"] = questions_hash()
        settings |= {"model": build.settings.models.extract, "document_characters": DOCUMENT_CHARACTERS}
    elif extraction.extractor.startswith(_IMPORT):
        inputs["import"] = file_hash(_imported_file(extraction), "the extractions")
    return chain_fingerprint("extract", REVISION, inputs, settings)


def outcome(build: Build) -> str:
    """Hash of what was extracted: a model's replies are not determined by the fingerprint."""
    if build.settings.extraction.extractor != "model":
        return build.fingerprint("extract")
    folder = build.parts("extract")
    files = {name: part_files(folder, name) for name in _RAW}
    if not all(files.values()):
        return content_hash("extract")
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("extract", "content_of_parts"), files).fetchone() or ()
    return content_hash("extract", *map(str, row))


def batches(build: Build) -> list[int]:
    """Batches without a finished part: of documents for a model, else of passages."""
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
    pages = _by_model(build, batch) if extractor == "model" else _by_passages(build, batch)
    bundle = bundle_of(pages.pages)
    tables = {
        "mentions": bundle.mentions,
        "relations": _with_norm_relation(bundle.relations),
        "propositions": _with_ids(bundle.propositions),
        "ledger": ledger_table(pages.ledger),
        "counts": counts_table(pages.counts),
    }
    write_part(build.parts("extract"), batch, tables, is_complete=not pages.has_failed)
    return BatchResult(len(pages.pages), pages.computed)


def _by_passages(build: Build, batch: int) -> BatchPages:
    passages = _passages(build, "passage_range", batch)
    stand_in = _rules(build)
    if build.settings.extraction.extractor == "rules":
        return BatchPages([stand_in(passage) for passage in passages], computed=len(passages))
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
    from warehouse.open_models import open_chat

    extraction = build.settings.extraction
    passages = _passages(build, "document_range", batch)
    chat = open_chat(build.settings, Role.EXTRACT)
    stands_in = _rules(build) if extraction.on_failure == "rules" else None
    return model_pages(passages, chat, Contract.of(extraction), stands_in, extraction.ner)


def _passages(build: Build, query: str, batch: int) -> list[Passage]:
    size = build.settings.batch_size
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("ingest", query), {"limit": size, "offset": batch * size}).fetchall()
    return [Passage(*row) for row in rows]


def _rules(build: Build) -> StandIn:
    extraction = build.settings.extraction
    finder = _finder(str(build.staging.tables), build.fingerprint("extract"), extraction)
    return lambda passage: rules_page(passage, finder, extraction.ner)


@lru_cache(maxsize=1)
def _finder(tables: str, _fingerprint: str, extraction: ExtractionSettings) -> NameFinding:
    """The name finder of this corpus; kept between the batches of one process."""
    with connect(Path(tables), read_only=True) as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
    return open_finder(
        extraction.ner, titles, extraction.spacy_model, regex_drop_stopwords=extraction.regex_drop_stopwords
    )


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


def _with_norm_relation(relations: pa.Table) -> pa.Table:
    labels = [norm_ws(label) for label in relations.column("relation").to_pylist()]
    return relations.append_column("norm_relation", pa.array(labels, pa.string()))


def _with_ids(propositions: pa.Table) -> pa.Table:
    ids = [proposition_id(norm_ws(text)) for text in propositions.column("text").to_pylist()]
    return propositions.append_column("proposition_id", pa.array(ids, pa.string()))


def finish(build: Build) -> Counts:
    """Fills the ledger and counts raw rows; the other tables are resolution's work."""
    folder = build.parts("extract")
    counts: Counter[str] = Counter()
    with build.tables() as connection:
        ledger, counted = part_files(folder, "ledger"), part_files(folder, "counts")
        if ledger:
            connection.execute(statement("extract", "fill_ledger"), {"ledger": ledger})
        if counted:
            rows = connection.execute(statement("extract", "sum_counts"), {"counts": counted}).fetchall()
            counts.update(dict(rows))
    raw = {name: sum(pq.read_metadata(path).num_rows for path in part_files(folder, name)) for name in _RAW}
    return raw | dict(sorted(counts.items()))


EXTRACT = Stage("extract", fingerprint, batches, run_batch, finish, tables=("extraction_ledger",), outcome=outcome)
