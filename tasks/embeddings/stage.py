"""The embedding stages: one per kind of vectors, batch by batch, only what neither version before nor cache holds.

The encoder is opened once per process; vectors end in one matrix file per kind, beside the content hashes of its rows,
by which the next version copies them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelUnavailableError
from polyhop.schemas.settings import LOCAL
from polyhop.tasks.stage import BatchResult, Counts, PlannedEmbedding, Planner, Stage, named, no_search_for_cycles
from polyhop.warehouse.build import Build, batch_count, is_part_done, part_files, read_batch, write_batches, write_part
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.models.cached_encoder import CachedEncoder
from polyhop.warehouse.open_encoders import open_encoder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.vectors.kinds import (
    HASH_BYTES,
    EarlierVectors,
    Hashes,
    VectorKind,
    hashes_of,
    open_earlier,
    sampled_sentences,
    sampled_texts,
)

SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), pa.field("content_hash", pa.binary(HASH_BYTES), nullable=False)]
)

Thing = tuple[str, str]
"""Id and text."""


def _table(things: list[Thing], key: Callable[[str], str]) -> pa.Table:
    texts = [text for _, text in things]
    columns = [[thing for thing, _ in things], texts, [bytes.fromhex(key(text)) for text in texts]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def read_hashes(path: Path) -> list[bytes]:
    """Content hashes of all things, in order."""
    hashes: list[bytes] = pq.read_table(path, columns=["content_hash"]).column(0).to_pylist()
    return hashes


def read_texts(path: Path, numbers: list[int]) -> list[str]:
    """Texts of the things with these numbers."""
    texts: list[str] = pq.read_table(path, columns=["text"]).column(0).take(pa.array(numbers, pa.int64())).to_pylist()
    return texts


Vectors = NDArray[np.float32]
_TELLING = {"query_prefix", "passage_prefix", "dimension", "max_tokens", "precision"}
"""Settings of an encoder that a version remembers: it is made again when they change (from the cache, if it can be)."""


def embed_settings(kind: VectorKind, build: Build) -> dict[str, object]:
    """The model, and what the rows of the kind depend on.

    The local encoder without more is known by its name alone.
    """
    choice = build.settings.encoder.choice_of(kind.space)
    told = choice.model_dump(mode="json", include=_TELLING, exclude_defaults=True)
    return {"name": choice.name, **told, **_model_of(kind, build), **kind.parameters(build.settings)}


def _model_of(kind: VectorKind, build: Build) -> dict[str, object]:
    """Which model an encoder in a folder is: its files may be replaced."""
    choice = build.settings.encoder.choice_of(kind.space)
    is_folder = choice.name.startswith("onnx:") or Path(choice.name.partition(":")[2]).is_dir()
    return {"model": open_encoder(build.settings, kind.space).model} if choice.name != LOCAL and is_folder else {}


def batches(kind: VectorKind, build: Build) -> list[int]:
    """Batches without a finished part; the things are listed first, unless an interrupted run has done so."""
    folder, path = _folder(kind, build), _things(kind, build)
    if not path.is_file():
        key = partial(open_encoder(build.settings, kind.space).key, kind=_known_as(kind))
        with writing("the list of what is embedded", folder), no_search_for_cycles():
            write_batches(path, SCHEMA, (_table(things, key) for things in _listed(kind, build)))
    return [n for n in range(batch_count(path)) if not is_part_done(folder, n)]


def _folder(kind: VectorKind, build: Build) -> Path:
    return build.parts(f"embed-{kind.name}")


def _things(kind: VectorKind, build: Build) -> Path:
    return _folder(kind, build) / "things.parquet"


def _known_as(kind: VectorKind) -> str:
    return kind.encoded_as or kind.name


def _listed(kind: VectorKind, build: Build) -> Iterator[list[Thing]]:
    """Ids and texts, a batch at a time."""
    with build.tables(read_only=True) as connection, _named(kind):
        found = connection.execute(kind.statement("things_in_order"), kind.parameters(build.settings))
        while rows := found.fetchmany(build.settings.batch_size):
            yield [(thing, kind.text(first, second)) for thing, first, second in rows]


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


def is_portable(kind: VectorKind, build: Build) -> bool:
    """Unless a server encodes, whose budget and speed are one process's, or a device that processes would share."""
    return not build.settings.encoder.choice_of(kind.space).name.startswith(("litellm:", "sentence-transformers:"))


def plan(kind: VectorKind, build: Build, planner: Planner) -> Iterator[PlannedEmbedding]:
    """What is embedded of the source itself; what only other stages find is known when they have run."""
    if not is_known_in_advance(kind, build):
        return
    texts = (text for things in _listed(kind, build) for _, text in things)
    step = planner.embedding(f"embed-{kind.name}", texts, _known_as(kind), kind.space)
    if step is None:
        return
    yield step
    measured = planner.embedding("measure-encoder", _measured(kind, build), "") if kind.name == "passage" else None
    if measured is not None and measured.units:
        yield measured


