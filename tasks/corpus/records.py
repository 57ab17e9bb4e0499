"""The records of an index from all of its sources: what a run reads, and what it takes from the version before.

A source that is read as a whole replaces its own records and no others'; a partial one adds, changes and deletes by
id. Splits no text and compares no ids of two sources (SQL does).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.corpus import BadRecord, SourceRecord, Tombstone
from polyhop.schemas.ids import content_hash, record_id
from polyhop.schemas.sections import sections_json
from polyhop.tasks.passages.chunks import Piece
from polyhop.tasks.passages.records import metadata_json, table_of_rows
from polyhop.warehouse.build import Build, part_files
from polyhop.warehouse.files.disk import file_checksum, link_or_copy
from polyhop.warehouse.files.kept_records import (
    PREFIX,
    RECORDS,
    REFUSED,
    WITHOUT_SECTIONS,
    KeptSource,
    kept_files,
    read_kept,
    write_rows,
)
from polyhop.warehouse.statements import statement

RECORD_PARTS = pa.schema([*RECORDS.arrow, pa.field("line", pa.int64())])
"""Records as a run reads them, each with its line."""

_READ = ("passages", "records")
"""Parts of what a run reads that know the ids of records."""


@dataclass(slots=True)
class Mentions:
    """What a source says while it is read: ids that it names (of a partial one), files and deletions (id to line)."""

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


def still_kept(kept: KeptSource, gone: Collection[str], left: Collection[str] | None) -> Iterator[SourceRecord]:
    """Records of the version before that stay and have to be split.

    Args:
        kept: Their source.
        gone: Ids that do not count any more.
        left: Ids of those whose passages are not known; None for all.
    """
    if left is not None and not left:
        return
    yield from (r for r in read_kept(kept) if r.id not in gone and (left is None or r.id in left))


def records_table(pieces: Iterable[Piece], origin: str) -> pa.Table:
    """The records of passages, each once, with the columns of RECORD_PARTS."""
    rows = []
    last: SourceRecord | None = None
    for passage, record in pieces:
        if record is not last:
            last, metadata = record, metadata_json(record.metadata)
            sections = sections_json(record.sections)
            rows.append(
                (passage.record_id, record.title, record.text, record.source, metadata, origin, sections, record.line)
            )
    return table_of_rows(RECORD_PARTS, rows)


def drop_deleted(folder: Path, deleted: dict[str, int]) -> None:
    """Takes records that a later line deletes out of the parts that were read; the last line about an id counts."""
    if not deleted:
        return
    ids, lines = pa.array(list(deleted), pa.string()), pa.array(list(deleted.values()), pa.int64())
    for file in (file for name in _READ for file in part_files(folder, name)):
        table = pq.read_table(file)
        number = pc.index_in(table.column("record_id"), ids)
        is_deleted = pc.fill_null(pc.less_equal(table.column("line"), lines.take(number)), False)  # noqa: FBT003
        if pc.any(is_deleted).as_py():
            pq.write_table(table.filter(pc.invert(is_deleted)), file, compression="zstd")


def load_refused(build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Fills `refused` (this source's) and `kept_refused` (other sources') with the records of no use.

    Of a partial source, what was refused in other files than those of this run stays refused.
    """
    read = {"quarantine": part_files(folder, "quarantine"), "origin": build.source_name}
    connection.execute(statement("sources", "refused"), read)
    connection.execute(statement("sources", "no_kept_refused"))
    files = set(pq.read_table(part_files(folder, "files")).column("source").to_pylist())
    for kept in build.kept:
        name = "refused_before" if kept.name == build.source_name else "kept_refused"
        values = {"files": [str(kept.refused)]}
        if kept.name == build.source_name:
            values["read"] = sorted(files)
        connection.execute(statement("sources", name), values)


def write_kept(build: Build, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Writes the files of this source into the staged version, and links those of the others."""
    arrays = build.staging.arrays
    for kept in build.kept:
        if kept.name != build.source_name:
            for path in (kept.records, kept.refused):
                link_or_copy(path, arrays / path.name)
    if build.reads_kept_only:
        return
    records, refused = kept_files(build.source_name)
    parts = {"records": [*part_files(folder, "records"), *part_files(folder, "carried")], "origin": build.source_name}
    ((has_sections,),) = connection.execute(
        statement("sources", "has_sections"), {"records": parts["records"]}
    ).fetchall()
    found = connection.sql(statement("sources", "records_to_keep"), params=parts)
    schema = RECORDS.arrow if has_sections else WITHOUT_SECTIONS
    write_rows(arrays / records, schema, found.select(*schema.names).to_arrow_reader(_FETCHED))
    found = connection.sql(statement("sources", "refused_to_keep"))
    write_rows(arrays / refused, REFUSED, found.to_arrow_reader(_FETCHED))


_FETCHED = 2_048
"""Rows at a time, so that few texts are in memory."""


def kept_content(build: Build) -> str:
    """Hash of all that the staged version keeps of its sources."""
    files = sorted(build.staging.arrays.glob(f"{PREFIX}_*"))
    return content_hash(PREFIX, *(f"{file.name} {file_checksum(file)}" for file in files)) if files else ""
