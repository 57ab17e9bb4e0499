"""Ingestion: all sources of an index to documents, passages and quarantine; unchanged records keep their rows.

It always reads the whole source, because only that shows whether anything changed; memory does not grow with it.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import BadRecord, SourceRecord, Tombstone, Unread, sections_json, some_of
from polyhop.schemas.tables import DOCUMENTS, LOCATIONS, PASSAGES, QUARANTINE, RECORD_TABLES
from polyhop.schemas.text import content_hash, record_id
from polyhop.tasks.passages.records import (
    PASSAGE_PARTS,
    Piece,
    check_share,
    chunks,
    content_of_passages,
    drop_records,
    fill_records,
    metadata_json,
    passages_table,
    quarantine_table,
    refused_words,
    table_of_rows,
    update_records,
)
from polyhop.tasks.stage import BatchResult, Counts, SourceStage, no_search_for_cycles
from polyhop.warehouse.build import (
    LINE_NOT_KNOWN,
    PREFIX,
    RECORDS,
    REFUSED,
    WITHOUT_SECTIONS,
    Build,
    KeptSource,
    are_as_before,
    clear_tables,
    forget_update,
    kept_files,
    part_files,
    read_kept,
    updated_tables,
    write_part,
    write_rows,
)
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.disk import file_checksum, link_or_copy
from polyhop.warehouse.files.records import source_location
from polyhop.warehouse.inbox import read_waiting
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import connect, table_record

RECORD_PARTS = pa.schema([*RECORDS.arrow, pa.field("line", pa.int64())])
"""Records as a run reads them, each with its line."""


@dataclass(slots=True)
class Mentions:
    """Ids that a source names (of a partial one), its files and its deletions (id to line)."""

    is_partial: bool
    ids: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    deleted: dict[str, int] = field(default_factory=dict)

    def noted(self, items: Iterable[SourceRecord | BadRecord | Tombstone]) -> Iterator[SourceRecord | BadRecord]:
        """The same without the deletions, which are noted, as are the ids of a partial source."""
        for item in items:
            self.files.add(item.source)
            if isinstance(item, Tombstone):
                self.deleted[item.id] = item.line
                self.ids.add(item.id)
                continue
            if self.is_partial and isinstance(item, SourceRecord):
                self.ids.add(item.id or record_id(item.title, item.text))
            yield item


def drop_deleted(folder: Path, deleted: dict[str, int]) -> None:
    """Takes records that a later line deletes out of the parts that were read; the last line about an id counts."""
    if not deleted:
        return
    ids, lines = pa.array(list(deleted), pa.string()), pa.array(list(deleted.values()), pa.int64())
    for file in (file for name in ("passages", "records", _SAME) for file in part_files(folder, name)):
        table = pq.read_table(file)
        number = pc.index_in(table.column("record_id"), ids)
        is_deleted = pc.fill_null(pc.less_equal(table.column("line"), lines.take(number)), False)  # noqa: FBT003
        if pc.any(is_deleted).as_py():
            pq.write_table(table.filter(pc.invert(is_deleted)), file, compression="zstd")


def _others(build: Build) -> list[KeptSource]:
    """The kept sources but the one that is read in part."""
    return [kept for kept in build.kept if kept.name != build.source_name]


def _link_others(build: Build) -> None:
    """Links the files of the other sources into the staged version."""
    for kept in _others(build):
        for path in (kept.records, kept.refused):
            link_or_copy(path, build.staging.arrays / path.name)


def write_kept(build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Writes the files of this source into the staged version, and links those of the others."""
    _link_others(build)
    if build.reads_kept_only:
        return
    refused = kept_files(build.source_name)[1]
    parts = {"records": [*part_files(folder, "records"), *part_files(folder, "carried")], "origin": build.source_name}
    of_records = {"records": parts["records"]}
    ((has_sections,),) = connection.execute(statement("sources", "has_sections"), of_records).fetchall()
    found = connection.sql(statement("sources", "records_to_keep"), params=parts)
    _write_records(build, found, has_sections=has_sections)
    found = connection.sql(statement("sources", "refused_to_keep"))
    write_rows(build.staging.arrays / refused, REFUSED, found.to_arrow_reader(_FETCHED))


