"""The list of things that have vectors, read once per stage: ids, texts and content hashes, one row group per batch.

Its rows depend on the stage's fingerprint only, so that a run that was killed goes on with it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.warehouse.batched_list import write_batches
from polyhop.warehouse.vectors.earlier import HASH_BYTES

SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), pa.field("content_hash", pa.binary(HASH_BYTES), nullable=False)]
)

Thing = tuple[str, str]
"""Id and text."""


def write_things(path: Path, batches: Iterable[list[Thing]], key: Callable[[str], str]) -> None:
    """Writes the list, whole or not at all.

    Args:
        path: The file.
        batches: All things, in the order of the matrix; each list becomes a row group.
        key: The content hash of a text, in hexadecimal digits.
    """
    write_batches(path, SCHEMA, (_table(things, key) for things in batches))


def _table(things: list[Thing], key: Callable[[str], str]) -> pa.Table:
    texts = [text for _, text in things]
    columns = [[thing for thing, _ in things], texts, [bytes.fromhex(key(text)) for text in texts]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def read_hashes(path: Path) -> list[bytes]:
    """Content hashes of all things, in order."""
    hashes: list[bytes] = pq.read_table(path, columns=["content_hash"]).column(0).to_pylist()
    return hashes


def read_texts(path: Path, numbers: list[int]) -> list[str]:
    """Texts of the things with these numbers."""
    texts: list[str] = pq.read_table(path, columns=["text"]).column(0).take(pa.array(numbers, pa.int64())).to_pylist()
    return texts
