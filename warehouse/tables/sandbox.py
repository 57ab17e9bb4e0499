"""A connection in which SQL by people reads one database and nothing else.

Writes nothing and lets nothing write: DuckDB is locked by its own settings first, then each query is checked to be one
that reads. Both are needed: in its lock DuckDB still lets COPY replace the very file that is attached.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.columns import Table, View
from polyhop.schemas.errors import ConfigurationError, StatementRejectedError
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import literal, quoted, show_no_progress, tells_damage, translated
from polyhop.warehouse.tables.definitions import comment_statements

_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # else FROM reads the variables of the Python program
    "temp_directory": "",  # no spilling to disk; the limit of memory is DuckDB's own, 80 % of the machine's
}
_EXPLAIN = re.compile(
    r"\s*EXPLAIN(?:\s+ANALYZE)?(?:\s*\((?:ANALYZE|FORMAT)\b[\w\s,]*\))?(?P<explained>.*)", re.IGNORECASE | re.DOTALL
)
_TEMPORAL = re.compile(r"date|time")  # of Arrow's names of types, nested ones included
_PRAGMA = re.compile(
    r"\s*PRAGMA\s+(collations|database_list|database_size|functions|show_tables|show_tables_expanded|storage_info|"
    r"table_info|version)\b",
    re.IGNORECASE,
)


@contextmanager
def sandbox(
    path: Path, tables: Sequence[tuple[Table, pa.Table]], folders: Sequence[str | Path]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked connection to a published database.

    Args:
        path: The file; its tables are found without a prefix.
        tables: Further tables, each with its description and its rows; they come before the file's of the same name.
        folders: Folders whose files may be read.

    Raises:
        ConfigurationError: If one of the folders does not exist.
        DamagedStoreError: If the file is missing, or is not as DuckDB wrote it.
        StoreUnavailableError: If it cannot be opened.
    """
    allowed = [_folder(folder) for folder in folders]
    database = quoted(path.stem)
    # A database of its own in memory: settings hold for all connections to a database, and the index may be open.
    with duckdb.connect(":memory:", config=_CONFIGURATION) as connection:
        with translated(path):
            connection.execute(f"ATTACH {literal(str(path))} AS {database} (READ_ONLY)")
        connection.execute(f"USE {database}")
        _name_passages(connection, database)
        show_no_progress(connection)
        for described, rows in tables:
            connection.register(described.name, rows)
            for comment in comment_statements(View(described.name, described.comment, described.columns), "temp.main."):
                connection.execute(comment)
        # Folders must be named before the access ends, and the lock comes last: it locks these settings, too.
        connection.execute("SET allowed_directories = $folders", {"folders": allowed})
        connection.execute("SET enable_external_access = false")
        if not allowed:
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
        connection.execute("SET lock_configuration = true")
        yield connection


def _name_passages(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Gives the table of mentions its column passage_id in versions published before it had one."""
    columns = {row[0] for row in connection.execute(statement("read", "mentions_columns")).fetchall()}
    if columns and "passage_id" not in columns:
        connection.execute(
            f"CREATE TEMP VIEW mentions AS SELECT *, unit_id AS passage_id FROM {database}.main.mentions"
        )


def _folder(folder: str | Path) -> str:
    resolved = Path(folder).expanduser().resolve()
    if not resolved.is_dir():
        raise ConfigurationError(f"{folder} is not a folder; --allow-files takes the folder of the files to read.")
    return str(resolved)


def run_query(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> pa.Table:
    """The rows of a query that only reads; no two columns have one name, and every value fits into Python.

    Args:
        connection: A sandbox.
        query: One statement.
        may_read_files: Whether the sandbox has folders; then nothing may be left to DuckDB's refusal of all files.

    Raises:
        StatementRejectedError: If the query does anything but read, or DuckDB refuses it.
    """
    with _refusals(may_read_files=may_read_files):
        relation = connection.sql(_checked(connection, query, may_read_files=may_read_files))
        found: pa.Table = pa.table({}) if relation is None else relation.to_arrow_table()
        columns = [_readable(connection, column) for column in found.columns]
    return pa.Table.from_arrays(columns, _distinct(found.column_names))


def _readable(connection: duckdb.DuckDBPyConnection, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column; as text if it holds what Python cannot (dates outside the years 1 to 9999, nanoseconds)."""
    if not _TEMPORAL.search(str(column.type)):
        return column
    try:
        column.to_pylist()
    except (OverflowError, ValueError):
        texts = connection.from_arrow(pa.table({"value": column})).project("CAST(value AS VARCHAR) AS value")
        return texts.to_arrow_table().column("value")
    return column


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, the second `name` as `name_1`, as DuckDB itself names the columns of a subquery."""
    taken: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{n}" if n else name for n in count())
        taken[next(each for each in numbered if each not in taken)] = None
    return list(taken)


def checked_query(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> str:
    """The query without its semicolon, known to be one statement that reads; raises as `run_query` does."""
    with _refusals(may_read_files=may_read_files):
        return _checked(connection, query, may_read_files=may_read_files)


def _checked(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> str:
    if not query.isascii() and query.encode(errors="ignore").decode() != query:
        raise _refusal("it holds bytes that are not valid UTF-8")
    _require_one(connection, query)
    asked = _without_end(query)  # from here on this text is checked and run, not the one it was cut from
    _require_reading(connection, asked, may_read_files=may_read_files)
    return asked


@contextmanager
def _refusals(*, may_read_files: bool) -> Iterator[None]:
    """Turns what DuckDB says of a query inside the block into one sentence."""
    try:
        yield
    except duckdb.PermissionException as error:
        raise StatementRejectedError(_outside(error, may_read_files=may_read_files)) from error
    except duckdb.Error as error:
        if tells_damage(error):
            raise  # the caller knows the file, and says what fixes it
        raise StatementRejectedError(f"DuckDB refused the query: {_words(error)}.") from error


def _without_end(query: str) -> str:
    """The query up to its semicolon, so that a parenthesis can follow."""
    content = query.encode()  # DuckDB counts bytes
    ends = (start for start, kind in duckdb.tokenize(query) if kind == duckdb.token_type.operator)
    return content[: next((start for start in ends if content[start : start + 1] == b";"), None)].decode()


def _require_one(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise _refusal(f"{len(statements)} statements are refused" if statements else "there is no statement")
    return statements[0]


def _require_reading(connection: duckdb.DuckDBPyConnection, query: str, *, may_read_files: bool) -> None:
    kind = _kind(_require_one(connection, query))
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


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # a kind that DuckDB's parser knows and its Python module does not
        return "this"


def _refusal(what: str) -> StatementRejectedError:
    return StatementRejectedError(
        f"SQL on an index is read-only: {what}; it takes one SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, "
        "PIVOT or EXPLAIN."
    )


def _outside(error: duckdb.Error, *, may_read_files: bool) -> str:
    if may_read_files:
        return f"SQL on an index reads its tables and files below the allowed folders only: {_words(error)}."
    return (
        "SQL on an index reads its tables only, no files and nothing from the network; to read files of your own below "
        "a folder, say --allow-files DIR (in Python allow_files=)."
    )


def _words(error: duckdb.Error) -> str:
    """What DuckDB says and suggests, as one line; the excerpt of the query that it repeats is left out."""
    text = re.split(r"\n\s*\n?LINE \d+:", str(error), maxsplit=1)[0]
    return " ".join(text.split()).rstrip(".")
