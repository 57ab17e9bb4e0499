"""Named SQL statements of the queue as SQLAlchemy texts, for one database dialect.

Connects to nothing. `-- locking: skip` or `wait` in a statement's head becomes a row lock where the dialect has them;
`IN :names` takes a list.
"""

import re
from functools import cache
from pathlib import Path

from sqlalchemy import TextClause, bindparam, text

from polyhop.warehouse.statements import read_statements

SQL_FOLDER = Path(__file__).parent / "sql"
MIGRATIONS_FOLDER = SQL_FOLDER / "migrations"

_LOCKING = re.compile(r"^-- locking: (\w+)$", re.MULTILINE)
_LIST = re.compile(r"\bIN :(\w+)")
_LOCKS = {"skip": "\nFOR UPDATE SKIP LOCKED", "wait": "\nFOR UPDATE"}


@cache
def statement(name: str, *, row_locks: bool) -> TextClause:
    """One statement by "file.name"; `row_locks`: the database locks rows (PostgreSQL), not all (SQLite)."""
    file, _, key = name.partition(".")
    sql = read_statements(SQL_FOLDER / f"{file}.sql")[key]
    locking = _LOCKING.search(sql)
    if locking is not None and row_locks:
        sql += _LOCKS[locking[1]]
    lists = sorted(set(_LIST.findall(sql)))
    return text(sql).bindparams(*(bindparam(each, expanding=True) for each in lists))
