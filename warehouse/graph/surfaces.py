"""The entity-passage graph of names as written, before resolution: read from the tables when a strategy asks for it.

Stores nothing: a version's mentions hold all places, so no array of its own is needed. Source: algorithms.md 7.5.
"""

import duckdb
import numpy as np

from schemas.graph import BipartiteGraph
from warehouse.tables.statements import statement


def read_surfaces(connection: duckdb.DuckDBPyConnection, passage_count: int) -> BipartiteGraph:
    """Passages and the spellings of names in them; the keys are the spellings, ascending.

    Args:
        connection: Of the version's tables.
        passage_count: Number of its passages.

    Returns:
        The graph; each place counts under its own spelling.
    Cost: O(mentions); 350,000 of them take some 2 s, once per open version.
    """
    rows = connection.execute(statement("read", "surfaces")).fetchnumpy()
    surfaces = rows["surface"].tolist()
    keys = sorted(set(surfaces))
    number_of = {key: number for number, key in enumerate(keys)}
    per_passage = np.bincount(rows["passage"].astype(np.int64), minlength=passage_count)
    return BipartiteGraph(
        indptr=np.concatenate(([0], np.cumsum(per_passage))).astype(np.int64),
        indices=np.fromiter(map(number_of.__getitem__, surfaces), dtype=np.int32, count=len(surfaces)),
        tf=rows["tf"].astype(np.float64),
        is_title=rows["is_title"].astype(np.bool_),
        keys=tuple(keys),
    )
