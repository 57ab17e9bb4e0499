"""`polyhop jobs`, `cancel`, `retry`: what is being asked, and changing it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table
from polyhop.schemas.errors import ConfigurationError

JobId = Annotated[int, typer.Argument(help="Id of the job, as `polyhop submit` printed it.")]


def jobs(
    workers: Annotated[bool, typer.Option("--workers", help="List the living workers instead.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete finished jobs older than queue.retention_days.")
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List jobs with their counts by state and their errors, newest first; with --json as one list."""
    from polyhop.jobs import job_document, waiting_workers
    from polyhop.warehouse.open import open_questions

    settings = settings_of(root, set_)
    with open_questions(settings) as queue:
        if purge:
            print_line(f"{queue.purge(settings.queue.retention_days)} jobs forgotten")
            return
        if workers:
            _print_workers([vars_of(worker) for worker in queue.workers()], json=json)
            return
        queue.sweep()
        found = queue.workers()
        rows = [job_document(job, found) for job in queue.jobs()]
    if json:
        print_json(rows)
        return
    _print_jobs(rows)
    for worker in waiting_workers(found):
        print_line(f"  worker {worker['worker']} waits for a model, since {worker['since']}: {worker['reason']}")


def _print_jobs(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table, and below it what went wrong in which job."""
    columns = [
        "job_id",
        "name",
        "queue",
        "index",
        "strategy",
        "questions",
        "queued",
        "leased",
        "done",
        "dead",
        "cancelled",
    ]
    print_table(columns, [[row[column] for column in columns] for row in rows])
    for row in rows:
        for error in row["errors"]:
            print_line(f"  job {row['job_id']}: {error['count']} dead, {error['class']}: {error['example']}")
        if row["damage"] is not None:
            print_line(f"  job {row['job_id']} is damaged in the queue: {row['damage']}; submit its questions again")


def vars_of(worker: object) -> dict[str, object]:
    """A worker row as a document."""
    import dataclasses

    return dataclasses.asdict(worker)  # type: ignore[call-overload,no-any-return]


def _print_workers(rows: list[dict[str, object]], *, json: bool) -> None:
    if json:
        print_json(rows)
        return
    columns = ["worker_id", "host", "process_id", "queues", "versions", "outage"]
    print_table(columns, [[row[column] for column in columns] for row in rows])


def cancel(job: JobId, set_: Set = None, root: Root = None, json: Json = False) -> None:
    """Cancel a job: its open questions are not asked any more, its answers are kept."""
    from polyhop.warehouse.open import open_questions

    with open_questions(settings_of(root, set_)) as queue:
        count = queue.cancel(job)
    print_json({"job_id": job, "cancelled": count}) if json else print_line(f"Job {job}: {count} questions cancelled")


def retry(
    job: JobId,
    question: Annotated[
        list[str] | None,
        typer.Option("--question", help="Ask only this question again; also one whose stored answer is damaged."),
    ] = None,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Ask those again whose stored answers are damaged.")
    ] = False,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", help="Seconds from now after which nothing is asked; default: the job's."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Ask dead and cancelled questions of a job again."""
    from polyhop.jobs import retry_document, retry_sentence
    from polyhop.warehouse.open import open_questions

    if damaged and question:
        raise ConfigurationError("--damaged finds the questions by itself; leave --question out.")
    with open_questions(settings_of(root, set_)) as queue:
        chosen = queue.damaged_answers(job) if damaged else question
        count = queue.retry(job, chosen, deadline)
        row = queue.job(job)
    if json:
        print_json(retry_document(row, count))
    else:
        print_line(retry_sentence(row, count))
