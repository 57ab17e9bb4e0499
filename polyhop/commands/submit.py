"""`polyhop submit`: a question file becomes a job."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import (
    IndexName,
    Json,
    Limit,
    MinConfidence,
    Parameters,
    Root,
    Set,
    Strategy,
    Where,
    pairs,
    settings_of,
)
from polyhop.output import print_error, print_json, print_line, progress
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.warehouse.queue.queue import QuestionQueue


def submit(
    questions: Annotated[Path, typer.Argument(help="Questions: .jsonl, .csv, .parquet, or .txt with one per line.")],
    index: IndexName,
    strategy: Strategy = None,
    queue: Annotated[str, typer.Option("--queue", help="Queue to submit to.")] = "default",
    limit: Limit = 10,
    where: Where = None,
    param: Parameters = None,
    min_confidence: MinConfidence = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    key: Annotated[str | None, typer.Option("--key", help="The same key again submits nothing new.")] = None,
    name: Annotated[str, typer.Option("--name", help="A name for people.")] = "",
    deadline: Annotated[float | None, typer.Option("--deadline", help="Seconds after which nothing is asked.")] = None,
    max_attempts: Annotated[int, typer.Option("--max-attempts", min=1, help="Attempts per question.")] = 3,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Submit the good questions of a file with bad ones.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every question is answered or dead.")] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Submit a file of questions as one job for the workers."""
    from polyhop.flows.answer import submit_file
    from polyhop.schemas.queue import JobSpec
    from polyhop.schemas.requests import SubmissionRequest
    from polyhop.warehouse.open import open_questions

    settings = settings_of(root, set_)
    spec = JobSpec(
        index=index,
        name=name,
        queue=queue,
        strategy=strategy or "",
        parameters=pairs(param, "--param"),
        limit=limit,
        priority=priority,
        deadline_seconds=deadline,
        key=key,
        max_attempts=max_attempts,
        min_confidence=min_confidence,
        where=where,
    )
    with open_questions(settings) as opened:
        submitted = submit_file(settings, opened, SubmissionRequest(questions, spec, skip_bad))
        job_id, count = submitted.job_id, submitted.count
        for record in submitted.bad:
            print_error(f"{record.source} line {record.line} was left out: {record.reason}")
        if wait:
            _wait(opened, job_id)
    if json:
        print_json({"job_id": job_id, "questions": count, "new": submitted.is_new})
        return
    questions_words = f"{plural(count, 'question')} for '{index}', queue '{queue}'"
    if submitted.is_new:
        print_line(f"Job {job_id}: {questions_words}")
    else:
        print_line(f"Job {job_id} has the key '{key}' already: {questions_words}; nothing was submitted again")
    print_line(f"  answer them with: polyhop worker --queues {queue} --until-empty")
    print_line(f"  read them with:   polyhop results {job_id}")


def _wait(queue: "QuestionQueue", job_id: int) -> None:
    with progress() as update:
        while True:
            job = queue.job(job_id)
            if update is not None:
                update("questions", job.question_count - job.open_count, job.question_count)
            if not job.is_open:
                return
            time.sleep(0.5)
            queue.sweep()
