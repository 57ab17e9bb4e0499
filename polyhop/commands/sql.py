"""`polyhop sql`: read-only SQL on a published version."""

from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line, print_table


def sql(
    query: Annotated[str, typer.Argument(help="One SQL query, DuckDB's dialect.")],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Look into an index with SQL; works while other processes index and ask."""
    from warehouse.files.layout import Layout
    from warehouse.tables.query import query_rows

    table = query_rows(Layout(settings_of(root).root), index, query)
    if json:
        print_json(table.to_pylist())
        return
    print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])
    print_line(f"({table.num_rows} rows)")
