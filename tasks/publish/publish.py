"""Publishing: invariants and checksums, changes, vectors, the pointer moved; and the removal of old versions.

Nothing is visible before the last step; a crash anywhere leaves the published version as it was.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyhop.schemas.errors import (
    DamagedStoreError,
    InvariantError,
    LossRefusedError,
    ManifestMismatchError,
    redacted_tree,
)
from polyhop.schemas.manifest import EncoderRecord, Manifest, SourceState, StageRecord, TableRecord, VectorRecord
from polyhop.schemas.names import TitleKeys
from polyhop.schemas.ports import SyncedTable, VectorRows
from polyhop.schemas.records import source_of
from polyhop.schemas.settings import INDEX, KEPT, SHIPPED, EncoderSettings, settings_with
from polyhop.schemas.tables import CHANGES, VIEWS, Table
from polyhop.schemas.version import VERSION
from polyhop.tasks.stage import Counts, Stage, tables_of
from polyhop.warehouse.artefacts import TITLE_KEYS, open_array, partitions_of, read_rows, save_arrays
from polyhop.warehouse.build import Build, kept_files, latest_manifest, row_count, touched_ids, updated_tables
from polyhop.warehouse.files.corpora import UNOPENED
from polyhop.warehouse.files.disk import file_checksum, link_or_copy
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.records import source_location
from polyhop.warehouse.files.versions import (
    prune_versions,
    publish_folder,
    published_versions,
    read_manifest,
    surplus_versions,
)
from polyhop.warehouse.index_reader import Damage, open_vector_store
from polyhop.warehouse.machine import gc_paused
from polyhop.warehouse.open_models import open_encoder, record_of
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import (
    attached,
    close_idle,
    comment_statements,
    create_statement,
    quoted,
    record_since,
    table_record,
)
from polyhop.warehouse.tables.version_rows import compare_records
from polyhop.warehouse.vectors.kinds import (
    DIGITS,
    VectorKind,
    cosine_scale,
    kinds_in,
    sampled_sentences,
    sampled_things,
    spread,
)

FEWEST_GUARDED = 20
"""Records of a source below which a run may delete any share of them; chosen: what a person sees at a glance."""
MOST_DELETED = 0.3
"""Share of a source's records that a run may delete unless --allow-deletions says more; chosen: a source that lost
more is rather cut off than edited."""


def check_deletions(build: Build, before: Manifest, damage: Damage) -> None:
    """Refuses a run that, once its source is read, would delete too much of what the version before has of it.

    That is more than the share `MOST_DELETED` of at least `FEWEST_GUARDED` records, or any below a folder that cannot
    be opened. A record whose title and text are still there, under another id or in another source, counts as kept. Of
    a graph, its relations and its passages count. Where records before are damaged, their number is compared.
    """
    published = build.folder.version(before.version)
    with build.tables(read_only=True) as connection:
        if build.source_name in before.sources:
            _check_records(build, connection, before, damage)
        elif not before.sources:  # a graph
            wanted = {"passages": "deleted_passages"}
            if build.source_kind == "graph":
                wanted["relations"] = "deleted_relations"
            with attached(connection, published.tables, "before"):
                for what, name in wanted.items():
                    if what in before.tables and what not in damage.tables:
                        total, gone = connection.execute(statement("changes", name)).fetchone() or (0, 0)
                        _refuse(build, what, total, gone)


def _check_records(build: Build, connection: duckdb.DuckDBPyConnection, before: Manifest, damage: Damage) -> None:
    file, held = kept_files(build.source_name)[0], before.sources[build.source_name].records
    if file in damage.arrays:
        _refuse(build, "records", held, held - row_count(build.staging.arrays / file))
        return
    now = [str(path) for path in sorted(build.staging.arrays.glob(kept_files("*")[0]))]
    files = {"before": [str(build.folder.version(before.version).arrays / file)], "after": now}
    (gone,) = connection.execute(statement("changes", "deleted_ids"), files).fetchone() or (0,)
    if not gone:
        return  # the usual case, which reads no text
    values = {**files, "reason": UNOPENED}
    gone, below, folder = connection.execute(statement("changes", "deleted_records"), values).fetchone() or (0, 0, "")
    if below:
        raise LossRefusedError(
            f"Folder '{folder}' of {build.source} cannot be opened, and {below:,} "
            f"{'record' if below == 1 else 'records'} below it would be deleted "
            f"from index '{build.index}'; nothing was published. Allow opening it, or say --allow-deletions."
        )
    _refuse(build, "records", held, gone)


def _refuse(build: Build, what: str, total: int, gone: int) -> None:
    if total >= FEWEST_GUARDED and gone > MOST_DELETED * total:
        raise LossRefusedError(
            f"{gone:,} of {total:,} {what} of {build.source} in index '{build.index}' would be deleted, more than the "
            f"allowed share of {MOST_DELETED:g}; nothing was published. Check that the source is "
            "whole; if they are to go, say --allow-deletions."
        )


_LARGE_ROWS = 10_000
"""A table of fewer rows is read whole, not compared; measured: in 4 ms of processor time where comparing takes 35."""

_EARLIER = "version_before"


def staged_checksums(build: Build, tables: Sequence[Table]) -> tuple[dict[str, TableRecord], dict[str, str], str]:
    """Checksums of all staged tables and array files by name, and of the finished file of tables."""
    before = latest_manifest(build) if build.earlier is not None else None

    def checksum_of(file: Path) -> str:
        # a file that the version before has, too, was looked at when the run began
        is_known = before is not None and any(one.samefile(file) for one in build.earlier_files(file.name))
        return before.arrays[file.name] if before is not None and is_known else file_checksum(file)

    def of_files() -> tuple[str, dict[str, str]]:
        arrays = sorted(build.staging.arrays.iterdir())
        return file_checksum(build.staging.tables), {file.name: checksum_of(file) for file in arrays}

    with ThreadPoolExecutor(1) as background:
        files = background.submit(of_files)
        records = _table_records(build, tables, before)
        tables_file, arrays = files.result()
    return records, arrays, tables_file


def _table_records(build: Build, tables: Sequence[Table], before: Manifest | None) -> dict[str, TableRecord]:
    known: dict[str, TableRecord] = {}  # of the version before, its undamaged tables only
    if before is not None and build.earlier is not None:
        known = {name: record for name, record in before.tables.items() if name in build.earlier.tables}
    noted = {name: table.record for name, table in updated_tables(build).items()}
    records = {}
    with build.tables(read_only=True) as connection:
        for table in tables:
            # what was noted when rows came and went counts if there are as many rows
            if table.name in noted:
                (rows,) = connection.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone() or (0,)
                if rows == noted[table.name].rows:
                    records[table.name] = noted[table.name]
        left = [table.name for table in tables if table.name not in records]
        if before is None or not known:
            return records | {name: table_record(connection, name) for name in left}
        with attached(connection, build.folder.version(before.version).tables, _EARLIER):
            return records | {
                name: record_since(connection, name, _EARLIER, known[name])
                if name in known and known[name].rows >= _LARGE_ROWS
                else table_record(connection, name)
                for name in left
            }


def encoder_record(build: Build, kind: VectorKind, matrix: NDArray[np.float32]) -> EncoderRecord:
    """The record of a kind's encoder, whose vectors are the matrix, shape (n, d).

    That of the version before, if its vectors are taken over.
    """
    current, stage = latest_manifest(build), f"embed-{kind.name}"
    record = current.stages.get(stage) if current is not None else None
    before = current.vectors.get(kind.name) if current is not None else None
    if before is not None and record is not None and record.fingerprint == dict(build.fingerprints).get(stage):
        return before.encoder
    choice = build.settings.encoder.choice_of(kind.space)
    made = record_of(build.settings, choice, open_encoder(build.settings, kind.space).encoder.max_tokens)
    if choice.name in SHIPPED:
        return made.model_copy(update={"cosine_scale": SHIPPED[choice.name].scale})
    if kind.name != "passage":
        return made
    # spreads of the configured encoder and of the local one, over the same sample
    with build.tables(read_only=True) as connection:
        things = connection.execute(kind.statement("things_in_order"), kind.parameters(build.settings))
        read = chain.from_iterable(iter(partial(things.fetchmany, _AT_ONCE), []))
        chosen, *rows = zip(*sampled_things(read, kind.text), strict=True)
    texts, questions = list(map(kind.text, *rows)), sampled_sentences(rows[1])
    encoder = open_encoder(build.settings)
    local = open_encoder(build.settings.model_copy(update={"encoder": EncoderSettings()}))
    own = spread(encoder.encode_cached_questions(questions), read_rows(matrix, np.array(chosen)))
    of_texts = local.encode(texts, kind.encoded_as or kind.name)
    reference = spread(local.encode_cached_questions(questions), of_texts)
    return made.model_copy(update={"spread": round(own, DIGITS), "cosine_scale": cosine_scale(own, reference)})


def prune(build: Build, *, is_after_kill: bool = False) -> list[int]:
    """Removes versions beyond `keep_versions` that are unused, and the vectors that only they held.

    `is_after_kill`: an earlier process was killed while it changed vectors; what it left goes, too.
    """
    begin_removal(build.folder)
    removed = prune_versions(build.folder, build.settings.keep_versions)
    clean_vectors(build.folder, at_once=is_after_kill)
    return removed


def tidy(build: Build, *, is_after_kill: bool) -> list[int]:
    """Prunes like `prune`, for a run that publishes nothing, if there is something to remove."""
    if is_after_kill or surplus_versions(build.folder, build.settings.keep_versions):
        return prune(build, is_after_kill=is_after_kill)
    return []


def begin_removal(index: IndexFolder) -> None:
    """Notes that versions and then their vectors go, so that a kill in between is known (`was_killed`)."""
    if index.vectors.is_dir():
        open_vector_store(index).begin_changes()


def was_killed(index: IndexFolder) -> bool:
    """Returns whether the last process that changed the vectors of an index was killed; needs the writer's lease."""
    return index.vectors.is_dir() and open_vector_store(index).is_changing()


