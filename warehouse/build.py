"""A version being built: its tables, lists and kept records, which stage results can be taken over, and updates."""

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from polyhop.schemas.errors import InvariantError, ManifestMismatchError
from polyhop.schemas.manifest import Manifest, TableRecord
from polyhop.schemas.records import Source, SourceKind, SourceRecord, sections_of
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import QUARANTINE, TABLE_OF, TABLES, Table, text_column
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.disk import link_or_copy, replacing, write_whole, writing
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import (
    current_version,
    latest_version,
    pinned_version,
    read_manifest,
    require_version,
)
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import (
    attached,
    connect,
    create_statement,
    literal,
    quoted,
    rows_record,
    updated_record,
)


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.Table]) -> None:
    """Writes the list, whole or not at all; each table becomes a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="lz4") as writer:
        for table in batches:
            writer.write_table(table, row_group_size=max(1, len(table)))


def batch_count(path: Path) -> int:
    """Number of batches of the list."""
    return int(pq.read_metadata(path).num_row_groups)


def row_count(path: Path) -> int:
    """Number of rows of the list."""
    return int(pq.read_metadata(path).num_rows)


def read_batch(path: Path, batch: int) -> pa.Table:
    """The rows of one batch."""
    with pq.ParquetFile(path) as file:
        return file.read_row_group(batch)


# The records that a version keeps of each of its sources, so that the next run need not read all of them. Two files per
# source under `graph/`: what was accepted, in the order of ids, and what was refused. Their bytes depend on the records
# alone, not on the runs that brought them.

PREFIX = "records"
RECORDS = Table(
    "records",
    "Records of one source, as it gave them.",
    ("record_id",),
    (
        text_column("record_id", "id of the record in the source, or made of its title and text"),
        text_column("title", "its title"),
        text_column("text", "its whole text"),
        text_column("source", "file"),
        text_column("metadata_json", "its metadata, as JSON with sorted keys"),
        text_column("origin", "name of the source"),
        text_column("sections_json", "its sections, as JSON; empty if it has none"),
    ),
)
WITHOUT_SECTIONS = pa.schema([field for field in RECORDS.arrow if field.name != "sections_json"])
"""The columns of a file of records of which none has sections: it is what it was before there were any."""

REFUSED = pa.schema([field.with_nullable(False) for field in QUARANTINE.arrow])  # noqa: FBT003
"""The columns of refused records: with their lines."""

LINE_NOT_KNOWN = -1  # the line of a record that was kept: its file was not read

_ROW_GROUP = 20_000  # rows: a batch of documents reads one or two groups


@dataclass(frozen=True, slots=True)
class KeptSource:
    """A source whose records a run takes from the current version: its name and its two files."""

    name: str
    records: Path
    refused: Path


def kept_files(name: str) -> tuple[str, str]:
    """Names of the two files of a source: accepted and refused records."""
    return f"{PREFIX}_of-{name}.parquet", f"{PREFIX}_refused-{name}.parquet"


def read_kept(source: KeptSource) -> Iterator[SourceRecord]:
    """The records of a source in the order of ids; memory does not grow with their number."""
    with pq.ParquetFile(source.records) as file:
        for batch in file.iter_batches(batch_size=1_000):
            for row in batch.to_pylist():
                metadata = json.loads(row["metadata_json"])
                sections = sections_of(row.get("sections_json", ""))
                yield SourceRecord(
                    row["record_id"], row["title"], row["text"], row["source"], LINE_NOT_KNOWN, metadata, sections
                )


def write_rows(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes rows to one parquet file whose bytes do not depend on how many rows each batch holds."""
    left = schema.empty_table()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            left = pa.concat_tables([left, pa.Table.from_batches([batch]).cast(schema)])
            while len(left) >= _ROW_GROUP:
                writer.write_table(left.slice(0, _ROW_GROUP).combine_chunks())
                left = left.slice(_ROW_GROUP)
        if len(left):
            writer.write_table(left.combine_chunks())


@dataclass(frozen=True, slots=True)
class Earlier:
    """Files that stages may copy from the current version."""

    version: int
    arrays: frozenset[str]  # Names of its files under `graph/` that are as they were published.
    tables: frozenset[str] = frozenset()  # Names of its tables that are.
    # Stage name to what determined its result besides what it read.
    recipes: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, TableRecord] = field(default_factory=dict)  # Rows and checksum of its tables.
    # How many rows of a table stand at its end, not in order.
    appended: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # Stage name to what it counted.


