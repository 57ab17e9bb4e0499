"""One published version, open for reading: implements polyhop.schemas.ports.IndexReader and artefacts.Stored.

Holds the version until closed; opens an artefact when it is first asked for, by its handle.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import duckdb
import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact, Stored, unrestricted
from polyhop.schemas.errors import ContractError
from polyhop.schemas.filters import DATE_FIELD, DATE_FIELDS, METADATA, RECORD_FIELDS, FieldValues, RecordFields
from polyhop.schemas.ports import PinnedTable, VectorStore
from polyhop.schemas.records import Location, PassageOrigin
from polyhop.schemas.runs import StageTiming
from polyhop.warehouse.artefacts import ArrayFolder
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.run_history import stage_timings
from polyhop.warehouse.files.versions import hold_version, read_manifest
from polyhop.warehouse.statements import slow_noted, statement
from polyhop.warehouse.tables.connection import translated


def _open(stored: Stored) -> RecordFields:
    records = stored.columns(statement("read", "records_of_passages"))["record"].astype(np.int64)
    if len(stored.passage_ids) and not len(records):
        raise ContractError(
            "This version was built before questions could be filtered, and has no metadata by record; run polyhop "
            "index on its source again, which derives nothing else."
        )
    types = dict.fromkeys(RECORD_FIELDS, "text")
    types |= {METADATA + name: kind for name, kind in stored.rows(statement("read", "metadata_types"))}
    types |= dict.fromkeys(DATE_FIELDS, "date") if stored.rows(statement("read", "has_dates"))[0][0] else {}
    count = int(records.max()) + 1 if len(records) else 0
    return RecordFields(count, records, types, _reader(stored))


def _reader(stored: Stored) -> Callable[[str], FieldValues]:
    def read(field: str) -> FieldValues:
        if field in RECORD_FIELDS:
            return _values(stored.columns(statement("read", "record_values"), {"field": field}))
        if field in DATE_FIELDS:
            role = field.removeprefix(DATE_FIELD).removeprefix(".")
            return _values(stored.columns(statement("read", "date_values"), {"role": role}))
        return _values(stored.columns(statement("read", "metadata_values"), {"name": field.removeprefix(METADATA)}))

    return read


def _values(columns: Mapping[str, NDArray[Any]]) -> FieldValues:
    rows = columns["record"].astype(np.int64)
    numbers = np.ma.filled(columns["number"].astype(np.float64), np.nan)
    moments = np.ma.filled(columns["moment"].astype("datetime64[us]"), np.datetime64("NaT"))
    return FieldValues(rows, columns["value"].tolist(), columns["kind"].tolist(), numbers, moments)


RECORD_FIELD_VALUES = Artefact("records", _open, is_optional=False, restrict=unrestricted)
"""What filters look at."""


T = TypeVar("T")
_LOG = logging.getLogger(__name__)

KEPT_PASSAGES = 4_096
"""Passages whose texts are kept: a query for ten takes some 2 ms, and questions of one kind find the same ones."""

_LONGEST_KEPT = 8_000
"""Characters of a text that is kept: 32 MB at most, 4 MB of passages as they usually are."""

_MOST_KEPT_AT_ONCE = 512
"""More passages in one query are no questions' (a reader samples the corpus), and would push those out."""

_Place = tuple[str, str, int, int]
"""Record and document of a passage, and its offsets in the record's text."""


