"""What a table, a view and a column of a published version are, and the four types of columns.

Lists no tables (tables.py does).
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, Arrow type, and what it holds."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Derived:
    """A column that is not stored: `expression` gives its value from the stored ones when it is read."""

    column: Column
    expression: str


@dataclass(frozen=True, slots=True)
class View:
    """A view, for people: what it shows, and what its columns hold, in order. Its SQL is in sql/views.sql."""

    name: str
    comment: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its rows are unique by `key`; `columns` are the stored ones.

    Rows are written in the order of `key`; in an update, some that came later may stand at the end (decision 0024).
    """

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    derived: tuple[Derived, ...] = ()

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the stored columns."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def column_names(self) -> list[str]:
        """Names of the stored columns, in order."""
        return [column.name for column in self.columns]


def text(name: str, comment: str, *, nullable: bool = False) -> Column:
    """Text."""
    return Column(name, pa.string(), comment, nullable)


def count(name: str, comment: str, *, nullable: bool = False) -> Column:
    """A whole number."""
    return Column(name, pa.int64(), comment, nullable)


def flag(name: str, comment: str) -> Column:
    """True or false."""
    return Column(name, pa.bool_(), comment)


def real(name: str, comment: str, *, nullable: bool = False) -> Column:
    """A real number."""
    return Column(name, pa.float64(), comment, nullable)
