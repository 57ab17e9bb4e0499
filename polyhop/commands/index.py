"""`polyhop index`, `plan` and `demo`: a corpus or a knowledge graph to a published version."""

import dataclasses
import json as json_module
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_error, print_json, print_line, print_table, progress
from polyhop.schemas.chat import cost_words, dollars
from polyhop.schemas.errors import WaitingError
from polyhop.schemas.records import SourceKind, some_of, source_of, unread_counts, unread_words
from polyhop.schemas.text import plural

if TYPE_CHECKING:
    from polyhop.api import Index
    from polyhop.flows.plan import IndexPlan
    from polyhop.flows.reports import IndexReport
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings

Source = Annotated[
    Path | None, Argument(help="Corpus: {corpus formats}; default: the last location of the index's source.")
]
Graph = Annotated[
    str | None,
    Option(
        "--graph",
        help="A knowledge graph instead of SOURCE: a file of triples ({graph formats}), a Neo4j database "
        "(neo4j://HOST:7687; NEO4J_USER, NEO4J_PASSWORD), or a SPARQL endpoint (https://HOST/sparql; SPARQL_USER, "
        "SPARQL_PASSWORD).",
    ),
]
GraphSources = Annotated[
    Path | None,
    Option(
        "--graph-sources",
        help="Texts for the graph's nodes, indexed as passages: rows {id of the node, title?, text, metadata?} in "
        "a file; without it the index has none.",
    ),
]
Partial = Annotated[
    bool,
    Option(
        "--partial",
        help='Only add and change records; those that SOURCE does not mention stay; {"id": …, "deleted": true} '
        "deletes one.",
    ),
]
SourceName = Annotated[
    str,
    Option(
        "--source-name",
        help="Which of the index's sources SOURCE is, or the name of a new one beside them; default: the one that "
        "was read from there.",
    ),
]
Replace = Annotated[
    bool,
    Option(
        "--replace",
        help="Replace the index's only source, or the one of --source-name, and delete the records that SOURCE lacks."
        "records go.",
    ),
]
AllowDeletions = Annotated[
    bool, Option("--allow-deletions", help="Publish although more than 30 % of a source's records are deleted.")
]
RemoveSource = Annotated[str, Option("--remove-source", help="Publish a version without this source; reads no files.")]
AddStrategies = Annotated[
    list[str] | None,
    Option("--add-strategy", help="Also build what this strategy needs; without SOURCE nothing is re-read."),
]
Extractor = Annotated[
    str | None, Option("--extractor", help="Extractor of names and relations: rules (default), model, or import:FILE.")
]
Full = Annotated[bool, Option("--full", help="Run every stage again; caches are still used.")]
Wait = Annotated[
    bool,
    Option(
        "--wait",
        help="Wait while another process writes the index, and for batches of a model's provider, rather than end.",
    ),
]
OnPrefect = Annotated[bool, Option("--prefect", help="Run as a Prefect flow run (always, if PREFECT_API_URL is set).")]


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
    prefect: OnPrefect = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Index SOURCE, or bring an index up to date with it: run it again after every change."""
    if source is not None and graph is not None:
        raise typer.BadParameter("name a SOURCE or a graph (--graph).", param_hint="--graph")
    if graph_sources is not None and graph is None:
        raise typer.BadParameter("--graph-sources needs --graph.", param_hint="--graph-sources")
    if graph is not None and extractor:
        raise typer.BadParameter(
            "nothing is extracted from a knowledge graph; leave out --extractor.", param_hint="--extractor"
        )
    from polyhop.schemas.requests import IndexRequest

    flags = [f"extraction.extractor={extractor}"] if extractor else []
    settings = settings_of(root, [*(set_ or []), *flags])
    # without a source, its kind is that of the version before
    kind: SourceKind | None = "graph" if graph is not None else "corpus" if source is not None else None
    named = source_of(graph) if graph is not None else source
    request = IndexRequest(index, named, tuple(add_strategy or ()), kind=kind, graph_sources=graph_sources)
    if named is None and not (add_strategy or full or partial or remove_source):
        from polyhop.flows.index import known_request

        known = known_request(settings, index, source_name)
        if known is None:
            raise typer.BadParameter("name a SOURCE, or --add-strategy to extend an index.", param_hint="SOURCE")
        request = known
    request = dataclasses.replace(
        request,
        full=full,
        source_name=source_name,
        is_partial=partial,
        wait_seconds=math.inf if wait else 0.0,
        removed_source=remove_source,
        replaces=replace,
        allows_deletions=allow_deletions,
    )
    while True:
        try:
            report = _run(settings, request, on_prefect=prefect or bool(os.environ.get("PREFECT_API_URL")))
            break
        except WaitingError as waiting:
            if not wait:
                raise
            from polyhop.flows.index import wait_for_batches

            print_error(str(waiting))
            wait_for_batches(settings, index)
    _show(settings, report, json=json)


def _run(settings: "Settings", request: "IndexRequest", *, on_prefect: bool) -> "IndexReport":
    if on_prefect:
        print_error("Running as a Prefect flow run…")
        from polyhop.flows.prefect_index import run_on_prefect

        return run_on_prefect(settings, request)
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner, batch_pool

    with progress() as update, batch_pool(settings) as pool:
        return run_index(settings, request, DirectRunner(update, print_error, pool))


def _show(settings: "Settings", report: "IndexReport", *, json: bool) -> None:
    """Prints the result of a run, skipped files and records, and advice."""
    from polyhop.flows.reports import quarantine_rows, run_advice

    print_unread(report.unread, report.unread_files)
    print_json(report.to_json()) if json else print_report(report)
    if report.changed and not json:
        from polyhop.tasks.passages.records import refused_words

        rows = [refused_words(**row) for row in quarantine_rows(settings, report)]
        for words in some_of(rows, report.counts.get("quarantined", 0)):
            print_line(f"    {words}")
    for advice in run_advice(settings, report):
        (print_error if json else print_line)(f"  {advice}")


def print_unread(unread: Mapping[str, int], files: Sequence[str]) -> None:
    """Says on standard error which files of a folder, and parts of files, were not read, if there are any."""
    count = sum(unread.values())
    if count:
        names = ", ".join(some_of(files, count))
        counted = zip(unread_counts(unread), ("file", "part"), strict=True)
        things = " and ".join(plural(number, noun) for number, noun in counted if number)
        was = "was" if count == 1 else "were"
        print_error(f"{things} {was} not read: {unread_words(unread)}: {names}.")


def print_report(report: "IndexReport", *, stages: bool = True) -> None:
    """Prints the report of a run as text, with the seconds of its stages."""
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    total = sum(report.seconds.values())
    pin = [report.pin_sentence] if report.pin_sentence else []
    if not report.changed:
        stays = "" if report.pinned else f"; version {report.version} stays current"
        nothing = "nothing new was" if report.computed else "nothing was"
        print_line(f"Index '{report.index}': nothing has changed{stays}.")
        held = f"{nothing} extracted or embedded ({total:.1f} s); it holds {counts}"
        for sentence in (*pin, held, *report.model_sentences()):
            print_line(f"  {sentence}")
        return
    print_line(f"Index '{report.index}': version {report.version} published in {total:.1f} s")
    for sentence in (*pin, counts, *([report.ratios_in_words] if report.ratios else [])):
        print_line(f"  {sentence}")
    changes = ", ".join(f"{count:,} {kind}" for kind, count in report.changes.items() if count)
    if report.version > 1 and changes:
        print_line(f'  records: {changes} (polyhop sql "FROM changes" --index {report.index})')
    for sentence in report.damaged:
        print_line(f"  rebuilt after damage: {sentence}")
    if stages:
        _print_stages(report)
    for sentence in report.model_sentences():
        print_line(f"  {sentence}")
    _print_advice(report)


def _print_stages(report: "IndexReport") -> None:
    """Prints the seconds of each stage, and what it computed or reused."""
    for stage, seconds in report.seconds.items():
        computed = f"{report.computed[stage]:,} computed" if stage in report.computed else ""
        origin = "reused from the previous version" if stage in report.reused else computed
        print_line(f"  {stage:<16}{seconds:8.2f} s  {origin}".rstrip())


def _print_advice(report: "IndexReport") -> None:
    """Prints warnings of a run, with the command that shows details."""
    if report.counts.get("hubs") == 0:
        print_line(
            "  no node is a hub: index again with --set hubs.types=TYPE or a lower hubs.min_edges; the types: "
            f'polyhop sql "SELECT type, count(*) FROM entities GROUP BY type" --index {report.index}'
        )
    if report.lacks_types:
        print_line(
            "  only titles have types, where their page states one; types of other names need a strategy with vectors "
            "of passages (bridge), encoder.name=local, and corpus.language en, de, fr or auto"
        )
    if units := report.extracted_units():
        extracted = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in units.items())
        print_line(f"  extraction: {extracted}")
    if report.counts.get("quarantined"):
        records = plural(report.counts["quarantined"], "record")
        print_line(f"  {records} could not be used: polyhop sql 'FROM quarantine' --index {report.index}")


def plan(
    source: Annotated[Path | None, Argument(help="Corpus, as for `polyhop index`.")] = None,
    graph: Annotated[
        str | None, Option("--graph", help="A knowledge graph instead of SOURCE, as for `polyhop index`.")
    ] = None,
    add_strategy: Annotated[
        list[str] | None,
        Option("--add-strategy", help="Also plan for this strategy, in addition to those of the settings."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Estimate calls, tokens, cost and time of what indexing asks of the configured models, without a call."""
    from polyhop.flows.plan import plan_index, question_costs
    from polyhop.schemas.settings import strategies_for

    if (source is None) == (graph is None):
        raise typer.BadParameter("name a SOURCE or a graph (--graph).", param_hint="SOURCE")
    settings = settings_of(root, set_)
    kind: SourceKind = "corpus" if graph is None else "graph"
    made = plan_index(settings, source_of(str(graph or source)), add_strategy or (), kind)
    asked = question_costs(settings, (*strategies_for(settings, kind), *(add_strategy or ())))
    print_unread(made.unread, made.unread_files)
    if json:
        print_json({**made.to_json(), "questions": asked})
    else:
        print_plan(made)
        print_questions(settings.models.read, asked)