class PublishedIndex:
    """A version of an index. Passages are numbered by ascending passage id."""

    def __init__(self, layout: Layout, name: str, version: int | None = None) -> None:
        self.layout = layout
        self.name = name
        self._opened: dict[Artefact[Any], object] = {}
        self._texts: dict[int, tuple[str, str, str]] = {}
        self._places: dict[int, _Place] = {}
        self._origins: dict[int, PassageOrigin] = {}
        with ExitStack() as opened:  # what was opened is closed again if the rest cannot be
            held = opened.enter_context(hold_version(layout, name, version))
            self.version, self._folder = held.number, held.folder
            self.manifest = read_manifest(self._folder)
            self.artefacts = frozenset(self.manifest.artefacts)
            with translated(self._folder.tables):
                self._connection = duckdb.connect(str(self._folder.tables), read_only=True)
                opened.callback(self._connection.close)
                rows = self._connection.execute(statement("read", "passage_ids")).fetchall()
            self._closing = opened.pop_all()
        self.passage_ids: Sequence[str] = [row[0] for row in rows]
        self.passage_titles: Sequence[str] = [row[1] for row in rows]
        self._record_of: dict[str, str] = {row[0]: row[2] for row in rows if row[0] != row[2]}

    def close(self) -> None:
        """Releases the version, and all that was opened of it: arrays stay mapped while anybody knows them."""
        self._opened.clear()
        self._texts.clear()
        self._places.clear()
        self._origins.clear()
        self.__dict__.pop("number_of_passage", None)
        self._closing.close()

    def stage_timings(self) -> Mapping[str, StageTiming]:
        """What the stages took that built this version, as far as it was recorded."""
        return stage_timings(self.layout.index(self.name), self.version)

    def extraction_tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of the replies that the extraction rests on; 0 without a model."""
        with translated(self._folder.tables):
            row = self._connection.cursor().execute(statement("read", "ledger_tokens")).fetchone() or (0, 0)
        return int(row[0]), int(row[1])

    @property
    def tables_file(self) -> Path:
        """The version's DuckDB file."""
        return self._folder.tables

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        return self._record_of.get(passage_id, passage_id)

    def locations(self, passage_ids: Collection[str]) -> dict[str, Location]:
        """Where passages stand in their files, by id, of those of which anything is known."""
        record = self.manifest.tables.get("locations")
        if record is None or not record.rows or not passage_ids:
            return {}
        with translated(self._folder.tables):
            values = {"ids": list(passage_ids)}
            found = self._connection.cursor().execute(statement("read", "locations_by_id"), values)
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return {row.pop("passage_id"): Location(**{**row, "headings": tuple(row["headings"])}) for row in rows}

    @cached_property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        return {passage_id: number for number, passage_id in enumerate(self.passage_ids)}

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked; those read last are kept."""
        found = {number: row for number in numbers if (row := self._texts.get(number)) is not None}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        if missing:
            found.update((number, row[:3]) for number, row in self._read_passages(missing).items())
        return [found[number] for number in numbers]

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """Where passages come from, by number, in the order asked; those read last are kept."""
        found = {number: origin for number in numbers if (origin := self._origins.get(number)) is not None}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        if missing:
            read = dict(zip(missing, self._read_origins(missing), strict=True))
            found.update(read)
            _keep_newest(self._origins, read)
        return [found[number] for number in numbers]

    def _read_passages(self, numbers: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """Passages by number, each with its place; kept unless there are many."""
        number_of = {self.passage_ids[number]: number for number in numbers}
        read = {number_of[row[0]]: row for row in self._rows("passages_by_id", number_of)}
        if len(read) <= _MOST_KEPT_AT_ONCE:
            _keep_newest(self._texts, {n: row[:3] for n, row in read.items() if len(row[2]) <= _LONGEST_KEPT})
            _keep_newest(self._places, {n: row[3:] for n, row in read.items()})
        return read

    def _read_origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        places = self._places_of(numbers)
        of_record: dict[str, tuple[str, str]] = {}
        if "records" in self.manifest.tables:
            of_record = self._sources("origins_of_records", {place[0] for place in places})
        others = {place[1] for place in places if place[0] not in of_record}
        of_document = self._sources("origins_of_documents", others) if others else {}
        return [_origin(place, of_record.get(place[0]) or of_document[place[1]]) for place in places]

    def _places_of(self, numbers: Sequence[int]) -> list[_Place]:
        """Places of passages by number, in the order asked; read where they are not kept."""
        place_of = {number: place for number in numbers if (place := self._places.get(number)) is not None}
        unknown = [number for number in numbers if number not in place_of]
        if unknown:
            place_of.update((number, row[3:]) for number, row in self._read_passages(unknown).items())
        return [place_of[number] for number in numbers]

    def _sources(self, name: str, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        return {row[0]: (row[1], row[2]) for row in self._rows(name, ids)}

    def _rows(self, name: str, ids: Collection[str]) -> list[tuple[Any, ...]]:
        with translated(self._folder.tables):
            return self._connection.cursor().execute(statement("read", name), {"ids": list(ids)}).fetchall()

    def artefact(self, handle: Artefact[T]) -> T:
        """What a handle opens, opened once and kept until closed."""
        if handle not in self._opened:
            handle.require_in(self.artefacts, self.name)
            stored = StoredVersion(self, self._folder.arrays, self._connection)
            self._opened.setdefault(handle, handle.open(stored))  # of two threads, both get the first one's
        return cast("T", self._opened[handle])


_Kept = TypeVar("_Kept")


def _origin(place: _Place, of_record: tuple[str, str]) -> PassageOrigin:
    record_id, document_id, start, end = place
    source, metadata = of_record
    return PassageOrigin(record_id, document_id, source, start, end, json.loads(metadata))


def _keep_newest(kept: dict[int, _Kept], read: Mapping[int, _Kept]) -> None:
    """Keeps what was read; the oldest go. Threads may do this at once: they only lose what can be read again."""
    kept.update(read)
    for number in list(kept)[: max(0, len(kept) - KEPT_PASSAGES)]:
        kept.pop(number, None)


class StoredVersion(ArrayFolder):
    """An open version as the opener of one artefact gets it; what it opens has its files checked once."""

    def __init__(self, published: PublishedIndex, arrays: Path, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(arrays, published.manifest.arrays)
        self._published = published
        self._connection = connection
        self._vector_tables: dict[str, PinnedTable] = {}

    @property
    def passage_ids(self) -> Sequence[str]:
        """Ids of the passages, in number order."""
        return self._published.passage_ids

    @property
    def number_of_passage(self) -> Mapping[str, int]:
        """Passage number by id."""
        return self._published.number_of_passage

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the version was built with."""
        return self._published.manifest.settings

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query on the version's tables."""
        with translated(self._published.tables_file), slow_noted(_LOG, "duckdb", sql):
            return self._connection.cursor().execute(sql, parameters).fetchall()

    def columns(self, sql: str, parameters: Mapping[str, object] | None = None) -> Mapping[str, NDArray[Any]]:
        """The same by column, each of shape (rows,)."""
        with translated(self._published.tables_file), slow_noted(_LOG, "duckdb", sql):
            return self._connection.cursor().execute(sql, parameters).fetchnumpy()

    def cosine_scale(self, kind: str) -> float:
        """What weights in units of the local encoder's cosine are multiplied by, for vectors of a kind."""
        record = self._published.manifest.vectors.get(kind)
        return record.encoder.cosine_scale if record is not None else 1.0

    def nearest(self, kind: str, vector: NDArray[np.float32], count: int, ef_search: int) -> list[str]:
        """Ids of about the `count` nearest things of a kind, by an HNSW graph, opened by the first search."""
        if kind not in self._vector_tables:
            record = self._published.manifest.vectors[kind]
            store = open_vector_store(self._published.layout.index(self._published.name))
            self._vector_tables[kind] = store.open(record.table, record.table_version)
        return self._vector_tables[kind].nearest(vector, count, ef_search)

    def artefact(self, handle: Artefact[T]) -> T:
        """Another artefact of this version."""
        return self._published.artefact(handle)


def open_vector_store(index: IndexFolder) -> VectorStore:
    """The vectors of an index, which need not have any yet."""
    from polyhop.warehouse.vectors.lance import LanceVectors

    return LanceVectors(index.vectors)
