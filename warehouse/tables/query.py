"""SQL by people: a sandbox that reads one database and nothing else, with tables that are filled when they are read.

Both are needed: in its lock DuckDB still lets COPY replace the very file that is attached.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from polyhop.schemas.errors import ConfigurationError, StatementRejectedError
from polyhop.schemas.manifest import RunRecord, VectorRecord, reused_units
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import INDEX_RUNS, INDEX_STAGES, Column, Table, View, text_column
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import hold_version, read_manifest, read_runs
from polyhop.warehouse.index_reader import read_vectors
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import (
    CLOSED,
    comment_statements,
    literal,
    means_damage,
    quoted,
    show_no_progress,
    translated,
)

_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    **CLOSED,
    "enable_external_access": True,  # until the database is attached
    "temp_directory": "",  # no query writes to the disk: DuckDB could read what it writes there
    "max_temp_directory_size": "0KB",
}
SQL_MEMORY_MB: int = Settings.model_fields["sql_memory_mb"].default  # where there are no settings
TOO_MUCH_MEMORY = "The query takes more memory than sql_memory_mb allows; select less data, or raise the setting."
_EXPLAIN = re.compile(
    r"\s*EXPLAIN(?:\s+ANALYZE)?(?:\s*\((?:ANALYZE|FORMAT)\b[\w\s,]*\))?(?P<explained>.*)", re.IGNORECASE | re.DOTALL
)
_TEMPORAL = re.compile(r"date|time|interval")  # of Arrow's names of types, nested ones included
_PRAGMA = re.compile(
    r"\s*PRAGMA\s+(collations|database_list|database_size|functions|show_tables|show_tables_expanded|storage_info|"
    r"table_info|version)\b",
    re.IGNORECASE,
)


@contextmanager
def sandbox(
    path: Path,
    tables: Sequence[tuple[Table, pa.Table]],
    folders: Sequence[str | Path],
    memory_mb: int = SQL_MEMORY_MB,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked connection to a published database, whose tables are found without a prefix.

    Further `tables`, each with its description and its rows, come before the file's of the same name; files in
    `folders` may be read. Statements take at most `memory_mb` of what DuckDB counts.
    """
    allowed = []
    for folder in folders:
        allowed.append(str(Path(folder).expanduser().resolve()))
        if not Path(allowed[-1]).is_dir():
            raise ConfigurationError(f"{folder} is not a folder; --allow-files takes the folder of the files to read.")
    database = quoted(path.stem)
    # A separate database in memory: settings hold for all connections to a database, and the index may be open.
    with duckdb.connect(":memory:", config=_CONFIGURATION | {"memory_limit": f"{memory_mb}MB"}) as connection:
        with translated(path):
            connection.execute(f"ATTACH {literal(str(path))} AS {database} (READ_ONLY)")
        # Folders must be named before the access ends, and it ends before anything of the file is read.
        connection.execute("SET allowed_directories = $folders", {"folders": allowed})
        connection.execute("SET enable_external_access = false")
        connection.execute(f"USE {database}")
        # Gives the table of mentions its column passage_id in versions published before it had one.
        columns = {row[0] for row in connection.execute(statement("read", "mentions_columns")).fetchall()}
        if columns and "passage_id" not in columns:
            connection.execute(
                f"CREATE TEMP VIEW mentions AS SELECT *, unit_id AS passage_id FROM {database}.main.mentions"
            )
        show_no_progress(connection)
        for described, rows in tables:
            connection.register(described.name, rows)
            for comment in comment_statements(View(described.name, described.comment, described.columns), "temp.main."):
                connection.execute(comment)
        if not allowed:
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
        connection.execute("SET lock_configuration = true")
        yield connection


def run_query(
    connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool, most_rows: int | None = None
) -> pa.Table:
    """The rows of a query that only reads; no two columns have one name, and every value fits into Python.

    If the sandbox has folders (`may_read_files`), nothing may be left to DuckDB's refusal of all files.
    """
    with _refusals(may_read_files=may_read_files):
        relation = connection.sql(_checked(connection, query, may_read_files=may_read_files))
        if relation is not None and most_rows is not None:
            relation = relation.limit(most_rows)
        found: pa.Table = pa.table({}) if relation is None else relation.to_arrow_table()
        columns = [_readable(connection, column) for column in found.columns]
    # The second column `name` is `name_1`, as DuckDB itself names the columns of a subquery.
    names: dict[str, None] = {}
    for name in found.column_names:
        numbered = (f"{name}_{n}" if n else name for n in count())
        names[next(each for each in numbered if each not in names)] = None
    return pa.Table.from_arrays(columns, list(names))


