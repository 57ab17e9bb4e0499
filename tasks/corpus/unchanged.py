"""Records whose passages the version before has: their rows are copied, nothing of them is split and counted again.

A passage that is a whole record depends on id, title and text alone, unless the record has sections (pages, headings).
So a record without them, with the id and the sha256 of such a passage, has that passage's row; where it stands in the
source, and its metadata, it says itself.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.schemas.corpus import BadRecord, SourceRecord
from polyhop.schemas.ids import content_hash, record_id
from polyhop.tasks.corpus.records import RECORD_PARTS
from polyhop.tasks.passages.records import PASSAGE_PARTS, metadata_json, table_of_rows
from polyhop.warehouse.build import part_files, write_part
from polyhop.warehouse.files.kept_records import LINE_NOT_KNOWN, KeptSource
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect

MOST_COMPARED = 1_000_000
"""Passages above which every record is split again: comparing holds some 250 bytes of each. Chosen."""

_SAME = "same"
"""Parts with what is known of unchanged records."""
_SAME_PARTS = pa.schema(
    [
        pa.field("record_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("metadata_json", pa.string()),
        pa.field("origin", pa.string()),
    ]
)
_ROWS = 20_000
"""Rows that are held, copied and written at once."""


@dataclass(slots=True)
class Unchanged:
    """Takes unchanged records out of a stream, and writes the parts that splitting them would.

    Attributes:
        tables: The tables of the version before, None if nothing can be taken from there.
        folder: Of the parts.
        numbers: Numbers of parts that are not used yet.
        count: How many records were taken out.
    """

    tables: Path | None
    folder: Path
    numbers: "count[int]"
    count: int = 0
    _hashes: dict[str, str] = field(default_factory=dict)
    _rows: list[tuple[object, ...]] = field(default_factory=list)

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
            self._rows.append((id_, item.source, item.line, metadata_json(item.metadata), origin))
            if len(self._rows) >= _ROWS:
                self._note()

    def write(self) -> None:
        """Writes the parts of the records that were taken out so far."""
        self._note()
        files = part_files(self.folder, _SAME)
        if self.tables is not None and files:
            with connect(self.tables, read_only=True) as connection:
                self._copy(connection.sql(statement("sources", "same_passages"), params={"same": files}), "records")

    def kept(self, source: KeptSource, gone: Collection[str], of_records: str) -> set[str] | None:
        """Writes the parts of records of a kept source that are whole passages of the version before.

        Args:
            source: The source.
            gone: Ids that do not count any more.
            of_records: Name of the parts of its records.

        Returns:
            Ids of its records that have to be split, some of which may be gone; None for all.
        """
        if self.tables is None or "sections_json" in pq.read_schema(source.records).names:
            return None
        said = {"records": str(source.records), "origin": source.name, "line": LINE_NOT_KNOWN, "gone": list(gone)}
        with connect(self.tables, read_only=True) as connection:
            self._copy(connection.sql(statement("sources", "kept_passages"), params=said), of_records)
            left = connection.execute(statement("sources", "kept_otherwise"), {"records": str(source.records)})
            return {id_ for (id_,) in left.fetchall()}

    def _note(self) -> None:
        if self._rows:
            write_part(self.folder, next(self.numbers), {_SAME: table_of_rows(_SAME_PARTS, self._rows)})
            self._rows.clear()

    def _copy(self, found: duckdb.DuckDBPyRelation, of_records: str) -> None:
        for batch in found.to_arrow_reader(_ROWS):
            rows = pa.Table.from_batches([batch])
            parts = {"passages": PASSAGE_PARTS.arrow, of_records: RECORD_PARTS}
            tables = {name: rows.select(schema.names).cast(schema) for name, schema in parts.items()}
            write_part(self.folder, next(self.numbers), tables)
