"""Extraction by rules: batches of the passages whose rows no version has, and one file of each kind of row at the end.

Decides no name itself (rules.py does), and knows no other extractor.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.corpus import Passage
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.settings import ExtractionSettings
from polyhop.tasks.cycles import no_search_for_cycles
from polyhop.tasks.extraction.import_batch import StandIn
from polyhop.tasks.extraction.kept import EXTRACTED, fresh_passages, gone_passages, merged_rows, write_rows
from polyhop.tasks.extraction.parts import raw_tables
from polyhop.tasks.extraction.results import BatchPages
from polyhop.tasks.extraction.rows import arrow_table
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.faults import FAULTS
from polyhop.tasks.raw_rows import (
    EXTRACTED_FILE,
    FILES,
    RAW,
    RAW_FILES,
    REPLACED_FILE,
    SINCE_FILES,
    keeps_rows,
    write_changed,
)
from polyhop.tasks.stage import BatchResult
from polyhop.warehouse.build import Build, is_part_done, part_file, write_part
from polyhop.warehouse.files.disk import link_or_copy, writing
from polyhop.warehouse.names import open_finder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect

_DONE = "done"
"""Parts with the ids of the passages that a batch did."""

MOST_REPLACED = 0.1
"""Share of passages with other rows since, above which all rows are written to one file again; chosen."""


def rules_batches(build: Build, recipe: str) -> list[int]:
    """Batches still to do, of the passages whose rows the version before does not have.

    Which these are can differ from what an interrupted run saw (another version came between): so a part counts if it
    has all passages that its batch has now.
    """
    fresh, folder = _fresh(build, recipe), build.parts("extract")
    return [
        number
        for number, ids in enumerate(_batches(build, fresh))
        if not is_part_done(folder, number) or not _ids_done(folder, number).issuperset(ids)
    ]


def kept_count(build: Build, recipe: str) -> int:
    """How many passages need no batch."""
    with build.tables(read_only=True) as connection:
        _, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    return int(passages) - len(_fresh(build, recipe))


def run_rules(build: Build, batch: int, recipe: str) -> BatchResult:
    """Extracts one batch and writes its part."""
    size = build.settings.batch_size
    ids = _fresh(build, recipe)[batch * size : (batch + 1) * size]
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("extract", "passages_of_ids"), {"ids": list(ids)}).fetchall()
    rules, pages = rules_of(build), BatchPages()
    with no_search_for_cycles():
        for row in rows:
            pages.add_page(Passage(*row), rules)
        tables = raw_tables(pages.pages)
    tables |= {_DONE: pa.table({"passage_id": pa.array(ids, pa.string())})}
    tables |= {FAULTS.name: arrow_table(FAULTS, sorted(pages.faults))}
    write_part(build.parts("extract"), batch, tables)
    return BatchResult(len(ids), len(ids))


def join_rows(build: Build, recipe: str) -> None:
    """Writes the files of all rows: those that are kept, and those of the parts; notes which passages changed."""
    before, fresh = _files_before(build), _fresh(build, recipe)
    left_out = [*fresh, *_gone(build, before[EXTRACTED_FILE])] if before else []
    write_changed(build, left_out if before else None)
    with writing("extracted rows", build.staging.arrays):
        if before and not left_out:
            _link(build, before.values())
            return
        with build.tables(read_only=True) as connection:
            extracted = connection.sql(statement("extract", "extracted_passages"), params={"recipe": recipe})
            tables = (pa.Table.from_batches([rows]) for rows in extracted.to_arrow_reader())
            written = write_rows(build.staging.arrays / EXTRACTED_FILE, EXTRACTED.arrow, tables)
        earlier = _ids_in(before[REPLACED_FILE]) if before else []
        replaced = sorted({*earlier, *left_out})
        adds = bool(before) and len(replaced) <= MOST_REPLACED * written
        ids = pa.table({"passage_id": pa.array(replaced if adds else [], pa.string())})
        pq.write_table(ids, build.staging.arrays / REPLACED_FILE)
        for names in zip(RAW, RAW_FILES, SINCE_FILES, strict=True):
            _join(build, names, before, _Changes(_batches(build, fresh), left_out, earlier), adds=adds)


@dataclass(frozen=True, slots=True)
class _Changes:
    """Batches of passages with new rows, all that lose those that they had, and those that did so in earlier runs."""

    batches: Sequence[Sequence[str]]
    left_out: Sequence[str]
    replaced: Sequence[str]


def _join(
    build: Build, names: tuple[str, str, str], before: Mapping[str, Path], changes: _Changes, *, adds: bool
) -> None:
    """Writes the two files of one kind of row: the first as it was and what changed since, or all rows and none."""
    name, file, since = names
    arrays = build.staging.arrays
    parts = _parts(build.parts("extract"), name, changes.batches)
    schema = pq.read_schema(before[file] if before else part_file(build.parts("extract"), name, 0))
    changed = merged_rows(before.get(since), changes.left_out, parts)
    if adds:
        _link(build, [before[file]])
        write_rows(arrays / since, schema, changed)
        return
    write_rows(arrays / file, schema, merged_rows(before.get(file), [*changes.replaced, *changes.left_out], changed))
    write_rows(arrays / since, schema, [])


def _link(build: Build, files: Iterable[Path]) -> None:
    for known in files:
        link_or_copy(known, build.staging.arrays / known.name)


def _ids_in(file: Path) -> list[str]:
    ids: list[str] = pq.read_table(file).column("passage_id").to_pylist()
    return ids


def rules_of(build: Build) -> StandIn:
    """What finds names in passages of this corpus."""
    extraction = build.settings.extraction
    language = build.settings.corpus.language
    finder = _finder(str(build.staging.tables), build.fingerprint("extract"), extraction, language)
    return lambda passage: rules_page(passage, finder, extraction.ner, language)


@lru_cache(maxsize=1)
def _finder(tables: str, _fingerprint: str, extraction: ExtractionSettings, language: str) -> NameFinding:
    """The name finder of this corpus; kept between the batches of one process."""
    with connect(Path(tables), read_only=True) as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
    return open_finder(
        extraction.ner,
        titles,
        extraction.spacy_model,
        regex_drop_stopwords=extraction.regex_drop_stopwords,
        language=language,
    )


def _files_before(build: Build) -> dict[str, Path]:
    """The files of the version before by name; none if they are not all there."""
    return {file.name: file for file in build.earlier_files(*FILES)} if keeps_rows(build) else {}


def _fresh(build: Build, recipe: str) -> tuple[str, ...]:
    """Ids, ascending, of the passages to extract."""
    extracted = _files_before(build).get(EXTRACTED_FILE)
    return _fresh_of(str(build.staging.tables), build.fingerprint("extract"), extracted, recipe)


@lru_cache(maxsize=1)
def _fresh_of(tables: str, _fingerprint: str, extracted: Path | None, recipe: str) -> tuple[str, ...]:
    with connect(Path(tables), read_only=True) as connection:
        if extracted is not None:
            return tuple(fresh_passages(connection, extracted, recipe))
        rows = connection.execute(statement("extract", "passage_ids")).fetchall()
        return tuple(passage for passage, _ in rows)


def _gone(build: Build, extracted: Path) -> list[str]:
    with build.tables(read_only=True) as connection:
        return gone_passages(connection, extracted)


def _batches(build: Build, ids: Sequence[str]) -> list[Sequence[str]]:
    size = build.settings.batch_size
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _ids_done(folder: Path, number: int) -> set[str]:
    return set(_ids_in(part_file(folder, _DONE, number)))


def _parts(folder: Path, name: str, batches: Sequence[Sequence[str]]) -> Iterator[pa.Table]:
    """The rows of each batch; a part of an interrupted run may have more passages than its batch has now."""
    for number, ids in enumerate(batches):
        table = pq.read_table(part_file(folder, name, number))
        yield table.filter(pc.is_in(table.column("passage_id"), pa.array(ids, pa.string())))
