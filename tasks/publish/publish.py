"""Publishing: invariants checked, views and comments written, checksums taken, vectors synchronised, pointer moved.

Nothing is visible before the last step; a crash anywhere leaves the published version as it was.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from polyhop.schemas.columns import Table
from polyhop.schemas.corpus import source_of
from polyhop.schemas.errors import DamagedStoreError, InvariantError
from polyhop.schemas.manifest import Manifest, SourceState, StageRecord, TableRecord, VectorRecord
from polyhop.schemas.redaction import redacted_tree
from polyhop.schemas.settings import VectorSettings
from polyhop.schemas.stores import SyncedTable, VectorRows
from polyhop.schemas.tables import CHANGES, VERSION_STAGES
from polyhop.schemas.version import VERSION
from polyhop.schemas.views import VIEWS
from polyhop.tasks.cycles import no_search_for_cycles
from polyhop.tasks.publish.changes import fill_changes
from polyhop.tasks.publish.checksums import staged_checksums
from polyhop.tasks.publish.encoder_record import encoder_record
from polyhop.tasks.publish.removal import version_tag
from polyhop.tasks.stage import Counts, Stage, tables_of
from polyhop.warehouse.build import Build, latest_manifest
from polyhop.warehouse.files.kept_records import kept_count, kept_files
from polyhop.warehouse.files.sources import place_of
from polyhop.warehouse.files.versions import publish_folder, published_versions
from polyhop.warehouse.graph.arrays import open_array
from polyhop.warehouse.open import open_vector_store
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import quoted
from polyhop.warehouse.tables.definitions import comment_statements
from polyhop.warehouse.updated_tables import updated_tables
from polyhop.warehouse.vectors.kinds import VectorKind, kinds_in

_UNFINGERPRINTED = {"root", "batch_size", "keep_versions", "maintenance", "queue", "runner", "worker", "reader"}


def publish(build: Build, stages: Sequence[Stage]) -> Counts:
    """Publishes the staged version; returns its number, and how many records changed, by kind.

    Args:
        build: The build, all stages done.
        stages: Those stages.

    Raises:
        InvariantError: If a table breaks an invariant; nothing is published.
        StoreError: If the disk refuses; nothing is published.
    """
    held = tables_of(stages)
    number = max([*published_versions(build.folder), 0]) + 1
    with build.tables() as connection:
        _fill_stages(build, connection)
        changes = fill_changes(build, connection, latest_manifest(build), number)
        updates = updated_tables(build)  # keys were looked at when rows came
        check_invariants(connection, stages, [table for table in (*held, CHANGES) if table.name not in updates])
        _describe(connection, [*held, CHANGES])
        connection.execute("CHECKPOINT")
    store = open_vector_store(build.folder)
    if kinds_in(build.artefacts) or build.folder.vectors.is_dir():
        store.begin_changes()
    with ThreadPoolExecutor(1) as beside:  # LanceDB builds its indexes on one core, and waits for the disk
        synced = beside.submit(_sync_vectors, build)
        checksums = staged_checksums(build, [*held, CHANGES])
        vectors = synced.result()
    tables = dict(checksums.tables)
    history = {CHANGES.name: tables.pop(CHANGES.name)}
    manifest = Manifest(
        index=build.index,
        version=number,
        polyhop=VERSION,
        source=_source(build),
        graph_sources=_graph_sources(build),
        sources=_sources(build),
        corpus_hash=build.fingerprint(stages[0].name),
        settings=redacted_tree(build.settings.model_dump(mode="json", exclude=_UNFINGERPRINTED)),
        artefacts=tuple(sorted(build.artefacts)),
        stages=_stage_records(build, stages),
        counts=_counts(tables),
        tables=tables,
        history=history,
        appended={name: table.appended for name, table in updates.items() if table.appended},
        tables_file=checksums.tables_file,
        arrays=checksums.arrays,
        vectors=vectors,
    )
    for record in vectors.values():
        store.pin(record.table, record.table_version, version_tag(number))
    if vectors:
        store.end_changes()
    publish_folder(build.folder, build.staging.path, manifest)
    return {"version": number, **changes}


def _stage_records(build: Build, stages: Sequence[Stage]) -> dict[str, StageRecord]:
    recipes = {stage.name: stage.recipe(build) for stage in stages}
    return {
        name: StageRecord(
            fingerprint=build.fingerprint(name),
            recipe=recipes[name],
            outcome=dict(build.outcomes).get(name, ""),
            counts=dict(counts),
        )
        for name, counts in build.counts.items()
    }


def publish_stage(stages: Sequence[Stage]) -> Stage:
    """The last stage: it reads all that these write, the first of them the source, and makes the version."""
    artefacts = tuple(artefact for stage in stages for artefact in stage.writes)
    finish = partial(publish, stages=stages)
    return Stage("publish", reads=artefacts, writes=("version",), finish=finish, tables=(VERSION_STAGES,))


def _source(build: Build) -> str:
    """The corpus as it was read last as a whole; a version that takes the current one's names that one's.

    Where that source is removed, another one's is named: `verify --repair` reads it.
    """
    if build.source is not None and not build.is_partial:
        return place_of(build.source) if build.source_kind == "graph" else str(build.source)
    current = latest_manifest(build)
    if current is None:
        return ""
    left = [state.location for state in _sources(build).values() if state.location]
    if not build.reads_kept_only or place_of(source_of(current.source)) in left:
        return current.source
    return next(iter(left), "")


def _sources(build: Build) -> dict[str, SourceState]:
    """The sources whose records this version keeps, by name."""
    current = latest_manifest(build)
    known = current.sources if current else {}
    locations = {name: state.location for name, state in known.items()}
    if isinstance(build.source, Path) and not build.is_partial:
        locations[build.source_name] = place_of(build.source)
    held = {name: build.staging.arrays / kept_files(name)[0] for name in sorted({*locations, build.source_name})}
    return {
        name: SourceState(location=locations.get(name, ""), records=kept_count(path))
        for name, path in held.items()
        if path.is_file()
    }


def _graph_sources(build: Build) -> str:
    """The file of texts for nodes, "" if there is none; a version that takes the current one's names that one's."""
    if build.source is not None:
        return place_of(build.graph_sources) if build.graph_sources else ""
    current = latest_manifest(build)
    return current.graph_sources if current else ""


def check_invariants(connection: duckdb.DuckDBPyConnection, stages: Sequence[Stage], tables: Sequence[Table]) -> None:
    """Checks that the invariants of the stages hold and that the keys of these tables are unique.

    Raises:
        InvariantError: Naming the invariant, how many rows break it and one of them.
    """
    for stage in stages:
        for name, sql in stage.invariants.items():
            count, example = connection.execute(sql).fetchone() or (0, None)
            if count:
                raise InvariantError(
                    f"Not published: {count} rows break the invariant '{name}' (for example {example}). "
                    f"This is a defect in {_maker(stage)}; the published version is unchanged."
                )
    for table in tables:
        surplus = _rows_with_used_key(connection, table)
        if surplus:
            raise InvariantError(f"Not published: table '{table.name}' has {surplus} rows with a used key.")


def _rows_with_used_key(connection: duckdb.DuckDBPyConnection, table: Table) -> int:
    """How many rows more than keys a table has."""
    key = ", ".join(quoted(column) for column in table.key)
    surplus = 0
    for counted in (f"hash({key})", f"({key})"):  # rows with different hashes have different keys; keys take longer
        row = connection.execute(f"SELECT count(*), count(DISTINCT {counted}) FROM {quoted(table.name)}").fetchone()
        surplus = row[0] - row[1] if row else 0
        if not surplus:
            break
    return surplus


def _maker(stage: Stage) -> str:
    """Whose stage it is."""
    function = getattr(stage.finish, "func", stage.finish)  # of a partial function
    package = function.__module__.partition(".")[0]
    return "Polyhop" if package == "polyhop" else f"the package '{package}'"


def _fill_stages(build: Build, connection: duckdb.DuckDBPyConnection) -> None:
    run_id = build.fingerprints[-1][1][:32]
    connection.execute("DELETE FROM version_stages")
    connection.executemany(
        "INSERT INTO version_stages VALUES (?, ?, ?, ?)",
        [
            (run_id, name, build.fingerprint(name), json.dumps(dict(counts), sort_keys=True))
            for name, counts in build.counts.items()
        ],
    )


def _describe(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> None:
    for table in tables:
        for sql in comment_statements(table):
            connection.execute(sql)
    for name in statements("views"):
        connection.execute(statement("views", name))
    for view in VIEWS:  # after the views are there: replacing a view drops its comments
        for sql in comment_statements(view):
            connection.execute(sql)


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
    return {name: tables[table].rows for name, table in shown.items() if table in tables}


def _sync_vectors(build: Build) -> dict[str, VectorRecord]:
    records = {}
    for kind in kinds_in(build.artefacts):
        wanted, embedded, model = _vector_rows(build, kind)
        if not wanted.ids:
            continue
        hnsw = build.settings.vectors if f"ann:{kind.name}" in build.artefacts else None
        synced = _table_of(build, kind, wanted, hnsw, is_new=kind.name in build.distrusted)
        records[kind.name] = VectorRecord(
            table=synced.table,
            table_version=synced.version,
            rows=len(wanted.ids),
            dimension=wanted.vectors.shape[1],
            model=model,
            encoder=encoder_record(build, kind, embedded, wanted.vectors),
            hnsw=synced.hnsw,
        )
    return records


def _vector_rows(build: Build, kind: VectorKind) -> tuple[VectorRows, list[tuple[str, str]], str]:
    """All rows of a kind as they are published, what was embedded of them, and the model that did it."""
    values = {**kind.parameters(build.settings), "kind": kind.name}
    with build.tables(read_only=True) as connection, no_search_for_cycles():
        rows = connection.execute(kind.statement("published_things"), values).fetchall()
    matrix = open_array(build.staging.arrays, f"vectors-{kind.name}_matrix").astype(np.float32, copy=False)
    if len(rows) != len(matrix):
        raise InvariantError(
            f"Not published: {len(rows)} things have vectors of kind '{kind.name}', but {len(matrix)} were embedded. "
            "This is a defect in what declares that kind; the published version is unchanged."
        )
    made = VectorRows(
        ids=[row[0] for row in rows],
        texts=[kind.shown(row[1], row[2]) for row in rows],
        hashes=[row[3] for row in rows],
        vectors=matrix,
    )
    return made, [(row[1], row[2]) for row in rows], rows[0][4] if rows else ""


def _table_of(
    build: Build, kind: VectorKind, wanted: VectorRows, hnsw: VectorSettings | None, *, is_new: bool
) -> SyncedTable:
    """The current version's table brought up to date; a new one if that is damaged."""
    current = latest_manifest(build)
    before = current.vectors.get(kind.name) if current is not None else None
    table, store = before.table if before is not None else kind.table, open_vector_store(build.folder)
    if not is_new and not store.find_damage(table):
        try:
            return store.sync(table, wanted, hnsw)
        except DamagedStoreError:
            pass  # a file that no list has yet; the new table needs none of the old ones
    return store.rebuild(kind.table, wanted, hnsw)