@dataclass(frozen=True, slots=True)
class Build:
    """Inputs of every stage: plain values only, so that it can travel to another process."""

    settings: Settings
    index: str
    source: Source | None  # The corpus or graph, or None to take the current version's.
    artefacts: tuple[str, ...]  # What strategies need ("graph", "lexical:stems", "vectors:passage"…).
    source_kind: SourceKind = "corpus"
    fingerprints: tuple[tuple[str, str], ...] = ()  # Stage name to fingerprint, of the stages up to the present one.
    # Stage name to hash of its result, of the finished stages whose fingerprint does not determine it.
    outcomes: tuple[tuple[str, str], ...] = ()
    # What the finished stages wrote: artefact, the name under which it enters the fingerprints of later stages, and the
    # hash of what determines it.
    results: tuple[tuple[str, str, str], ...] = ()
    # Stage name to what it counted, of the finished stages.
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    distrusted: tuple[str, ...] = ()  # Kinds of vectors whose published tables are not built on.
    # The current version, as far as it may be copied from; None in a first run and in one that is `--full`.
    earlier: Earlier | None = None
    # A file of texts for the nodes of the graph that is the source, None if there is none.
    graph_sources: Path | None = None
    source_name: str = "corpus"  # Which of the index's sources the source is.
    is_partial: bool = False  # Whether the source only adds and changes: records that it does not mention stay.
    # Sources whose records are taken from the current version: all others, and in a partial run this one, too; where a
    # source is removed, all but that one.
    kept: tuple[KeptSource, ...] = ()

    @property
    def reads_kept_only(self) -> bool:
        """Returns whether nothing is read because a source is removed: all records are kept ones of other sources."""
        return self.source is None and bool(self.kept)

    @property
    def layout(self) -> Layout:
        """Paths under the root."""
        return Layout(self.settings.root)

    @property
    def folder(self) -> IndexFolder:
        """The index's folder."""
        return self.layout.index(self.index)

    @property
    def staging(self) -> VersionFolder:
        """The folder that will become the version."""
        return VersionFolder(self.folder.staging / "version")

    @property
    def updates(self) -> Path:
        """Folder of what is known of tables that began as those of the version before."""
        return self.folder.staging / "updates"

    def fingerprint(self, stage: str) -> str:
        """Fingerprint of a stage that has been reached."""
        return dict(self.fingerprints)[stage]

    def with_fingerprint(self, stage: str, fingerprint: str) -> "Build":
        """The same build, one stage further."""
        return replace(self, fingerprints=(*self.fingerprints, (stage, fingerprint)))

    def outcome(self, stage: str) -> str:
        """Hash of a finished stage's result, or of its inputs, for the fingerprints of later stages."""
        return dict(self.outcomes).get(stage) or self.fingerprint(stage)

    def with_outcome(self, stage: str, outcome: str) -> "Build":
        """The same build, with the result of a stage known."""
        return replace(self, outcomes=(*self.outcomes, (stage, outcome))) if outcome else self

    def with_results(self, results: Iterable[tuple[str, str, str]]) -> "Build":
        """The same build, with the results of a stage known."""
        return replace(self, results=(*self.results, *results))

    def with_counts(self, stage: str, counts: Mapping[str, int]) -> "Build":
        """The same build, with what a stage counted."""
        return replace(self, counts={**self.counts, stage: counts})

    def hashes(self, artefacts: Iterable[str]) -> dict[str, str]:
        """Hashes that determine these artefacts, by the names under which they enter fingerprints."""
        known = {artefact: (key, value) for artefact, key, value in self.results}
        return dict(known[artefact] for artefact in artefacts)

    def parts(self, stage: str) -> Path:
        """Folder of a stage's finished batches; its name holds what they depend on, so old parts are never mistaken."""
        return self.folder.staging / "parts" / f"{stage}-{self.fingerprint(stage)[:16]}-{self.settings.batch_size}"

    def with_earlier(self, manifest: Manifest, damaged: Collection[str], damaged_tables: Collection[str]) -> "Build":
        """The same build, which may copy from the current version all but the damaged files and tables."""
        arrays, tables = frozenset(manifest.arrays), frozenset(manifest.tables)
        recipes = {name: record.recipe for name, record in manifest.stages.items()}
        undamaged = arrays.difference(damaged), tables.difference(damaged_tables)
        counts = {name: record.counts for name, record in manifest.stages.items()}
        records, appended = manifest.tables, manifest.appended
        return replace(self, earlier=Earlier(manifest.version, *undamaged, recipes, records, appended, counts))

    def earlier_tables(self, stage: str, recipe: str, names: Iterable[str]) -> Path | None:
        """The current version's file of tables, if a stage filled these in the same way and they are undamaged."""
        earlier = self.earlier
        if earlier is None or earlier.recipes.get(stage) != recipe or not earlier.tables.issuperset(names):
            return None
        return self.folder.version(earlier.version).tables

    def earlier_files(self, *names: str) -> list[Path]:
        """Files under `graph/` of the current version; none unless all are there as they were published."""
        if self.earlier is None or not self.earlier.arrays.issuperset(names):
            return []
        return [self.folder.version(self.earlier.version).arrays / name for name in names]

    @contextmanager
    def tables(self, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """The staging tables."""
        counts = self.earlier.counts.get("resolve", {}) if self.earlier is not None else {}
        threads = int(counts.get("mentions", _FEW_MENTIONS) < _FEW_MENTIONS)  # 0: as many as cores
        limits = {"memory_mb": self.settings.memory_mb, "threads": threads}
        with connect(self.staging.tables, read_only=read_only, **limits) as connection:
            yield connection


_FEW_MENTIONS = 1_000_000
"""Of the version before; statements that look through fewer run on one thread, where a second only takes more.

Chosen: eight of DuckDB's row groups. Measured on edits: resolution takes 2.35 s of the processor for 3.06 with 350,000
mentions, in as much time; with 6.4 million twice the time, and no less of the processor.
"""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Files of a build in a store, in the order in which they are to appear: paths below the index's folder, sha256."""

    url: str
    folder: str  # In the store; of one run.
    files: tuple[tuple[str, str], ...]


def start_build(build: Build, tables: Iterable[Table] = TABLES, updated: Iterable[Table] = ()) -> None:
    """A staging version with these tables, empty but for `updated` ones; parts of an interrupted run stay.

    The latter begin as those of the version before: in a copy of its file, whose other tables go (decision 0024).
    """
    updated, earlier = list(updated), build.earlier or Earlier(0, frozenset())
    with writing("the staging folder", build.folder.staging):
        for folder in (build.staging.path, build.updates):
            shutil.rmtree(folder, ignore_errors=True)
        build.staging.arrays.mkdir(parents=True)
        if updated:
            shutil.copyfile(build.folder.version(earlier.version).tables, build.staging.tables)
    with build.tables() as connection:
        for (view,) in connection.execute(statement("updates", "views")).fetchall():
            connection.execute(f"DROP VIEW {quoted(view)}")
        kept = {table.name for table in updated}
        for (name,) in connection.execute(statement("updates", "tables")).fetchall():
            if name not in kept:
                connection.execute(f"DROP TABLE {quoted(name)}")
        connection.execute("CHECKPOINT")  # what comes takes the room of what went
        for table in tables:
            if table.name not in kept:
                connection.execute(create_statement(table))
    for table in updated:
        _write_note(build, table, _as_before(earlier, table))


def clear_staging(build: Build) -> None:
    """Removes everything that a finished run leaves in staging."""
    shutil.rmtree(build.folder.staging, ignore_errors=True)


def latest_manifest(build: Build) -> Manifest | None:
    """Manifest of the version that a run derives from, or None if there is none to build on.

    A version that is damaged, or that another Polyhop wrote in another form, cannot be built on, but a source
    replaces it.

    Raises:
        ManifestMismatchError: If it cannot be understood and there is no source to build from instead.
    """
    try:
        if current_version(build.folder) is None:
            return None
        newest = None if pinned_version(build.folder) is None else latest_version(build.folder)
        return read_manifest(require_version(build.layout, build.index, newest)[1])
    except ManifestMismatchError:
        if build.source is None:
            raise
        return None


def reuse_tables(
    build: Build, manifest: Manifest, tables: Iterable[Table], rows: Iterable[tuple[str, str, str]] = ()
) -> None:
    """Takes tables, and (table, column, value) rows of shared tables, over from the current version.

    Tables that began as its own, and of which no row changed, stay.
    """
    begun = updated_tables(build)
    tables, rows = [table for table in tables if table.name not in begun], list(rows)
    if not tables and not rows:
        return  # the file may be damaged, and is not needed
    published = build.folder.version(manifest.version)
    with build.tables() as connection, attached(connection, published.tables, "published"):
        for table in tables:
            order = ", ".join(map(quoted, table.key))
            connection.execute(f"{_insertion(table)} ORDER BY {order}")
        for name, column, value in rows:
            connection.execute(f"{_insertion(TABLE_OF[name])} WHERE {quoted(column)} = $value", {"value": value})


def _insertion(table: Table) -> str:
    stored = ", ".join(f"'{column}'" for column in table.column_names)  # derived columns take no values
    columns = f"COLUMNS(lambda name: name IN ({stored}))"
    return f"INSERT INTO {quoted(table.name)} BY NAME SELECT {columns} FROM published.{quoted(table.name)}"


def reuse_arrays(build: Build, manifest: Manifest, prefix: str) -> None:
    """Takes the arrays `<prefix>_…` over from the current version."""
    published = build.folder.version(manifest.version)
    with writing("arrays", build.staging.arrays):
        for name in sorted(manifest.arrays):
            if prefix and name.startswith(f"{prefix}_"):
                link_or_copy(published.arrays / name, build.staging.arrays / name)


def write_part(folder: Path, number: int, tables: dict[str, pa.Table], *, is_complete: bool = True) -> None:
    """Writes one finished batch; its marker appears last, so that a killed batch is done again.

    One that is not complete, in which something failed, counts, but an interrupted run does it again.
    """
    with writing("a finished batch", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            temporary = folder / f".{name}-{number:06d}.{token_hex(4)}.tmp"  # two processes may do one batch at once
            pq.write_table(table, temporary, compression="lz4")  # read once, and soon removed
            temporary.replace(part_file(folder, name, number))
        if is_complete:
            write_whole(folder / f"{number:06d}.done", json.dumps({n: t.num_rows for n, t in tables.items()}).encode())


def part_file(folder: Path, name: str, number: int) -> Path:
    """The parquet file of one table of one batch."""
    return folder / f"{name}-{number:06d}.parquet"


def part_files(folder: Path, name: str) -> list[str]:
    """All parts of one table, in batch order."""
    return [str(path) for path in sorted(folder.glob(f"{name}-*.parquet"))]


def is_part_done(folder: Path, number: int) -> bool:
    """Returns whether this batch was finished, by this run or an interrupted one."""
    return (folder / f"{number:06d}.done").exists()


def chain_fingerprint(stage: str, revision: int, inputs: dict[str, str], settings: dict[str, object]) -> str:
    """sha256 of everything that determines a stage's result."""
    return content_hash(stage, str(revision), json.dumps([inputs, settings], sort_keys=True, default=str))


MOST_APPENDED = 0.1  # share of rows out of order above which a table is written whole; chosen: some ten edits of 1 %


class UpdatedTable(BaseModel):
    """Rows and checksum of a table after an update, and how many of its rows stand at its end, not in order."""

    record: TableRecord
    appended: int


def insert_sorted(connection: duckdb.DuckDBPyConnection, table: Table, rows: str) -> None:
    """Adds rows to a table, in the order of its key."""
    key = ", ".join(str(table.column_names.index(column) + 1) for column in table.key)
    connection.execute(f"INSERT INTO {quoted(table.name)} ({_stored(table)}) {_bare(rows)} ORDER BY {key}")


def clear_tables(build: Build, connection: duckdb.DuckDBPyConnection, tables: Iterable[Table]) -> None:
    """Makes staged tables empty, for a stage that derives all of their rows."""
    for table in tables:
        connection.execute(create_statement(table))
        forget_update(build, table)


def forget_update(build: Build, table: Table) -> None:
    """Forgets what is known of the rows of a staged table, which change otherwise than by `replace_rows`."""
    _note(build, table.name).unlink(missing_ok=True)


def replace_rows(build: Build, connection: duckdb.DuckDBPyConnection, table: Table, rows: str, outdated: str) -> None:
    """Replaces rows of a table that began as that of the version before; notes its rows, checksum and touched ids.

    `rows` is a SELECT of its stored columns: those that replace the rows that the condition `outdated` is
    true of. The condition is about the key, so that a row with the key of one that it is true of is outdated as well.
    Cost: O(rows) to look through, O(rows that differ) to write.
    """
    stored, name, key, same = _stored(table), quoted(table.name), ", ".join(map(quoted, table.key)), []
    for column in table.columns:
        value = quoted(column.name) + ("::VARCHAR" if pa.types.is_floating(column.type) else "")  # 0.0 = -0.0
        same.append(f"o.{value} {'IS NOT DISTINCT FROM' if column.nullable else '='} n.{value}")
    # What comes has the columns of the table; what goes, also its rowid there.
    connection.execute(create_statement(replace(table, name="new_rows")).replace("TABLE", "TEMP TABLE", 1))
    connection.execute(f"INSERT INTO new_rows ({stored}) {_bare(rows)}")
    old_rows = f"SELECT rowid AS old_rowid, * FROM {name} WHERE {outdated}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE old_rows AS {old_rows}")
    others = f"SELECT count(*) FROM {name} SEMI JOIN (FROM new_rows WHERE ({outdated}) IS NOT TRUE) USING ({key})"
    twice = f"SELECT count(*) - count(DISTINCT ({key})) FROM new_rows"
    (surplus,) = connection.execute(f"SELECT ({others}) + ({twice})").fetchone() or (0,)
    if surplus:
        raise InvariantError(f"Not published: table '{table.name}' would have {surplus} rows with a used key.")
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE differing_rows AS SELECT o.old_rowid AS gone, n.rowid AS come "
        f"FROM old_rows AS o FULL JOIN new_rows AS n ON {' AND '.join(same)} "
        "WHERE o.old_rowid IS NULL OR n.rowid IS NULL"
    )
    gone, come = (f"IN (SELECT {which} FROM differing_rows)" for which in ("gone", "come"))
    went, came = (
        f"SELECT * EXCLUDE (old_rowid) FROM old_rows WHERE old_rowid {gone}",
        f"FROM new_rows WHERE rowid {come}",
    )
    removed, added = rows_record(connection, went), rows_record(connection, came)
    if ids := _ids(table):
        columns = ", ".join(map(literal, ids))
        touched = (
            f"SELECT unnest([{', '.join(ids)}]) AS id, unnest([{columns}]) AS column_name "
            f"FROM ({went} UNION ALL {came})"
        )
        file = build.updates / f"{table.name}-{token_hex(4)}.parquet"
        connection.execute(f"COPY ({touched}) TO {literal(str(file))}")
    before = UpdatedTable.model_validate_json(_note(build, table.name).read_bytes())
    forget_update(build, table)  # until the rows are as it will say
    connection.execute(f"DELETE FROM {name} WHERE rowid {gone}")
    connection.execute(f"INSERT INTO {name} ({stored}) SELECT {stored} FROM new_rows WHERE rowid {come} ORDER BY {key}")
    record, appended = updated_record(before.record, removed, added), before.appended + added.rows
    if appended > MOST_APPENDED * record.rows:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE all_rows AS SELECT {stored} FROM {name}")
        connection.execute(create_statement(table))
        insert_sorted(connection, table, f"SELECT {stored} FROM all_rows")
        connection.execute("DROP TABLE all_rows")
        appended = 0
    _write_note(build, table, UpdatedTable(record=record, appended=appended))


