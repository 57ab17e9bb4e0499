"""The stage `hubs`: texts of the paths that `hub-paths` found, by a template or a model, and what of them gets vectors.

Searches nothing. Replies of a model are cached by the words of a path: a changed graph asks for new ones only, and what
failed has the template's text until a later run gets another. Source: algorithms.md 4.2, 4.6, 4B (units).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from polyhop.schemas.chat import ChatRequest, Role
from polyhop.schemas.columns import Table, count, text
from polyhop.schemas.ids import content_hash
from polyhop.tasks.hubs.path_rows import path_tables, text_table
from polyhop.tasks.hubs.rows import DistinctTexts, RowCollector, value_texts
from polyhop.tasks.hubs.search_stage import HUB_PATH_SEARCH, found_hubs, searched_paths
from polyhop.tasks.hubs.searched import SearchedPaths
from polyhop.tasks.hubs.tables import HUB_PATHS, HUB_TEXTS
from polyhop.tasks.hubs.textualise import PathText, distinct_lines, path_request, path_text_task, usable_text
from polyhop.tasks.planning import PlannedStep, Planner, planned_step
from polyhop.tasks.stage import BatchResult, Counts, Stage, named
from polyhop.warehouse.batched_list import batch_count, read_batch, row_count, write_batches
from polyhop.warehouse.build import Build, is_part_done, part_files, write_part
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.graph.arrays import save_arrays, text_arrays
from polyhop.warehouse.statements import statement, statements

ARRAYS = "hubs"
_REPLIES = Table(
    "path_replies",
    "Paths that a model was asked about, by the words that it was shown.",
    ("lines",),
    (
        text("lines", "words of the path"),
        text("text", "the usable reply; empty if there is none"),
        text("model", "model asked"),
        count("prompt_tokens", "tokens sent for it"),
        count("completion_tokens", "tokens received for it"),
    ),
)
"""Columns of the parts of the batches."""
_ASKED = pa.schema([("lines", pa.string()), ("unit_id", pa.string())])


def settings(build: Build) -> dict[str, object]:
    """Who writes the texts, and what of a path is embedded.

    Raises:
        ConfigurationError: If a model shall write and none is named.
    """
    chosen = build.settings.hubs
    said: dict[str, object] = {"levels": list(chosen.levels), "textualiser": chosen.textualiser}
    return said | ({"model": _model(build)} if _asks(build) else {})


def files(build: Build) -> dict[str, str]:
    """The prompt."""
    return {"prompt": path_text_task().prompt.hash} if _asks(build) else {}


def batches(build: Build) -> list[int]:
    """Batches of paths without a finished part, none if a template writes; the paths are listed first, once."""
    if not _asks(build):
        return []
    folder, path = _replies_folder(build), _asked(build)
    if not path.is_file():
        requests = _requests(SearchedPaths.open(build.staging.arrays))
        with writing("the list of paths to ask about", folder):
            write_batches(path, _ASKED, map(_asked_table, _batched(requests, build)))
    return [number for number in range(batch_count(path)) if not is_part_done(folder, number)]


def run(build: Build, batch: int) -> BatchResult:
    """Asks about one batch of paths; what fails is asked again by the next run.

    Raises:
        BudgetExceededError: Before a call that might exceed the budget; replies so far are cached.
    """
    from polyhop.warehouse.open_models import open_chat

    asked = read_batch(_asked(build), batch).to_pylist()
    requests = [path_request(row["lines"], row["unit_id"]) for row in asked]
    outcomes = open_chat(build.settings, Role.EXTRACT).ask(requests)
    rows = [
        {
            "lines": dict(request.inputs)["triples"],
            "text": usable_text(outcome.reply),
            "model": outcome.model,
            "prompt_tokens": outcome.usage.prompt_tokens,
            "completion_tokens": outcome.usage.completion_tokens,
        }
        for request, outcome in zip(requests, outcomes, strict=True)
        if outcome.reply is not None
    ]
    table = pa.Table.from_pylist(rows, schema=_REPLIES.arrow)
    write_part(_replies_folder(build), batch, {"replies": table}, is_complete=len(rows) == len(requests))
    return BatchResult(len(requests), sum(not outcome.is_cached for outcome in outcomes))


def finish(build: Build) -> Counts:
    """Fills the tables of paths and texts, and writes the arrays."""
    searched = SearchedPaths.open(build.staging.arrays)
    replies = _replies(build)
    written = {row["lines"]: (row["text"], row["model"]) for row in replies if row["text"]}
    texts, rows = DistinctTexts(), RowCollector(build.settings.hubs.levels)
    numbers: list[int] = []
    folder = build.parts("hubs") / "rows"
    for chunk, table in enumerate(path_tables(searched, written, rows)):
        numbers += map(texts.number, table.column("text").to_pylist())
        write_part(folder, chunk, {"paths": table})
    values = DistinctTexts()
    value_numbers = value_texts(searched.signatures(), searched.end_labels(), values)
    _fill(build, folder, {"hubpath": rows.texts.texts, "hubvalue": values.texts, "hubname": searched.hub_names()})
    saved = {"path-texts": np.array(numbers, dtype=np.int32), "values": value_numbers}
    save_arrays(build.staging.arrays, ARRAYS, {**saved, **rows.rows().arrays, **text_arrays(texts.texts)})
    counts = {
        "paths": searched.path_count,
        "path_texts": len(texts.texts),
        "row_texts": len(rows.texts.texts),
        "value_texts": len(values.texts),
    }
    if _asks(build):
        counts["failed_path_texts"] = row_count(_asked(build)) - len(replies)
        counts |= {name: sum(row[name] for row in replies) for name in ("prompt_tokens", "completion_tokens")}
    return counts


def outcome(build: Build) -> str:
    """Hash of what came out: a model's replies are not determined by the fingerprint."""
    if not _asks(build):
        return build.fingerprint("hubs")
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("hubs", "content_of_paths")).fetchone() or ()
    return content_hash("hubs", build.fingerprint("hubs"), *map(str, row))


