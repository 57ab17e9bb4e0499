"""`polyhop sql`: read-only SQL on a published version, and on the answers in the question queue."""

from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table


def sql(
    query: Annotated[str, typer.Argument(help="One SQL query, DuckDB's dialect.")],
    index: IndexName,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Look into an index with SQL; the view `results` holds every job's questions. Works while others write."""
    from polyhop.jobs import results_for
    from warehouse.files.layout import Layout
    from warehouse.tables.query import query_rows

    settings = settings_of(root, set_)
    table = query_rows(Layout(settings.root), index, query, extra=results_for(settings, query))
    if json:
        print_json(table.to_pylist())
        return
    print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])
    print_line(f"({table.num_rows} rows)")
