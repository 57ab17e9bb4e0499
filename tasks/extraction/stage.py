"""The extraction stage: passages, batch by batch, to raw rows; unchanged passages keep theirs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.chat import Role
from polyhop.schemas.extraction_schema import ExtractionSchema
from polyhop.schemas.names import name_tokens, title_keys
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import PASSAGES, ExtractionSettings
from polyhop.schemas.tables import EXTRACTION_LEDGER, Column, Table
from polyhop.schemas.text import content_hash
from polyhop.tasks.extraction.model import DOCUMENT_CHARACTERS, ModelBatch, documents_of, plan_passages, questions
from polyhop.tasks.extraction.own_schema import with_schema
from polyhop.tasks.extraction.rows import BatchPages, arrow_table, counts_table, ledger_table, raw_tables
from polyhop.tasks.extraction.rules import PassageRules
from polyhop.tasks.extraction.stated import (
    Contract,
    Matches,
    contract_settings,
    import_pages,
    left_over,
    match_rows,
)
from polyhop.tasks.raw_rows import (
    EXTRACTED_FILE,
    FILES,
    PREFIX,
    RAW,
    RAW_FILES,
    REPLACED_FILE,
    SINCE_FILES,
    keeps_rows,
    raw_rows,
    write_changed,
)
from polyhop.tasks.stage import FAULTS, BatchResult, Counts, Stage, language_setting
from polyhop.warehouse.build import Build, is_part_done, part_file, part_files, write_part, write_rows
from polyhop.warehouse.files.disk import file_hash, link_or_copy, writing
from polyhop.warehouse.machine import gc_paused
from polyhop.warehouse.name_judge import HEADS_SHA256, NameJudge, gives_types
from polyhop.warehouse.names import SPACY_MODEL, open_finder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect
from polyhop.warehouse.user_files import read_schema, schema_hash

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedStep, Planner

# Source: algorithms.md 2B.1.


class ChangedTitles:
    """Keys of titles that only one of two corpora has."""

    def __init__(self, before: Iterable[str], after: Iterable[str]) -> None:
        changed = set(before).symmetric_difference(after)
        self.keys_with: dict[str, list[str]] = {}
        for key in sorted({key for title in changed for key in title_keys(title)}):
            # the longest word is the rarest one, as a rule: most texts are cleared by a look at their words
            self.keys_with.setdefault(max(key.split(), key=len), []).append(key)

    def occur_in(self, text: str) -> bool:
        """Returns whether the words of one of the keys follow one another in a text.

        Cost: O(characters), and as much again per key whose longest word occurs.
        """
        words = name_tokens(text)
        hits = self.keys_with.keys() & set(words)
        line = f" {' '.join(words)} " if hits else ""
        return any(f" {key} " in line for word in hits for key in self.keys_with[word])


EXTRACTED = Table(
    "passages",
    "Passages whose raw rows are in the files next to this one.",
    ("passage_id",),
    (
        Column("passage_id", pa.string(), "the passage"),
        Column("title", pa.string(), "its title"),
        Column("content_hash", pa.string(), "sha256 of title and text"),
        Column("recipe", pa.string(), "hash of the code's revision and the settings"),
    ),
)


def fresh_passages(connection: duckdb.DuckDBPyConnection, extracted: Path, recipe: str) -> list[str]:
    """Ids, ascending, of the passages whose rows a version does not have, or would have otherwise.

    Cost: O(passages), and O(characters) if titles came or went.
    """
    known = {"extracted": str(extracted), "recipe": recipe}
    fresh = {row[0] for row in connection.execute(statement("extract", "fresh_passages"), known).fetchall()}
    before = connection.execute(statement("extract", "titles_gone"), {"extracted": str(extracted)}).fetchall()
    after = connection.execute(statement("extract", "titles_come"), {"extracted": str(extracted)}).fetchall()
    changed = ChangedTitles((row[0] for row in before), (row[0] for row in after))
    if changed.keys_with:
        texts = connection.execute(statement("extract", "known_passages"), known).fetchall()
        fresh.update(id_ for id_, title, text in texts if changed.occur_in(text) or changed.occur_in(title))
    return sorted(fresh)


def gone_passages(connection: duckdb.DuckDBPyConnection, extracted: Path) -> list[str]:
    """Ids of passages that a version has rows of and the corpus has no more."""
    rows = connection.execute(statement("extract", "gone_passages"), {"extracted": str(extracted)}).fetchall()
    return [row[0] for row in rows]


def merged_rows(before: Path | None, gone: Sequence[str], parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of a version, without those of some passages, and the rows of parts, ascending by passage.

    Cost: O(rows); memory for one row group and one part.
    """

    def row_groups() -> Iterator[pa.Table]:
        with pq.ParquetFile(before) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)

    left_out, coming = pa.array(gone, pa.string()), iter(parts)
    waiting = next(coming, None)
    for group in row_groups() if before is not None else ():
        last = group.column("passage_id")[-1]
        kept = group.filter(pc.invert(pc.is_in(group.column("passage_id"), left_out)))
        between = []
        while waiting is not None:
            count = pc.sum(pc.less_equal(waiting.column("passage_id"), last)).as_py() or 0
            between.append(waiting.slice(0, count))
            waiting = waiting.slice(count)
            if len(waiting):
                break
            waiting = next(coming, None)
        # one table of all their rows, ascending by passage; none if they have no row
        filled = [table for table in (kept, *between) if len(table)]
        if filled:
            joined = pa.concat_tables([table.cast(filled[-1].schema) for table in filled])
            yield joined.sort_by("passage_id") if len(filled) > 1 else joined
    if waiting is not None:
        yield waiting
        yield from coming