def plan(build: Build, planner: Planner) -> Iterator[PlannedStep]:
    """One request per path of different words. What a text corpus relates is known only when it is extracted."""
    if not _asks(build) or build.source_kind == "corpus":
        return
    with build.tables(read_only=True) as connection:
        searched = searched_paths(*found_hubs(build, connection))
    for requests in _batched(_requests(searched), build):
        yield planned_step(path_text_task(), requests, planner)


def _asks(build: Build) -> bool:
    """Whether a model writes the texts."""
    return build.settings.hubs.textualiser == "model"


def _model(build: Build) -> str:
    from polyhop.warehouse.open_models import model_name

    return model_name(build.settings.models, Role.EXTRACT)


def _requests(searched: SearchedPaths) -> list[ChatRequest[PathText]]:
    """One per path of different words, in the order of the paths."""
    return [path_request(lines, searched.hash_of(path)) for lines, path in distinct_lines(searched.words()).items()]


def _batched(requests: Sequence[ChatRequest[PathText]], build: Build) -> Iterator[Sequence[ChatRequest[PathText]]]:
    size = build.settings.batch_size
    return (requests[first : first + size] for first in range(0, len(requests), size))


def _asked(build: Build) -> Path:
    """The list of what the model is asked, by batch: putting all paths into words for each batch would be quadratic."""
    return _replies_folder(build) / "asked.parquet"


def _asked_table(requests: Sequence[ChatRequest[PathText]]) -> pa.Table:
    rows = {"lines": [dict(one.inputs)["triples"] for one in requests], "unit_id": [one.unit_id for one in requests]}
    return pa.table(rows, _ASKED)


def _replies_folder(build: Build) -> Path:
    return build.parts("hubs") / "replies"


def _replies(build: Build) -> list[dict[str, Any]]:
    """Rows of the parts."""
    import pyarrow.parquet as pq

    parts = part_files(_replies_folder(build), "replies") if _asks(build) else []
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def _fill(build: Build, folder: Path, texts: dict[str, list[str]]) -> None:
    """The tables, from the parts and from the distinct texts by kind."""
    with build.tables() as connection:
        if paths := part_files(folder, "paths"):
            connection.execute(statement("hubs", "fill_hub_paths"), {"paths": paths})
        connection.register("incoming", text_table(texts))
        connection.execute("INSERT INTO hub_texts FROM incoming ORDER BY kind, ordinal")
        connection.unregister("incoming")


HUBS = Stage(
    "hubs",
    reads=("hub-paths",),
    writes=("hubs",),
    finish=finish,
    settings=settings,
    files=files,
    batches=batches,
    run=run,
    unit=named("paths"),
    tables=(HUB_PATHS, HUB_TEXTS),
    arrays=ARRAYS,
    outcome=outcome,
    plan=plan,
    invariants=statements("hub_path_invariants"),
)
HUB_STAGES = (HUB_PATH_SEARCH, HUBS)