def clean_vectors(index: IndexFolder, *, at_once: bool = False) -> None:
    """Frees the vectors that no published version holds, also those of versions that a killed run removed.

    Only for who holds the writer's lease; `at_once`: also files of no version at all, which killed runs left.
    """
    if not index.vectors.is_dir():
        return
    numbers = published_versions(index)
    try:
        manifests = [read_manifest(index.version(number)) for number in numbers]
    except ManifestMismatchError:
        return  # the contents of the damaged one are unknown
    tables = {record.table for manifest in manifests for record in manifest.vectors.values()}
    store = open_vector_store(index)
    store.begin_changes()
    store.clean([version_tag(number) for number in numbers], tables, at_once=at_once)
    store.end_changes()


def version_tag(number: int) -> str:
    """The name by which a version pins its vectors."""
    return f"v{number:06d}"


def publish(build: Build, stages: Sequence[Stage]) -> Counts:
    """Publishes the staged version; returns its number, and how many records changed, by kind."""
    held, current = tables_of(stages), latest_manifest(build)
    recipes = {stage.name: stage.recipe(build) for stage in stages}
    # the file of texts for nodes; a version that takes the current one's names that one's
    kept = current.graph_sources if current and build.source is None else ""
    graph_sources = source_location(build.graph_sources) if build.source is not None and build.graph_sources else kept
    number = max([*published_versions(build.folder), 0]) + 1
    with build.tables() as connection:
        connection.execute("DELETE FROM version_stages")
        filled = "INSERT INTO version_stages VALUES (?, ?, ?, ?)"
        run_id = build.fingerprints[-1][1][:32]
        counted = [(name, json.dumps(dict(counts), sort_keys=True)) for name, counts in build.counts.items()]
        connection.executemany(filled, [(run_id, name, build.fingerprint(name), counts) for name, counts in counted])
        changes = _fill_changes(build, connection, number)
        updates = updated_tables(build)  # keys were looked at when rows came
        touched = touched_ids(build, [table for stage in stages for table in stage.updated])
        derived = [table for table in (*held, CHANGES) if table.name not in updates]
        check_invariants(connection, stages, derived, touched)
        _describe(connection, [*held, CHANGES])
        connection.execute("CHECKPOINT")
        _save_title_keys(build, connection, recipes.get("extract", ""))
    store = open_vector_store(build.folder)
    if kinds_in(build.artefacts) or build.folder.vectors.is_dir():
        store.begin_changes()
    close_idle()  # LanceDB takes a gigabyte for the indexes of a million vectors
    with ThreadPoolExecutor(1) as background:  # it builds them on one core, and waits for the disk
        synced = background.submit(_sync_vectors, build)
        tables, arrays, tables_file = staged_checksums(build, [*held, CHANGES])
        vectors, positions = synced.result()
    for kind, of_rows in positions.items():
        save_arrays(build.staging.arrays, partitions_of(kind), of_rows)
        files = build.staging.arrays.glob(f"{partitions_of(kind)}_*")
        arrays |= {path.name: file_checksum(path) for path in files}
    history = {CHANGES.name: tables.pop(CHANGES.name)}
    manifest = Manifest(
        index=build.index,
        version=number,
        polyhop=VERSION,
        source=_source(build),
        graph_sources=graph_sources,
        sources=_sources(build),
        corpus_hash=build.fingerprint(stages[0].name),
        settings=redacted_tree(build.settings.model_dump(mode="json", include=settings_with(INDEX, KEPT))),
        artefacts=tuple(sorted(build.artefacts)),
        stages={name: _stage_record(build, name, recipe=recipes[name]) for name in build.counts},
        counts=_counts(tables),
        tables=tables,
        history=history,
        appended={name: table.appended for name, table in updates.items() if table.appended},
        tables_file=tables_file,
        arrays=arrays,
        vectors=vectors,
    )
    for record in vectors.values():
        store.pin(record.table, record.table_version, version_tag(number))
    if vectors:
        store.end_changes()
    publish_folder(build.folder, build.staging.path, manifest)
    return {"version": number, **changes}


