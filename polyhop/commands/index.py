"""`polyhop index`: a corpus or a knowledge graph to a published version."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import FollowLinks, IndexName, Json, Root, Set, link_settings, settings_of
from polyhop.output import print_error, print_json, print_line, progress
from polyhop.schemas.corpus import SourceKind, some_of, unread_words
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.flows.reports import IndexReport
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings


Source = Annotated[
    Path | None,
    typer.Argument(help="Corpus: {corpus formats}; default: where the index's source was read last."),
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph",
        help="A knowledge graph in place of SOURCE: a file of triples ({graph formats}), or a Neo4j database "
        "(neo4j://HOST:7687; NEO4J_USER, NEO4J_PASSWORD).",
    ),
]
GraphSources = Annotated[
    Path | None,
    typer.Option(
        "--graph-sources",
        help="Texts for the graph's nodes, indexed as passages: rows {id of the node, title?, text, metadata?} in "
        "a file; without it the index has none.",
    ),
]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial",
        help='SOURCE only adds and changes: records that it does not mention stay; {"id": …, "deleted": true} '
        "deletes one.",
    ),
]
SourceName = Annotated[
    str,
    typer.Option(
        "--source-name",
        help="Which of the index's sources SOURCE is, or the name of a new one beside them; default: the one that "
        "was read from there.",
    ),
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="SOURCE takes the place of the index's only source, or of the one that --source-name names, whose "
        "records go.",
    ),
]
AllowDeletions = Annotated[
    bool,
    typer.Option(
        "--allow-deletions",
        help="Publish although more than corpus.max_deleted_share (30 %) of a source's records are deleted.",
    ),
]
RemoveSource = Annotated[
    str, typer.Option("--remove-source", help="Publish a version without this source of the index; reads nothing.")
]
AddStrategies = Annotated[
    list[str] | None,
    typer.Option("--add-strategy", help="Also build what this strategy needs; without SOURCE nothing is re-read."),
]
Extractor = Annotated[
    str | None,
    typer.Option("--extractor", help="Who finds names and relations: rules (default), model, or import:FILE."),
]
Full = Annotated[bool, typer.Option("--full", help="Derive every stage again; caches are still used.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait as long as another process writes the index, rather than end.")
]
WaitSeconds = Annotated[float, typer.Option("--wait-seconds", min=0, help="Wait for it, but no longer than that.")]
OnPrefect = Annotated[
    bool, typer.Option("--prefect", help="Run as a Prefect flow run (always, if PREFECT_API_URL is set).")
]
RunnerKind = Annotated[
    str | None,
    typer.Option(
        "--runner",
        help="Who does the batches: auto (default: further processes for extraction of 10,000 passages and more), "
        "local, processes (further ones on this machine) or dask (a cluster; settings runner.workers, runner.address).",
    ),
]


def index(
    index: IndexName,
    source: Source = None,
    graph: Graph = None,
    graph_sources: GraphSources = None,
    partial: Partial = False,
    source_name: SourceName = "",
    replace: Replace = False,
    remove_source: RemoveSource = "",
    allow_deletions: AllowDeletions = False,
    add_strategy: AddStrategies = None,
    extractor: Extractor = None,
    full: Full = False,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 0.0,
    prefect: OnPrefect = False,
    runner: RunnerKind = None,
    follow_links: FollowLinks = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Index SOURCE, or bring an index up to date with it: run it again after every change."""
    _check_source(source, graph, graph_sources, extractor)
    flags = [*_flags(extractor, runner), *link_settings(follow_links=follow_links)]
    settings = settings_of(root, [*(set_ or []), *flags])
    request = _request(index, source, graph, graph_sources, add_strategy)
    if request.source is None and not (add_strategy or full or partial or remove_source):
        request = _known_request(settings, index, source_name)
    request = dataclasses.replace(
        request,
        full=full,
        source_name=source_name,
        is_partial=partial,
        wait_seconds=_longest_wait(wait_seconds, is_endless=wait),
        removed_source=remove_source,
        replaces=replace,
        allows_deletions=allow_deletions,
    )
    use_prefect = prefect or bool(os.environ.get("PREFECT_API_URL"))
    report = _on_prefect(settings, request) if use_prefect else _directly(settings, request)
    print_unread(report.unread, report.unread_files)
    if json:
        print_json(report.to_json())
    else:
        print_report(report)
        _print_refused(settings, report)
    _print_run_advice(settings, report, print_error if json else print_line)


def _check_source(source: Path | None, graph: str | None, graph_sources: Path | None, extractor: str | None) -> None:
    if source is not None and graph is not None:
        raise typer.BadParameter("name a SOURCE or a graph: an index is made from one of them.", param_hint="--graph")
    if graph_sources is not None and graph is None:
        raise typer.BadParameter("texts for nodes need their graph (--graph).", param_hint="--graph-sources")
    if graph is not None and extractor:
        raise typer.BadParameter(
            "a graph states its entities and relations; nothing is extracted from it.", param_hint="--extractor"
        )


def _flags(extractor: str | None, runner: str | None) -> list[str]:
    """The settings that have options of their own, as --set takes them."""
    flags = [f"extraction.extractor={extractor}"] if extractor else []
    return flags + ([f"runner.kind={runner}"] if runner else [])


