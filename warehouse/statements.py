"""Named SQL statements in files: a statement starts at its `-- name:` line and ends where the next begins.

Runs nothing; values reach a statement as parameters only. Statements of tables are found by file and name; the queue
and the caches name their own files.
"""

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
SQL_FOLDER = Path(__file__).parent / "tables" / "sql"
"""Where the statements of tables are."""


@cache
def read_statements(path: Path) -> dict[str, str]:
    """{name: SQL} of a file, in its order."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def statements(file: str) -> dict[str, str]:
    """{name: SQL} of `tables/sql/<file>.sql`, in the file's order."""
    return read_statements(SQL_FOLDER / f"{file}.sql")


def statement(file: str, name: str) -> str:
    """One statement of tables by file and name."""
    return statements(file)[name]
