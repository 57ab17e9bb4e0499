"""`polyhop export neo4j`: a published version to a graph database."""

import os
from typing import TYPE_CHECKING

import typer

from polyhop.commands.options import Database, IndexName, Json, Password, Root, Set, Uri, User, settings_of
from polyhop.output import print_error, print_json, print_line, progress

if TYPE_CHECKING:
    from flows.export import ExportReport, ExportRequest
    from schemas.settings import Settings

export = typer.Typer(name="export", help="Bring an index to another database.", no_args_is_help=True)


@export.callback()
def _export() -> None:
    """Bring an index to another database."""


@export.command("neo4j")
def neo4j(
    index: IndexName,
    uri: Uri = None,
    user: User = None,
    password: Password = None,
    database: Database = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Make a Neo4j database hold the current version of an index: only what differs is written."""
    from flows.export import ExportRequest
    from warehouse.graph.neo4j_server import find_address

    request = ExportRequest(index, find_address(uri, user, password, database))
    settings = settings_of(root, set_)
    report = _on_prefect(settings, request) if os.environ.get("PREFECT_API_URL") else _directly(settings, request)
    if json:
        print_json(report.to_json())
        return
    written = f"{report.created:,} created, {report.updated:,} updated, {report.deleted:,} deleted"
    if not report.created + report.updated + report.deleted:
        written = "nothing had to be written"
    print_line(f"Index '{index}': Neo4j holds version {report.version}; {written}.")
    print_line("  " + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items()))
    if not report.has_vectors:
        print_line(
            "  without vectors of entities, which spreading activation in Neo4j needs; build them with: "
            f"polyhop index --index {index} --add-strategy qasa"
        )


def _directly(settings: "Settings", request: "ExportRequest") -> "ExportReport":
    from flows.export import DirectSteps, run_export

    with progress() as update:
        return run_export(settings, request, DirectSteps(update))


def _on_prefect(settings: "Settings", request: "ExportRequest") -> "ExportReport":
    print_error("Running as a Prefect flow run…")
    from flows.prefect_export import run_export_on_prefect

    return run_export_on_prefect(settings, request)
