"""Valid replies as a parquet file, out of a cache and into another.

Knows no model. A file is checked whole before its first row is stored; whether a reply still has the form that its
task asks for is checked whenever it is used.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.errors import SourceError
from polyhop.warehouse.cache.calls import ReplySource
from polyhop.warehouse.cache.replies import ReplyCache, StoredReply, reply_row
from polyhop.warehouse.files.disk import named_file

ROWS_PER_BATCH = 1_000  # chosen: bounds memory, and any number reads the same rows
SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("prompt_hash", pa.string(), nullable=False),
        pa.field("schema_version", pa.int64(), nullable=False),
        pa.field("reply", pa.string(), nullable=False),
        pa.field("rung", pa.string(), nullable=False),
        pa.field("attempts", pa.int64(), nullable=False),
        pa.field("calls", pa.int64(), nullable=False),
        pa.field("prompt_tokens", pa.int64(), nullable=False),
        pa.field("completion_tokens", pa.int64(), nullable=False),
        pa.field("cost_usd", pa.float64()),
        pa.field("seconds", pa.float64(), nullable=False),
    ]
)

_KEY = re.compile(r"[0-9a-f]{64}")
_RUNGS = frozenset(rung.value for rung in Rung)
_NUMBERS = tuple(field.name for field in SCHEMA if not pa.types.is_string(field.type))


@dataclass(frozen=True, slots=True)
class Imported:
    """Replies of a file that were new to the cache, and replies that it knew."""

    added: int
    known: int


def export_replies(cache: ReplyCache, path: Path) -> int:
    """Writes all valid replies, sorted by key, as a whole file or none; returns how many.

    Raises:
        StoreError: If the file cannot be written.
    """
    count = 0
    with named_file(path, "the replies") as place, pq.ParquetWriter(place, SCHEMA, compression="zstd") as writer:
        for page in cache.pages():
            writer.write_table(pa.Table.from_pylist([_document(*pair) for pair in page], schema=SCHEMA))
            count += len(page)
    return count


def import_replies(cache: ReplyCache, path: Path) -> Imported:
    """Adds the replies of a file that the cache does not know, all or none.

    Raises:
        SourceError: If the file is missing, is not an export of replies, or has a row that cannot be one.
    """
    with _readable(path) as file:
        count = sum(len(rows) for rows in _checked_batches(file, path))
        added = cache.add_replies([_row(row) for row in rows] for rows in _checked_batches(file, path))
    return Imported(added=added, known=count - added)


def _document(source: ReplySource, reply: StoredReply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "key": source.key,
        "model": source.model,
        "task": source.task,
        "prompt_hash": source.prompt_hash,
        "schema_version": source.schema_version,
        "reply": reply.text,
        "rung": reply.rung.value,
        "attempts": reply.attempts,
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost_usd": usage.cost_usd,
        "seconds": usage.seconds,
    }


def _row(document: dict[str, Any]) -> dict[str, Any]:
    usage = Usage(*(document[name] for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")))
    source = ReplySource(*(document[name] for name in ("key", "model", "task", "prompt_hash", "schema_version")))
    reply = StoredReply(document["reply"], source.model, Rung(document["rung"]), document["attempts"], usage)
    return reply_row(source, reply)


@contextmanager
def _readable(path: Path) -> Iterator[pq.ParquetFile]:
    if not path.is_file():
        raise SourceError(f"There is no file {path}.")
    try:
        with pq.ParquetFile(path) as file:
            _require_columns(file.schema_arrow, path)
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} is not a readable parquet file ({reason}); nothing was imported.") from error


def _require_columns(found: pa.Schema, path: Path) -> None:
    wrong = [
        field.name for field in SCHEMA if field.name not in found.names or found.field(field.name).type != field.type
    ]
    if wrong:
        raise SourceError(
            f"{path} is not an export of replies: column {', '.join(wrong)} is missing or of another type; "
            "nothing was imported. Write one with: polyhop cache export FILE.parquet"
        )


def _checked_batches(file: pq.ParquetFile, path: Path) -> Iterator[list[dict[str, Any]]]:
    number = 0
    for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, columns=SCHEMA.names):
        rows = batch.to_pylist()
        for row in rows:
            number += 1
            fault = _fault(row)
            if fault:
                raise SourceError(f"Row {number} of {path} is not a reply: {fault}; nothing was imported.")
        yield rows


def _fault(row: dict[str, Any]) -> str | None:
    """What is wrong with a row, None if nothing is."""
    empty = [name for name, value in row.items() if value == "" or (value is None and name != "cost_usd")]
    if empty:
        return f"{empty[0]} is empty"
    if not _KEY.fullmatch(row["key"]):
        return "key is not 64 hexadecimal digits"
    if row["rung"] not in _RUNGS:
        return f"rung is '{row['rung'][:40]}'"
    return _number_fault(row) or _json_fault(row["reply"])


def _number_fault(row: dict[str, Any]) -> str | None:
    numbers = {name: row[name] for name in _NUMBERS if row[name] is not None}
    wrong = [name for name, number in numbers.items() if not math.isfinite(number) or number < 0]
    return f"{wrong[0]} is {row[wrong[0]]}" if wrong else None


def _json_fault(text: str) -> str | None:
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return "reply is not JSON"
    return None if isinstance(reply, dict) else "reply is not a JSON object"
