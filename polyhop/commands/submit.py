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
    pairs,
    settings_of,
)
from polyhop.output import print_error, print_json, print_line, progress
from schemas.strategies import DEFAULT_STRATEGY

if TYPE_CHECKING:
    from warehouse.queue.queue import QuestionQueue


def submit(
    questions: Annotated[Path, typer.Argument(help="Questions: .jsonl, .csv, .parquet, or .txt with one per line.")],
    index: IndexName,
    strategy: Strategy = DEFAULT_STRATEGY,
    queue: Annotated[str, typer.Option("--queue", help="Queue to submit to.")] = "default",
    limit: Limit = 10,
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
    from flows.answer import Submission, submit_file
    from warehouse.open import open_questions
    from worker.strategies.registry import parse_parameters, spec_of

    settings = settings_of(root, set_)
    parameters = pairs(param, "--param")
    parse_parameters(spec_of(strategy), parameters)
    request = Submission(
        questions=questions,
        index=index,
        strategy=strategy,
        queue=queue,
        limit=limit,
        parameters=parameters,
        priority=priority,
        key=key,
        name=name or questions.name,
        deadline_seconds=deadline,
        max_attempts=max_attempts,
        skip_bad=skip_bad,
        min_confidence=min_confidence,
    )
    with open_questions(settings) as opened:
        job_id, count, bad = submit_file(settings, opened, request)
        for record in bad:
            print_error(f"{record.source} line {record.line} was left out: {record.reason}")
        if wait:
            _wait(opened, job_id)
    if json:
        print_json({"job_id": job_id, "questions": count})
        return
    print_line(f"Job {job_id}: {count:,} questions for '{index}', queue '{queue}'")
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
