"""A list that a stage makes once and works off batch by batch: a Parquet file with one row group per batch.

Says nothing about its columns. Its file must be in `Build.parts`, whose name holds what the rows depend on.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.warehouse.files.disk import replacing


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.Table]) -> None:
    """Writes the list, whole or not at all; each table becomes a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for table in batches:
            writer.write_table(table, row_group_size=max(1, len(table)))


def batch_count(path: Path) -> int:
    """How many batches the list has."""
    return int(pq.read_metadata(path).num_row_groups)


def row_count(path: Path) -> int:
    """How many rows the list has."""
    return int(pq.read_metadata(path).num_rows)


def read_batch(path: Path, batch: int) -> pa.Table:
    """The rows of one batch."""
    with pq.ParquetFile(path) as file:
        return file.read_row_group(batch)