def _stage_record(build: Build, name: str, recipe: str) -> StageRecord:
    outcome, counts = dict(build.outcomes).get(name, ""), dict(build.counts[name])
    return StageRecord(fingerprint=build.fingerprint(name), recipe=recipe, outcome=outcome, counts=counts)


def _save_title_keys(build: Build, connection: duckdb.DuckDBPyConnection, recipe: str) -> None:
    """Writes what a large version finds names by; a run that was killed may have left the keys of other titles.

    They are those of the version before if it has the same titles and joined names, and extraction, `recipe`, takes
    keys in the same way.
    """
    for old in build.staging.arrays.glob(f"{TITLE_KEYS}_*"):
        old.unlink()
    if build.source_kind != "corpus" or len(connection.table("passages")) < build.settings.search.exact_below:
        return
    files = build.earlier_files(*(f"{TITLE_KEYS}_{name}.npy" for name in TitleKeys([]).arrays()))
    with_entities = "graph" in build.artefacts
    queries = ["are_titles_same", *(["are_joined_names_same"] if with_entities else [])]
    tables = build.earlier_tables("extract", recipe, ["passages", *(["entities"] if with_entities else [])])
    if files and tables is not None:
        with attached(connection, tables, _EARLIER):
            rows = [connection.execute(statement("ingest", query)).fetchone() for query in queries]
        if all(row and row[0] for row in rows):
            for file in files:
                link_or_copy(file, build.staging.arrays / file.name)
            return
    names = connection.execute(statement("ingest", "titles")).fetchall()
    if with_entities:
        names += connection.execute(statement("read", "joined_names")).fetchall()
    save_arrays(build.staging.arrays, TITLE_KEYS, TitleKeys(name for (name,) in names).arrays())