def _readable(connection: duckdb.DuckDBPyConnection, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column, as text if Python has no such values (intervals, dates outside the years 1 to 9999)."""
    kind = str(column.type)
    if not _TEMPORAL.search(kind):
        return column
    try:
        if "interval" in kind:
            raise ValueError(kind)
        column.to_pylist()
    except (OverflowError, ValueError):
        texts = connection.from_arrow(pa.table({"value": column})).project("CAST(value AS VARCHAR) AS value")
        return texts.to_arrow_table().column("value")
    return column


def _checked(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> str:
    """The query without its semicolon, known to be one statement that reads."""
    if not query.isascii() and query.encode(errors="ignore").decode() != query:
        raise _refusal("it holds bytes that are not valid UTF-8")
    _require_one(connection, query)
    # The query up to its semicolon, so that a parenthesis can follow.
    content = query.encode()  # DuckDB counts bytes
    ends = (start for start, kind in duckdb.tokenize(query) if kind == duckdb.token_type.operator)
    asked = content[: next((start for start in ends if content[start : start + 1] == b";"), None)].decode()
    _require_reading(connection, asked, may_read_files=may_read_files)
    return asked


@contextmanager
def _refusals(*, may_read_files: bool) -> Iterator[None]:
    """Turns what DuckDB says of a query inside the block into one sentence."""
    try:
        yield
    except duckdb.PermissionException as error:
        if may_read_files:
            reason = f"SQL on an index reads its tables and files below the allowed folders only: {_words(error)}."
            raise StatementRejectedError(reason) from error
        raise StatementRejectedError(
            "SQL on an index reads its tables only, no files and nothing from the network; to read your own files "
            "below a folder, add --allow-files DIR (in Python allow_files=)."
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise StatementRejectedError(TOO_MUCH_MEMORY) from error
    except duckdb.Error as error:
        if means_damage(error):
            raise  # the caller knows the file, and says what fixes it
        raise StatementRejectedError(f"DuckDB refused the query: {_words(error)}.") from error


def _require_one(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise _refusal(f"{len(statements)} statements are refused" if statements else "there is no statement")
    return statements[0]


def _require_reading(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> None:
    try:
        kind = str(_require_one(connection, query).type.name)
    except ValueError:  # a kind that DuckDB's parser knows and its Python module does not
        kind = "this"
    if kind == "MULTI" and not may_read_files:  # PIVOT that finds its columns itself
        return
    explain = _EXPLAIN.fullmatch(query)
    if kind == "EXPLAIN" and explain is not None:
        _require_reading(connection, explain["explained"], may_read_files=may_read_files)
    elif kind == "SELECT":
        # WITH x AS (COPY …) counts as SELECT. Where a table stands, DuckDB accepts nothing that writes; this binds it.
        connection.sql(f"FROM ({query}\n)")
    elif not (kind == "PRAGMA" and _PRAGMA.match(query)):
        raise _refusal(f"{kind} is refused")


def _refusal(what: str) -> StatementRejectedError:
    return StatementRejectedError(
        f"SQL on an index is read-only: {what}; it takes one SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, "
        "PIVOT or EXPLAIN."
    )


def _words(error: duckdb.Error) -> str:
    """Message and suggestion of DuckDB on one line, without the excerpt of the query."""
    text = re.split(r"\n\s*\n?LINE \d+:", str(error), maxsplit=1)[0]
    return " ".join(text.split()).rstrip(".")


_CATALOG = re.compile(r"\b(duckdb_\w+|information_schema|show|pg_catalog|sqlite_master)\b", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*'")
_EQUALITY = re.compile(r"\((\w+) = (\d+)\)")
_SCAN = "PYTHON_ARROW_SCAN"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Part of a table that a query needs; DuckDB applies its conditions again, so it may be more than needed."""

    columns: frozenset[str] | None = None  # Names of the columns; None: all.
    keys: frozenset[int] | None = None  # Values of the table's first key column; None: all.

    def wants(self, *columns: str) -> bool:
        """Returns whether any of these columns is needed."""
        return self.columns is None or not self.columns.isdisjoint(columns)


@dataclass(frozen=True, slots=True)
class LazyTable:
    """A table and how it is read; of a large one `read` may leave what is not wanted empty."""

    described: Table
    read: Callable[[Wanted], pa.Table]
    is_large: bool = False  # Whether planning the query first is worth it.

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self.described.name

    @property
    def without_rows(self) -> pa.Table:
        """The table, empty."""
        return self.described.arrow.empty_table()

    def is_named_in(self, query: str) -> bool:
        """Returns whether a query may read it; its name in a comment or a string counts."""
        return re.search(rf"\b{re.escape(self.name)}\b", query, re.IGNORECASE) is not None


def shown_in(tables: Sequence[LazyTable], query: str) -> Sequence[LazyTable]:
    """Those that a query may read or list."""
    return tables if _CATALOG.search(query) else [table for table in tables if table.is_named_in(query)]


def wanted(connection: duckdb.DuckDBPyConnection, query: str, tables: Sequence[LazyTable]) -> Wanted:
    """Part of large tables (registered without rows) that a reading query needs, by DuckDB's plan of it.

    All columns that any of them is asked for, and values of the first column of the key, which is the same in all, if
    every reading of them is limited to some.
    """
    key, names = tables[0].described.key[0], {name for table in tables for name in table.described.column_names}
    try:
        ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
        scans = [scan for root in json.loads(plan) for scan in _scans(root, "")]
    except (duckdb.Error, ValueError, KeyError, TypeError):  # PIVOT, EXPLAIN of EXPLAIN: no plan of one statement
        return Wanted()
    columns: set[str] = set()
    keys: set[int] | None = set()
    for projected, condition in scans:
        read = {projected} if isinstance(projected, str) else set(projected)
        if not read <= names:
            continue  # of another table
        columns |= read
        limited = _limits(condition, key)
        keys = None if keys is None or limited is None else keys | limited
    return Wanted(frozenset(columns), frozenset(keys) if keys else None)


_Reading = tuple[str | list[str], str]
"""Columns of a reading of a registered table, and the condition directly above it."""


def _scans(node: dict[str, object], condition: str) -> Iterator[_Reading]:
    """The readings of registered tables in a part of a plan, below a condition."""
    information = node["extra_info"]
    shown = information if isinstance(information, dict) else {}
    if node["name"] == _SCAN:
        yield shown.get("Projections", []), condition
    children = node["children"]
    above = str(shown.get("Expression", "")) if node["name"] == "FILTER" else ""
    for child in children if isinstance(children, list) else []:
        yield from _scans(child, above)


def _limits(condition: str, key: str) -> set[int] | None:
    """Values to which a condition limits a column: `(key = 3)`, or that or alternatives of it joined to others by AND.

    None if it does not, or if it is written in another way.
    """
    bare = _STRING.sub("''", condition)
    for conjunct in [bare, *_parts(bare, " AND ")]:
        found = [_EQUALITY.fullmatch(part) for part in [*_parts(conjunct, " OR ")] or [conjunct]]
        if found and all(match is not None and match[1] == key for match in found):
            return {int(match[2]) for match in found if match is not None}
    return None


def _parts(expression: str, operator: str) -> list[str]:
    """The operands of `(a OPERATOR b OPERATOR c)`; none if the expression is no such thing."""
    if not (expression.startswith("(") and expression.endswith(")")):
        return []
    inner, depth, parts, start = expression[1:-1], 0, [], 0
    for position, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return []
        if depth == 0 and inner.startswith(operator, position):
            parts.append(inner[start:position])
            start = position + len(operator)
    return [*parts, inner[start:]] if parts else []


_SUMS = ("computed", "calls", "prompt_tokens", "completion_tokens", "cost_usd")


def history_tables(index: IndexFolder) -> list[LazyTable]:
    """The two tables of an index."""

    def runs(_: Wanted) -> pa.Table:
        return pa.Table.from_pylist([_run_row(run) for run in read_runs(index)], schema=INDEX_RUNS.arrow)

    def stages(_: Wanted) -> pa.Table:
        rows = [
            {**stage.model_dump(), "run": run.run, "stage": name, "reused": stage.units - stage.computed}
            for run in read_runs(index)
            for name, stage in run.stages.items()
        ]
        return pa.Table.from_pylist(rows, schema=INDEX_STAGES.arrow)

    return [LazyTable(INDEX_RUNS, runs), LazyTable(INDEX_STAGES, stages)]


def _run_row(run: RunRecord) -> dict[str, Any]:
    by = run.started_by
    return {
        **run.model_dump(include={"run", "seconds", "outcome", "sentence", "version", "cached", "source", "polyhop"}),
        **{name: run.total(name) for name in _SUMS},
        "reused": reused_units(run.stages),
        "started": datetime.fromisoformat(run.started),
        "seconds_json": json.dumps({name: stage.seconds for name, stage in run.stages.items()}),
        "counts_json": json.dumps(run.counts),
        "peak_memory_mb": run.peak_memory_mb,
        "started_by": f"{by.user}@{by.host}",
        "process": by.process,
        "flow_run_id": by.flow_run_id,
        "flow_run_url": by.flow_run_url,
    }


TABLES_QUERY = """SELECT table_name AS name, 'table' AS kind, comment FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"""
"""Lists all tables and views that a query finds, with what they hold."""
COLUMNS_QUERY = """WITH named AS (
    SELECT table_name, column_index, column_name, data_type, comment, CASE
        WHEN table_name = 'relations' AND column_name IN ('source_id', 'target_id') THEN 'entity_id'
        WHEN table_name = 'entities' AND column_name = 'key' THEN 'entity_key'
        WHEN ends_with(column_name, '_id') OR column_name = 'entity_key' THEN column_name
    END AS meaning
    FROM duckdb_columns() WHERE NOT internal
)
SELECT table_name AS "table", column_name AS "column", data_type AS type, comment, coalesce((
    SELECT string_agg(other.table_name || '.' || other.column_name, ', ' ORDER BY other.table_name, other.column_name)
    FROM named AS other WHERE other.meaning = named.meaning AND other.table_name <> named.table_name
), '') AS joins_with
FROM named ORDER BY table_name, column_index"""
"""Lists the columns of all tables and views with what they hold and with which columns they join."""


def query_rows(
    layout: Layout,
    name: str,
    query: str,
    version: int | None = None,
    extra: Sequence[LazyTable] = (),
    allow_files: Sequence[str | Path] = (),
    most_rows: int | None = None,
    memory_mb: int = SQL_MEMORY_MB,
) -> pa.Table:
    """The result of one query on a version's tables; it reads those, `extra` and what `allow_files` names, and no more.

    Vectors, the run history and `extra` (further tables) are read only if the query names them; `allow_files` are
    folders whose files may be read. Rows beyond `most_rows` are left out; DuckDB takes at most `memory_mb`.
    """
    with hold_version(layout, name, version) as held:
        index, vectors = layout.index(name), read_manifest(held.folder).vectors
        of_vectors = (_vector_table(index, held.folder, kind, vectors[kind]) for kind in vectors)
        lazy = [*history_tables(index), *of_vectors, *extra]
        shown, path = shown_in(lazy, query), held.folder.tables
        large = [table for table in shown if table.is_large and table.is_named_in(query)]
        asked = Wanted()
        with translated(path):
            if large:  # the query is planned first, in a separate sandbox, on tables without rows
                empty = [(table.described, table.without_rows) for table in shown]
                with sandbox(path, empty, allow_files, memory_mb) as connection:
                    with _refusals(may_read_files=bool(allow_files)):
                        checked = _checked(connection, query, may_read_files=bool(allow_files))
                    asked = wanted(connection, checked, large)
            rows = [(t.described, t.read(asked) if t.is_named_in(query) else t.without_rows) for t in shown]
            with sandbox(path, rows, allow_files, memory_mb) as connection:
                return run_query(connection, query, may_read_files=bool(allow_files), most_rows=most_rows)


def _vector_table(index: IndexFolder, folder: VersionFolder, kind: str, record: VectorRecord) -> LazyTable:
    described = Table(
        f"{kind}_vectors",
        f"Vectors of kind '{kind}', {record.dimension} numbers each, by {record.model}.",
        ("id",),
        (
            text_column("id", "id of the embedded row"),
            Column("vector", pa.list_(pa.float32(), record.dimension), "the vector"),
        ),
    )

    def read(_: Wanted) -> pa.Table:
        return read_vectors(index, folder, kind)

    return LazyTable(described, read)