def print_plan(made: "IndexPlan") -> None:
    """The plan as a table and a sentence."""
    document = made.to_json()
    sizes = made.graph or {"documents": made.documents, "passages": made.passages}
    said = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    asked = [f"model {made.model}"] if made.model else []
    asked += [f"encoder {made.encoder}"] if made.encoder else []
    print_line(f"{made.source}: {said}; {', '.join(asked or ['no model'])}")
    rows = [
        [
            step,
            f"{row['units']:,}",
            f"{row['cached']:,}",
            f"{row['calls']:,}",
            f"{row['prompt_tokens']:,}",
            f"{row['completion_tokens']:,} ({row['completion_range'][0]:,} to {row['completion_range'][1]:,})",
            "this project" if row["has_history"] else "typical",
        ]
        for step, row in document["steps"].items()
    ]
    if rows:
        print_table(["step", "units", "cached", "calls", "prompt tokens", "reply tokens", "lengths from"], rows)
    print_line(f"  {_cost(made, document)}")
    if document["calls"] and document["batches"]:
        print_line(f"  {_in_batches(document['batches'])}")
    for task in made.not_planned:
        what = "paths of hubs" if task.startswith("hub.") else "things"
        verb = "embeds" if task.startswith("embed-") else "is asked about"
        print_line(f"  besides, {task} {verb} {what}, which are known once relations are extracted")
    print_line(f"  about {document['seconds'] / 60:.1f} minutes; this plan called no model and changed nothing")


