"""`polyhop sql`, `versions`, `cache` and `export`: what is stored."""

import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from polyhop.commands.options import Database, IndexName, Json, Password, Root, Set, Strategy, Uri, User, settings_of
from polyhop.output import print_error, print_json, print_line, print_table, progress, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from polyhop.schemas.settings import Settings
    from polyhop.warehouse.files.layout import Layout


def sql(
    index: IndexName,
    query: Annotated[
        str | None, Argument(help="One SQL query in DuckDB's dialect; with --tables the name of a table.")
    ] = None,
    tables: Annotated[
        bool,
        Option(
            "--tables",
            help="List all tables and views with their descriptions instead of running a query; with the name of "
            "one, its columns, "
            "and with what they join.",
        ),
    ] = False,
    allow_files: Annotated[
        list[Path] | None,
        Option("--allow-files", help="A folder whose files the query may read, too; may be repeated."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Look into an index with SQL that only reads: its tables, its runs (index_runs), its jobs' answers (results)."""
    from polyhop.jobs import result_tables
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.machine import watched_memory
    from polyhop.warehouse.tables.query import COLUMNS_QUERY, TABLES_QUERY, query_rows

    if query is None and not tables:
        raise typer.BadParameter("give one SQL query, or --tables to list what it can read.", param_hint="QUERY")
    settings = settings_of(root, set_)
    table = query if tables else None
    asked = COLUMNS_QUERY if table else query or TABLES_QUERY
    extra = result_tables(settings, index)
    with watched_memory(settings.sql_memory_mb, _end_of_query):
        found = query_rows(
            Layout(settings.root),
            index,
            asked,
            extra=extra,
            allow_files=allow_files or (),
            memory_mb=settings.sql_memory_mb,
        )
    rows = [*zip(*(column.to_pylist() for column in found.columns), strict=True)]
    names = found.column_names
    if table:
        known = {str(row[0]) for row in rows}
        if table.lower() not in known:
            nearest = nearest_name(table.lower(), known)
            hint = f"did you mean '{nearest}'?" if nearest else f"known are: {', '.join(sorted(known))}."
            raise ConfigurationError(f"Unknown table '{table}'; {hint}")
        names, rows = names[1:], [row[1:] for row in rows if row[0] == table.lower()]
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(names, rows)
    print_line(f"({plural(len(rows), 'row')})")


def _end_of_query() -> None:
    """Ends this process, because DuckDB takes memory that its own limit does not count and cannot be interrupted."""
    from polyhop.warehouse.tables.query import TOO_MUCH_MEMORY

    print_error(f"polyhop: {TOO_MUCH_MEMORY}")
    os._exit(1)


Use = Annotated[
    str | None,
    Option(
        "--use",
        metavar="N|latest",
        help="Make version N current and pin it, so that later runs do not replace it; `latest` unpins.",
    ),
]
Diff = Annotated[
    tuple[int, int] | None,
    Option("--diff", metavar="A B", help="Compare versions A and B: records, entities, relations."),
]
Questions = Annotated[
    Path | None,
    Option("--questions", help="With --diff: how the answers to these questions differ (as `eval` reads them)."),
]
Move = Annotated[
    str | None,
    Argument(
        metavar="[push|pull]",
        help="push: copy the current version to a remote store; pull: copy the store's version here.",
    ),
]
Url = Annotated[
    str | None, Argument(metavar="[URL]", help="s3://…, gs://…, az://… or file://…; default: index.remote.")
]
LATEST = "latest"
_SHOWN_ANSWERS = 10  # questions; chosen: two lines or more each, and the JSON has all


def versions(
    index: IndexName,
    move: Move = None,
    url: Url = None,
    use: Use = None,
    diff: Diff = None,
    questions: Questions = None,
    strategy: Strategy = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List the published versions of an index, compare two, make one of them current, or push or pull one."""
    if move is not None:
        _move(settings_of(root, set_), index, move, url, json=json)
        return
    if diff is not None:
        _print_difference(settings_of(root), index, diff, questions, strategy, json=json)
        return
    if questions is not None or strategy is not None:
        raise typer.BadParameter("--questions needs --diff A B.", param_hint="--questions")
    from polyhop.versions import version_rows
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import pinned_version, require_version

    layout = Layout(settings_of(root).root)
    current = require_version(layout, index)[0] if use is None else _make_current(layout, index, use)
    pinned = pinned_version(layout.index(index))
    rows, damaged = version_rows(layout, index, current)
    for number, error in damaged.items():  # what makes a version unusable goes to standard error
        print_error(f"Version {number} cannot be used: {error}")
    if json:
        print_json(rows)
        return
    counts = ("documents", "passages", "entities", "relations", "propositions")
    said = [", ".join(name for name in ("current", "pinned") if row[name]) for row in rows]
    table = [
        [row["version"], what, *(row.get(name) for name in counts), row["source"]]
        for row, what in zip(rows, said, strict=True)
    ]
    print_table(["version", "", *counts, "source"], table)
    if pinned is not None:
        print_line(
            f"Version {current} of '{index}' is current and pinned; later runs do not replace it until: "
            f"polyhop versions --index {index} --use latest"
        )
    elif use is not None:
        print_line(f"Version {current} of '{index}' is current, and later runs replace it when they publish.")


def _move(settings: "Settings", index: str, move: str, url: str | None, *, json: bool) -> None:
    """Pushes or pulls a version."""
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.remote import pull_version, push_version

    address = url or settings.index.remote
    if move not in ("push", "pull"):
        raise typer.BadParameter(f"'{move}' is neither push nor pull.", param_hint="push|pull")
    if not address:
        raise typer.BadParameter("name a store, or set index.remote.", param_hint="URL")
    layout = Layout(settings.root)
    if move == "push":
        moved = push_version(layout, index, address, again=True, key_file=settings.index.key_file)
    else:
        moved = pull_version(layout, index, address, keep=settings.keep_versions, key_file=settings.index.key_file)
    print_json(asdict(moved)) if json else print_line(f"{move.capitalize()}ed {moved}")


def _make_current(layout: "Layout", index: str, use: str) -> int:
    """Makes the named version current; pins it unless it is the newest, which rolls nothing back."""
    from polyhop.warehouse.files import versions as stored

    if use != LATEST and not use.isdecimal():
        raise typer.BadParameter(f"'{use}' is neither the number of a version nor {LATEST}.", param_hint="--use")
    folder = layout.index(index)
    newest = max(stored.published_versions(folder), default=None)
    number, version = stored.require_version(layout, index, newest if use == LATEST else int(use))
    stored.read_manifest(version)  # refuses what could not be asked afterwards
    with stored.writer_lease(folder.lease, folder.name):
        stored.remove_leftovers(folder)
        stored.point_to(folder, number, is_pinned=number != newest)
    return number


def _print_difference(
    settings: "Settings", index: str, pair: tuple[int, int], questions: Path | None, strategy: str | None, *, json: bool
) -> None:
    from polyhop.versions import diff_versions

    document = diff_versions(settings, index, pair, questions, strategy)
    if json:
        print_json(document)
        return
    print_line(f"Index '{index}', version {document['after']} compared with version {document['before']}")
    for what in ("records", "entities", "relations"):
        found = document[what]
        counts = ", ".join(f"{count:,} {kind}" for kind, count in found["counts"].items() if count)
        print_line(f"{what}: {counts or 'none changed'}")
        for row in found["first"]:
            print_line(f"  {row['kind']:<8} {_changed(what, row)}")
        if sum(found["counts"].values()) > len(found["first"]):
            print_line("  …")
    if "questions" not in document:
        return
    _print_answers(document["questions"])


def _print_answers(asked: dict[str, Any]) -> None:
    """Prints counts of answers that differ between two versions, and the first such questions."""
    print_line(
        f"questions: {asked['asked']:,} asked; other answers: {asked['other_answers']:,}, "
        f"guesses: {asked['other_guesses']:,}, sentences: {asked['other_sentences']:,}, "
        f"passages: {asked['other_passages']:,}"
    )
    for row in asked["changed"][:_SHOWN_ANSWERS]:
        print_line(f"  {row['question']}")
        answer, guess = row["answer"], row["guess"]
        for label, part in (("", answer), ("guess: ", guess)):
            if part["before"] != part["after"] and (part is answer or guess != answer):
                print_line(f"    {label}{part['before'] or '(none)'} -> {part['after'] or '(none)'}")
        old, new = ([_quoted(sentence) for sentence in row["sentences"][when]] for when in ("before", "after"))
        for sign, lines, others in (("+", new, old), ("-", old, new)):
            for line in lines:
                if line not in others:
                    print_line(f"    {sign} {line}")
        for sign, name in (("+", "passages_added"), ("-", "passages_removed")):
            if row[name]:
                print_line(f"    {sign} {', '.join(row[name])}")


def _quoted(sentence: dict[str, Any]) -> str:
    """A sentence in a line, after the passage that holds it."""
    return f"[{sentence['passage_id']}] {' '.join(sentence['text'].split())}"


def _changed(what: str, row: dict[str, Any]) -> str:
    """A change in a line: `p2 (was p1)`, `Mme Curie (into Marie Curie)`, `Ulm (LOCATION -> ORGANIZATION)`."""
    if what == "relations":
        return f"{row['source']} | {row['relation']} | {row['target']}"
    if what == "records":
        source = f" [{row['source']}]" if row["source"] else ""
        was = f" (was {row['from_id']})" if row["from_id"] else ""
        return f"{row['record_id']}{was}{source}"
    relation = {"merged": "into ", "split": "from ", "renamed": "was "}.get(row["kind"], "")
    return f"{row['name']} ({relation}{row['other']})" if row["other"] else row["name"]


cache = typer.Typer(
    name="cache",
    help="Inspect and manage the caches of model replies, embeddings and document texts, which all indexes share.",
    no_args_is_help=True,
)
File = Annotated[Path, Argument(metavar="FILE.parquet", help="The parquet file.")]


@cache.command("stats")
def stats(root: Root = None, json: Json = False) -> None:
    """Count cached entries, and what they cost."""
    document = _cached(settings_of(root))
    if json:
        print_json(rounded(document))
        return
    replies = document["replies"]
    print_line(
        f"replies: {replies['count']} valid, {replies['raw']} raw, {replies['failures']} failed requests, "
        f"{replies['bytes']} bytes; spent: {plural(replies['spent']['calls'], 'call')}, "
        f"{cost_words(replies['spent']['cost_usd'])}"
    )
    shown = {"vectors": "vectors", "names": "judged names", "paths": "vectors of paths", "documents": "documents"}
    for name, words in shown.items():
        print_line(f"{words}: {document[name]['count']}, {document[name]['bytes']} bytes")
    if replies["by_task"]:
        columns = list(replies["by_task"][0])
        print_table(columns, [list(row.values()) for row in replies["by_task"]])


def _cached(settings: "Settings") -> dict[str, Any]:
    """Entries and bytes of each cache, and what the replies cost; zeros, and no file made, where there is no cache."""
    from polyhop.schemas.chat import Usage
    from polyhop.warehouse.cache.database import DocumentCache
    from polyhop.warehouse.cache.replies import ReplyCache, ReplyCounts
    from polyhop.warehouse.cache.vectors import VectorCache
    from polyhop.warehouse.files.layout import Layout

    layout = Layout(settings.root)
    counts, tasks = ReplyCounts(0, 0, 0, 0), []
    if layout.reply_cache.exists():
        with closing(ReplyCache(layout.reply_cache)) as replies_cache:
            counts, tasks = replies_cache.stats(), replies_cache.by_task()
    sizes = {name: {"count": 0, "bytes": 0} for name in ("vectors", "names", "paths", "documents")}
    rows = ("vectors", layout.vector_cache), ("names", layout.name_cache), ("paths", layout.path_cache)
    for name, path in rows:
        if path.exists():
            with closing(VectorCache(path)) as vectors_cache:
                size = vectors_cache.stats()
            sizes[name] = {"count": size.row_count, "bytes": size.byte_count}
    if layout.document_cache.exists():
        with closing(DocumentCache(layout.document_cache)) as documents_cache:
            sizes["documents"] = dict(zip(("count", "bytes"), documents_cache.stats(), strict=True))
    by_task = [
        {"model": task.model, "task": task.task, "replies": task.reply_count, "failures": task.failure_count}
        | asdict(task.spent)
        | {"failed_calls": task.failed_calls, "unknown_calls": task.unknown_calls}
        for task in tasks
    ]
    held = {"count": counts.reply_count, "raw": counts.raw_reply_count, "failures": counts.failure_count}
    spent = asdict(sum((task.spent for task in tasks), Usage()))
    return {"replies": {**held, "bytes": counts.byte_count, "spent": spent, "by_task": by_task}, **sizes}


@cache.command("evict")
def evict(
    older_than_days: Annotated[
        float | None, Option("--older-than-days", min=0, help="Only entries older than this many days.")
    ] = None,
    model: Annotated[str | None, Option("--model", help="Only replies of this model.")] = None,
    failures: Annotated[
        bool, Option("--failures", help="Only failed requests and their raw replies; valid replies stay.")
    ] = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Remove replies of models that fit all given conditions; what was spent on them stays in the journal."""
    from polyhop.warehouse.cache.replies import Evicted, ReplyCache
    from polyhop.warehouse.files.layout import Layout

    if older_than_days is None and model is None and not failures:
        raise ConfigurationError("Choose what to remove: --older-than-days N, --model M or --failures.")
    path = Layout(settings_of(root).root).reply_cache
    removed = Evicted(0, 0, 0)
    if path.exists():
        with closing(ReplyCache(path)) as cache:
            removed = cache.evict(older_than_days=older_than_days, model=model, only_failures=failures)
    if json:
        print_json(asdict(removed))
        return
    print_line(
        f"Removed: {plural(removed.replies, 'reply', 'replies')}, {plural(removed.failures, 'failed request')}, "
        f"{plural(removed.raw_replies, 'raw reply', 'raw replies')}"
    )


@cache.command("export")
def export_replies(file: File, root: Root = None, json: Json = False) -> None:
    """Write all valid replies into a parquet file."""
    from polyhop.warehouse.cache.replies import ReplyCache, export_replies
    from polyhop.warehouse.files.disk import PARQUET, require_writable
    from polyhop.warehouse.files.layout import Layout

    require_writable(file, "the replies", PARQUET)
    with closing(ReplyCache(Layout(settings_of(root).root).reply_cache)) as cache:
        count = export_replies(cache, file)
    print_json({"exported": count}) if json else print_line(f"{plural(count, 'reply', 'replies')} written to {file}")


@cache.command("import")
def import_(file: File, root: Root = None, json: Json = False) -> None:
    """Add the replies of a parquet file that are not cached; all or none of the file."""
    from polyhop.warehouse.cache.replies import ReplyCache, import_replies
    from polyhop.warehouse.files.layout import Layout

    with closing(ReplyCache(Layout(settings_of(root).root).reply_cache)) as cache:
        imported = import_replies(cache, file)
    if json:
        print_json(asdict(imported))
        return
    print_line(f"{plural(imported.added, 'reply', 'replies')} added, {imported.known:,} cached already")


export = typer.Typer(
    name="export", help="Export an index to Neo4j, or its graph or extractions to files.", no_args_is_help=True
)


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
    from polyhop.warehouse.open import find_address

    address = find_address(uri, user, password, database)
    settings = settings_of(root, set_)
    if os.environ.get("PREFECT_API_URL"):
        print_error("Running as a Prefect flow run…")
        from polyhop.flows.prefect_index import run_export_on_prefect

        report = run_export_on_prefect(settings, index, address)
    else:
        from polyhop.flows.export import run_export
        from polyhop.flows.runner import DirectRunner

        with progress() as update:
            report = run_export(settings, index, address, DirectRunner(update))
    if json:
        print_json(report.to_json())
        return
    written = f"{report.created:,} created, {report.updated:,} updated, {report.deleted:,} deleted"
    if not report.created + report.updated + report.deleted:
        written = "nothing to write"
    print_line(f"Index '{index}': Neo4j holds version {report.version}; {written}.")
    print_line("  " + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items()))
    if not report.has_vectors:
        print_line(
            "  without vectors of entities, which spreading activation in Neo4j needs; build them with: "
            f"polyhop index --index {index} --add-strategy qasa"
        )


@export.command("extraction")
def extraction(
    file: Annotated[Path, Argument(help="File to write: .jsonl, or .jsonl.gz to compress it.")],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write entities, triples and propositions of every passage; --extractor import:FILE reads them back."""
    from polyhop.warehouse.open import open_published
    from polyhop.warehouse.tables.version_rows import export_extractions

    with closing(open_published(settings_of(root).root, index)) as published:
        count = export_extractions(published.tables_file, file)
    if json:
        print_json({"index": index, "version": published.version, "passages": count, "file": str(file)})
        return
    print_line(f"Index '{index}', version {published.version}: {plural(count, 'passage')} written to {file}.")


@export.command("graphml")
def graphml(
    file: Annotated[Path, Argument(help="File to write.")], index: IndexName, root: Root = None, json: Json = False
) -> None:
    """Write the graph, entities and relations, as GraphML, which networkx, igraph and Gephi read."""
    from polyhop.warehouse.tables.version_rows import export_graphml

    _export_graph(export_graphml, file, index, root, json=json)


@export.command("parquet")
def parquet(
    folder: Annotated[Path, Argument(help="Folder for nodes.parquet and edges.parquet; created if it is missing.")],
    index: IndexName,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write the graph, entities and relations, as two Parquet files."""
    from polyhop.warehouse.tables.version_rows import export_parquet

    _export_graph(export_parquet, folder, index, root, json=json)


def _export_graph(
    write: "Callable[[Path, Path], tuple[int, int]]", target: Path, index: str, root: Path | None, *, json: bool
) -> None:
    from polyhop.warehouse.open import open_published

    with closing(open_published(settings_of(root).root, index)) as published:
        nodes, edges = write(published.tables_file, target)
    if json:
        document = {"index": index, "version": published.version, "entities": nodes, "relations": edges}
        print_json({**document, "file": str(target)})
        return
    counts = f"{plural(nodes, 'entity', 'entities')} and {plural(edges, 'relation')}"
    print_line(f"Index '{index}', version {published.version}: {counts} written to {target}.")