def _write_records(build: Build, found: duckdb.DuckDBPyRelation, *, has_sections: bool) -> None:
    schema = RECORDS.arrow if has_sections else WITHOUT_SECTIONS
    path = build.staging.arrays / kept_files(build.source_name)[0]
    write_rows(path, schema, found.select(*schema.names).to_arrow_reader(_FETCHED))


_FETCHED = 2_048  # rows at a time, so that few texts are in memory


MOST_COMPARED = 1_000_000
"""Passages above which every record is split again: comparing holds some 250 bytes of each. Chosen."""

_SAME = "same"  # parts with what is known of unchanged records
_MENTIONED = "mentioned"  # a part with the ids of `Mentions`, until what is kept has parts
_OF_SAME = ("record_id", "source", "line", "metadata_json", "origin")
_SAME_PARTS = pa.schema([(name, PASSAGE_PARTS.arrow.field(name).type) for name in _OF_SAME])
_ROWS = 20_000  # rows that are held, copied and written at once


@dataclass(slots=True)
class Unchanged:
    """Takes unchanged records out of a stream, and writes the parts that splitting them would.

    `tables` are those of the version before, None if nothing can be taken from there; `count` says how many were taken
    out.
    """

    tables: Path | None
    folder: Path
    numbers: "count[int]"
    count: int = 0
    _hashes: dict[str, str] = field(default_factory=dict)
    _rows: list[dict[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Reads the ids and hashes of passages that are whole records."""
        if self.tables is None:
            return
        with connect(self.tables, read_only=True) as connection:
            (passages,) = connection.execute(statement("sources", "count_before")).fetchone() or (0,)
            if passages > MOST_COMPARED:
                self.tables = None
            else:
                self._hashes = dict(connection.execute(statement("sources", "whole_records")).fetchall())

    def others(self, items: Iterator[SourceRecord | BadRecord], origin: str) -> Iterator[SourceRecord | BadRecord]:
        """Records that have to be split, and bad ones."""
        for item in items:
            if not self._hashes or isinstance(item, BadRecord) or item.sections:
                yield item
                continue
            id_ = item.id or record_id(item.title, item.text)
            if self._hashes.get(id_) != content_hash(item.title, item.text):
                yield item
                continue
            self.count += 1
            said = {"source": item.source, "line": item.line, "metadata_json": metadata_json(item.metadata)}
            self._rows.append({"record_id": id_, "origin": origin, **said})
            if len(self._rows) >= _ROWS:
                self.note()

    def note(self) -> None:
        """Writes the parts that say which records were taken out so far."""
        if self._rows:
            write_part(self.folder, next(self.numbers), {_SAME: table_of_rows(_SAME_PARTS, self._rows)})
            self._rows.clear()


def write_same(folder: Path, tables: Path | None) -> None:
    """Writes the passages of the records that were taken out, from the tables of the version before, as other parts."""
    files = part_files(folder, _SAME)
    if tables is not None and files:
        with connect(tables, read_only=True) as connection:
            found = connection.sql(statement("sources", "same_passages"), params={"same": files})
            _copy(folder, _numbers(folder), found, "records")
        for file in files:
            Path(file).unlink()


@no_search_for_cycles()
def write_others(build: Build, tables: Path | None) -> None:
    """Writes what is left of all parts, once: of records that were taken out, and of those that are kept.

    `tables` are those of the version before, None if nothing can be taken from there.
    """
    folder = parts_folder(build)
    write_same(folder, tables)
    for file in part_files(folder, _MENTIONED):
        mentioned = set(pq.read_table(file).column("record_id").to_pylist())
        for kept in build.kept:
            gone = mentioned if kept.name == build.source_name else set[str]()
            _write_kept_parts(build, kept, gone, tables)
        Path(file).unlink()


def _write_kept_parts(build: Build, kept: KeptSource, gone: Collection[str], tables: Path | None) -> None:
    """Parts of a kept source's records; whole passages of the version before are copied, the others split again."""
    folder, numbers = parts_folder(build), _numbers(parts_folder(build))
    of_records = "carried" if kept.name == build.source_name else "others"
    left: Collection[str] | None = None  # all
    if tables is not None and "sections_json" not in pq.read_schema(kept.records).names:
        said = {"records": str(kept.records), "origin": kept.name, "line": LINE_NOT_KNOWN, "gone": list(gone)}
        with connect(tables, read_only=True) as connection:
            _copy(folder, numbers, connection.sql(statement("sources", "kept_passages"), params=said), of_records)
            found = connection.execute(statement("sources", "kept_otherwise"), {"records": said["records"]})
            left = {id_ for (id_,) in found.fetchall()}
    split = (r for r in read_kept(kept) if r.id not in gone and (left is None or r.id in left))
    for pieces, _, _ in chunks(build, split if left is None or left else ()):
        parts = _parts(pieces, kept.name)
        parts[of_records] = parts.pop("records")
        write_part(folder, next(numbers), parts)


def _numbers(folder: Path) -> "count[int]":
    """Numbers that no part has."""
    return count(1 + max(int(done.stem) for done in folder.glob("*.done")))


def _copy(folder: Path, numbers: "count[int]", found: duckdb.DuckDBPyRelation, of_records: str) -> None:
    for batch in found.to_arrow_reader(_ROWS):
        rows = pa.Table.from_batches([batch])
        located = rows.append_column("location", pa.nulls(len(rows), PASSAGE_PARTS.arrow.field("location").type))
        parts = {"passages": PASSAGE_PARTS.arrow, of_records: RECORD_PARTS}
        tables = {name: located.select(schema.names).cast(schema) for name, schema in parts.items()}
        write_part(folder, next(numbers), tables)


_LACKING = {"lacking": "[office]"}  # of INSTALL_OFFICE, also as earlier versions worded it


def parts_folder(build: Build) -> Path:
    """Folder of the source's parts until they are tables."""
    return build.folder.staging / "parts" / "ingest"


def _source_records(build: Build, unread: Unread) -> Iterator[SourceRecord | BadRecord | Tombstone]:
    """Reads the records of the source; none if only the kept records of other sources remain."""
    if build.reads_kept_only:
        return
    if not isinstance(build.source, Path):
        raise SourceError("There is nothing to read; name a corpus.")
    if source_location(build.source) == source_location(build.folder.inbox):
        yield from read_waiting(build.folder)
        return
    settings = build.settings.corpus
    limits = ConversionLimits(passage_characters=settings.max_passage_characters)
    with Converter(limits, build.layout.document_cache) as converter:
        links = settings.follow_links
        yield from read_corpus(build.source, convert=converter.convert, follow_links=links, unread=unread)


def _parts(pieces: Sequence[Piece], origin: str) -> dict[str, pa.Table]:
    # The records of passages, each once, with the columns of RECORD_PARTS.
    rows = []
    last: SourceRecord | None = None
    for passage, record in pieces:
        if record is not last:
            last = record
            written = {name: getattr(record, name) for name in ("title", "text", "source", "line")}
            own = {"record_id": passage.record_id, "metadata_json": metadata_json(record.metadata), "origin": origin}
            rows.append({**written, **own, "sections_json": sections_json(record.sections)})
    return {"passages": passages_table(pieces, origin), "records": table_of_rows(RECORD_PARTS, rows)}


def _checked_counts(build: Build, connection: duckdb.DuckDBPyConnection, records: str) -> Counts:
    """Counts rows of the tables, records by the statement `records`; refuses too many unusable ones."""
    good, bad, *forgiven = connection.execute(statement("ingest", records), _LACKING).fetchone() or (0, 0)
    refused = connection.execute(statement("ingest", "some_quarantined")).fetchall()
    documents, passages = connection.execute(statement("ingest", "count_documents")).fetchone() or (0, 0)
    check_share(build, good, bad, refused, *forgiven)
    return {"records": good, "quarantined": bad, "documents": documents, "passages": passages}


class Ingest(SourceStage):
    """All sources of an index to documents, passages and quarantine."""

    name = "ingest"
    writes = ("source", "passages")
    revision = 3
    tables = updated = (DOCUMENTS, PASSAGES, *RECORD_TABLES, QUARANTINE, LOCATIONS)
    arrays = PREFIX
    unit = "records"
    invariants = statements("passage_invariants")
    sources = ("corpus",)

    def settings(self, build: Build) -> dict[str, object]:
        """Settings that determine the passages of a record."""
        corpus = build.settings.corpus
        overlap = {"overlap_sentences": corpus.overlap_sentences} if corpus.overlap_sentences else {}
        return {"max_passage_characters": corpus.max_passage_characters, **overlap}

    @no_search_for_cycles()
    def run(self, build: Build, batch: int) -> BatchResult:
        """Reads the source from start to end; writes parts of `batch_size` passages."""
        folder = parts_folder(build)
        shutil.rmtree(folder, ignore_errors=True)
        unread = Unread()
        mentions = Mentions(build.is_partial)
        numbers, records = count(batch), 0
        # what a partial source gives is split again: to compare it, the ids of all passages would be read
        unchanged = Unchanged(None if build.is_partial else self._tables_before(build), folder, numbers)
        read = unchanged.others(mentions.noted(_source_records(build, unread)), build.source_name)
        for pieces, bad, seen in chunks(build, read):
            write_part(folder, next(numbers), _parts(pieces, build.source_name) | {"quarantine": quarantine_table(bad)})
            records += seen
        unchanged.note()
        records += unchanged.count
        drop_deleted(folder, mentions.deleted)
        if not records and not mentions.deleted and not build.reads_kept_only:
            raise SourceError(f"There is no record in {build.source}; a corpus needs at least one passage.")
        files = pa.table({"source": pa.array(sorted(mentions.files), pa.string())})
        mentioned = pa.table({"record_id": pa.array(sorted(mentions.ids), pa.string())})
        nothing = {**_parts([], build.source_name), "quarantine": quarantine_table([])}
        noted = {"files": files, _MENTIONED: mentioned, _SAME: table_of_rows(_SAME_PARTS, [])}
        write_part(folder, next(numbers), nothing | noted)
        return BatchResult(records, records, unread=dict(unread), unread_files=tuple(unread.names))

    def finish(self, build: Build) -> Counts:
        """Fills the tables; refuses a corpus with too many unusable records."""
        folder = parts_folder(build)
        with build.tables() as connection:
            is_update = self._update(build, connection, folder)
            if not is_update:
                write_others(build, self._tables_before(build))
                self._fill(build, connection, folder)
            counts = _checked_counts(build, connection, "count_left" if is_update else "count_records")
            refused = connection.execute(statement("ingest", "some_quarantined")).fetchall()
        if not counts["passages"]:
            reasons = some_of([refused_words(*row) for row in refused], counts["quarantined"])
            raise SourceError(
                f"Nothing would be left of index '{build.index}' after {build.source or 'this'}; nothing was "
                "published. To be rid of the index, remove its folder." + "".join(f"\n  {reason}" for reason in reasons)
            )
        return counts

    def _update(self, build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> bool:
        """Changes what differs from the version before, if most records are as they were and nothing was refused."""
        before = build.earlier_files(*kept_files(build.source_name))
        is_like_it = before and are_as_before(build, self.tables) and self._tables_before(build) is not None
        if build.reads_kept_only or not is_like_it:
            return False

        def run(name: str, file: str = "ingest_update", **values: object) -> bool:
            rows = connection.execute(statement(file, name), values).fetchall()
            return bool(rows and rows[0][0])

        records = part_files(folder, "records")
        run("same_records", same=part_files(folder, _SAME))
        run("fresh_passages", passages=part_files(folder, "passages"))
        if build.kept:
            mentioned, others = part_files(folder, _MENTIONED), [str(kept.records) for kept in _others(build)]
            # of an id in two sources one record counts, which may be another one now
            if others and not run("are_apart", mentioned=mentioned, others=others, all=[str(before[0]), *others]):
                return False
            kept = [str(kept.records) for kept in build.kept]
            run("kept_records", kept=kept, mentioned=mentioned, line=LINE_NOT_KNOWN)
        if not update_records(build, connection, part_files(folder, "quarantine")):
            return False
        _link_others(build)
        files = {"before": str(before[0]), "records": records}
        keeps = "sections_json" in pq.read_schema(before[0]).names and run("keeps_sections", before=files["before"])
        has_sections = keeps or run("has_sections", "sources", records=records)
        found = connection.sql(statement("ingest_update", "records_to_keep"), params=files)
        _write_records(build, found, has_sections=has_sections)
        write_rows(build.staging.arrays / before[1].name, REFUSED, [])
        return True

    def _fill(self, build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        """Fills the tables from all that was read and kept."""
        parts = {"passages": part_files(folder, "passages")}
        clear_tables(build, connection, self.tables)
        if build.kept:
            # Refuses a source that is itself unusable, however many records other sources have.
            bad_rows = {"quarantine": part_files(folder, "quarantine")}
            counted = {**bad_rows, **_LACKING, "records": part_files(folder, "records")}
            good, bad, *forgiven = connection.execute(statement("sources", "count_read"), counted).fetchall()[0]
            refused = connection.execute(statement("sources", "some_refused"), bad_rows).fetchall()
            check_share(build, good, bad, refused, *forgiven)
        connection.execute(statement("sources", "first_in_source"), parts)
        connection.execute(statement("sources", "used_twice"), parts)
        # Fills `refused` (this source's) and `kept_refused` (other sources') with the records of no use.
        read = {"quarantine": part_files(folder, "quarantine"), "origin": build.source_name}
        connection.execute(statement("sources", "refused"), read)
        connection.execute(statement("sources", "no_kept_refused"))
        files = set(pq.read_table(part_files(folder, "files")).column("source").to_pylist())
        for kept in build.kept:
            values = {"files": [str(kept.refused)]}
            if kept.name == build.source_name:
                connection.execute(statement("sources", "refused_before"), {**values, "read": sorted(files)})
            else:
                connection.execute(statement("sources", "kept_refused"), values)
        connection.execute(statement("ingest", "first_use"))
        for name in ("fill_quarantine", "drop_piece_ids", "fill_passages", "fill_locations", "fill_documents"):
            connection.execute(statement("ingest", name), parts)
        fill_records(connection, parts)
        write_kept(build, connection, folder)

    def _tables_before(self, build: Build) -> Path | None:
        return build.earlier_tables("ingest", self.recipe(build), ["passages"])

    def outcome(self, build: Build) -> str:
        """Hash of all that the staged version keeps of its sources."""
        files = sorted(build.staging.arrays.glob(f"{PREFIX}_*"))
        return content_hash(PREFIX, *(f"{file.name} {file_checksum(file)}" for file in files)) if files else ""

    def quarantine(self, build: Build, faults: list[str]) -> Counts:
        """Moves passages that a rule failed on to the quarantine, as if the source did not hold them."""
        for table in self.tables:
            forget_update(build, table)
        write_others(build, self._tables_before(build))
        is_read = build.source is not None or build.reads_kept_only
        parts = part_files(parts_folder(build), "passages") if is_read else []
        with build.tables() as connection:
            # lines are known only where this run has read the source; the tables of a published version have none
            if parts:
                connection.execute(statement("ingest", "locations_in_parts"), {"passages": parts})
            else:
                connection.execute(statement("ingest", "locations_in_documents"))
            for name in ("quarantine_faults", "drop_faults"):
                connection.execute(statement("ingest", name), {"faults": faults})
            for name in ("drop_locations", "number_again", "drop_empty_documents", "count_again"):
                connection.execute(statement("ingest", name))
            drop_records(connection)
            return _checked_counts(build, connection, "count_left")

    def contents(self, build: Build) -> dict[str, str]:
        """Hashes of all that was ingested ("source") and of ids, titles and texts alone ("passages")."""
        known = updated_tables(build)
        with build.tables(read_only=True) as connection:
            texts = content_of_passages(connection)
            (locations,) = connection.execute(statement("ingest", "locations_of_passages")).fetchone() or ("",)
            documents, records, quarantine, located = (
                (known[name].record if name in known else table_record(connection, name)).checksum
                for name in ("documents", "records", "quarantine", "locations")
            )
        # nothing where nothing is known, so that a corpus of records is what it was before there were locations
        rest = filter(None, [located])
        return {
            "source": content_hash("ingest", texts, documents, locations, records, quarantine, *rest),
            "passages": content_hash("passages", texts),
        }


INGEST = Ingest()
