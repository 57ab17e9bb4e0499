"""The embedding stages: one per kind of vectors, batch by batch, only what neither version before nor cache holds.

The encoder is opened once per process; vectors end in one matrix file per kind, beside the content hashes of its rows,
by which the next version copies them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, ModelUnavailableError
from polyhop.schemas.manifest import HNSW_EF_CONSTRUCTION, HNSW_M
from polyhop.schemas.settings import SHIPPED
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.build import (
    Build,
    batch_count,
    is_part_done,
    part_files,
    read_batch,
    row_count,
    write_batches,
    write_part,
)
from polyhop.warehouse.cache.vectors import CachedEncoder
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.machine import gc_paused
from polyhop.warehouse.open_models import open_encoder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import attached
from polyhop.warehouse.vectors.kinds import (
    HASH_BYTES,
    EarlierVectors,
    VectorKind,
    open_earlier,
    sampled_sentences,
    sampled_things,
)

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedEmbedding, Planner

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("text", pa.string()),
        pa.field("content_hash", pa.binary(HASH_BYTES), nullable=False),
    ]
)

Thing = tuple[str, str, str]  # id, text and key in the cache: one of these two is left out


def _table(first: int, things: list[Thing], key: Callable[[str], str]) -> pa.Table:
    ids, texts, keys = zip(*things, strict=True)
    hashes = [bytes.fromhex(known or key(text)) for text, known in zip(texts, keys, strict=True)]
    listed = [None if known else text for text, known in zip(texts, keys, strict=True)]
    return pa.table([range(first, first + len(things)), ids, listed, hashes], schema=SCHEMA)


def _rows_at(path: Path, numbers: NDArray[np.int64], size: int) -> Iterator[pa.Table]:
    """The rows of these numbers, ascending, `size` at a time, of a list that has as many in each row group."""
    with pq.ParquetFile(path) as file:
        for start in range(0, len(numbers), size):
            groups, offsets = np.divmod(numbers[start : start + size], size)
            yield pa.concat_tables(
                file.read_row_group(int(group)).take(pa.array(offsets[groups == group])) for group in np.unique(groups)
            ).combine_chunks()


def read_hashes(path: Path) -> NDArray[np.uint8]:
    """Content hashes of all things, in order, shape (n, 32)."""
    column = pq.read_table(path, columns=["content_hash"]).column(0).combine_chunks()
    held = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    return held[: len(column) * HASH_BYTES].reshape(-1, HASH_BYTES)


Vectors = NDArray[np.float32]
_BLOCK = 1 << 13  # rows of a matrix in memory at once: 12 MB; chosen
_TELLING = {"query_prefix", "passage_prefix", "dimension", "max_tokens", "precision"}
"""Settings of an encoder that a version remembers: it is made again when they change (from the cache, if it can be)."""


class EmbedStage(Stage):
    """Vectors of one kind, in the array `vectors-<kind>_matrix`."""

    unit = "texts"

    def __init__(self, kind: VectorKind) -> None:
        self.kind = kind
        self.name, self.arrays = f"embed-{kind.name}", f"vectors-{kind.name}"
        self.reads, self.writes = (kind.input,), (f"vectors:{kind.name}",)
        self.revision = kind.revision
        self.rows = (("embeddings", "owner_kind", kind.name),)
        self._known_as = kind.encoded_as or kind.name

    def settings(self, build: Build) -> dict[str, object]:
        """The model, and what the rows of the kind depend on; a shipped encoder is known by its name."""
        choice = build.settings.encoder.choice_of(self.kind.space)
        chosen: dict[str, object] = choice.model_dump(mode="json", include=_TELLING, exclude_defaults=True)
        is_folder = choice.name.startswith("onnx:") or Path(choice.name.partition(":")[2]).is_dir()
        if choice.name not in SHIPPED and is_folder:  # its files may be replaced
            chosen["model"] = self._encoder(build).model
        return {"name": choice.name, **chosen, **self.kind.parameters(build.settings)}

    def batches(self, build: Build) -> list[int]:
        """Batches without a finished part; the things are listed first, unless an interrupted run has done so.

        They are of the texts that the version before has no vector of, listed by themselves if there is one.
        """
        folder, path, size = build.parts(self.name), self._things(build), build.settings.batch_size
        with writing("the list of what is embedded", folder), gc_paused():
            if not path.is_file():
                key = partial(self._encoder(build).key, kind=self._known_as)
                before = self._before(build)
                listed = self._listed_since(build, before) if before else self._listed(build)
                tables = (_table(number * size, things, key) for number, things in enumerate(listed))
                write_batches(path, SCHEMA, tables)
            if self._earlier_files(build) and not self._new_things(build).is_file():
                earlier = self._earlier(build, self._encoder(build).dimension)
                missing = np.flatnonzero(earlier.rows_of(read_hashes(path)) < 0)
                rows = (self._with_texts(build, things) for things in _rows_at(path, missing, size))
                write_batches(self._new_things(build), SCHEMA, rows)
        return [n for n in range(batch_count(self._wanted(build))) if not is_part_done(folder, n)]

    def kept(self, build: Build) -> int:
        """Texts of which the version before has the vector."""
        return row_count(self._things(build)) - row_count(self._wanted(build))

    def is_portable(self, build: Build) -> bool:
        """Unless a server encodes, whose budget and speed are one process's, or a device that processes would share."""
        name = build.settings.encoder.choice_of(self.kind.space).name
        return not name.startswith(("litellm:", "sentence-transformers:"))

    def reads_files(self, build: Build) -> list[Path]:
        """The list of what is embedded."""
        return [self._wanted(build)]

    def plan(self, build: Build, planner: "Planner") -> "Iterator[PlannedEmbedding]":
        """Plans embeddings of the source itself; rows found by other stages are unknown until these have run."""
        if not is_known_in_advance(self.kind, build):
            return
        texts = (text for things in self._listed(build) for _, text, _ in things)
        step = planner.embedding(self.name, texts, self._known_as, self.kind.space)
        if step is None:
            return
        yield step
        if self.kind.name == "passage":
            # the sentences by which publishing measures how far apart an encoder holds texts
            with build.tables(read_only=True) as connection:
                query = self.kind.statement("things_in_order")
                found = connection.execute(query, self.kind.parameters(build.settings)).fetchall()
            bodies = [second for _, _, second in sampled_things(found, self.kind.text)]
            measured = planner.embedding("measure-encoder", sampled_sentences(bodies), "")
            if measured is not None and measured.units:
                yield measured

    def run(self, build: Build, batch: int) -> BatchResult:
        """Encodes what of one batch is in no cache, and writes its part."""
        encoder = self._encoder(build)
        things = read_batch(self._wanted(build), batch)
        computed = encoder.misses
        try:
            vectors = encoder.encode(things.column("text").to_pylist(), self._known_as)
        except ModelUnavailableError as error:
            # How many of all texts of the kind have a vector.
            keys = [key.tobytes().hex() for key in read_hashes(self._wanted(build))]
            known, count = encoder.known(keys), row_count(self._things(build))
            done = count - sum(key not in known for key in keys)
            error.args = (f"{error} {done:,} of {count:,} texts are embedded and kept; run the same command again.",)
            raise
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(vectors)), encoder.dimension)
        table = pa.table({"number": things.column("number"), "vector": vectors})
        write_part(build.parts(self.name), batch, {"vectors": table})
        return BatchResult(len(things), encoder.misses - computed)

    def finish(self, build: Build) -> Counts:
        """Writes the matrix, in number order, with the content hashes of its rows, and lists the vectors."""
        encoder, things = self._encoder(build), self._things(build)
        hashes = read_hashes(things)
        values = {"kind": self.kind.name, "model": encoder.model, "dimension": encoder.dimension}
        with build.tables() as connection:
            connection.execute(statement("vectors", "fill_embeddings"), {**values, "things": [str(things)]})
        arrays = build.staging.arrays
        with writing("vectors", arrays), (arrays / f"{self.arrays}_matrix.npy").open("wb") as file:
            np.save(arrays / f"{self.arrays}_hashes.npy", hashes)
            shape = (len(hashes), encoder.dimension)
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for block in self._blocks(build, hashes, encoder.dimension):
                file.write(block.data)
        return {"vectors": len(hashes)}

    def _blocks(self, build: Build, hashes: NDArray[np.uint8], dimension: int) -> Iterator[Vectors]:
        """The matrix, some rows at a time, from the parts, else from the version before."""
        parts = map(pq.read_table, part_files(build.parts(self.name), "vectors"))
        part, earlier = next(parts, None), self._earlier(build, dimension)
        for start in range(0, len(hashes), _BLOCK):
            block = np.empty((min(_BLOCK, len(hashes) - start), dimension), np.float32)
            is_left = np.ones(len(block), dtype=np.bool_)
            while part is not None and part["number"][0].as_py() < start + len(block):  # numbers ascend over parts
                offsets = part["number"].to_numpy() - start
                inside = (offsets >= 0) & (offsets < len(block))
                vectors = part["vector"].combine_chunks().values.to_numpy().reshape(len(part), dimension)
                block[offsets[inside]], is_left[offsets[inside]] = vectors[inside], False
                if offsets[-1] >= len(block):
                    break  # the next block has more of it
                part = next(parts, None)
            left = np.flatnonzero(is_left)
            rows = earlier.rows_of(hashes[start + left])
            earlier.copy_to(block, left[rows >= 0], rows[rows >= 0])
            gone = left[rows < 0]  # the version before was there when a run that was killed did without their parts
            for things in _rows_at(self._things(build), start + gone, build.settings.batch_size):
                texts, offsets = (
                    self._with_texts(build, things)["text"].to_pylist(),
                    things["number"].to_numpy() - start,
                )
                block[offsets] = self._encoder(build).encode(texts, self._known_as)
            yield block

    def _encoder(self, build: Build) -> CachedEncoder:
        return open_encoder(build.settings, self.kind.space)

    def _things(self, build: Build) -> Path:
        return build.parts(self.name) / "listed.parquet"

    def _new_things(self, build: Build) -> Path:
        return build.parts(self.name) / "new.parquet"

    def _wanted(self, build: Build) -> Path:
        """The list of what is embedded: those that the version before lacks, else all."""
        new = self._new_things(build)
        return new if new.is_file() else self._things(build)

    def _before(self, build: Build) -> Path | None:
        """Tables of the version before that say which passages have which vectors, if these are made as now."""
        is_here = self.kind.name == "passage" and self._earlier_files(build)
        return build.earlier_tables(self.name, self.recipe(build), ["passages", "embeddings"]) if is_here else None

    def _listed(self, build: Build) -> Iterator[list[Thing]]:
        """Ids and texts, a batch at a time; says whose rows they are if DuckDB refuses to read them."""
        kind = self.kind
        with build.tables(read_only=True) as connection:
            try:
                found = connection.execute(kind.statement("things_in_order"), kind.parameters(build.settings))
            except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
                raise ConfigurationError(
                    f"The rows of the vector kind '{kind.name}' cannot be read: {str(error).splitlines()[0]}. "
                    "Update or uninstall the package that brings it."
                ) from error
            while rows := found.fetchmany(build.settings.batch_size):
                yield [(thing, kind.text(first, second), "") for thing, first, second in rows]

    def _listed_since(self, build: Build, before: Path) -> Iterator[list[Thing]]:
        """The same of passages; those that `before` has, too, with their keys instead of texts."""
        with build.tables(read_only=True) as connection, attached(connection, before, "before"):
            found = connection.execute(statement("vectors", "passages_since"), {"model": self._encoder(build).model})
            while rows := found.fetchmany(build.settings.batch_size):
                yield [(thing, "" if key else self.kind.text(*texts), key or "") for thing, *texts, key in rows]

    def _with_texts(self, build: Build, things: pa.Table) -> pa.Table:
        """Rows of the list with the texts that it leaves out."""
        if not things["text"].null_count:
            return things
        with build.tables(read_only=True) as connection:
            connection.register("chosen_things", things.select(["id"]))
            found = connection.execute(
                self.kind.statement("texts_of_things"), self.kind.parameters(build.settings)
            ).fetchall()
        texts = pa.array([self.kind.text(first, second) for first, second in found], pa.string())
        return things.set_column(SCHEMA.get_field_index("text"), "text", texts)

    def _earlier(self, build: Build, dimension: int) -> EarlierVectors:
        """The vectors of this kind in the version before, if they may be copied."""
        return open_earlier(self._earlier_files(build), dimension)

    def _earlier_files(self, build: Build) -> list[Path]:
        return build.earlier_files(f"{self.arrays}_hashes.npy", f"{self.arrays}_matrix.npy")


def is_known_in_advance(kind: VectorKind, build: Build) -> bool:
    """Returns whether an ingested source determines all rows of a kind: passages, and the entities of a graph."""
    return kind.input == "passages" or (kind.name == "entity" and build.source_kind == "graph")


class AnnStage(Stage):
    """A graph for approximate search on the vectors of one kind."""

    def __init__(self, kind: VectorKind) -> None:
        self.name = f"ann-{kind.name}"
        self.reads, self.writes = (f"vectors:{kind.name}",), (f"ann:{kind.name}",)
        self.revision = kind.revision

    def settings(self, build: Build) -> dict[str, object]:
        """Parameters of the HNSW graph."""
        return {"hnsw_m": HNSW_M, "hnsw_ef_construction": HNSW_EF_CONSTRUCTION}

    def finish(self, build: Build) -> Counts:
        """Nothing yet: publishing writes the vectors to LanceDB, and builds the graph on them there."""
        return {}
