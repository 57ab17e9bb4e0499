"""Named SQL statements from the .sql files beside this module.

A statement starts at its `-- name:` line; values reach it as parameters only.
"""

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
SQL_FOLDER = Path(__file__).parent / "sql"


@cache
def statements(file: str) -> dict[str, str]:
    """{name: SQL} of `sql/<file>.sql`, in the file's order."""
    parts = _NAME.split((SQL_FOLDER / f"{file}.sql").read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def statement(file: str, name: str) -> str:
    """One statement by file and name."""
    return statements(file)[name]
