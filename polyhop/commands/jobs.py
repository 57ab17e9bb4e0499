"""`polyhop jobs`, `cancel`, `retry`: what is being asked, and changing it."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import clear_screen, is_terminal, print_json, print_line, print_table
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.jobs import QuestionPace
    from polyhop.warehouse.queue.queue import QuestionQueue

WATCH_SECONDS, WATCH_FILE_SECONDS = 5.0, 60.0
"""Between two lists of `--watch` on a terminal, and in a file; chosen: nobody waits, and a file stays readable."""
JobId = Annotated[int, typer.Argument(help="Id of the job, as `polyhop submit` printed it.")]


def jobs(
    workers: Annotated[bool, typer.Option("--workers", help="List the living workers instead.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete finished jobs older than queue.retention_days.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="List them again and again, with their pace, until nothing is open.")
    ] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List jobs with their counts by state and their errors, newest first; with --json as one list."""
    from polyhop.jobs import QuestionPace
    from polyhop.warehouse.open import open_questions

    settings = settings_of(root, set_)
    with open_questions(settings) as queue:
        if purge:
            print_line(f"{plural(queue.purge(settings.queue.retention_days), 'job')} forgotten")
            return
        if workers:
            _print_workers([vars_of(worker) for worker in queue.workers()], json=json)
            return
        paces: defaultdict[int, QuestionPace] = defaultdict(QuestionPace)
        while _print_jobs(queue, paces, json=json) and watch:
            time.sleep(WATCH_SECONDS if is_terminal() else WATCH_FILE_SECONDS)
            clear_screen()


def _print_jobs(queue: "QuestionQueue", paces: "Mapping[int, QuestionPace]", *, json: bool) -> bool:
    """The jobs as they are now, and how fast the open ones are answered since the last look; whether any is open."""
    from polyhop.jobs import job_document, waiting_workers

    queue.sweep()
    workers, found = queue.workers(), queue.jobs()
    looks = {job.job_id: paces[job.job_id].look(job.question_count - job.open_count, job.open_count) for job in found}
    rows = [job_document(job, workers) | looks[job.job_id] for job in found]
    if json:
        print_json(rows)
    else:
        _print_table(rows)
        for worker in waiting_workers(workers):
            print_line(f"  worker {worker['worker']} waits for a model, since {worker['since']}: {worker['reason']}")
    return any(job.is_open for job in found)


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table, and below it the pace of open jobs, and what went wrong in which job."""
    from polyhop.jobs import pace_words

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
        if row["per_minute"] is not None and row["queued"] + row["leased"]:
            print_line(f"  job {row['job_id']}: {pace_words(row['per_minute'], row['seconds_left'])}")
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
    if json:
        print_json({"job_id": job, "cancelled": count})
    elif count:
        print_line(f"Job {job}: {plural(count, 'question')} cancelled")
    else:
        print_line(f"Job {job} has ended: no question was open, and nothing was cancelled (polyhop results {job})")


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