def _longest_wait(seconds: float, *, is_endless: bool) -> float:
    """Seconds to wait for another process that writes the index; a number of seconds limits an endless wait."""
    return math.inf if is_endless and not seconds else seconds


def _known_request(settings: "Settings", index: str, source_name: str) -> "IndexRequest":
    """The source that an index was made from, read again; of several the named one."""
    from polyhop.flows.sources import known_request

    request = known_request(settings, index, source_name)
    if request is None:
        raise typer.BadParameter("name a SOURCE, or --add-strategy to extend an index.", param_hint="SOURCE")
    return request


def _request(
    index: str,
    source: Path | None,
    graph: str | None,
    graph_sources: Path | None,
    add_strategy: list[str] | None,
) -> "IndexRequest":
    """Without a source, its kind is that of the version before."""
    from polyhop.schemas.corpus import source_of
    from polyhop.schemas.requests import IndexRequest

    kind: SourceKind | None = "graph" if graph is not None else "corpus" if source is not None else None
    named = source_of(graph) if graph is not None else source
    return IndexRequest(index, named, tuple(add_strategy or ()), kind=kind, graph_sources=graph_sources)


def _directly(settings: "Settings", request: "IndexRequest") -> "IndexReport":
    from polyhop.flows.index import run_index
    from polyhop.flows.pools import batch_pool
    from polyhop.flows.runner import DirectRunner

    with progress() as update, batch_pool(settings) as pool:
        return run_index(settings, request, DirectRunner(update, print_error, pool))


def _on_prefect(settings: "Settings", request: "IndexRequest") -> "IndexReport":
    print_error("Running as a Prefect flow run…")
    from polyhop.flows.prefect_index import run_on_prefect

    return run_on_prefect(settings, request)


def print_unread(unread: Mapping[str, int], files: Sequence[str]) -> None:
    """Says on standard error which files of a folder were not read, if there are any."""
    count = sum(unread.values())
    if count:
        names = ", ".join(some_of(files, count))
        was = "was" if count == 1 else "were"
        print_error(f"{plural(count, 'file')} {was} not read: {unread_words(unread)}: {names}.")


def print_report(report: "IndexReport") -> None:
    """What happened, in words."""
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    total = sum(report.seconds.values())
    if not report.changed:
        stays = "" if report.pinned else f"; version {report.version} stays current"
        print_line(f"Index '{report.index}': nothing has changed{stays}.")
        _print_pin(report)
        nothing = "nothing new was" if report.computed else "nothing was"
        print_line(f"  {nothing} extracted or embedded ({total:.1f} s); it holds {counts}")
        _print_models(report)
        return
    print_line(f"Index '{report.index}': version {report.version} published in {total:.1f} s")
    _print_pin(report)
    print_line(f"  {counts}")
    _print_density_and_changes(report)
    for sentence in report.damaged:
        print_line(f"  damaged, made again: {sentence}")
    for stage, seconds in report.seconds.items():
        print_line(f"  {stage:<16}{seconds:8.2f} s  {_stage_note(report, stage)}".rstrip())
    _print_models(report)
    _print_advice(report)


def _print_pin(report: "IndexReport") -> None:
    if report.pin_sentence:
        print_line(f"  {report.pin_sentence}")


def _print_models(report: "IndexReport") -> None:
    for sentence in report.model_sentences():
        print_line(f"  {sentence}")


def _print_density_and_changes(report: "IndexReport") -> None:
    """What the version holds per passage and entity, and what differs from the one before."""
    if report.ratios:
        print_line(f"  {report.ratios_in_words}")
    changes = ", ".join(f"{count:,} {kind}" for kind, count in report.changes.items() if count)
    if report.version > 1 and changes:
        print_line(f'  records: {changes} (polyhop sql "FROM changes" --index {report.index})')


def _stage_note(report: "IndexReport", stage: str) -> str:
    """Where the output of a stage comes from."""
    if stage in report.reused:
        return "taken over from the version before"
    return f"{report.computed[stage]:,} computed" if stage in report.computed else ""


def _print_refused(settings: "Settings", report: "IndexReport") -> None:
    """Which records could not be used and why, of a version that was just published."""
    from polyhop.flows.index_outcome import quarantine_rows
    from polyhop.tasks.quarantine import refused_words

    if report.changed:
        rows = [refused_words(**row) for row in quarantine_rows(settings, report)]
        for words in some_of(rows, report.counts.get("quarantined", 0)):
            print_line(f"    {words}")


def _print_run_advice(settings: "Settings", report: "IndexReport", print_: Callable[[str], None]) -> None:
    from polyhop.flows.index_outcome import run_advice

    for advice in run_advice(settings, report):
        print_(f"  {advice}")


def _print_advice(report: "IndexReport") -> None:
    """What did not work out, and where to look."""
    if report.counts.get("hubs") == 0:
        print_line(
            "  no node is a hub: index again with --set hubs.types=TYPE or a lower hubs.min_edges; the types: "
            f'polyhop sql "SELECT type, count(*) FROM entities GROUP BY type" --index {report.index}'
        )
    if report.extraction:
        print_line(
            "  extraction: " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in report.extraction.items())
        )
    if report.counts.get("quarantined"):
        records = plural(report.counts["quarantined"], "record")
        print_line(f"  {records} could not be used: polyhop sql 'FROM quarantine' --index {report.index}")