def updated_tables(build: Build) -> dict[str, UpdatedTable]:
    """Updates of the staged tables that began as those of the previous version."""
    return {file.stem: UpdatedTable.model_validate_json(file.read_bytes()) for file in build.updates.glob("*.json")}


def touched_ids(build: Build, tables: Iterable[Table]) -> list[str]:
    """Files of the ids in rows of these tables that came or went; none if that is not known of all tables with ids."""
    known = updated_tables(build)
    is_known = all(table.name in known for table in tables if _ids(table))
    return sorted(map(str, build.updates.glob("*.parquet"))) if is_known else []


def _ids(table: Table) -> list[str]:
    return [column for column in table.column_names if column.endswith("_id")]


def _as_before(earlier: Earlier, table: Table) -> UpdatedTable:
    return UpdatedTable(record=earlier.records[table.name], appended=earlier.appended.get(table.name, 0))


def are_as_before(build: Build, tables: Iterable[Table]) -> bool:
    """Returns whether these staged tables began as those of the previous version, without a changed row."""
    known, earlier = updated_tables(build), build.earlier
    return earlier is not None and all(known.get(table.name) == _as_before(earlier, table) for table in tables)


def _write_note(build: Build, table: Table, known: UpdatedTable) -> None:
    with writing("what was updated", build.updates):
        build.updates.mkdir(parents=True, exist_ok=True)
        _note(build, table.name).write_text(known.model_dump_json())  # a run that was killed begins them again


def _note(build: Build, table: str) -> Path:
    return build.updates / f"{table}.json"


def _stored(table: Table) -> str:
    return ", ".join(map(quoted, table.column_names))


def _bare(rows: str) -> str:
    """A SELECT of which a statement can be made."""
    return f"SELECT * FROM ({rows.strip().removesuffix(';')})"
