"""The records that a version keeps of each of its sources, so that the next run need not read all of them.

Two files per source under `graph/`: what was accepted, in the order of ids, and what was refused. Their bytes depend on
the records alone, not on the runs that brought them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.schemas.records import SourceRecord, sections_of
from polyhop.schemas.tables import QUARANTINE, Table, text_column

PREFIX = "records"
RECORDS = Table(
    "records",
    "Records of one source, as it gave them.",
    ("record_id",),
    (
        text_column("record_id", "id of the record in the source, or made of its title and text"),
        text_column("title", "its title"),
        text_column("text", "its whole text"),
        text_column("source", "file"),
        text_column("metadata_json", "its metadata, as JSON with sorted keys"),
        text_column("origin", "name of the source"),
        text_column("sections_json", "its sections, as JSON; empty if it has none"),
    ),
)
WITHOUT_SECTIONS = pa.schema([field for field in RECORDS.arrow if field.name != "sections_json"])
"""The columns of a file of records of which none has sections: it is what it was before there were any."""

REFUSED = pa.schema([field.with_nullable(False) for field in QUARANTINE.arrow])  # noqa: FBT003
"""The columns of refused records: whoever read them knew their lines."""

LINE_NOT_KNOWN = -1
"""The line of a record that was kept: its file was not read."""

_ROW_GROUP = 20_000
"""Rows: a batch of documents reads one or two groups."""


@dataclass(frozen=True, slots=True)
class KeptSource:
    """A source whose records a run takes from the current version: its name and its two files."""

    name: str
    records: Path
    refused: Path


def kept_files(name: str) -> tuple[str, str]:
    """Names of the two files of a source: accepted and refused records."""
    return f"{PREFIX}_of-{name}.parquet", f"{PREFIX}_refused-{name}.parquet"


def read_kept(source: KeptSource) -> Iterator[SourceRecord]:
    """The records of a source in the order of ids; memory does not grow with their number."""
    with pq.ParquetFile(source.records) as file:
        for batch in file.iter_batches(batch_size=1_000):
            for row in batch.to_pylist():
                metadata = json.loads(row["metadata_json"])
                sections = sections_of(row.get("sections_json", ""))
                yield SourceRecord(
                    row["record_id"], row["title"], row["text"], row["source"], LINE_NOT_KNOWN, metadata, sections
                )


def write_rows(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes rows to one parquet file whose bytes do not depend on how many rows each batch holds."""
    left = schema.empty_table()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            left = pa.concat_tables([left, pa.Table.from_batches([batch]).cast(schema)])
            while len(left) >= _ROW_GROUP:
                writer.write_table(left.slice(0, _ROW_GROUP).combine_chunks())
                left = left.slice(_ROW_GROUP)
        if len(left):
            writer.write_table(left.combine_chunks())


def kept_count(path: Path) -> int:
    """How many records a file holds."""
    return int(pq.read_metadata(path).num_rows)
