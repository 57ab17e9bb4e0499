"""The embedding stages: one per kind of owner, batch by batch, only what the cache does not hold.

The encoder is opened once per process; vectors end in one matrix file per kind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from schemas.tables import EMBEDDINGS
from schemas.text import passage_text
from tasks.stage import BatchResult, Counts, Stage, no_batches, nothing_to_run
from warehouse.build import Build, chain_fingerprint, is_part_done, part_files, write_part
from warehouse.cache.vectors import TextKind
from warehouse.files.disk import writing
from warehouse.open import open_encoder
from warehouse.tables.statements import statement

REVISION = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A kind of thing that has vectors: where its rows come from and what is embedded of a row."""

    kind: TextKind
    query: str
    input: str
    count: int
    text: Callable[[str, str], str]


OWNERS = {
    "passage": Owner("passage", "passage_texts", "passages", 0, passage_text),
    "entity": Owner("entity", "entity_texts", "resolve", 1, lambda name, text: f"**{name}**: {text}" if text else name),
}


def fingerprint(owner: Owner, build: Build) -> str:
    """Depends on the texts and the model."""
    inputs = {owner.input: build.outcome(owner.input)}
    encoder = build.settings.encoder.model_dump(mode="json", include={"name"})
    return chain_fingerprint(f"embed-{owner.kind}", REVISION, inputs, encoder)


def batches(owner: Owner, build: Build) -> list[int]:
    """Batches without a finished part."""
    with build.tables(read_only=True) as connection:
        counts = connection.execute(statement("graph", "node_counts")).fetchone() or (0, 0)
    folder = build.parts(f"embed-{owner.kind}")
    size = build.settings.batch_size
    return [n for n in range((counts[owner.count] + size - 1) // size) if not is_part_done(folder, n)]


def run_batch(owner: Owner, build: Build, batch: int) -> BatchResult:
    """Encodes one batch and writes its part."""
    size = build.settings.batch_size
    with build.tables(read_only=True) as connection:
        rows = connection.execute(statement("graph", owner.query), {"limit": size, "offset": batch * size}).fetchall()
    encoder = open_encoder(build.settings)
    texts = [owner.text(first, second) for _, first, second in rows]
    known = encoder.misses
    vectors = encoder.encode(texts, owner.kind)
    table = pa.table(
        {
            "owner_kind": pa.array([owner.kind] * len(rows), pa.string()),
            "owner_id": pa.array([row[0] for row in rows], pa.string()),
            "model": pa.array([encoder.model] * len(rows), pa.string()),
            "dimension": pa.array([encoder.dimension] * len(rows), pa.int64()),
            "content_hash": pa.array([encoder.key(text, owner.kind) for text in texts], pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(vectors)), encoder.dimension),
        }
    )
    write_part(build.parts(f"embed-{owner.kind}"), batch, {"vectors": table})
    return BatchResult(len(rows), encoder.misses - known)


def finish(owner: Owner, build: Build) -> Counts:
    """Writes the matrix, in number order, and lists the vectors."""
    files = part_files(build.parts(f"embed-{owner.kind}"), "vectors")
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
        np.save(build.staging.arrays / f"vectors-{owner.kind}_matrix.npy", matrix)
    return {"vectors": len(matrix)}


def _matrices(files: list[str]) -> Iterator[np.ndarray]:
    import pyarrow.parquet as pq

    for file in files:
        column = pq.read_table(file, columns=["vector"]).column("vector").combine_chunks()
        yield column.values.to_numpy().reshape(len(column), -1)


def ann_fingerprint(owner: Owner, build: Build) -> str:
    """Depends on the vectors and on how their graph is built."""
    inputs = {"vectors": build.fingerprint(f"embed-{owner.kind}")}
    return chain_fingerprint(f"ann-{owner.kind}", REVISION, inputs, build.settings.vectors.model_dump(mode="json"))


def ann_finish(owner: Owner, build: Build) -> Counts:
    """Nothing yet: publishing writes the vectors to LanceDB, and builds the graph on them there."""
    del owner, build
    return {}


ANN = {
    kind: Stage(f"ann-{kind}", partial(ann_fingerprint, owner), no_batches, nothing_to_run, partial(ann_finish, owner))
    for kind, owner in OWNERS.items()
}
EMBED = {
    kind: Stage(
        f"embed-{kind}",
        partial(fingerprint, owner),
        partial(batches, owner),
        partial(run_batch, owner),
        partial(finish, owner),
        rows=(("embeddings", "owner_kind", kind),),
        arrays=f"vectors-{kind}",
    )
    for kind, owner in OWNERS.items()
}
