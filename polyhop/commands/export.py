"""`polyhop export neo4j`: a version to a graph database; `polyhop export extraction`: what was extracted, to a file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Database, IndexName, Json, Password, Root, Set, Uri, User, settings_of
from polyhop.output import print_error, print_json, print_line, progress
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.flows.export import ExportReport, ExportRequest
    from polyhop.schemas.settings import Settings

export = typer.Typer(
    name="export", help="Export an index to Neo4j, or what was extracted for it to a file.", no_args_is_help=True
)


@export.callback()
def _export() -> None:
    """Export an index to Neo4j, or what was extracted for it to a file."""


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
    from polyhop.flows.export import ExportRequest
    from polyhop.warehouse.graph.address import find_address

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


@export.command("extraction")
def extraction(
    file: Annotated[Path, typer.Argument(help="File to write: .jsonl, or .jsonl.gz to pack it.")],
    index: IndexName,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write entities, triples and propositions of every passage; --extractor import:FILE reads them back."""
    from polyhop.warehouse.files.extractions import export_extractions
    from polyhop.warehouse.open import open_published

    published = open_published(settings_of(root, set_).root, index)
    try:
        count = export_extractions(published.tables_file, file)
    finally:
        published.close()
    if json:
        print_json({"index": index, "version": published.version, "passages": count, "file": str(file)})
        return
    print_line(f"Index '{index}', version {published.version}: {plural(count, 'passage')} written to {file}.")


def _directly(settings: "Settings", request: "ExportRequest") -> "ExportReport":
    from polyhop.flows.export import DirectSteps, run_export

    with progress() as update:
        return run_export(settings, request, DirectSteps(update))


def _on_prefect(settings: "Settings", request: "ExportRequest") -> "ExportReport":
    print_error("Running as a Prefect flow run…")
    from polyhop.flows.prefect_export import run_export_on_prefect

    return run_export_on_prefect(settings, request)
