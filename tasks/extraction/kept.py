"""Rows of the version before that extraction by rules need not make again.

A version keeps the raw rows of its passages in files of its own. Rows are kept if the same code and settings (the
recipe) made them from the same title and text, and no title that came or went since has a key in these.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from polyhop.schemas.columns import Column, Table
from polyhop.schemas.corpus import Passage
from polyhop.schemas.ids import content_hash
from polyhop.tasks.extraction.changed_titles import ChangedTitles
from polyhop.tasks.extraction.rows import arrow_table

PREFIX = "extraction"
RAW = ("mentions", "relations", "propositions", "triples")
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
FILES = tuple(f"{PREFIX}_{name}.parquet" for name in (EXTRACTED.name, *RAW))

_ROW_GROUP = 20_000
"""Rows: a batch of 500 passages has 10,000 or fewer of a table, and reads the one or two groups that hold them."""


class KeptRows:
    """The raw rows of a version, as far as another corpus may keep them.

    Args:
        files: `FILES` of the version, or none.
        recipe: Of the rows that are wanted now.
        titles: Gives all titles of the corpus now; asked only if there are files.
    """

    def __init__(self, files: Sequence[Path], recipe: str, titles: Callable[[], Iterable[str]]) -> None:
        self._files = dict(zip((EXTRACTED.name, *RAW), files, strict=True)) if files else {}
        self._hashes: dict[str, str] = {}
        self._changed = ChangedTitles((), ())
        if files:
            rows = pq.read_table(self._files[EXTRACTED.name]).to_pydict()
            extracted = zip(rows["passage_id"], rows["content_hash"], rows["recipe"], strict=True)
            self._hashes = {passage: made_of for passage, made_of, by in extracted if by == recipe}
        if self._hashes:
            self._changed = ChangedTitles(rows["title"], titles())

    def has(self, passage: Passage) -> bool:
        """Whether the rows of this passage would come out the same."""
        if self._hashes.get(passage.passage_id) != _content(passage):
            return False
        return not (self._changed.occur_in(passage.text) or self._changed.occur_in(passage.title))

    def rows(self, name: str, passages: Sequence[Passage]) -> pa.Table:
        """Their rows of one table, in its order.

        Args:
            name: One of `RAW`.
            passages: At least one, all of them among those that `has` is true of.
        """
        ids = sorted(passage.passage_id for passage in passages)
        column = pc.field("passage_id")
        near = pq.read_table(self._files[name], filters=(column >= ids[0]) & (column <= ids[-1]))
        return near.filter(pc.is_in(near.column("passage_id"), pa.array(ids, pa.string())))


def extracted_table(passages: Iterable[Passage], recipe: str) -> pa.Table:
    """The part of the table of passages, ascending."""
    rows = ((passage.passage_id, passage.title, _content(passage), recipe) for passage in passages)
    return arrow_table(EXTRACTED, sorted(rows))


def with_kept(tables: Mapping[str, pa.Table], kept: KeptRows, passages: Sequence[Passage]) -> dict[str, pa.Table]:
    """Raw tables joined by the rows that are kept of these passages, in the order of passages."""
    if not passages:
        return dict(tables)
    joined = {}
    for name, table in tables.items():
        both = pa.concat_tables([kept.rows(name, passages).cast(table.schema), table])
        joined[name] = both.sort_by("passage_id")
    return joined


def write_rows(path: Path, parts: Iterable[str]) -> None:
    """Joins parts into one file whose bytes depend on the rows alone, not on how many each part held."""
    left: pa.Table | None = None
    writer: pq.ParquetWriter | None = None
    for part in parts:
        table = pq.read_table(part)
        left = table if left is None else pa.concat_tables([left, table])
        writer = writer or pq.ParquetWriter(path, left.schema, compression="zstd")
        while len(left) >= _ROW_GROUP:
            writer.write_table(left.slice(0, _ROW_GROUP).combine_chunks())
            left = left.slice(_ROW_GROUP)
    if writer is not None and left is not None:
        if len(left):
            writer.write_table(left.combine_chunks())
        writer.close()


def _content(passage: Passage) -> str:
    return content_hash(passage.title, passage.text)
