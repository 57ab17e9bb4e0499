"""`polyhop sql`: read-only SQL on a published version, and on the answers in the question queue."""

from pathlib import Path
from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table


def sql(
    query: Annotated[str, typer.Argument(help="One SQL query, DuckDB's dialect.")],
    index: IndexName,
    allow_files: Annotated[
        list[Path] | None,
        typer.Option("--allow-files", help="A folder whose files the query may read, too; may be repeated."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Look into an index with SQL that only reads; the view `results` holds every job's questions."""
    from polyhop.jobs import results_for
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.query import query_rows

    settings = settings_of(root, set_)
    extra = results_for(settings, query)
    table = query_rows(Layout(settings.root), index, query, extra=extra, allow_files=allow_files or ())
    if json:
        print_json(table.to_pylist())
        return
    print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])
    print_line(f"({table.num_rows} rows)")
