"""Rows of the version before that extraction by rules need not make again.

A version keeps the raw rows of its passages in files of its own. Rows are kept if the same code and settings (the
recipe) made them from the same title and text, and no title that came or went since has a key in these.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.columns import Column, Table
from polyhop.tasks.extraction.changed_titles import ChangedTitles
from polyhop.warehouse.statements import statement

EXTRACTED = Table(
    "passages",
    "Passages whose raw rows stand in the files beside this one.",
    ("passage_id",),
    (
        Column("passage_id", pa.string(), "the passage"),
        Column("title", pa.string(), "its title"),
        Column("content_hash", pa.string(), "sha256 of title and text"),
        Column("recipe", pa.string(), "hash of the code's revision and the settings"),
    ),
)
_ROW_GROUP = 20_000
"""Rows that are read, merged and written at once."""


def fresh_passages(connection: duckdb.DuckDBPyConnection, extracted: Path, recipe: str) -> list[str]:
    """Ids, ascending, of the passages whose rows a version does not have, or would have otherwise.

    Args:
        connection: To the passages of the corpus now.
        extracted: Its file of `EXTRACTED`.
        recipe: Of the rows that are wanted now.
    Cost: O(passages), and O(characters) if titles came or went.
    """
    known = {"extracted": str(extracted), "recipe": recipe}
    fresh = {row[0] for row in connection.execute(statement("extract", "fresh_passages"), known).fetchall()}
    before = connection.execute(statement("extract", "titles_before"), {"extracted": str(extracted)}).fetchall()
    after = connection.execute(statement("ingest", "titles")).fetchall()
    changed = ChangedTitles((row[0] for row in before), (row[0] for row in after))
    if changed.is_any:
        texts = connection.execute(statement("extract", "known_passages"), known).fetchall()
        fresh.update(id_ for id_, title, text in texts if changed.occur_in(text) or changed.occur_in(title))
    return sorted(fresh)


def gone_passages(connection: duckdb.DuckDBPyConnection, extracted: Path) -> list[str]:
    """Ids of passages that a version has rows of and the corpus has no more."""
    rows = connection.execute(statement("extract", "gone_passages"), {"extracted": str(extracted)}).fetchall()
    return [row[0] for row in rows]


def merged_rows(before: Path | None, gone: Sequence[str], parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of a version, without those of some passages, and the rows of parts, ascending by passage.

    Args:
        before: The version's file of one of `RAW`, None if there is none.
        gone: Ids of passages whose rows are not kept: removed ones, and all that the parts are about.
        parts: Rows ascending by passage within a part and over the parts.
    Cost: O(rows); memory for one row group and one part.
    """
    left_out, coming = pa.array(gone, pa.string()), iter(parts)
    waiting = next(coming, None)
    for group in _row_groups(before):
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
        yield from _joined([kept, *between])
    if waiting is not None:
        yield waiting
        yield from coming


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """One table of all their rows, ascending by passage; none if they have no row."""
    filled = [table for table in tables if len(table)]
    if filled:
        joined = pa.concat_tables([table.cast(filled[-1].schema) for table in filled])
        yield joined.sort_by("passage_id") if len(filled) > 1 else joined


def _row_groups(path: Path | None) -> Iterator[pa.Table]:
    if path is None:
        return
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)


def write_rows(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Writes rows to one file whose bytes depend on the rows alone, not on how many each table held; counts them."""
    count = 0
    left: pa.Table = schema.empty_table()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            count += len(table)
            left = pa.concat_tables([left, table.cast(schema)])
            while len(left) >= _ROW_GROUP:
                writer.write_table(left.slice(0, _ROW_GROUP).combine_chunks())
                left = left.slice(_ROW_GROUP)
        if len(left):
            writer.write_table(left.combine_chunks())
    return count
