"""`polyhop sql`: read-only SQL on a published version, on the index's run history and on the answers in the queue."""

from pathlib import Path
from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table
from polyhop.schemas.printable import plural


def sql(
    index: IndexName,
    query: Annotated[str | None, typer.Argument(help="One SQL query, DuckDB's dialect.")] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List all tables and views with what they hold, instead of a query.")
    ] = False,
    allow_files: Annotated[
        list[Path] | None,
        typer.Option("--allow-files", help="A folder whose files the query may read, too; may be repeated."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Look into an index with SQL that only reads: its tables, its runs (index_runs), its jobs' answers (results)."""
    from polyhop.result_tables import result_tables
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.query import TABLES_QUERY, query_rows

    if (query is not None) == tables:
        raise typer.BadParameter("give one SQL query, or --tables to list what it can read.", param_hint="QUERY")
    settings = settings_of(root, set_)
    extra = result_tables(settings, index)
    asked = query or TABLES_QUERY
    table = query_rows(Layout(settings.root), index, asked, extra=extra, allow_files=allow_files or ())
    if json:
        print_json(table.to_pylist())
        return
    print_table(table.column_names, [list(row.values()) for row in table.to_pylist()])
    print_line(f"({plural(table.num_rows, 'row')})")
