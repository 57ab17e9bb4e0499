"""One published version, open for reading: implements polyhop.schemas.ports.Stored.

Holds the version until closed; opens an artefact when it is first asked for, by its handle.
"""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polyhop.schemas.graph import Positions
from polyhop.schemas.manifest import PROBES, Manifest
from polyhop.schemas.ports import Artefact, IndexReader
from polyhop.schemas.records import Location, PassageOrigin
from polyhop.schemas.settings import LOCAL
from polyhop.warehouse.artefacts import ArrayFolder, partitions_of
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.statements import slow_noted, statement
from polyhop.warehouse.tables.connection import connect, lent_cursor

if TYPE_CHECKING:
    import duckdb

    from polyhop.schemas.manifest import StageTiming
    from polyhop.warehouse.vectors.lance import LanceTable, LanceVectors

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

KEPT_PASSAGES = 4_096
"""Passages whose texts are kept: a query for ten takes some 2 ms, and questions of one kind find the same ones."""

_LONGEST_KEPT = 8_000  # characters of a text that is kept: 32 MB at most, 4 MB of passages as they usually are

_MOST_KEPT_AT_ONCE = 512
"""More passages in one query are no questions' (a reader samples the corpus), and would push those out."""


class PublishedIndex(ArrayFolder):
    """A version of an index. Passages are numbered by ascending passage id."""

    def __init__(self, layout: Layout, name: str, version: int | None = None) -> None:
        self.layout = layout
        self.name = name
        self._opened: dict[Artefact[Any], object] = {}
        self._passages: dict[int, tuple[Any, ...]] = {}
        self._origins: dict[int, PassageOrigin] = {}
        self._vector_tables: dict[str, LanceTable] = {}
        self._idle_cursors: list[duckdb.DuckDBPyConnection] = []
        with ExitStack() as opened:  # what was opened is closed again if the rest cannot be
            held = opened.enter_context(hold_version(layout, name, version))
            self.version, self._folder = held.number, held.folder
            self.manifest = read_manifest(self._folder)
            super().__init__(self._folder.arrays, self.manifest.arrays)
            self.artefacts = frozenset(self.manifest.artefacts)
            self._connection = opened.enter_context(connect(self._folder.tables, read_only=True))
            opened.callback(self._close_cursors)
            ids = self.columns(statement("read", "passage_ids"))
            self._closing = opened.pop_all()
        self.passage_ids: Sequence[str] = ids["passage_id"].tolist()
        self.number_of_passage = Positions(self.passage_ids)

    def close(self) -> None:
        """Releases the version, and all that was opened of it: arrays stay mapped while anybody knows them."""
        for kept in (self._opened, self._passages, self._origins, self._vector_tables):
            kept.clear()
        self._closing.close()

    def stage_timings(self) -> "Mapping[str, StageTiming]":
        """Recorded timings of the stages that built this version."""
        from polyhop.warehouse.files.versions import stage_timings

        return stage_timings(self.layout.index(self.name), self.version)

    def extraction_tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of the replies that the extraction rests on; 0 without a model."""
        ((prompt, completion),) = self.rows(statement("read", "ledger_tokens"))
        return prompt, completion

    @property
    def tables_file(self) -> Path:
        """The version's DuckDB file."""
        return self._folder.tables

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the version was built with."""
        return self.manifest.settings

    @cached_property
    def passage_titles(self) -> Sequence[str]:
        """Titles by passage number."""
        titles: list[str] = self.columns(statement("read", "passage_titles"))["title"].tolist()
        return titles

    @cached_property
    def _record_of(self) -> Mapping[str, str]:
        return dict(self.rows(statement("read", "records_of_pieces")))

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        return self._record_of.get(passage_id, passage_id)

    def locations(self, passage_ids: Collection[str]) -> dict[str, Location]:
        """Known locations of passages in their files, by id."""
        record = self.manifest.tables.get("locations")
        if record is None or not record.rows or not passage_ids:
            return {}
        rows = self.documents(statement("read", "locations_by_id"), {"ids": list(passage_ids)})
        return {row.pop("passage_id"): Location(**{**row, "headings": tuple(row["headings"])}) for row in rows}

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked; those read last are kept."""
        found = self._read(numbers)
        return [found[number][:3] for number in numbers]

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Origins of passages by number, in the given order; recently read ones are cached."""
        found = {number: origin for number in numbers if (origin := self._origins.get(number)) is not None}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        if missing:
            rows = self._read(missing)
            ids = {"ids": list({row[3] for row in rows.values()})}
            record_of = {row[0]: row[1:] for row in self.rows(statement("read", "origins_of_records"), ids)}
            for number, (*_, record_id, document_id, start, end) in rows.items():
                source, metadata = record_of[record_id]
                found[number] = PassageOrigin(record_id, document_id, source, start, end, json.loads(metadata))
            _keep_newest(self._origins, {number: found[number] for number in missing})
        return [found[number] for number in numbers]

    def allowed_passages(self, where: str) -> NDArray[np.int64]:
        """Numbers of the passages whose records a filter allows, ascending."""
        from polyhop.warehouse.tables.filters import allowed_passages

        with self._cursor() as cursor:
            return allowed_passages(cursor, where)

    def _read(self, numbers: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """Rows of `passages_by_id` by number; kept unless there are many, or the text is long."""
        found = {number: row for number in numbers if (row := self._passages.get(number)) is not None}
        number_of = {self.passage_ids[number]: number for number in numbers if number not in found}
        if number_of:
            rows = self.rows(statement("read", "passages_by_id"), {"ids": list(number_of)})
            read = {number_of[row[0]]: row for row in rows}
            if len(read) <= _MOST_KEPT_AT_ONCE:
                _keep_newest(self._passages, {n: row for n, row in read.items() if len(row[2]) <= _LONGEST_KEPT})
            found.update(read)
        return found

    def _cursor(self) -> AbstractContextManager["duckdb.DuckDBPyConnection"]:
        return lent_cursor(self._connection, self.tables_file, self._idle_cursors)

    def _close_cursors(self) -> None:
        while self._idle_cursors:
            self._idle_cursors.pop().close()

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query on the version's tables."""
        with self._cursor() as cursor, slow_noted(_LOG, "duckdb", sql):
            return cursor.execute(sql, parameters).fetchall()

    def documents(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """The same as one dictionary per row."""
        with self._cursor() as cursor, slow_noted(_LOG, "duckdb", sql):
            cursor.execute(sql, parameters)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def columns(self, sql: str, parameters: Mapping[str, object] | None = None) -> Mapping[str, NDArray[Any]]:
        """The same by column, each of shape (rows,)."""
        with self._cursor() as cursor, slow_noted(_LOG, "duckdb", sql):
            return cursor.execute(sql, parameters).fetchnumpy()

    def cosine_scale(self, kind: str) -> float:
        """Factor for weights in units of the local encoder's cosine, for vectors of a kind."""
        record = self.manifest.vectors.get(kind)
        return record.encoder.cosine_scale if record is not None else 1.0

    def encoder_name(self, kind: str) -> str:
        """Name of the encoder of a kind of vectors."""
        record = self.manifest.vectors.get(kind)
        return record.encoder.name if record is not None else LOCAL

    def nearest(self, kind: str, vector: NDArray[np.float32], count: int, ef_search: int) -> list[str]:
        """Ids of about the `count` nearest things of a kind, by LanceDB's index, which the first search opens."""
        return self._vector_table(kind).nearest(vector, count, ef_search)

    def nearest_rows(self, kind: str, vector: NDArray[np.float32], count: int) -> NDArray[np.uint64]:
        """The same by partitions: LanceDB's own ids of the rows."""
        partitions = self.manifest.vectors[kind].partitions
        return self._vector_table(kind).nearest_rows(vector, count, partitions.probes if partitions else PROBES)

    def _vector_table(self, kind: str) -> "LanceTable":
        if kind not in self._vector_tables:
            record = self.manifest.vectors[kind]
            store = open_vector_store(self.layout.index(self.name))
            self._vector_tables[kind] = store.open(record.table, record.table_version)
        return self._vector_tables[kind]

    def artefact(self, handle: Artefact[T]) -> T:
        """Opens an artefact once and keeps it until closed."""
        if handle not in self._opened:
            handle.require_in(self)
            self._opened.setdefault(handle, handle.open(self))  # of two threads, both get the first one's
        return cast("T", self._opened[handle])


def _keep_newest(kept: dict[int, T], read: Mapping[int, T]) -> None:
    """Keeps what was read; the oldest go. Threads may do this at once: they only lose what can be read again."""
    kept.update(read)
    for number in list(kept)[: max(0, len(kept) - KEPT_PASSAGES)]:
        kept.pop(number, None)


def open_vector_store(index: IndexFolder) -> "LanceVectors":
    """The vectors of an index, which need not have any yet."""
    from polyhop.warehouse.vectors.lance import LanceVectors

    return LanceVectors(index.vectors)


def refers_elsewhere(manifest: bytes) -> bool:
    """Returns whether a manifest of LanceDB names data outside of its table's folder, or cannot be read."""
    from polyhop.warehouse.vectors.lance import has_base_paths

    return has_base_paths(manifest)


def read_vectors(index: IndexFolder, folder: VersionFolder, kind: str) -> pa.Table:
    """Ids and vectors of a version's rows of a kind: those that LanceDB has, and then those of `partitions_of`."""
    manifest = read_manifest(folder)
    record, arrays = manifest.vectors[kind], ArrayFolder(folder.arrays, manifest.arrays)
    table = open_vector_store(index).open(record.table, record.table_version).read()
    if record.partitions is None or not arrays.has_array(partitions_of(kind), "rows"):
        return table.select(["id", "vector"])
    rows, changed, vectors = (arrays.array(partitions_of(kind), name) for name in ("rows", "changed", "vectors"))
    held = table.filter(pc.is_in(table["_rowid"], pa.array(rows))).select(["id", "vector"])
    with connect(folder.tables, read_only=True) as connection:
        (all_ids,) = connection.execute(statement("read", f"{kind}_ids")).fetchnumpy().values()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(vectors)), record.dimension)
    return pa.concat_tables([held, pa.table([all_ids[changed], vectors], schema=held.schema)])


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage, in sentences by table, by array file and by kind of vectors."""

    tables: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    vectors: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables or self.arrays or self.vectors)

    def sentences(self) -> list[str]:
        """All that is wrong, each sentence once."""
        found = [*self.tables.values(), *self.arrays.values(), *self.vectors.values()]
        return [*dict.fromkeys(found)]

    def concerns(self, tables: Collection[str], array_prefix: str) -> bool:
        """Returns whether one of these tables, or an array with this prefix, is damaged."""
        is_array = bool(array_prefix) and any(name.startswith(f"{array_prefix}_") for name in self.arrays)
        return is_array or any(name in self.tables for name in tables)


def find_damage(index: IndexFolder, folder: VersionFolder, manifest: Manifest) -> Damage:
    """Compares every file of a version with the checksum that was taken when it was published.

    Cost: reads every file once.
    """
    vectors = open_vector_store(index)
    with ThreadPoolExecutor(1) as background:
        tables = background.submit(_difference, folder.tables, manifest.tables_file)
        arrays = {name: _difference(folder.arrays / name, checksum) for name, checksum in manifest.arrays.items()}
        of_vectors = {kind: "; ".join(vectors.find_damage(record.table)) for kind, record in manifest.vectors.items()}
        return Damage(
            dict.fromkeys({**manifest.tables, **manifest.history}, tables.result()) if tables.result() else {},
            {name: found for name, found in arrays.items() if found},
            {kind: found for kind, found in of_vectors.items() if found},
        )


def _difference(path: Path, checksum: str) -> str:
    """Fault of a file, in a sentence; "" if there is none."""
    try:
        is_whole = file_checksum(path) == checksum
    except FileNotFoundError:
        return f"file '{path.name}' is missing"
    except OSError as error:
        return f"file '{path.name}' cannot be read ({error.strerror})"
    return "" if is_whole else f"file '{path.name}' has another content than was published"


def passage_texts(index: IndexReader, passages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Text by id of ranked passages, from the version that ranked them."""
    numbers = [index.number_of_passage[str(passage["id"])] for passage in passages]
    return {passage_id: text for passage_id, _, text in index.passages(numbers)} if numbers else {}