def _fill_changes(build: Build, connection: duckdb.DuckDBPyConnection, number: int) -> dict[str, int]:
    """Fills the table of changes since the version before; returns how many records changed, by kind."""
    before = latest_manifest(build)
    connection.execute(create_statement(CHANGES))
    folders = [build.staging.arrays]
    published = build.folder.version(before.version) if before is not None else None
    if published is not None:
        folders.append(published.arrays)
    changes = compare_records(connection, published.tables if published is not None else None, folders)
    connection.execute(statement("changes", "fill_changes"), {"version": number})
    return changes


def _source(build: Build) -> str:
    """The corpus as it was read last as a whole; a version that takes the current one's names that one's.

    Where that source is removed, another one's is named: `verify --repair` reads it.
    """
    if build.source is not None and not build.is_partial:
        return source_location(build.source) if build.source_kind == "graph" else str(build.source)
    current = latest_manifest(build)
    if current is None:
        return ""
    left = [state.location for state in _sources(build).values() if state.location]
    if not build.reads_kept_only or source_location(source_of(current.source)) in left:
        return current.source
    return next(iter(left), "")


def _sources(build: Build) -> dict[str, SourceState]:
    """The sources whose records this version keeps, by name."""
    current = latest_manifest(build)
    known = current.sources if current else {}
    locations = {name: state.location for name, state in known.items()}
    if isinstance(build.source, Path) and not build.is_partial:
        locations[build.source_name] = source_location(build.source)
    held = {name: build.staging.arrays / kept_files(name)[0] for name in sorted({*locations, build.source_name})}
    return {
        name: SourceState(location=locations.get(name, ""), records=row_count(path))
        for name, path in held.items()
        if path.is_file()
    }


