"""`polyhop results`, `explain`, `replay`: stored answers, redrawn and asked again."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.ask import HtmlFile
from polyhop.commands.jobs import JobId
from polyhop.commands.options import (
    Json,
    Parameters,
    ReaderName,
    Root,
    Set,
    pairs,
    settings_of,
    with_reader,
)
from polyhop.output import print_error, print_json, print_line, print_table, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import SourceError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.schemas.queue import ResultRow
    from polyhop.schemas.settings import Settings

SHOWN_FAILURES = 5  # of `results --metrics`; chosen: `results` itself lists all
QuestionId = Annotated[str, typer.Argument(help="Id of the question in its file.")]


def results(
    job: JobId,
    out: Annotated[Path | None, typer.Option("--out", help="Write parquet instead of printing JSON lines.")] = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Print metrics against the file's gold (--json: all).")
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Print a job's questions with their answers, in submitted order, as JSON lines; at any time."""
    from polyhop.flows.job_metrics import job_metrics
    from polyhop.jobs import DamagedRows, result_document, results_parquet
    from polyhop.warehouse.open import open_questions

    with open_questions(settings_of(root, set_)) as queue:
        rows = DamagedRows(queue.results(job))
        if metrics:
            measured = job_metrics(iter(rows))
            if measured is None:
                raise SourceError(
                    f"Job {job} has neither answers nor supporting passages nor golden triples to compare with; submit "
                    "a file that has."
                )
            print_json(rounded(measured)) if json else print_metrics(measured)
        elif out is not None:
            count = results_parquet(iter(rows), out)
            print_json({"job_id": job, "rows": count, "file": str(out)}) if json else print_line(
                f"{plural(count, 'row')} in {out}"
            )
        else:
            for row in rows:
                print_json(result_document(row))
        rows.require_none()


def print_metrics(measured: Mapping[str, Any]) -> None:
    """The metrics that were judged, one per line, then answers, times and costs, and which questions failed."""
    judged = [[name, measured[name]] for name in measured if isinstance(measured[name], float) and name != "cost_usd"]
    print_line(f"{plural(measured['n'], 'question')}; depths beyond the job's limit are not judged")
    print_table(["metric", "mean"], [row for row in judged if row[0] != "total_seconds"])
    answered, latency, tokens = measured["answered"], measured["latency_ms"], measured["tokens"]
    if answered["share"] is not None:
        print_line(f"answered: {100 * answered['share']:.0f} % of the questions")
    if latency["p50"] is not None:
        print_line(f"a question took {latency['p50']:.1f} ms (p50), {latency['p95']:.1f} ms (p95)")
    if tokens["prompt"]:
        cost = cost_words(measured["cost_usd"])
        print_line(f"models: {tokens['prompt']:,} + {tokens['completion']:,} tokens, {cost}")
    for row in measured["failed"][:SHOWN_FAILURES]:
        print_line(f"failed: {row['id']}: {row['error']}")
    if measured["failures"] > SHOWN_FAILURES:
        print_line(f"{plural(measured['failures'] - SHOWN_FAILURES, 'more failure')}")


def explain(
    job: JobId,
    question: QuestionId,
    html: HtmlFile = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Redraw a stored answer's evidence, as it was when it was answered."""
    from polyhop.jobs import require_result
    from polyhop.warehouse.open import open_questions

    settings = settings_of(root, set_)
    with open_questions(settings) as queue:
        row = require_result(queue, job, question)
    if html is not None:
        from polyhop.pages.material import PAGE, write_stored_page
        from polyhop.warehouse.files.disk import require_place

        require_place(html, PAGE)
        write_stored_page(html, row.result, settings)
        print_error(f"Page written to {html}")
    if json:
        print_json(dict(row.result))
    else:
        _draw(row.result, settings)


def replay(
    job: JobId,
    question: QuestionId,
    strategy: Annotated[str | None, typer.Option("--strategy", help="Another strategy; default: the same.")] = None,
    param: Parameters = None,
    reader: ReaderName = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Ask a stored question again on the version it was answered from, side by side with the stored answer."""
    from polyhop.api import open_index
    from polyhop.jobs import require_result
    from polyhop.schemas.settings import with_min_confidence
    from polyhop.warehouse.open import open_questions

    settings = with_reader(settings_of(root, set_), reader)
    with open_questions(settings) as queue:
        row = require_result(queue, job, question)
    stored = row.result
    chosen = strategy or str(stored["strategy"])
    same = chosen == stored["strategy"] and not param
    parameters: Any = stored["parameters"] if same else pairs(param, "--param")
    least: Any = stored.get("min_confidence")
    settings = with_min_confidence(settings, least)
    with open_index(str(stored["index"]), settings=settings, version=row.version) as index:
        again = index.ask(
            row.question,
            strategy=chosen,
            limit=int(str(stored["limit"])),
            parameters=parameters,
            topic=row.topic,
            where=(stored.get("filter") or {}).get("where"),  # type: ignore[attr-defined]
        ).to_json()
    if json:
        print_json({"stored": dict(stored), "replayed": again})
        return
    _side_by_side(row, again)


def _draw(document: Any, settings: "Settings") -> None:
    from polyhop.api import Answer
    from polyhop.commands.ask import print_answer
    from polyhop.passages import stored_texts

    names = ("question", "answer", "strategy", "version", "passages", "evidence", "seconds")
    kept = {name: document[name] for name in names}
    later = {name: document.get(name) for name in ("triples", "filter")}
    answer = Answer(**kept, reading=document.get("reading", {}), **later)
    print_answer(answer, stored_texts(document, settings), explain=True)


def _side_by_side(row: "ResultRow", again: dict[str, Any]) -> None:
    from polyhop.passages import triple_words

    stored: Any = row.result
    print_line(f"Question  {row.question}")
    print_line(f"{'':10}{'stored: ' + stored['strategy']:<50}again: {again['strategy']} (version {again['version']})")
    print_line(f"Answer    {stored['answer']:<50}{again['answer']}")
    print_line(f"Read by   {_read_by(stored):<50}{_read_by(again)}")
    both = (stored, again)
    triples = [[triple_words(row)[:48] for row in one.get("triples") or ()] for one in both]
    _print_columns("Triples", triples)
    _print_columns(
        "Passages" if any(triples) else "",
        [[f"{row['title'][:38]} [{row['id']}]" for row in one["passages"]] for one in both],
    )
    if _ranked_ids(stored) == _ranked_ids(again):
        print_error("Both rankings are the same.")


def _print_columns(heading: str, columns: Sequence[Sequence[str]]) -> None:
    """Two rankings side by side, under a heading if there is one and anything was ranked."""
    if heading and any(columns):
        print_line(heading)
    for rank, (left, right) in enumerate(zip_longest(*columns, fillvalue=""), start=1):
        print_line(f"{rank:>8}  {left:<50}{right}")


def _ranked_ids(document: dict[str, Any]) -> list[list[str]]:
    """Ids of triples and of passages, ranked."""
    return [[row["id"] for row in document.get(name) or ()] for name in ("triples", "passages")]


def _read_by(document: dict[str, Any]) -> str:
    reading = document.get("reading") or {}
    return str(reading.get("model") or reading.get("by") or "rules")
