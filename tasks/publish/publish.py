"""Publishing: laws checked, views and comments written, checksums taken, vectors synchronised, pointer moved.

Nothing is visible before the last step; a crash anywhere leaves the published version as it was.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np

from schemas.columns import Table
from schemas.errors import InvariantError
from schemas.manifest import Manifest, StageRecord, TableRecord, VectorRecord
from schemas.tables import TABLES
from schemas.text import passage_text
from schemas.version import VERSION
from tasks.stage import Counts
from warehouse.build import Build, current_manifest
from warehouse.files.versions import prune_versions, publish_folder, published_versions
from warehouse.graph.arrays import file_checksum, open_array
from warehouse.tables.connection import comment_statements, quoted
from warehouse.tables.statements import statement, statements
from warehouse.vectors.lance import VectorRows, sync_table, tag_version, untag_and_clean

_UNFINGERPRINTED = {"root", "batch_size", "keep_versions", "queue", "worker", "reader"}


def publish(build: Build, stages: Mapping[str, Counts]) -> Manifest:
    """Publishes the staged version and returns its manifest.

    Args:
        build: The build, all stages done.
        stages: Counts of every stage.

    Raises:
        InvariantError: If a table breaks a law; nothing is published.
        StoreError: If the disk refuses; nothing is published.
    """
    with build.tables() as connection:
        _fill_runs(build, connection, stages)
        check_laws(connection)
        _describe(connection)
        tables = {table.name: _record(connection, table) for table in TABLES}
        connection.execute("CHECKPOINT")
    vectors = _sync_vectors(build)
    number = max([*published_versions(build.folder), 0]) + 1
    manifest = Manifest(
        index=build.index,
        version=number,
        polyhop=VERSION,
        source=_source(build),
        corpus_hash=build.fingerprint("ingest"),
        settings=build.settings.model_dump(mode="json", exclude=_UNFINGERPRINTED),
        artefacts=tuple(sorted(build.artefacts)),
        stages={
            name: StageRecord(
                fingerprint=build.fingerprint(name), outcome=dict(build.outcomes).get(name, ""), counts=counts
            )
            for name, counts in stages.items()
        },
        counts=_counts(tables),
        tables=tables,
        arrays={file.name: file_checksum(file) for file in sorted(build.staging.arrays.iterdir())},
        vectors=vectors,
    )
    for record in vectors.values():
        tag_version(build.folder.vectors, record.table, version_tag(number), record.lance_version)
    publish_folder(build.folder, build.staging.path, manifest)
    return manifest


def _source(build: Build) -> str:
    """The corpus; a version that takes the current one's names that one's."""
    if build.source is not None:
        return str(build.source)
    current = current_manifest(build)
    return current.source if current else ""


def prune(build: Build) -> list[int]:
    """Removes versions beyond `keep_versions` that nobody uses, and the vectors only they held."""
    removed = prune_versions(build.folder, build.settings.keep_versions)
    if removed and build.folder.vectors.is_dir():
        untag_and_clean(build.folder.vectors, [version_tag(number) for number in removed])
    return removed


def version_tag(number: int) -> str:
    """The LanceDB tag that pins a version's vectors."""
    return f"v{number:06d}"


def check_laws(connection: duckdb.DuckDBPyConnection) -> None:
    """Runs every law of sql/publish.sql and checks that keys are unique.

    Raises:
        InvariantError: Naming the law, how many rows break it and one of them.
    """
    for name, sql in statements("publish").items():
        count, example = connection.execute(sql).fetchone() or (0, None)
        if count:
            raise InvariantError(
                f"Not published: {count} rows break the law '{name}' (for example {example}). "
                "This is a defect in Polyhop; the published version is unchanged."
            )
    for table in TABLES:
        key = ", ".join(quoted(column) for column in table.key)
        row = connection.execute(f"SELECT count(*), count(DISTINCT ({key})) FROM {quoted(table.name)}").fetchone()
        if row and row[0] != row[1]:
            raise InvariantError(f"Not published: table '{table.name}' has {row[0] - row[1]} rows with a used key.")


def _fill_runs(build: Build, connection: duckdb.DuckDBPyConnection, stages: Mapping[str, Counts]) -> None:
    run_id = build.fingerprints[-1][1][:32]
    connection.execute("DELETE FROM index_runs")
    connection.executemany(
        "INSERT INTO index_runs VALUES (?, ?, ?, ?)",
        [
            (run_id, name, build.fingerprint(name), json.dumps(counts, sort_keys=True))
            for name, counts in stages.items()
        ],
    )


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    for table in TABLES:
        for sql in comment_statements(table):
            connection.execute(sql)
    for name in statements("views"):
        connection.execute(statement("views", name))


def _record(connection: duckdb.DuckDBPyConnection, table: Table) -> TableRecord:
    row = connection.execute(
        f"SELECT count(*), coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM {quoted(table.name)} AS t"
    ).fetchone()
    rows, checksum = row or (0, "")
    return TableRecord(rows=rows, checksum=checksum)


def _counts(tables: Mapping[str, TableRecord]) -> dict[str, int]:
    shown = {
        "documents": "documents",
        "passages": "passages",
        "entities": "entities",
        "relations": "relations",
        "propositions": "propositions",
        "hubs": "hubs",
        "hub_paths": "hub_paths",
        "quarantined": "quarantine",
    }
    return {name: tables[table].rows for name, table in shown.items()}


_VECTOR_ROWS = {
    "passage": "SELECT p.passage_id, p.title, p.text, e.content_hash, e.model FROM passages AS p "
    "JOIN embeddings AS e ON e.owner_kind = 'passage' AND e.owner_id = p.passage_id ORDER BY p.passage_id",
    "entity": "SELECT t.entity_id, t.name, t.description, e.content_hash, e.model FROM entities AS t "
    "JOIN embeddings AS e ON e.owner_kind = 'entity' AND e.owner_id = t.entity_id WHERE t.is_named ORDER BY t.key",
}


def _sync_vectors(build: Build) -> dict[str, VectorRecord]:
    records = {}
    for kind, query in _VECTOR_ROWS.items():
        name = f"vectors-{kind}_matrix"
        if not (build.staging.arrays / f"{name}.npy").exists():
            continue
        with build.tables(read_only=True) as connection:
            rows = connection.execute(query).fetchall()
        matrix = open_array(build.staging.arrays, name).astype(np.float32, copy=False)
        if not len(matrix):
            continue
        wanted = VectorRows(
            ids=[row[0] for row in rows],
            texts=[passage_text(row[1], row[2]) for row in rows],
            hashes=[row[3] for row in rows],
            vectors=matrix,
        )
        table = "passages" if kind == "passage" else "entities"
        hnsw = build.settings.vectors if f"ann:{kind}" in build.artefacts else None
        synced = sync_table(_folder(build), table, wanted, hnsw)
        records[kind] = VectorRecord(
            table=table,
            lance_version=synced.lance_version,
            rows=len(matrix),
            dimension=matrix.shape[1],
            model=rows[0][4],
            hnsw=synced.hnsw,
        )
    return records


def _folder(build: Build) -> Path:
    return build.folder.vectors
