"""`polyhop index`: a corpus to a published version."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_error, print_json, print_line, progress

if TYPE_CHECKING:
    from flows.reports import IndexReport, IndexRequest
    from schemas.settings import Settings


def index(
    index: IndexName,
    source: Annotated[
        Path | None,
        typer.Argument(help="Corpus: .jsonl(.gz), .json, .parquet, .csv, or a folder of .md/.txt/.html files."),
    ] = None,
    add_strategy: Annotated[
        list[str] | None,
        typer.Option("--add-strategy", help="Also build what this strategy needs; without SOURCE nothing is re-read."),
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option("--extractor", help="Who finds names and relations: rules (default), model, or import:FILE."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Derive every stage again; caches are still used.")] = False,
    prefect: Annotated[
        bool, typer.Option("--prefect", help="Run as a Prefect flow run (always, if PREFECT_API_URL is set).")
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Index SOURCE, or bring an index up to date with it: run it again after every change."""
    from flows.reports import IndexRequest

    if source is None and not add_strategy and not full:
        raise typer.BadParameter("name a SOURCE, or --add-strategy to extend an index.", param_hint="SOURCE")
    settings = settings_of(root, [*(set_ or []), *([f"extraction.extractor={extractor}"] if extractor else [])])
    request = IndexRequest(index, source, tuple(add_strategy or ()), full, extractor)
    use_prefect = prefect or bool(os.environ.get("PREFECT_API_URL"))
    report = _on_prefect(settings, request) if use_prefect else _directly(settings, request)
    if json:
        print_json(report.to_json())
    else:
        print_report(report)


def _directly(settings: "Settings", request: "IndexRequest") -> "IndexReport":
    from flows.index import DirectRunner, run_index

    with progress() as update:
        return run_index(settings, request, DirectRunner(update))


def _on_prefect(settings: "Settings", request: "IndexRequest") -> "IndexReport":
    print_error("Running as a Prefect flow run…")
    from flows.prefect_index import run_on_prefect

    return run_on_prefect(settings, request)


def print_report(report: "IndexReport") -> None:
    """What happened, in words."""
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    total = sum(report.seconds.values())
    if not report.changed:
        print_line(f"Index '{report.index}': nothing has changed; version {report.version} stays current.")
        print_line(f"  nothing was extracted or embedded ({total:.1f} s); it holds {counts}")
        return
    print_line(f"Index '{report.index}': version {report.version} published in {total:.1f} s")
    print_line(f"  {counts}")
    for stage, seconds in report.seconds.items():
        if stage in report.reused:
            note = "taken over from the version before"
        elif stage in report.computed:
            note = f"{report.computed[stage]:,} computed"
        else:
            note = ""
        print_line(f"  {stage:<16}{seconds:8.2f} s  {note}".rstrip())
    if report.model.calls or report.model.cached:
        use = report.model
        print_line(
            f"  models: {use.calls:,} calls, {use.prompt_tokens:,} + {use.completion_tokens:,} tokens, "
            f"{use.cost_usd:.4f} USD; {use.cached:,} replies were known"
        )
    if report.extraction:
        print_line(
            "  extraction: " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in report.extraction.items())
        )
    if report.extraction.get("failed_units"):
        print_line(
            "  the next run retries what failed; why: "
            f"polyhop sql \"FROM extraction_ledger WHERE state = 'failed'\" --index {report.index}"
        )
    if report.counts.get("quarantined"):
        print_line(
            f"  {report.counts['quarantined']} records could not be used: "
            f"polyhop sql 'FROM quarantine' --index {report.index}"
        )
