"""`polyhop cache`: what was paid for and is kept, removing some of it, carrying it elsewhere."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.warehouse.cache.replies import TaskCounts
    from polyhop.warehouse.files.layout import Layout

app = typer.Typer(
    name="cache",
    help="Inspect and manage the caches of model replies, embeddings and document texts, which all indexes share.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="The parquet file.")]


@app.command("stats")
def stats(set_: Set = None, root: Root = None, json: Json = False) -> None:
    """Count cached entries, and what they cost."""
    from polyhop.warehouse.files.layout import Layout

    layout = Layout(settings_of(root, set_).root)
    document = {
        "replies": _reply_stats(layout),
        "vectors": _vector_stats(layout.vector_cache),
        "paths": _vector_stats(layout.path_cache),
        "documents": _document_stats(layout.document_cache),
    }
    if json:
        print_json(rounded(document))
        return
    replies, vectors = document["replies"], document["vectors"]
    print_line(
        f"replies: {replies['count']} valid, {replies['raw']} raw, {replies['failures']} failed requests, "
        f"{replies['bytes']} bytes; spent: {plural(replies['spent']['calls'], 'call')}, "
        f"{cost_words(replies['spent']['cost_usd'])}"
    )
    print_line(f"vectors: {vectors['count']}, {vectors['bytes']} bytes")
    print_line(f"vectors of paths: {document['paths']['count']}, {document['paths']['bytes']} bytes")
    print_line(f"documents: {document['documents']['count']}, {document['documents']['bytes']} bytes")
    if replies["by_task"]:
        columns = list(replies["by_task"][0])
        print_table(columns, [list(row.values()) for row in replies["by_task"]])


@app.command("evict")
def evict(
    older_than_days: Annotated[
        float | None, typer.Option("--older-than-days", min=0, help="Only what is older than this many days.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Only what this model replied.")] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Only failed requests and their raw replies; valid replies stay.")
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Remove replies of models that fit all given conditions; what was spent on them stays in the journal."""
    from polyhop.warehouse.cache.replies import Evicted, ReplyCache
    from polyhop.warehouse.files.layout import Layout

    if older_than_days is None and model is None and not failures:
        raise ConfigurationError("Say what to remove: --older-than-days N, --model M or --failures.")
    path = Layout(settings_of(root, set_).root).reply_cache
    removed = Evicted(0, 0, 0)
    if path.exists():
        cache = ReplyCache(path)
        removed = cache.evict(older_than_days=older_than_days, model=model, only_failures=failures)
        cache.close()
    if json:
        print_json(asdict(removed))
        return
    print_line(
        f"Removed: {plural(removed.replies, 'reply', 'replies')}, {plural(removed.failures, 'failed request')}, "
        f"{plural(removed.raw_replies, 'raw reply', 'raw replies')}"
    )


@app.command("export")
def export(file: File, set_: Set = None, root: Root = None, json: Json = False) -> None:
    """Write all valid replies into a parquet file."""
    from polyhop.warehouse.cache.exchange import export_replies
    from polyhop.warehouse.cache.replies import ReplyCache
    from polyhop.warehouse.files.disk import require_place
    from polyhop.warehouse.files.layout import Layout

    require_place(file, "the replies")
    cache = ReplyCache(Layout(settings_of(root, set_).root).reply_cache)
    count = export_replies(cache, file)
    cache.close()
    print_json({"exported": count}) if json else print_line(f"{plural(count, 'reply', 'replies')} written to {file}")


@app.command("import")
def import_(file: File, set_: Set = None, root: Root = None, json: Json = False) -> None:
    """Add the replies of a parquet file that are not cached; all or none of the file."""
    from polyhop.warehouse.cache.exchange import import_replies
    from polyhop.warehouse.cache.replies import ReplyCache
    from polyhop.warehouse.files.layout import Layout

    cache = ReplyCache(Layout(settings_of(root, set_).root).reply_cache)
    imported = import_replies(cache, file)
    cache.close()
    if json:
        print_json(asdict(imported))
        return
    print_line(f"{plural(imported.added, 'reply', 'replies')} added, {imported.known:,} cached already")


@app.command("repair")
def repair(set_: Set = None, root: Root = None, json: Json = False) -> None:
    """Save what can still be read of damaged caches; what cannot is computed, or asked, again when it is needed."""
    from polyhop.warehouse.cache.repair import repair_caches
    from polyhop.warehouse.files.layout import Layout

    saved = repair_caches(Layout(settings_of(root, set_).root))
    if json:
        print_json([{**asdict(cache), "path": str(cache.path), "kept": str(cache.kept)} for cache in saved])
        return
    for cache in saved:
        print_line(
            f"{cache.path}: {plural(cache.saved, 'row')} saved, {cache.damaged:,} damaged; "
            f"the damaged file is kept as {cache.kept.name}, delete it once nothing is missed"
        )
    if not saved:
        print_line("The caches are intact.")


def _reply_stats(layout: "Layout") -> dict[str, Any]:
    """What the cache of replies holds; zeros, and no file made, if there is none."""
    from polyhop.schemas.chat import Usage
    from polyhop.warehouse.cache.replies import ReplyCache, ReplyCounts

    counts, tasks = ReplyCounts(0, 0, 0, 0), []
    if layout.reply_cache.exists():
        cache = ReplyCache(layout.reply_cache)
        counts, tasks = cache.stats(), cache.by_task()
        cache.close()
    return {
        "count": counts.reply_count,
        "raw": counts.raw_reply_count,
        "failures": counts.failure_count,
        "bytes": counts.byte_count,
        "spent": asdict(sum((task.spent for task in tasks), Usage())),
        "by_task": [_task_document(task) for task in tasks],
    }


def _task_document(task: "TaskCounts") -> dict[str, Any]:
    return {
        "model": task.model,
        "task": task.task,
        "replies": task.reply_count,
        "failures": task.failure_count,
        **asdict(task.spent),
        "failed_calls": task.failed_calls,
        "unknown_calls": task.unknown_calls,
    }


def _vector_stats(path: Path) -> dict[str, int]:
    """What a cache of vectors holds; zeros, and no file made, if there is none."""
    from polyhop.warehouse.cache.vectors import VectorCache

    if not path.exists():
        return {"count": 0, "bytes": 0}
    cache = VectorCache(path)
    size = cache.stats()
    cache.close()
    return {"count": size.row_count, "bytes": size.byte_count}


def _document_stats(path: Path) -> dict[str, int]:
    """What the cache of documents holds; zeros, and no file made, if there is none."""
    from polyhop.warehouse.cache.documents import DocumentCache

    if not path.exists():
        return {"count": 0, "bytes": 0}
    cache = DocumentCache(path)
    count, size = cache.stats()
    cache.close()
    return {"count": count, "bytes": size}