_DONE = "done"  # parts with the ids of the passages that a batch did

MOST_REPLACED = 0.1
"""Share of passages with other rows since, above which all rows are written to one file again; chosen."""


def join_rows(build: Build, recipe: str) -> None:
    """Writes the files of all rows: those that are kept, and those of the parts; notes which passages changed."""
    before, fresh = _files_before(build), _fresh(build, recipe)
    with build.tables(read_only=True) as connection:
        _, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    if len(fresh) == passages:
        before = {}  # nothing is kept; files of an earlier release may have other columns
    left_out: list[str] = []
    if before:
        with build.tables(read_only=True) as connection:
            left_out = [*fresh, *gone_passages(connection, before[EXTRACTED_FILE])]
    write_changed(build, left_out if before else None)
    with writing("extracted rows", build.staging.arrays):
        if before and not left_out:
            _link(build, before.values())
            return
        with build.tables(read_only=True) as connection:
            extracted = connection.sql(statement("extract", "extracted_passages"), params={"recipe": recipe})
            write_rows(build.staging.arrays / EXTRACTED_FILE, EXTRACTED.arrow, extracted.to_arrow_reader())
            written = pq.read_metadata(build.staging.arrays / EXTRACTED_FILE).num_rows
        earlier = _ids_in(before[REPLACED_FILE]) if before else []
        replaced = sorted({*earlier, *left_out})
        adds = bool(before) and len(replaced) <= MOST_REPLACED * written
        ids = pa.table({"passage_id": pa.array(replaced if adds else [], pa.string())})
        pq.write_table(ids, build.staging.arrays / REPLACED_FILE)
        folder, arrays = build.parts("extract"), build.staging.arrays
        for name, file, since in zip(RAW, RAW_FILES, SINCE_FILES, strict=True):
            schema = pq.read_schema(before[file] if before else part_file(folder, name, 0))
            changed = merged_rows(before.get(since), left_out, _parts(folder, name, _batches(build, fresh)))
            # One file stays as it was and the other has what changed since, or the first has all rows.
            if adds:
                _link(build, [before[file]])
                write_rows(arrays / since, schema, _record_batches(changed))
            else:
                rows = merged_rows(before.get(file), [*earlier, *left_out], changed)
                write_rows(arrays / file, schema, _record_batches(rows))
                write_rows(arrays / since, schema, [])


def _record_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    return (batch for table in tables for batch in table.to_batches())


