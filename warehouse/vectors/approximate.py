"""Approximate search by an HNSW graph over the vectors of a LanceDB table, and how good it is.

LanceDB builds and searches the graph (`IVF_HNSW_FLAT` in one partition: vectors are kept as they are, not quantised).
Source: architecture.md section 3; algorithms.md 2.8, 2.9.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.manifest import HnswRecord
from polyhop.schemas.settings import VectorSettings

SAMPLE = 200  # rows; decision 0008
RECALL_DEPTH = 10  # as questions ask by default
# candidates that a search keeps; chosen: above the depth of 10, and the manifest states it with the recall
RECALL_EF = 64
_COLUMN = "vector"


def build_hnsw(table: Any, settings: VectorSettings) -> None:
    """(Re)builds the graph over all rows of a table; LanceDB cannot index a table without rows."""
    from lancedb.index import IvfHnswFlat

    config = IvfHnswFlat(
        distance_type="cosine", num_partitions=1, m=settings.hnsw_m, ef_construction=settings.hnsw_ef_construction
    )
    table.create_index(_COLUMN, config=config, replace=True)


def has_hnsw(table: Any, settings: VectorSettings) -> bool:
    """Whether a graph made with these settings covers every row."""
    for index in table.list_indices():
        if list(index.columns) != [_COLUMN]:
            continue
        made = (index.index_details or {}).get("hnsw", {})
        wanted = {"max_connections": settings.hnsw_m, "construction_ef": settings.hnsw_ef_construction}
        return not index.num_unindexed_rows and all(made.get(name) == value for name, value in wanted.items())
    return False


def measured_hnsw(table: Any, vectors: NDArray[np.float32], settings: VectorSettings) -> HnswRecord:
    """The graph's share of the exact nearest `RECALL_DEPTH` rows, over `SAMPLE` rows spread evenly over the table.

    Each sampled vector is moved half-way to its neighbour in the sample: a row's own vector would be too easy to find.

    Args:
        table: Indexed table, its ids in the order of `vectors`.
        vectors: Shape (n, d), float32, length 1, n at least 1.
        settings: As the graph was built.
    """
    queries = _between(vectors[np.unique(np.linspace(0, len(vectors) - 1, SAMPLE).astype(np.intp))])
    depth = min(RECALL_DEPTH, len(vectors))
    ids = table.search().select(["id"]).limit(None).to_arrow().column("id").to_pylist()
    order = np.argsort(np.array(ids, dtype=object), kind="stable")
    found = 0
    for query in queries:
        exact = np.argpartition(-(vectors @ query), depth - 1)[:depth]
        near = {ids[order[number]] for number in exact}
        found += len(near.intersection(search_hnsw(table, query, depth, RECALL_EF)))
    return HnswRecord(
        m=settings.hnsw_m,
        ef_construction=settings.hnsw_ef_construction,
        ef_search=RECALL_EF,
        recall_at_10=round(found / (depth * len(queries)), 2),
    )


def search_hnsw(table: Any, vector: NDArray[np.float32], count: int, ef_search: int) -> list[str]:
    """Ids of about the `count` nearest rows, nearest first."""
    query = table.search(vector).distance_type("cosine").ef(max(ef_search, count)).limit(count)
    found: list[str] = query.select(["id", "_distance"]).to_arrow().column("id").to_pylist()
    return found


def _between(sample: NDArray[np.float32]) -> NDArray[np.float32]:
    moved = sample + np.roll(sample, 1, axis=0)
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.where(lengths > 1e-6, moved / np.maximum(lengths, 1e-6), sample).astype(np.float32)