def _measured(kind: VectorKind, build: Build) -> list[str]:
    """The sentences by which publishing measures how far apart an encoder holds texts."""
    with build.tables(read_only=True) as connection:
        found = connection.execute(kind.statement("things_in_order"), kind.parameters(build.settings)).fetchall()
    chosen = sampled_texts([kind.text(first, second) for _, first, second in found])
    return sampled_sentences([found[number][2] for number in chosen])


def is_by_server(build: Build, kind: VectorKind) -> bool:
    """Whether its encoder asks a server."""
    return build.settings.encoder.choice_of(kind.space).name.startswith("litellm:")


def is_known_in_advance(kind: VectorKind, build: Build) -> bool:
    """Whether a source that was read shows all rows of a kind: passages, and the entities of a graph."""
    return kind.input == "passages" or (kind.name == "entity" and build.source_kind == "graph")


def run_batch(kind: VectorKind, build: Build, batch: int) -> BatchResult:
    """Encodes what of one batch the version before does not have, and writes its part."""
    encoder = open_encoder(build.settings, kind.space)
    things = read_batch(_things(kind, build), batch)
    hashes = hashes_of(things.column("content_hash").to_pylist())
    missing = np.flatnonzero(_earlier(kind, build, encoder.dimension).rows_of(hashes) < 0)
    if not len(missing):
        return BatchResult(len(things), 0)
    computed = encoder.misses
    try:
        vectors = encoder.encode(things.column("text").take(pa.array(missing)).to_pylist(), _known_as(kind))
    except ModelUnavailableError as error:
        done = _embedded(kind, build, encoder)
        error.args = (f"{error} {done} texts are embedded and kept; run the same command again.",)
        raise
    table = pa.table(
        {
            "number": pa.array(missing + batch * build.settings.batch_size, pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(vectors)), encoder.dimension),
        }
    )
    write_part(_folder(kind, build), batch, {"vectors": table})
    return BatchResult(len(things), encoder.misses - computed)


def _embedded(kind: VectorKind, build: Build, encoder: CachedEncoder) -> str:
    """How many of all texts of the kind have a vector, like "8 of 24"."""
    keys = read_hashes(_things(kind, build))
    is_copied = _earlier(kind, build, encoder.dimension).rows_of(hashes_of(keys)) >= 0
    known = encoder.known([key.hex() for key in keys])
    done = sum(copied or key.hex() in known for key, copied in zip(keys, is_copied.tolist(), strict=True))
    return f"{done:,} of {len(keys):,}"


def _earlier(kind: VectorKind, build: Build, dimension: int) -> EarlierVectors:
    """The vectors of this kind in the version before, if they may be copied."""
    prefix = f"vectors-{kind.name}"
    return open_earlier(build.earlier_files(f"{prefix}_hashes.npy", f"{prefix}_matrix.npy"), dimension)


def finish(kind: VectorKind, build: Build) -> Counts:
    """Writes the matrix, in number order, with the content hashes of its rows, and lists the vectors."""
    encoder, things = open_encoder(build.settings, kind.space), _things(kind, build)
    hashes = hashes_of(read_hashes(things))
    values = {"kind": kind.name, "model": encoder.model, "dimension": encoder.dimension, "things": [str(things)]}
    with build.tables() as connection:
        connection.execute(statement("vectors", "fill_embeddings"), values)
    arrays, prefix = build.staging.arrays, f"vectors-{kind.name}"
    with writing("vectors", arrays):
        shape = len(hashes), encoder.dimension
        np.save(arrays / f"{prefix}_hashes.npy", hashes)
        np.save(arrays / f"{prefix}_matrix.npy", _matrix(kind, build, hashes, np.empty(shape, np.float32)))
    return {"vectors": len(hashes)}


def _matrix(kind: VectorKind, build: Build, hashes: Hashes, matrix: Vectors) -> Vectors:
    """Fills the matrix: from the parts, else from the version before."""
    is_filled = np.zeros(len(matrix), dtype=np.bool_)
    for file in part_files(_folder(kind, build), "vectors"):
        part = pq.read_table(file)
        numbers = part.column("number").to_numpy()
        matrix[numbers] = part.column("vector").combine_chunks().values.to_numpy().reshape(len(part), -1)
        is_filled[numbers] = True
    left, earlier = np.flatnonzero(~is_filled), _earlier(kind, build, matrix.shape[1])
    rows = earlier.rows_of(hashes[left])
    earlier.copy_to(matrix, left[rows >= 0], rows[rows >= 0])
    gone = left[rows < 0]  # the version before was there when a run that was killed did without their parts
    if len(gone):
        texts = read_texts(_things(kind, build), gone.tolist())
        matrix[gone] = open_encoder(build.settings, kind.space).encode(texts, _known_as(kind))
    return matrix


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
        is_portable=partial(is_portable, kind),
        plan=partial(plan, kind),
        unit=named("texts"),
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