def _link(build: Build, files: Iterable[Path]) -> None:
    for known in files:
        link_or_copy(known, build.staging.arrays / known.name)


def _ids_in(file: Path) -> list[str]:
    ids: list[str] = pq.read_table(file).column("passage_id").to_pylist()
    return ids


def rules_of(build: Build) -> PassageRules:
    """Returns the rule-based extractor for passages of this corpus."""
    extraction = build.settings.extraction
    language = build.settings.corpus.language
    finder = _finder(str(build.staging.tables), build.fingerprint("extract"), extraction, language)
    judge = NameJudge(build.settings) if gives_types(build.settings, build.artefacts) else None
    return PassageRules(finder, extraction.ner.partition(":")[0], language, judge)


@lru_cache(maxsize=1)
def _finder(tables: str, _fingerprint: str, extraction: ExtractionSettings, language: str) -> NameFinding:
    """The name finder of this corpus; kept between the batches of one process."""
    with connect(Path(tables), read_only=True) as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
    return open_finder(extraction.ner, titles, language)


def _files_before(build: Build) -> dict[str, Path]:
    """The files of the version before by name; none if they are not all there."""
    return {file.name: file for file in build.earlier_files(*FILES)} if keeps_rows(build) else {}


def _fresh(build: Build, recipe: str) -> tuple[str, ...]:
    extracted = _files_before(build).get(EXTRACTED_FILE)
    return _fresh_of(str(build.staging.tables), build.fingerprint("extract"), extracted, recipe)


@lru_cache(maxsize=1)
def _fresh_of(tables: str, _fingerprint: str, extracted: Path | None, recipe: str) -> tuple[str, ...]:
    with connect(Path(tables), read_only=True) as connection:
        if extracted is not None:
            return tuple(fresh_passages(connection, extracted, recipe))
        rows = connection.execute(statement("extract", "passage_ids")).fetchall()
        return tuple(passage for passage, _ in rows)


def _batches(build: Build, ids: Sequence[str]) -> list[Sequence[str]]:
    size = build.settings.batch_size
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _parts(folder: Path, name: str, batches: Sequence[Sequence[str]]) -> Iterator[pa.Table]:
    """The rows of each batch; a part of an interrupted run may have more passages than its batch has now."""
    for number, ids in enumerate(batches):
        table = pq.read_table(part_file(folder, name, number))
        yield table.filter(pc.is_in(table.column("passage_id"), pa.array(ids, pa.string())))


_IMPORT = "import:"


def _by_import(build: Build, batch: int) -> BatchPages:
    passages = _passages(build, "passage_range", batch)
    extraction = build.settings.extraction
    matches = _matches(str(build.staging.tables), build.fingerprint("extract"), _imported_file(extraction))
    split = sorted({p.record_id for p in passages if p.record_id != p.passage_id})
    siblings: dict[str, list[Passage]] = {}  # all pieces, in order, of records that were split
    if split:
        with build.tables(read_only=True) as connection:
            for row in connection.execute(statement("extract", "record_pieces"), {"ids": split}).fetchall():
                siblings.setdefault(row[1], []).append(Passage(*row))
    pages = import_pages(passages, siblings, matches, Contract.of(extraction, _schema_of(extraction)), rules_of(build))
    if batch == 0:
        rest = left_over(matches)
        pages.ledger += rest.ledger
        pages.counts += rest.counts
    pages.computed = len(passages)
    return pages


def _by_model(build: Build, batch: int) -> BatchPages:
    from polyhop.warehouse.open_models import open_chat

    extraction = build.settings.extraction
    passages = _passages(build, "document_range", batch)
    chat = open_chat(build.settings, Role.EXTRACT)
    finder = extraction.ner.partition(":")[0]
    asked = questions(extraction.prompts)
    contract = Contract.of(extraction, _schema_of(extraction))
    return ModelBatch(passages, chat, contract, rules_of(build), finder, asked).run()


def _passages(build: Build, query: str, batch: int) -> list[Passage]:
    size = build.settings.batch_size
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("ingest", query), {"limit": size, "offset": batch * size}).fetchall()
    return [Passage(*row) for row in rows]


