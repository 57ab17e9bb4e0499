"""Statements that define the tables of a version: what schemas/tables.py lists, and comments that explain it to people.

Runs nothing; only what builds a version needs them.
"""

from polyhop.schemas.columns import Table, View
from polyhop.warehouse.tables.connection import literal, quoted

_TYPES = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "timestamp[us]": "TIMESTAMP",
    "list<item: string>": "VARCHAR[]",
}


def create_statement(table: Table) -> str:
    """CREATE OR REPLACE TABLE for a table of schemas/tables.py."""
    columns = [f"{quoted(c.name)} {_TYPES[str(c.type)]}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    derived = [
        f"{quoted(d.column.name)} {_TYPES[str(d.column.type)]} GENERATED ALWAYS AS ({d.expression}) VIRTUAL"
        for d in table.derived
    ]
    return f"CREATE OR REPLACE TABLE {quoted(table.name)} ({', '.join([*columns, *derived])})"


def comment_statements(described: Table | View, schema: str = "") -> list[str]:
    """COMMENT ON for a table or a view and each of its columns; `schema` is a prefix of its name in SQL."""
    name = f"{schema}{quoted(described.name)}"
    derived = [d.column for d in described.derived] if isinstance(described, Table) else []
    return [
        f"COMMENT ON {'TABLE' if isinstance(described, Table) else 'VIEW'} {name} IS {literal(described.comment)}",
        *(f"COMMENT ON COLUMN {name}.{quoted(c.name)} IS {literal(c.comment)}" for c in (*described.columns, *derived)),
    ]