def check_invariants(
    connection: duckdb.DuckDBPyConnection, stages: Sequence[Stage], tables: Sequence[Table], touched: Sequence[str] = ()
) -> None:
    """Checks that the invariants of the stages hold and that the keys of these tables are unique.

    `touched` are files of ids, if nothing else changed since a version whose invariants hold.
    """
    if touched:
        connection.execute(statement("updates", "touched_ids"), {"files": touched})
        connection.execute(statement("updates", "missing_entities"))
    connection.execute(statement("updates", "some_are_touched" if touched else "all_are_touched"))
    for stage in stages:
        for name, sql in stage.invariants.items():
            count, example = connection.execute(sql).fetchone() or (0, None)
            if count:
                module = getattr(stage.finish, "func", stage.finish).__module__  # of a partial function its own
                package = module.partition(".")[0]
                maker = "Polyhop" if package == "polyhop" else f"the package '{package}'"
                raise InvariantError(
                    f"Not published: {count} rows break the invariant '{name}' (for example {example}). "
                    f"This is a defect in {maker}; the published version is unchanged."
                )
    for table in tables:
        # How many rows more than keys a table has.
        key = ", ".join(quoted(column) for column in table.key)
        surplus = 0
        for counted in (f"hash({key})", f"({key})"):  # rows with different hashes have different keys; keys take longer
            row = connection.execute(f"SELECT count(*), count(DISTINCT {counted}) FROM {quoted(table.name)}").fetchone()
            surplus = row[0] - row[1] if row else 0
            if not surplus:
                break
        if surplus:
            raise InvariantError(f"Not published: table '{table.name}' has {surplus} rows with a used key.")


