"""The LanceDB database of an index: tables with vectors and their texts, approximate search, and damage to its files.

Each published version pins a table version by a tag of LanceDB.
"""

import json
import os
import shutil
import sys
from collections.abc import Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.util import find_spec, module_from_spec
from itertools import chain, count, islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError, PolyhopError, StoreError
from polyhop.schemas.manifest import (
    HNSW_EF_CONSTRUCTION,
    HNSW_M,
    NEAR,
    PROBES,
    ROWS_PER_PROBE,
    HnswRecord,
    PartitionsRecord,
)
from polyhop.schemas.ports import SyncedTable, VectorRows
from polyhop.warehouse.artefacts import forget_pages, read_rows
from polyhop.warehouse.files.disk import disk_sentence, file_checksum, write_whole
from polyhop.warehouse.files.layout import index_of

CHECKSUMS = "checksums.json"
CHECKED_BYTES = 64 * 2**20
"""Files up to this size are checked when a table is opened to be searched; as for arrays (graph/arrays.py)."""


@contextmanager
def translated(database: Path) -> Iterator[None]:
    """Turns LanceDB's errors inside the block, panics of its Rust code among them, into ours.

    Raises:
        StoreError: If the disk is full or not writable.
        DamagedStoreError: Otherwise: what was asked is right, so the files are not.
    """
    try:
        yield
    except BaseException as error:
        # pyo3's PanicException derives from BaseException, and no module exports that class
        is_of_lance = isinstance(error, OSError | RuntimeError | ValueError | pa.ArrowException)
        if not is_of_lance and type(error).__name__ != "PanicException":
            raise
        reason = disk_sentence(error)
        if reason is not None:
            raise StoreError(f"Cannot write vectors to {database}: {reason}.") from error
        said = str(error).strip().split("\n", 1)[0].removeprefix("lance error: ").split(", /root/")[0]
        raise DamagedStoreError(database, index_of(database), f"LanceDB failed: {said[:120]}") from error


# Source: architecture.md section 3; algorithms.md 2.8, 2.9.

SAMPLE = 200  # rows; decision 0008
RECALL_DEPTH = 10  # as questions ask by default
# candidates that a search keeps; chosen: above the depth of 10, and the manifest states it with the recall
RECALL_EF = 64

_BLOCK_ROWS = 1 << 13  # rows that the sample is compared with at once: cosines, their order and numbers take 50 MB


def has_hnsw(table: Any) -> bool:
    """Returns whether an HNSW graph built by Polyhop covers every row."""
    index = next((one for one in table.list_indices() if list(one.columns) == ["vector"]), None)
    if index is None or index.num_unindexed_rows:
        return False
    made = (index.index_details or {}).get("hnsw", {})
    return (made.get("max_connections"), made.get("construction_ef")) == (HNSW_M, HNSW_EF_CONSTRUCTION)


def recall_at_10(table: "LanceTable", rows: VectorRows, candidates: int, probes: int = PROBES) -> float:
    """The share of the exact nearest `RECALL_DEPTH` rows among so many candidates of a search, in two decimals.

    Over `SAMPLE` rows spread evenly over the table. Each sampled vector is moved half-way to its neighbour in the
    sample: a row's own vector would be too easy to find. There is at least one row, of length 1.
    """
    vectors = rows.vectors
    sample = read_rows(vectors, np.unique(np.linspace(0, len(vectors) - 1, SAMPLE).astype(np.intp)))
    moved = sample + np.roll(sample, 1, axis=0)
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    queries = np.where(lengths > 1e-6, moved / np.maximum(lengths, 1e-6), sample).astype(np.float32)
    depth = min(RECALL_DEPTH, len(vectors))
    best, numbers = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.intp)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        cosines = queries @ vectors[start : start + _BLOCK_ROWS].T
        best = np.concatenate((best, cosines), axis=1)
        there = np.arange(start, start + cosines.shape[1])
        numbers = np.concatenate((numbers, np.broadcast_to(there, cosines.shape)), axis=1)
        first = np.argpartition(-best, min(depth, best.shape[1]) - 1, axis=1)[:, :depth]
        best, numbers = np.take_along_axis(best, first, axis=1), np.take_along_axis(numbers, first, axis=1)
        forget_pages(vectors)
    found = 0
    for query, nearest in zip(queries, numbers.tolist(), strict=True):
        near = {rows.ids[number] for number in nearest}
        found += len(near.intersection(table.nearest(query, max(depth, candidates), RECALL_EF, probes)))
    return round(found / (depth * len(queries)), 2)


