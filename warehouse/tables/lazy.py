"""Tables that SQL by people finds beside those of a version, and that are read only if the query names them.

Reads none itself: each brings a function. What a query asks of a large one is taken from DuckDB's own plan of it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from polyhop.schemas.columns import Table

_CATALOG = re.compile(r"\b(duckdb_\w+|information_schema|show|pg_catalog|sqlite_master)\b", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*'")
_EQUALITY = re.compile(r"\((\w+) = (\d+)\)")
_SCAN = "PYTHON_ARROW_SCAN"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query asks of a table; DuckDB applies its conditions again, so that more than was asked may be read.

    Attributes:
        columns: Names of the columns; None: all.
        keys: Values of the table's first key column; None: all.
    """

    columns: frozenset[str] | None = None
    keys: frozenset[int] | None = None

    def wants(self, *columns: str) -> bool:
        """Whether any of these columns is asked for."""
        return self.columns is None or not self.columns.isdisjoint(columns)


@dataclass(frozen=True, slots=True)
class LazyTable:
    """A table and how it is read; of a large one `read` may leave what is not wanted empty.

    Attributes:
        described: Its columns and comments.
        read: Its rows, in the order of the columns.
        is_large: Whether planning the query first is worth it.
    """

    described: Table
    read: Callable[[Wanted], pa.Table]
    is_large: bool = False

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self.described.name

    @property
    def without_rows(self) -> pa.Table:
        """The table, empty."""
        return self.described.arrow.empty_table()

    def is_named_in(self, query: str) -> bool:
        """Whether a query may read it; a comment or a string that holds the name counts."""
        return re.search(rf"\b{re.escape(self.name)}\b", query, re.IGNORECASE) is not None


def shown_in(tables: Sequence[LazyTable], query: str) -> Sequence[LazyTable]:
    """Those that a query may read or list."""
    return tables if _CATALOG.search(query) else [table for table in tables if table.is_named_in(query)]


def wanted(connection: duckdb.DuckDBPyConnection, query: str, tables: Sequence[LazyTable]) -> Wanted:
    """What a query asks of large tables, by DuckDB's plan of it.

    Args:
        connection: One in which the tables are registered, without rows.
        query: One statement, known to do nothing but read.
        tables: The large ones; the first column of their keys is the same.

    Returns:
        All columns that any of them is asked for, and values of the key if every reading of them is limited to some.
    """
    key, names = tables[0].described.key[0], {name for table in tables for name in table.described.column_names}
    scans = _planned_scans(connection, query)
    if scans is None:
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


def _planned_scans(connection: duckdb.DuckDBPyConnection, query: str) -> list[_Reading] | None:
    """The readings in DuckDB's plan of a query, None if there is no plan of it."""
    try:
        ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
        return [scan for root in json.loads(plan) for scan in _scans(root, "")]
    except (duckdb.Error, ValueError, KeyError, TypeError):  # PIVOT, EXPLAIN of EXPLAIN: no plan of one statement
        return None


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
