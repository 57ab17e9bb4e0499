"""`polyhop sql`: read-only SQL on a published version, on the index's run history and on the answers in the queue."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table
from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.printable import plural


def sql(
    index: IndexName,
    query: Annotated[
        str | None, typer.Argument(help="One SQL query, DuckDB's dialect; with --tables the name of a table.")
    ] = None,
    tables: Annotated[
        bool,
        typer.Option(
            "--tables",
            help="List all tables and views with what they hold, instead of a query; with the name of one its columns, "
            "and with what they join.",
        ),
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
    from polyhop.warehouse.tables.query import COLUMNS_QUERY, TABLES_QUERY, query_rows

    if query is None and not tables:
        raise typer.BadParameter("give one SQL query, or --tables to list what it can read.", param_hint="QUERY")
    settings = settings_of(root, set_)
    table = query if tables else None
    asked = COLUMNS_QUERY if table else query or TABLES_QUERY
    extra = result_tables(settings, index)
    found = query_rows(Layout(settings.root), index, asked, extra=extra, allow_files=allow_files or ())
    rows = [*zip(*(column.to_pylist() for column in found.columns), strict=True)]
    names = found.column_names
    if table:
        names, rows = names[1:], _of_table(table, rows)
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(names, rows)
    print_line(f"({plural(len(rows), 'row')})")


def _of_table(name: str, rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows whose first value is the table of this name, without it."""
    known = _known_table(name, {str(row[0]) for row in rows})
    return [row[1:] for row in rows if row[0] == known]


def _known_table(name: str, known: AbstractSet[str]) -> str:
    """The table of this name, whatever its case."""
    if name.lower() in known:
        return name.lower()
    nearest = nearest_name(name.lower(), known)
    hint = f"did you mean '{nearest}'?" if nearest else f"known are: {', '.join(sorted(known))}."
    raise ConfigurationError(f"Unknown table '{name}'; {hint}")