def _describe(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> None:
    """Comments on tables, views and theirs, in one transaction: the disk would confirm each of 400."""
    commented = [sql for table in tables for sql in comment_statements(table)]
    views = [statement("views", name) for name in statements("views")]
    views += [sql for view in VIEWS for sql in comment_statements(view)]  # replacing a view drops its comments
    connection.begin()
    for sql in (*commented, *views):
        connection.execute(sql)
    connection.commit()


def _counts(tables: Mapping[str, TableRecord]) -> dict[str, int]:
    names = ("documents", "passages", "entities", "relations", "propositions", "hubs", "hub_paths")
    shown = {**{name: name for name in names}, "quarantined": "quarantine"}
    return {name: tables[table].rows for name, table in shown.items() if table in tables}


def _sync_vectors(build: Build) -> tuple[dict[str, VectorRecord], dict[str, Mapping[str, NDArray[Any]]]]:
    """Brings LanceDB's tables up to date; records of them, and the arrays of `partitions_of`, by kind."""
    records: dict[str, VectorRecord] = {}
    positions: dict[str, Mapping[str, NDArray[Any]]] = {}
    with build.tables(read_only=True) as connection:
        is_large = len(connection.table("passages")) >= build.settings.search.exact_below
    for kind in kinds_in(build.artefacts):
        wanted, model = _vector_rows(build, kind)
        if not wanted.ids:
            continue
        has_graph = f"ann:{kind.name}" in build.artefacts
        is_partitioned = is_large and not has_graph and kind.name in _PARTITIONED
        synced = _table_of(build, kind, wanted, has_graph=has_graph, is_partitioned=is_partitioned)
        if is_partitioned:
            positions[kind.name] = synced.positions
        records[kind.name] = VectorRecord(
            table=synced.table,
            table_version=synced.version,
            rows=len(wanted.ids),
            dimension=wanted.vectors.shape[1],
            model=model,
            encoder=encoder_record(build, kind, wanted.vectors),
            hnsw=synced.hnsw,
            partitions=synced.partitions,
        )
    return records, positions


_PARTITIONED = ("passage", "entity")  # of a large version; with all vectors of other kinds a question is compared


def _vector_rows(build: Build, kind: VectorKind) -> tuple[VectorRows, str]:
    """All rows of a kind as they are published, and the model that embedded them."""
    parameters = kind.parameters(build.settings)
    with build.tables(read_only=True) as connection:
        query = kind.statement("published_things")
        rows: pa.Table = connection.sql(query, params={**parameters, "kind": kind.name}).to_arrow_table()
    ids, hashes, models = (column.combine_chunks() for column in rows.columns)
    matrix = open_array(build.staging.arrays, f"vectors-{kind.name}_matrix").astype(np.float32, copy=False)
    if len(rows) != len(matrix):
        raise InvariantError(
            f"Not published: {len(rows)} things have vectors of kind '{kind.name}', but {len(matrix)} were embedded. "
            "This is a defect in what declares that kind; the published version is unchanged."
        )

    def texts(numbers: Sequence[int]) -> Iterator[str]:
        with build.tables(read_only=True) as connection:
            connection.register("chosen_things", pa.table({"id": ids.take(pa.array(numbers))}))
            found = connection.execute(kind.statement("texts_of_things"), parameters)
            while some := found.fetchmany(_AT_ONCE):
                yield from (kind.shown(first, second) for first, second in some)
            connection.unregister("chosen_things")

    with gc_paused():
        return VectorRows(ids.to_pylist(), texts, hashes.to_pylist(), matrix), models[0].as_py() if len(rows) else ""


_AT_ONCE = 5_000  # chosen: a million texts as Python's strings take a gigabyte


MOST_CHANGED = 0.05
"""Share of rows that may have come or changed since partitions were made; beyond it all are written and parted
again. Chosen: a question is compared with every one of them, which takes 3 ms at this share of a million passages.
"""


def _table_of(
    build: Build, kind: VectorKind, wanted: VectorRows, *, has_graph: bool, is_partitioned: bool
) -> SyncedTable:
    """The current version's table brought up to date; a new one if that is damaged, or its partitions are old.

    A table with partitions stays as it is until then: LanceDB takes more than twice as long to search one of which rows
    were replaced.
    """
    current = latest_manifest(build)
    before = current.vectors.get(kind.name) if current is not None else None
    table, store = before.table if before is not None else kind.table, open_vector_store(build.folder)
    # a table of the current version was looked at when the run began
    if kind.name not in build.distrusted and (before is not None or not store.find_damage(table)):
        try:
            if not is_partitioned:
                return store.sync(table, wanted, has_graph=has_graph)
            if before is not None and before.partitions is not None:
                positions = store.open(table, before.table_version).positions_of(wanted)
                changed = len(positions["changed"])
                if changed <= MOST_CHANGED * len(wanted.ids):
                    partitions = before.partitions.model_copy(update={"changed": changed})
                    return SyncedTable(table, before.table_version, 0, 0, partitions=partitions, positions=positions)
        except DamagedStoreError:
            pass  # a file that no list has yet; the new table needs none of the old ones
    return store.rebuild(kind.table, wanted, has_graph=has_graph, is_partitioned=is_partitioned)