def print_questions(model: str, asked: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints the upper bound of model calls per question, one line per strategy that calls the model itself."""
    for strategy, row in asked.items():
        tasks = ", ".join(f"{calls} {task}" for task, calls in row["tasks"].items())
        tokens = f"{row['prompt_tokens']:,} + {row['completion_tokens']:,} tokens, {cost_words(row['cost_usd'])}"
        print_line(f"a question by {strategy} asks {model} at most {row['calls']} times ({tasks}): {tokens}")


def _cost(made: "IndexPlan", document: dict[str, Any]) -> str:
    """Estimated cost, or the reason why there is no amount."""
    if made.graph and not made.steps:
        return "no cost: no stage calls a model"
    if not document["calls"]:
        return "no cost: every reply is cached already"
    if document["cost_usd"] is None:
        from polyhop.tasks.planning import PlannedEmbedding

        lacking = {isinstance(step.planned, PlannedEmbedding) for step in made.steps if step.price is None}
        named = {False: (made.model, "models.price"), True: (made.encoder, "models.price=0,0,USD")}
        unknown = [named[is_encoder] for is_encoder in sorted(lacking)]
        prices = "; ".join(f"no price of '{name}' is known; set {setting}" for name, setting in unknown)
        return f"cost unknown: {prices} (USD per million tokens; 0 for a server of your own)"
    if made.is_free:
        return f"no cost: the price of '{made.model or made.encoder}' is 0"
    cost = document["cost_usd"]
    return f"cost {dollars(cost['expected'])} USD ({dollars(cost['low'])} to {dollars(cost['high'])})"


def _in_batches(planned: Mapping[str, Any]) -> str:
    """Estimated cost and waiting time with the provider's batches."""
    cost, waits = planned["cost_usd"], planned["waits"]
    amount = "price unknown; set models.batch_price"
    if cost is not None:
        amount = f"{dollars(cost['expected'])} USD ({dollars(cost['low'])} to {dollars(cost['high'])})"
    each = f"{plural(waits, 'wait')} of at most 24 hours"
    return f"in batches of the provider (models.mode=batch): {amount}; {each}"


DEMO_FOLDER = Path(__file__).resolve().parent.parent / "demo"
DEMO_INDEX = "demo"
DEMO_QUESTIONS = (
    "Where was the architect of Flamsteed House in Greenwich born?",
    "Which opened first, the Menai Suspension Bridge or the Clifton Suspension Bridge?",
    "Who painted the ceiling of the Sistine Chapel?",
)
"""Asked by `polyhop demo`: over two passages, a comparison of values, and one that the corpus does not answer."""
_COMPARED = ("bridge", "dense")  # strategies of which the demo counts complete rankings
_FIRST = 5  # passages that are counted


def demo(root: Root = None, json: Json = False) -> None:
    """Index a small corpus that ships with Polyhop and answer three questions from it."""
    from polyhop.api import open_index
    from polyhop.commands.ask import print_short
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import readable_manifest

    settings = settings_of(root)
    corpus = DEMO_FOLDER / "corpus.jsonl"
    # another installation of Polyhop has the same corpus elsewhere; an index that people call demo is not replaced
    manifest = readable_manifest(Layout(settings.root).index(DEMO_INDEX))
    known = {} if manifest is None else manifest.sources
    name = next((name for name, at in known.items() if Path(at.location).parts[-3:] == corpus.parts[-3:]), "")
    request = IndexRequest(DEMO_INDEX, corpus, source_name=name, replaces=bool(name))
    with progress() as update:
        report = run_index(settings, request, DirectRunner(update))
    lines = (DEMO_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    measured = [json_module.loads(line) for line in lines]
    with open_index(DEMO_INDEX, settings=settings) as opened:
        answers = opened.ask_batch(DEMO_QUESTIONS, limit=_FIRST)
        complete = {strategy: _complete_rankings(opened, strategy, measured) for strategy in _COMPARED}
    if json:
        answered = [answer.to_json() for answer in answers]
        print_json({"index": report.to_json(), "answers": answered, "questions": len(measured), "complete": complete})
        return
    print_report(report, stages=False)
    for answer in answers:
        print_line()
        print_short(answer)
    print_line()
    counts = ", ".join(f"{strategy} {count}" for strategy, count in complete.items())
    print_line(
        f"All supporting passages in the first {_FIRST} results, of {plural(len(measured), 'question')}: {counts}"
    )
    if report.changed:
        print_line()
        print_line("Seconds of each stage of indexing")
        _print_stages(report)
    print_line()
    print_line("Try next")
    folder = "" if root is None else f" --root {root}"
    print_line(f"  polyhop ask {shlex.quote(measured[0]['question'])} --index demo --explain{folder}")
    print_line(f"  polyhop eval {DEMO_FOLDER / 'questions.jsonl'} --index demo --strategies bridge,dense,bm25{folder}")
    print_line(f"  polyhop sql 'FROM entities WHERE is_named ORDER BY df DESC LIMIT 10' --index demo{folder}")
    print_line(f"  polyhop index YOUR_CORPUS.jsonl --index mine{folder}")


def _complete_rankings(index: "Index", strategy: str, measured: Sequence[Mapping[str, Any]]) -> int:
    """Counts the questions whose supporting passages are all among the first ones of a strategy."""
    texts = [row["question"] for row in measured]
    answers = index.ask_batch(texts, strategy=strategy, limit=_FIRST, reads=False)
    found = [{passage["id"] for passage in answer.passages} for answer in answers]
    return sum(ids.issuperset(row["supporting"]) for ids, row in zip(found, measured, strict=True))
