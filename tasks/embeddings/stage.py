"""The embedding stages: one per kind of vectors, batch by batch, only what the cache does not hold.

The encoder is opened once per process; vectors end in one matrix file per kind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.tables import EMBEDDINGS
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.build import Build, is_part_done, part_files, write_part
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.open import open_encoder
from polyhop.warehouse.vectors.kinds import VectorKind


def embed_settings(kind: VectorKind, build: Build) -> dict[str, object]:
    """The model, and what the rows of the kind depend on."""
    return {**build.settings.encoder.model_dump(mode="json", include={"name"}), **kind.parameters(build.settings)}


def batches(kind: VectorKind, build: Build) -> list[int]:
    """Batches without a finished part."""
    with build.tables(read_only=True) as connection, _named(kind):
        row = connection.execute(kind.statement("count_things"), kind.parameters(build.settings)).fetchone()
    folder = build.parts(f"embed-{kind.name}")
    count, size = (row or (0,))[0], build.settings.batch_size
    return [n for n in range((count + size - 1) // size) if not is_part_done(folder, n)]


@contextmanager
def _named(kind: VectorKind) -> Iterator[None]:
    """Says whose rows they are if DuckDB refuses to read them."""
    try:
        yield
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise ConfigurationError(
            f"The rows of the vector kind '{kind.name}' cannot be read: {str(error).splitlines()[0]}. Update or "
            "uninstall the package that brings it."
        ) from error


def run_batch(kind: VectorKind, build: Build, batch: int) -> BatchResult:
    """Encodes one batch and writes its part."""
    size = build.settings.batch_size
    values = {**kind.parameters(build.settings), "limit": size, "offset": batch * size}
    with build.tables(read_only=True) as connection, _named(kind):
        rows = connection.execute(kind.statement("batch_of_things"), values).fetchall()
    encoder = open_encoder(build.settings)
    texts, known_as = [kind.text(first, second) for _, first, second in rows], kind.encoded_as or kind.name
    known, damaged = encoder.misses, encoder.damaged
    vectors = encoder.encode(texts, known_as)
    table = pa.table(
        {
            "owner_kind": pa.array([kind.name] * len(rows), pa.string()),
            "owner_id": pa.array([row[0] for row in rows], pa.string()),
            "model": pa.array([encoder.model] * len(rows), pa.string()),
            "dimension": pa.array([encoder.dimension] * len(rows), pa.int64()),
            "content_hash": pa.array([encoder.key(text, known_as) for text in texts], pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(vectors)), encoder.dimension),
        }
    )
    write_part(build.parts(f"embed-{kind.name}"), batch, {"vectors": table})
    return BatchResult(len(rows), encoder.misses - known, damaged=encoder.damaged - damaged)


def finish(kind: VectorKind, build: Build) -> Counts:
    """Writes the matrix, in number order, and lists the vectors."""
    files = part_files(build.parts(f"embed-{kind.name}"), "vectors")
    columns = ", ".join(EMBEDDINGS.column_names)
    with build.tables() as connection:
        if files:
            connection.execute(
                f"INSERT INTO embeddings SELECT {columns} FROM read_parquet($files) ORDER BY owner_id",
                {"files": files},
            )
    parts = list(_matrices(files))
    matrix = np.concatenate(parts) if parts else np.zeros((0, open_encoder(build.settings).dimension), np.float32)
    with writing("vectors", build.staging.arrays):
        np.save(build.staging.arrays / f"vectors-{kind.name}_matrix.npy", matrix)
    return {"vectors": len(matrix)}


def _matrices(files: list[str]) -> Iterator[np.ndarray]:
    import pyarrow.parquet as pq

    for file in files:
        column = pq.read_table(file, columns=["vector"]).column("vector").combine_chunks()
        yield column.values.to_numpy().reshape(len(column), -1)


def ann_settings(build: Build) -> dict[str, object]:
    """How the graph is built."""
    return build.settings.vectors.model_dump(mode="json")


def ann_finish(kind: VectorKind, build: Build) -> Counts:
    """Nothing yet: publishing writes the vectors to LanceDB, and builds the graph on them there."""
    del kind, build
    return {}


def embed_stage(kind: VectorKind) -> Stage:
    """Vectors of one kind, in the array `vectors-<kind>_matrix`."""
    return Stage(
        f"embed-{kind.name}",
        reads=(kind.input,),
        writes=(f"vectors:{kind.name}",),
        finish=partial(finish, kind),
        revision=kind.revision,
        settings=partial(embed_settings, kind),
        batches=partial(batches, kind),
        run=partial(run_batch, kind),
        rows=(("embeddings", "owner_kind", kind.name),),
        arrays=f"vectors-{kind.name}",
    )


def ann_stage(kind: VectorKind) -> Stage:
    """A graph for approximate search on the vectors of one kind."""
    return Stage(
        f"ann-{kind.name}",
        reads=(f"vectors:{kind.name}",),
        writes=(f"ann:{kind.name}",),
        finish=partial(ann_finish, kind),
        revision=kind.revision,
        settings=ann_settings,
    )