def _schema_of(extraction: ExtractionSettings) -> ExtractionSchema:
    return read_schema(extraction.types, extraction.schema_file)


def _apply_schema(build: Build, pages: BatchPages) -> None:
    schema = _schema_of(build.settings.extraction)
    pages.pages = [with_schema(page, schema) for page in pages.pages]


def _imported_file(extraction: ExtractionSettings) -> Path:
    return Path(extraction.extractor.removeprefix(_IMPORT)).expanduser()


@lru_cache(maxsize=1)
def _matches(tables: str, _fingerprint: str, file: Path) -> Matches:
    """The rows of an imported file by passage; kept between the batches of one process (about 5 kB per row)."""
    from polyhop.warehouse.files.rows import read_extractions

    with connect(Path(tables), read_only=True) as connection:
        ids = connection.execute(statement("extract", "passage_ids")).fetchall()
        known = {name for pair in ids for name in pair}
        return match_rows(
            read_extractions(file), known, lambda: connection.execute(statement("extract", "record_texts")).fetchall()
        )


class Extract(Stage):
    """Passages to raw rows: by rules, by a model, or from a file."""

    name = "extract"
    reads = ("passages",)
    writes = ("extraction",)
    revision = 7  # raise it with every change of the extraction code that changes what is extracted
    tables = (EXTRACTION_LEDGER,)
    arrays = PREFIX
    unit = "passages"
    is_one_core = True
    sources = ("corpus",)

    def settings(self, build: Build) -> dict[str, object]:
        """Settings that determine the found names."""
        extraction = build.settings.extraction
        ner, _, model = extraction.ner.partition(":")
        chosen: dict[str, object] = {"ner": ner, **language_setting(build)}
        if ner == "spacy":
            chosen["spacy_model"] = model or SPACY_MODEL
        if extraction.types:
            chosen["types"] = extraction.types
        if gives_types(build.settings, build.artefacts):
            encoder = build.settings.encoder.choice_of(PASSAGES)
            telling = encoder.model_dump(mode="json", include={"passage_prefix", "precision"}, exclude_defaults=True)
            chosen["name_types"] = {"weights": HEADS_SHA256, **telling}
        if extraction.extractor != "rules":
            chosen |= contract_settings(extraction)
        if extraction.extractor == "model":
            chosen |= {"model": build.settings.models.extract, "document_characters": DOCUMENT_CHARACTERS}
            if build.settings.models.max_reply_tokens:
                chosen["max_reply_tokens"] = build.settings.models.max_reply_tokens  # replies are cut elsewhere
        return chosen

    def files(self, build: Build) -> dict[str, str]:
        """Hashes of the schema, of the model's prompts, and of the extractions to import."""
        extraction = build.settings.extraction
        schema = {"schema": schema_hash(extraction.schema_file)} if extraction.schema_file else {}
        if extraction.extractor == "model":
            return schema | {"questions": questions(extraction.prompts).hash}
        if extraction.extractor.startswith(_IMPORT):
            return schema | {"import": file_hash(_imported_file(extraction), "the extractions")}
        return schema

    def batches(self, build: Build) -> list[int]:
        """Batches without a finished part: of documents for a model, else of passages, by rules of those not kept."""
        folder = build.parts("extract")
        if build.settings.extraction.extractor == "rules":
            # Which passages are fresh can differ from what an interrupted run saw (another version came between): so a
            # part counts if it has all passages that its batch has now.
            return [
                number
                for number, ids in enumerate(_batches(build, _fresh(build, self.recipe(build))))
                if not is_part_done(folder, number)
                or not set(_ids_in(part_file(folder, _DONE, number))).issuperset(ids)
            ]
        with build.tables(read_only=True) as connection:
            documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
        count = documents if build.settings.extraction.extractor == "model" else passages
        batches = range(-(-count // build.settings.batch_size))
        return [number for number in batches if not is_part_done(folder, number)]

    def is_portable(self, build: Build) -> bool:
        """Returns whether extraction is rule-based; a model's budget and rate belong to one process."""
        return build.settings.extraction.extractor == "rules"

    def reads_files(self, build: Build) -> list[Path]:
        """The tables, and what the version before was extracted from."""
        extracted = _files_before(build).get(EXTRACTED_FILE)
        return [build.staging.tables, *([] if extracted is None else [extracted])]

    def run(self, build: Build, batch: int) -> BatchResult:
        """Extracts one batch and writes its part."""
        extractor = build.settings.extraction.extractor
        if extractor == "rules":
            return self._run_rules(build, batch)
        pages = _by_model(build, batch) if extractor == "model" else _by_import(build, batch)
        rules_of(build).type_pages(pages.pages)
        _apply_schema(build, pages)
        tables = {
            **raw_tables(pages.pages),
            "ledger": ledger_table(pages.ledger),
            "counts": counts_table(pages.counts),
            "faults": arrow_table(FAULTS, sorted(pages.faults)),
        }
        write_part(build.parts("extract"), batch, tables, is_complete=not pages.has_failed)
        return BatchResult(len(pages.pages), pages.computed)

    def _run_rules(self, build: Build, batch: int) -> BatchResult:
        """Extracts one batch and writes its part."""
        size = build.settings.batch_size
        ids = _fresh(build, self.recipe(build))[batch * size : (batch + 1) * size]
        with build.tables(read_only=True) as connection:
            rows = connection.execute(statement("extract", "passages_of_ids"), {"ids": list(ids)}).fetchall()
        rules, pages = rules_of(build), BatchPages()
        with gc_paused():
            rules.add_pages(pages, [Passage(*row) for row in rows])
            _apply_schema(build, pages)
            tables = raw_tables(pages.pages)
        done = pa.table({"passage_id": pa.array(ids, pa.string())})
        faults = arrow_table(FAULTS, sorted(pages.faults))
        write_part(build.parts("extract"), batch, {**tables, _DONE: done, FAULTS.name: faults})
        return BatchResult(len(ids), len(ids))

    def kept(self, build: Build) -> int:
        """Passages whose rows the version before has."""
        if build.settings.extraction.extractor != "rules":
            return 0
        with build.tables(read_only=True) as connection:
            _, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
        return int(passages) - len(_fresh(build, self.recipe(build)))

    def faults(self, build: Build) -> list[str]:
        """Part files of the batches in which a rule failed on passages."""
        written = part_files(build.parts("extract"), FAULTS.name)
        return [file for file in written if pq.read_metadata(file).num_rows]

    def finish(self, build: Build) -> Counts:
        """Fills the ledger, keeps what rules found for the next version, counts raw rows."""
        folder = build.parts("extract")
        counts: Counter[str] = Counter()
        with build.tables() as connection:
            if ledger := part_files(folder, "ledger"):
                connection.execute(statement("extract", "fill_ledger"), {"ledger": ledger})
            if counted := part_files(folder, "counts"):
                sums = connection.execute(statement("extract", "sum_counts"), {"counts": counted}).fetchall()
                counts.update(dict(sums))
        if keeps_rows(build):
            join_rows(build, self.recipe(build))
        found = dict.fromkeys(RAW, 0)
        with build.tables(read_only=True) as connection:
            for name in RAW:
                rows = raw_rows(build, name)
                if rows.files:
                    (found[name],) = connection.execute(f"SELECT count(*) FROM ({rows.query()})").fetchone() or (0,)
        return found | dict(sorted(counts.items()))

    def outcome(self, build: Build) -> str:
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

    def plan(self, build: Build, planner: "Planner") -> "list[PlannedStep]":
        """The three steps over an ingested corpus, with the configured extractor."""
        from polyhop.tasks.planning import PlannedStep

        extraction = build.settings.extraction
        contract, asked = Contract.of(extraction, _schema_of(extraction)), questions(extraction.prompts)
        totals = [PlannedStep(task) for task in (asked.kg_extract, asked.prop_entities, asked.prop_propositions)]
        for passages in documents_of(build):
            found = plan_passages(passages, contract, asked, planner)
            totals = [total + step for total, step in zip(totals, found, strict=True)]
        return totals


EXTRACT = Extract()