def _measured_hnsw(table: "LanceTable", rows: VectorRows) -> HnswRecord:
    recall = recall_at_10(table, rows, RECALL_DEPTH)
    return HnswRecord(m=HNSW_M, ef_construction=HNSW_EF_CONSTRUCTION, ef_search=RECALL_EF, recall_at_10=recall)


def _measured_partitions(table: "LanceTable", rows: VectorRows) -> PartitionsRecord:
    probes = max(PROBES, len(rows.ids) // ROWS_PER_PROBE)
    return PartitionsRecord(probes=probes, recall_at_10=recall_at_10(table, rows, NEAR, probes))


_CHUNK = 5000  # chosen: bounds the rows and the text of a statement in memory, and any number leaves the same table
_MARGINS = (timedelta(seconds=1), timedelta(seconds=1), timedelta(minutes=1))
"""Between reading the age of a tagged version and LanceDB's own look at the clock, once it has joined files: the first
time that may take longer, and is done then."""


MOST_FRAGMENTS = 10
"""Files of rows that a table may have before they are joined: an edit adds one, and to join them is to write all rows.
Chosen: until then unpinned rows stay on the disk.
"""
MOST_WRITTEN = 0.1
"""Share of rows that a run may write or delete without joining files; chosen: so files hold all rows twice at most."""


class LanceVectors:
    """The vectors of one index: a database in a folder, which need not exist yet.

    Versions of its tables stay readable as long as somebody pins them. One writer at a time, who holds the index's
    lease. A file lists the checksums of LanceDB's files, and whether a run that may remove some is under way.
    """

    def __init__(self, database: Path) -> None:
        self._database = database

    def sync(
        self, table: str, rows: VectorRows, *, has_graph: bool = False, is_partitioned: bool = False
    ) -> SyncedTable:
        """Makes a table, new or not, hold exactly `rows`; writes only what differs.

        A table with at least one row may have an HNSW graph for approximate search, or a new one partitions.
        """
        with translated(self._database):
            connection, schema = _connect(self._database), _schema(rows.vectors.shape[1])
            from lancedb.index import IvfFlat, IvfHnswFlat, IvfRq

            held: Any = connection.create_table(table, schema=schema, exist_ok=True)
            if held.schema.field("vector").type != schema.field("vector").type:  # an empty one in its stead
                held = connection.create_table(table, schema=schema, mode="overwrite")
            changed, vanished = _write_differences(held, rows)
            is_changed = bool(changed or vanished)
            is_much = changed + vanished > MOST_WRITTEN * len(rows.ids) or _fragment_count(held) > MOST_FRAGMENTS
            if is_much and not is_partitioned:  # a table with partitions is never changed
                for index in held.list_indices():
                    held.drop_index(index.name)  # compaction would rewrite them, and take as long as making them again
                _optimize(held, timedelta(days=7))
            # Of all rows; LanceDB cannot index a table without rows.
            if has_graph and (is_changed or not has_hnsw(held)):
                limits = {"num_partitions": 1, "m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION}
                held.create_index("vector", config=IvfHnswFlat(distance_type="cosine", **limits), replace=True)
            if is_partitioned:
                kind = IvfFlat if rows.vectors.shape[1] % 8 else IvfRq  # codes of whole bytes
                held.create_index("vector", config=kind(distance_type="cosine"), replace=True)
            if held.count_rows() != len(rows.ids) or any(_differences(held, rows)):
                reason = f"table '{table}' holds {held.count_rows()} rows instead of {len(rows.ids)}"
                raise DamagedStoreError(self._database, index_of(self._database), reason)
            synced = SyncedTable(table, held.version, changed, vanished)
            if not has_graph and not is_partitioned:
                return synced
            opened = LanceTable(self._database, table, held.version)
            if has_graph:
                synced = replace(synced, hnsw=_measured_hnsw(opened, rows))
            if is_partitioned:
                positions = opened.positions_of(rows)
                synced = replace(synced, partitions=_measured_partitions(opened, rows), positions=positions)
            return synced

    def rebuild(
        self, table: str, rows: VectorRows, *, has_graph: bool = False, is_partitioned: bool = False
    ) -> SyncedTable:
        """A new table next to those of that base name.

        The old one stays, whatever its state, as long as published versions pin it.
        """
        names = chain([table], (f"{table}-{number}" for number in count(2)))
        known = {file.split(".lance/")[0] for file in self._known()}
        name = next(name for name in names if name not in known and not (self._database / f"{name}.lance").exists())
        return self.sync(name, rows, has_graph=has_graph, is_partitioned=is_partitioned)

    def open(self, table: str, version: int) -> "LanceTable":
        """A version of a table; small files of it are compared with their checksums first."""
        with translated(self._database):
            for name, checksum in self._listed(table)[0].items():
                path = self._database / name
                # None: an index run has just removed it
                if path.is_file() and path.stat().st_size <= CHECKED_BYTES and _digest(path) not in (None, checksum):
                    raise DamagedStoreError(path, index_of(path))
        return LanceTable(self._database, table, version)

    def pin(self, table: str, version: int, name: str) -> None:
        """Tags a table version, which stays readable; a tag of that name is moved."""
        with translated(self._database):
            tags = _open_table(self._database, table).tags
            if name not in tags.list():
                tags.create(name, version)
                return
            # Of a run that was killed before its version was visible; the tag's file is about to have another content.
            files = self._known()
            if files.pop(f"{table}.lance/_refs/tags/{name}.json", None) is not None:
                self._write_list(files, is_changing=True)
            tags.update(name, version)

    def clean(self, pins: Collection[str], tables: Collection[str], *, at_once: bool = False) -> None:
        """Frees what no published version holds any more: other tags than `pins`, other tables than `tables`.

        A table with files that could be joined is left alone until `sync` has joined them. `at_once`: it is not, and
        files of no version go, which killed runs left; LanceDB keeps them for seven days otherwise.
        """
        for folder in sorted(self._database.glob("*.lance")):
            if folder.stem not in tables:
                shutil.rmtree(folder)
                continue
            try:
                with translated(self._database):
                    table = _open_table(self._database, folder.stem)
                    for tag in table.tags.list():
                        if tag not in pins:
                            table.tags.delete(tag)
                    if at_once or _fragment_count(table) <= 1:
                        _optimize(table, timedelta(0), at_once=at_once)
            except DamagedStoreError:
                continue  # only older versions can still need it; `polyhop verify` says so

    def begin_changes(self) -> None:
        """Says that files may come and go from now on: until `end_changes` a missing one is not damage."""
        with suppress(DamagedStoreError):  # a damaged list stays as it is, so that damage stays visible
            files, is_changing = self._listed()
            if not is_changing:
                self._database.mkdir(parents=True, exist_ok=True)
                self._write_list(files, is_changing=True)

    def is_changing(self) -> bool:
        """Returns whether unfinished changes exist: for the holder of the writer's lease, a killed process."""
        with suppress(DamagedStoreError):
            return bool(self._unfinished_lists()) or self._listed()[1]
        return False

    def end_changes(self) -> None:
        """Lists the files that are there; one listed before keeps its checksum, so that damage stays visible."""
        for temporary in self._unfinished_lists():
            temporary.unlink()
        known, files = self._known(), (file for file in self._database.glob("*.lance/**/*") if file.is_file())
        # The one file that LanceDB overwrites: where to begin to look for the latest version; any content does.
        unlisted = "latest_version_hint.json"
        present = sorted(file.relative_to(self._database).as_posix() for file in files if file.name != unlisted)
        checksums = {name: known.get(name) or file_checksum(self._database / name) for name in present}
        self._write_list(checksums, is_changing=False)

    def find_damage(self, table: str) -> list[str]:
        """Damage to the files of a table, in sentences; unknown for a database without a list."""
        try:
            files, is_changing = self._listed(table)
        except DamagedStoreError:
            return [f"file '{CHECKSUMS}' of the vectors is damaged"]
        found = []
        for name, checksum in sorted(files.items()):
            held = _digest(self._database / name)
            if held is None and not is_changing:
                found.append(f"file '{name}' of the vectors is missing")
            elif held not in (None, checksum):
                found.append(f"file '{name}' of the vectors has another content than was written")
        return found

    def _unfinished_lists(self) -> list[Path]:
        """Lists of killed processes that never got their name: an index has one writer, which is writing none now."""
        return list(self._database.glob(f".{CHECKSUMS}.*.tmp"))

    def _listed(self, table: str = "") -> tuple[dict[str, str], bool]:
        """Checksums of all files, or a table's, by relative path, and whether a run that may remove some is on."""
        path = self._database / CHECKSUMS
        try:
            document = json.loads(path.read_bytes())
            prefix = f"{table}.lance/" if table else ""
            return {n: c for n, c in document["files"].items() if n.startswith(prefix)}, bool(document["is_changing"])
        except FileNotFoundError:
            return {}, False
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedStoreError(path, index_of(path)) from error

    def _known(self) -> dict[str, str]:
        """Listed files; none if the list itself is damaged, for then no table is built on (`find_damage`)."""
        with suppress(DamagedStoreError):
            return self._listed()[0]
        return {}

    def _write_list(self, files: dict[str, str], *, is_changing: bool) -> None:
        document = {"files": files, "is_changing": is_changing}
        write_whole(self._database / CHECKSUMS, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


def _digest(path: Path) -> str | None:
    try:
        return file_checksum(path)
    except FileNotFoundError:
        return None


class LanceTable:
    """A version of a table, which stays as it is whatever is written afterwards.

    Asked in LanceDB's own loop: its other interface goes there five times for one search, and waits for the
    interpreter each time.
    """

    def __init__(self, database: Path, name: str, version: int) -> None:
        async def opened() -> Any:
            table = await (await import_lancedb().connect_async(database)).open_table(name)
            await table.checkout(version)
            for index in await table.list_indices():
                if list(index.columns) == ["vector"]:
                    await table.prewarm_index(index.name)  # into memory: else a search reads what no earlier one has
            return table

        self._database = database
        self._table: Any = self._asked(opened())

    def _asked(self, question: Coroutine[Any, Any, Any]) -> Any:
        with translated(self._database):
            return import_lancedb().background_loop.LOOP.run(question)

    def read(self) -> pa.Table:
        """Ids and vectors of all rows, and LanceDB's own ids, `_rowid`."""
        return self._all("id", "vector")

    def _all(self, *columns: str) -> pa.Table:
        return self._asked(self._table.query().select([*columns, "_rowid"]).with_row_id().to_arrow())

    def nearest(self, vector: NDArray[np.float32], count: int, ef_search: int, probes: int = PROBES) -> list[str]:
        """Ids of about the `count` nearest rows by LanceDB's index of vectors, nearest first; exact without one.

        `ef_search` are the candidates that an HNSW graph keeps; more find more of the exact nearest, and take longer.
        `probes` are the partitions that are searched.
        """
        query = self._near(vector, count, probes).ef(max(ef_search, count)).select(["id", "_distance"])
        found: list[str] = self._asked(query.to_arrow()).column("id").to_pylist()
        return found

    def nearest_rows(self, vector: NDArray[np.float32], count: int, probes: int) -> NDArray[np.uint64]:
        """LanceDB's own ids of about the `count` nearest rows by partitions, nearest first: it looks up no text."""
        query = self._near(vector, count, probes).with_row_id().select(["_rowid", "_distance"])
        ids: NDArray[np.uint64] = self._asked(query.to_arrow()).column("_rowid").to_numpy()
        return ids

    def _near(self, vector: NDArray[np.float32], count: int, probes: int) -> Any:
        return self._table.query().nearest_to(vector).distance_type("cosine").nprobes(probes).limit(count)

    def positions_of(self, rows: VectorRows) -> dict[str, NDArray[Any]]:
        """Arrays that `partitions_of` describes (warehouse/artefacts.py), for the stored part of `rows`."""
        stored = self._all("id", "content_hash").combine_chunks().sort_by("_rowid")
        numbers = pc.index_in(stored["id"], pa.array(rows.ids, pa.string()))
        is_same = pc.equal(stored["content_hash"], pa.array(rows.hashes, pa.string()).take(numbers))
        numbers = numbers.filter(is_same).to_numpy()
        changed = np.setdiff1d(np.arange(len(rows.ids), dtype=np.int32), numbers, assume_unique=True)
        of_rows = {"rows": stored["_rowid"].filter(is_same).to_numpy(), "numbers": numbers}
        return {**of_rows, "changed": changed, "vectors": read_rows(rows.vectors, changed)}


def import_lancedb() -> ModuleType:
    """LanceDB. The client of remote catalogs that it imports takes half of its second, and is loaded when asked for."""
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # else it warns; they are unused
    os.environ.setdefault("LANCEDB_LOG", "error")  # likewise of partitions that it skips
    spec = None if _CLIENT in sys.modules else find_spec(_CLIENT)
    if spec is not None and spec.loader is not None:
        client, loader = module_from_spec(spec), spec.loader

        def load(name: str) -> Any:
            vars(client).pop("__getattr__", None)
            loader.exec_module(client)
            return getattr(client, name)

        vars(client)["__getattr__"] = load
        sys.modules[_CLIENT] = client
    import lancedb

    return lancedb


_BASE_PATHS = 18  # the field's number in Lance's message Manifest


def has_base_paths(content: bytes) -> bool:
    """Returns whether a Lance manifest names data outside of its table's folder, or cannot be read.

    The file ends with the manifest's offset (8 bytes), the format's version (4) and "LANC"; at the offset stand the
    length (4 bytes) and the message in protobuf. Shallow clones have base paths; LanceDB's Python package has no
    function that lists them. Source: LanceDB, Lance table format, table.proto (2025).
    """
    if len(content) < 20 or content[-4:] != b"LANC":
        return True
    start = int.from_bytes(content[-16:-8], "little")
    message = content[start + 4 : start + 4 + int.from_bytes(content[start : start + 4], "little")]
    offset = 0
    try:
        while offset < len(message):
            tag, offset = _varint(message, offset)
            field, wire_type = divmod(tag, 8)
            if field == _BASE_PATHS or wire_type not in (0, 1, 2, 5):
                return True
            if wire_type in (0, 2):
                value, offset = _varint(message, offset)
                offset += value if wire_type == 2 else 0
            else:
                offset += 8 if wire_type == 1 else 4
    except IndexError:
        return True
    return offset != len(message) or not message


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Returns the protobuf varint at an offset, and the offset after it."""
    value = shift = 0
    while message[offset] & 0x80 and shift < 63:  # a varint has at most ten bytes
        value |= (message[offset] & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
    return value | message[offset] << shift, offset + 1


_CLIENT = "lance_namespace_urllib3_client"


def _connect(database: Path) -> Any:
    return import_lancedb().connect(database)


def _open_table(database: Path, name: str) -> Any:
    return _connect(database).open_table(name)


def _fragment_count(table: Any) -> int:
    """Number of files of rows that could be joined."""
    return int(table.stats()["fragment_stats"]["num_small_fragments"])


def _schema(dimension: int) -> pa.Schema:
    types = dict.fromkeys(("id", "text", "content_hash"), pa.string()) | {"vector": pa.list_(pa.float32(), dimension)}
    return pa.schema(pa.field(name, kind, nullable=False) for name, kind in types.items())


def _differences(table: Any, rows: VectorRows) -> tuple[list[int], list[str]]:
    """Numbers of the rows that a table has not, or with another hash; and ids of the rows that only the table has."""
    stored = table.search().select(["id", "content_hash"]).limit(None).to_arrow().combine_chunks()
    ids, hashes = pa.array(rows.ids, pa.string()), pa.array(rows.hashes, pa.string())
    is_same = pc.equal(stored["content_hash"].take(pc.index_in(ids, stored["id"])), hashes)  # null: it has no such row
    changed = np.flatnonzero(~pc.fill_null(is_same, fill_value=False).to_numpy(zero_copy_only=False))
    vanished = stored["id"].filter(pc.invert(pc.is_in(stored["id"], ids)))
    return changed.tolist(), sorted(vanished.to_pylist())


def _write_differences(table: Any, rows: VectorRows) -> tuple[int, int]:
    """Writes new and changed rows and deletes removed ones, a chunk at a time; returns their number."""
    changed, vanished = _differences(table, rows)
    texts = iter(rows.texts(changed) if changed else ())
    chunks = (changed[start : start + _CHUNK] for start in range(0, len(changed), _CHUNK))
    parts = (_arrow(rows, part, list(islice(texts, len(part)))) for part in chunks)
    if changed and not table.count_rows():  # a first version: nothing to look for takes a fifth of the time
        failed: list[PolyhopError] = []  # what LanceDB would pass on as a fault of its files

        def filled() -> Iterator[pa.RecordBatch]:
            try:
                for part in parts:
                    yield from part.to_batches()
            except PolyhopError as error:
                failed.append(error)

        table.add(pa.RecordBatchReader.from_batches(_schema(rows.vectors.shape[1]), filled()))
        if failed:
            raise failed[0]
    for part in parts:
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(part)
    for start in range(0, len(vanished), _CHUNK):
        quoted = ", ".join("'" + key.replace("'", "''") + "'" for key in vanished[start : start + _CHUNK])
        table.delete(f"id IN ({quoted})")
    return len(changed), len(vanished)


def _arrow(rows: VectorRows, numbers: list[int], texts: list[str]) -> pa.Table:
    dimension = rows.vectors.shape[1]
    ids, hashes = ([column[n] for n in numbers] for column in (rows.ids, rows.hashes))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows.vectors[numbers])), dimension)
    forget_pages(rows.vectors)
    return pa.table([ids, texts, hashes, vectors], schema=_schema(dimension))


def _optimize(table: Any, older_than: timedelta, *, at_once: bool = False) -> None:
    """Compacts, and removes versions older than that and older than any tagged one: LanceDB refuses to pass a tag."""
    tagged = {tag["version"] for tag in table.tags.list().values()}
    written = [version["timestamp"] for version in table.list_versions() if version["version"] in tagged]
    for margin in _MARGINS:
        ages = [datetime.now() - moment + margin for moment in written]
        try:
            table.optimize(cleanup_older_than=max([older_than, *ages]), delete_unverified=at_once)
        except RuntimeError as error:
            if "tagged version" not in str(error):
                raise
        else:
            return
