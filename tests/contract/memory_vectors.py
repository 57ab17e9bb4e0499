"""A plain vector store in memory: what tests/contract holds LanceDB against, and a second implementation of the port.

Keeps every version of every table whole; searches exactly.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.errors import DamagedStoreError
from polyhop.schemas.manifest import HnswRecord
from polyhop.schemas.ports import SyncedTable, VectorRows
from polyhop.schemas.settings import VectorSettings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.layout import IndexFolder


@dataclass(slots=True)
class Version:
    """Rows of a table, by id; their checksum once changes have ended."""

    rows: dict[str, tuple[str, str, NDArray[np.float32]]]
    hnsw: HnswRecord | None
    checksum: str = ""

    @property
    def digest(self) -> str:
        """sha256 of everything in it."""
        return content_hash(*(f"{key} {text} {digest} {v.tobytes().hex()}" for key, (text, digest, v) in self._sorted))

    @property
    def _sorted(self) -> list[tuple[str, tuple[str, str, NDArray[np.float32]]]]:
        return sorted(self.rows.items())


@dataclass(slots=True)
class Table:
    """All versions of a table that are there, and the names that pin some."""

    versions: dict[int, Version] = field(default_factory=dict)
    pins: dict[str, int] = field(default_factory=dict)


class MemoryDatabase:
    """What outlives the process: its tables."""

    def __init__(self, index: IndexFolder) -> None:
        self.index = index
        self.tables: dict[str, Table] = {}
        self.is_changing = False


class MemoryVectors:
    """Implements polyhop.schemas.ports.VectorStore."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    def sync(self, table: str, rows: VectorRows, hnsw: VectorSettings | None = None) -> SyncedTable:
        wanted = {
            key: (text, digest, vector.copy())
            for key, text, digest, vector in zip(rows.ids, rows.texts, rows.hashes, rows.vectors, strict=True)
        }
        graph = None if hnsw is None else HnswRecord(
            m=hnsw.hnsw_m, ef_construction=hnsw.hnsw_ef_construction, ef_search=64, recall_at_10=1.0
        )  # fmt: skip
        kept = self._database.tables.setdefault(table, Table())
        number, last = max(kept.versions.items(), default=(0, Version({}, None)))
        written = [key for key, row in wanted.items() if key not in last.rows or last.rows[key][1] != row[1]]
        deleted = last.rows.keys() - wanted.keys()
        if not number or written or deleted or (graph is not None and graph != last.hnsw):
            number += 1
            kept.versions[number] = Version(wanted, graph)
        return SyncedTable(table, number, len(written), len(deleted), graph)

    def rebuild(self, table: str, rows: VectorRows, hnsw: VectorSettings | None = None) -> SyncedTable:
        names = chain([table], (f"{table}-{number}" for number in count(2)))
        return self.sync(next(name for name in names if name not in self._database.tables), rows, hnsw)

    def open(self, table: str, version: int) -> "MemoryTable":
        found = self._version(table, version)
        if found.checksum not in {"", found.digest}:
            raise self._damaged(f"version {version} of table '{table}' has another content than was written")
        return MemoryTable(found)

    def pin(self, table: str, version: int, name: str) -> None:
        self._version(table, version)
        self._database.tables[table].pins[name] = version

    def clean(self, pins: Collection[str], tables: Collection[str], *, at_once: bool = False) -> None:
        for name in [name for name in self._database.tables if name not in tables]:
            del self._database.tables[name]
        for table in self._database.tables.values():
            table.pins = {name: number for name, number in table.pins.items() if name in pins}
            needed = {*table.pins.values(), max(table.versions)}
            table.versions = {number: version for number, version in table.versions.items() if number in needed}

    def begin_changes(self) -> None:
        self._database.is_changing = True

    def is_changing(self) -> bool:
        return self._database.is_changing

    def end_changes(self) -> None:
        self._database.is_changing = False
        for table in self._database.tables.values():
            for version in table.versions.values():
                version.checksum = version.checksum or version.digest

    def find_damage(self, table: str) -> list[str]:
        versions = self._database.tables[table].versions if table in self._database.tables else {}
        return [
            f"version {number} of the vectors has another content than was written"
            for number, version in versions.items()
            if version.checksum not in {"", version.digest}
        ]

    def _version(self, table: str, version: int) -> Version:
        try:
            return self._database.tables[table].versions[version]
        except KeyError as error:
            raise self._damaged(f"there is no version {version} of table '{table}'") from error

    def _damaged(self, reason: str) -> DamagedStoreError:
        return DamagedStoreError(self._database.index.vectors, self._database.index.name, reason)


class MemoryTable:
    """Implements polyhop.schemas.ports.PinnedTable."""

    def __init__(self, version: Version) -> None:
        self._rows = dict(version.rows)

    def read(self) -> pa.Table:
        matrix = np.array([vector for _, _, vector in self._rows.values()], dtype=np.float32)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        return pa.table({"id": pa.array(list(self._rows), pa.string()), "vector": vectors})

    def nearest(self, vector: NDArray[np.float32], count: int, ef_search: int) -> list[str]:
        assert count <= max(count, ef_search)
        cosines = {key: vector @ row / np.linalg.norm(row) for key, (_, _, row) in self._rows.items()}
        return sorted(cosines, key=lambda key: (-cosines[key], key))[:count]

    def search_text(self, words: str, limit: int) -> list[str]:
        wanted = set(words.casefold().split())
        found = {key: len(wanted & set(text.casefold().split())) for key, (text, _, _) in self._rows.items()}
        return sorted((key for key, hits in found.items() if hits), key=lambda key: (-found[key], key))[:limit]
