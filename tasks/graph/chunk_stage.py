"""The stage of title chunks: edges of the graph that only `bridge-masked` walks, as a table and arrays of their own.

No row of `mentions` says so: whoever counts, exports or searches mentions need not know of them (decision 0026).
They follow from all titles and all keys, and are derived from scratch by every run in which one of these changed.
"""

import numpy as np
import pyarrow as pa

from polyhop.schemas.columns import Table, text
from polyhop.tasks.graph.title_chunks import chunk_edges
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefact_arrays import save_title_chunks
from polyhop.warehouse.build import Build
from polyhop.warehouse.graph.arrays import open_array
from polyhop.warehouse.statements import statement

TITLE_CHUNKS = Table(
    "title_chunks",
    "Edges that only bridge-masked walks: names that are part of a passage's title. They are no mentions.",
    ("passage_id", "entity_id"),
    (
        text("passage_id", "passage whose title contains the name and more, and which does not mention it"),
        text("entity_id", "entity of that name"),
    ),
)


def finish(build: Build) -> Counts:
    """Fills the table and writes the arrays."""
    arrays = build.staging.arrays
    indptr = np.asarray(open_array(arrays, "bipartite_indptr"), dtype=np.int64)
    indices = np.asarray(open_array(arrays, "bipartite_indices"), dtype=np.int32)
    with build.tables() as connection:
        passages = connection.execute(statement("read", "passage_ids")).fetchall()
        entities = connection.execute(statement("graph", "entity_numbers")).fetchall()
        number_of = {key: number for number, (key, _) in enumerate(entities)}
        starts, numbers = chunk_edges([title for _, title, _ in passages], number_of, indptr, indices)
        rows = np.repeat(np.arange(len(passages)), np.diff(starts)).tolist()
        found = pa.table(
            {
                "passage_id": pa.array([passages[row][0] for row in rows], pa.string()),
                "entity_id": pa.array([entities[number][1] for number in numbers.tolist()], pa.string()),
            }
        )
        connection.register("found_chunks", found)
        connection.execute(statement("graph", "fill_title_chunks"))
        connection.unregister("found_chunks")
    save_title_chunks(arrays, starts, numbers)
    return {"title_chunks": len(numbers)}


CHUNKS = Stage(
    "title-chunks",
    reads=("graph", "passages"),
    writes=("graph:title-chunks",),
    finish=finish,
    tables=(TITLE_CHUNKS,),
    arrays="title-chunks",
)
