"""The LanceDB database of an index: one table per kind of owner, with vectors and full text.

One writer at a time (the index's lease guards it); each published version pins a table version by a tag.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import InvariantError, StoreError
from schemas.manifest import HnswRecord
from schemas.settings import VectorSettings
from warehouse.files.disk import disk_sentence
from warehouse.vectors.approximate import build_hnsw, has_hnsw, measured_hnsw

_CHUNK = 5000


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a synchronisation did, and the table version that holds the result; its HNSW graph, if it has one."""

    lance_version: int
    written: int
    deleted: int
    hnsw: HnswRecord | None = None


@dataclass(frozen=True, slots=True)
class VectorRows:
    """All rows a table must have.

    Attributes:
        ids: Distinct owner ids.
        texts: What full-text search looks into.
        hashes: Content hash of each row: equal hash means equal vector.
        vectors: Shape (n, d), float32.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    hashes: Sequence[str]
    vectors: NDArray[np.float32]


def sync_table(database: Path, name: str, rows: VectorRows, hnsw: VectorSettings | None = None) -> SyncResult:
    """Makes a table hold exactly `rows`, writing only what differs.

    Args:
        database: Folder of the database.
        name: Name of the table.
        rows: Everything that the table is to hold.
        hnsw: How to build a graph for approximate search; None: no graph.

    Raises:
        StoreError: If the disk is full or not writable.
        InvariantError: If the table does not hold the rows afterwards.
    """
    try:
        return _sync(database, name, rows, hnsw)
    except (OSError, RuntimeError) as error:
        reason = disk_sentence(error) or str(error).split("\n", 1)[0]
        raise StoreError(f"Cannot write vectors to {database}: {reason}.") from error


def _sync(database: Path, name: str, rows: VectorRows, hnsw: VectorSettings | None) -> SyncResult:
    import lancedb
    from lancedb.index import FTS, BTree

    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # else it warns on stderr; nobody reads them
    connection = lancedb.connect(database)
    table = connection.create_table(name, schema=_schema(rows.vectors.shape[1]), exist_ok=True)
    if table.schema.field("vector").type != pa.list_(pa.float32(), rows.vectors.shape[1]):
        table = connection.create_table(name, schema=_schema(rows.vectors.shape[1]), mode="overwrite")
    stored = _stored_hashes(table)
    changed = [
        n for n, (key, digest) in enumerate(zip(rows.ids, rows.hashes, strict=True)) if stored.get(key) != digest
    ]
    wanted = set(rows.ids)
    vanished = sorted(key for key in stored if key not in wanted)
    for start in range(0, len(changed), _CHUNK):
        part = changed[start : start + _CHUNK]
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(_arrow(rows, part))
    for start in range(0, len(vanished), _CHUNK):
        quoted = ", ".join("'" + key.replace("'", "''") + "'" for key in vanished[start : start + _CHUNK])
        table.delete(f"id IN ({quoted})")
    if (changed or vanished) and len(rows.ids):
        table.create_index("id", config=BTree(), replace=True)
        table.create_index("text", config=FTS(with_position=False), replace=True)
        table.optimize()
    if hnsw is not None and (changed or vanished or not has_hnsw(table, hnsw)):
        build_hnsw(table, hnsw)
    _verify(table, rows)
    measured = None if hnsw is None else measured_hnsw(table, rows.vectors, hnsw)
    return SyncResult(table.version, len(changed), len(vanished), measured)


def _schema(dimension: int) -> pa.Schema:
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("content_hash", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), dimension), nullable=False),
        ]
    )


def _stored_hashes(table: Any) -> dict[str, str]:
    arrow = table.search().select(["id", "content_hash"]).limit(None).to_arrow()
    return dict(zip(arrow.column("id").to_pylist(), arrow.column("content_hash").to_pylist(), strict=True))


def _arrow(rows: VectorRows, numbers: list[int]) -> pa.Table:
    dimension = rows.vectors.shape[1]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows.vectors[numbers])), dimension)
    columns = [
        pa.array([rows.ids[n] for n in numbers], pa.string()),
        pa.array([rows.texts[n] for n in numbers], pa.string()),
        pa.array([rows.hashes[n] for n in numbers], pa.string()),
        vectors,
    ]
    return pa.table(columns, schema=_schema(dimension))


def _verify(table: Any, rows: VectorRows) -> None:
    stored = _stored_hashes(table)
    if table.count_rows() != len(rows.ids) or stored != dict(zip(rows.ids, rows.hashes, strict=True)):
        raise InvariantError(
            f"The vector table '{table.name}' holds {table.count_rows()} rows instead of {len(rows.ids)}; "
            "delete the folder 'vectors' of this index and run the same command again."
        )


def tag_version(database: Path, name: str, tag: str, lance_version: int) -> None:
    """Pins a table version under `tag` (moved if the tag exists)."""
    import lancedb

    table = lancedb.connect(database).open_table(name)
    if tag in table.tags.list():
        table.tags.update(tag, lance_version)
    else:
        table.tags.create(tag, lance_version)


def untag_and_clean(database: Path, tags: Sequence[str]) -> None:
    """Unpins versions and frees the space of everything that no tag holds and that is older than an hour."""
    import lancedb

    connection = lancedb.connect(database)
    for name in connection.list_tables().tables:
        table = connection.open_table(name)
        for tag in set(tags) & set(table.tags.list()):
            table.tags.delete(tag)
        try:
            table.optimize(cleanup_older_than=timedelta(hours=1))
        except RuntimeError as error:
            if "tagged version" not in str(error):
                raise


def read_table(database: Path, name: str, lance_version: int) -> pa.Table:
    """Ids and vectors of a pinned table version."""
    import lancedb

    table = lancedb.connect(database).open_table(name)
    table.checkout(lance_version)
    return table.search().select(["id", "vector"]).limit(None).to_arrow()


def search_text(database: Path, name: str, query: str, limit: int, lance_version: int) -> list[str]:
    """Ids of the rows that full-text search finds, best first (LanceDB's own BM25)."""
    import lancedb

    table = lancedb.connect(database).open_table(name)
    table.checkout(lance_version)
    rows = table.search(query, query_type="fts", fts_columns="text").select(["id"]).limit(limit).to_arrow()
    found: list[str] = rows.column("id").to_pylist()
    return found
