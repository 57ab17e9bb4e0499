"""`polyhop submit`, `worker` and `jobs` with what is done to a job: question queues."""

import dataclasses
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from polyhop.commands import options
from polyhop.output import clear_screen, print_error, print_json, print_line, print_table, progress, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError, PolyhopError, SourceError
from polyhop.schemas.text import plural

if TYPE_CHECKING:
    from polyhop.jobs import QuestionPace
    from polyhop.warehouse.queue.queue import QuestionQueue
    from polyhop.worker.loop import Worker

WATCH_SECONDS, WATCH_FILE_SECONDS = 5.0, 60.0
"""Between two lists of `--watch` on a terminal, and in a file; chosen: short enough to watch, long for a file."""
SHOWN_FAILURES = 5  # of `jobs results --metrics`; chosen: `jobs results` itself lists all
PROGRESS_SECONDS = 60.0  # between two lines of a worker; chosen: a run of hours leaves some hundred lines
JobId = Annotated[int, Argument(help="Id of the job, as `polyhop submit` printed it.")]
QuestionId = Annotated[str, Argument(help="Id of the question in its file.")]
jobs = typer.Typer(name="jobs", invoke_without_command=True)


@jobs.callback()
def list_jobs(
    context: typer.Context,
    workers: Annotated[bool, Option("--workers", help="List the running workers instead.")] = False,
    purge: Annotated[bool, Option("--purge", help="Delete jobs that ended at least 30 days ago.")] = False,
    watch: Annotated[bool, Option("--watch", help="Refresh the list, with rates, until no question is open.")] = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """List jobs with their counts by state and their errors, newest first; or do something with one of them."""
    if context.invoked_subcommand is not None:
        return
    from polyhop.jobs import QuestionPace
    from polyhop.warehouse.open import open_questions

    settings = options.settings_of(root, set_)
    with open_questions(settings) as queue:
        if purge:
            from polyhop.warehouse.queue.queue import RETENTION_DAYS

            print_line(f"{plural(queue.purge(RETENTION_DAYS), 'job')} deleted")
            return
        if workers:
            rows = [dataclasses.asdict(worker) for worker in queue.workers()]
            columns = ["worker_id", "host", "process_id", "queues", "versions", "outage"]
            print_json(rows) if json else print_table(columns, [[row[column] for column in columns] for row in rows])
            return
        paces: defaultdict[int, QuestionPace] = defaultdict(QuestionPace)
        while _print_jobs(queue, paces, json=json) and watch:
            time.sleep(WATCH_SECONDS if sys.stdout.isatty() else WATCH_FILE_SECONDS)
            clear_screen()


def _print_jobs(queue: "QuestionQueue", paces: "Mapping[int, QuestionPace]", *, json: bool) -> bool:
    """The jobs as they are now, and how fast the open ones are answered since the last look; whether any is open."""
    from polyhop.jobs import job_document, pace_words, waiting_workers

    queue.sweep()
    workers, found = queue.workers(), queue.jobs()
    looks = {job.job_id: paces[job.job_id].look(job.question_count - job.open_count, job.open_count) for job in found}
    rows = [job_document(job, workers) | looks[job.job_id] for job in found]
    if json:
        print_json(rows)
    else:
        # A table, and below it the pace of open jobs, and what went wrong in which job.
        columns = ["job_id", "name", "queue", "index", "strategy", "questions"]
        columns += ["queued", "leased", "done", "dead", "cancelled"]
        print_table(columns, [[row[column] for column in columns] for row in rows])
        for row in rows:
            if row["per_minute"] is not None and row["queued"] + row["leased"]:
                print_line(f"  job {row['job_id']}: {pace_words(row['per_minute'], row['seconds_left'])}")
            for error in row["errors"]:
                print_line(f"  job {row['job_id']}: {error['count']} dead, {error['class']}: {error['example']}")
        for worker in waiting_workers(workers):
            print_line(f"  worker {worker['worker']} waits for a model, since {worker['since']}: {worker['reason']}")
    return any(job.is_open for job in found)


@jobs.command("cancel")
def cancel(job: JobId, set_: options.Set = None, root: options.Root = None, json: options.Json = False) -> None:
    """Cancel a job: its open questions are not asked any more, its answers are kept."""
    from polyhop.warehouse.open import open_questions

    with open_questions(options.settings_of(root, set_)) as queue:
        count = queue.cancel(job)
    if json:
        print_json({"job_id": job, "cancelled": count})
    elif count:
        print_line(f"Job {job}: {plural(count, 'question')} cancelled")
    else:
        print_line(f"Job {job} has ended: no question was open, so nothing was cancelled (polyhop jobs results {job})")


@jobs.command("retry")
def retry(
    job: JobId,
    question: Annotated[list[str] | None, Option("--question", help="Retry only this question.")] = None,
    deadline: Annotated[
        float | None, Option("--deadline", help="Seconds until open questions expire; default: the job's deadline.")
    ] = None,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Ask dead and cancelled questions of a job again."""
    from polyhop.jobs import iso
    from polyhop.warehouse.open import open_questions

    with open_questions(options.settings_of(root, set_)) as queue:
        count = queue.retry(job, question, deadline)
        row = queue.job(job)
    if json:
        until = None if row.deadline is None or not count else iso(row.deadline)
        print_json({"job_id": job, "requeued": count, "deadline": until})
        return
    more = ""
    if count and row.deadline_seconds is not None:
        # a deadline starts again at a retry, and a short one passes before any worker comes
        seconds = f"{row.deadline_seconds:g} s"
        more = f"; questions not started within {seconds} become dead (--deadline SECONDS changes that)"
    print_line(f"Job {job}: {plural(count, 'question')} queued again{more}")


@jobs.command("results")
def results(
    job: JobId,
    out: Annotated[
        Path | None,
        Option(
            "--out",
            help="Write to this file instead of printing; the suffix .csv, .jsonl or .parquet selects the format.",
        ),
    ] = None,
    metrics: Annotated[bool, Option("--metrics", help="Print metrics against the file's gold (--json: all).")] = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Print a job's questions with their answers, in submitted order, as JSON lines; at any time."""
    from polyhop.flows.answer import job_metrics
    from polyhop.jobs import result_document, write_results
    from polyhop.warehouse.open import open_questions

    with open_questions(options.settings_of(root, set_)) as queue:
        rows = queue.results(job)
        if metrics:
            measured = job_metrics(rows)
            if measured is None:
                raise SourceError(
                    f"Job {job} has neither answers nor supporting passages nor golden triples to compare with; submit "
                    "a file that has."
                )
            print_json(rounded(measured)) if json else print_metrics(measured)
        elif out is not None:
            count = write_results(rows, out)
            written = {"job_id": job, "rows": count, "file": str(out)}
            print_json(written) if json else print_line(f"{plural(count, 'row')} in {out}")
        else:
            for row in rows:
                print_json(result_document(row))


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


@jobs.command("explain")
def explain(
    job: JobId,
    question: QuestionId,
    html: options.HtmlFile = None,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Redraw a stored answer's evidence, as it was when it was answered."""
    from polyhop.jobs import require_result
    from polyhop.warehouse.open import open_questions

    settings = options.settings_of(root, set_)
    with open_questions(settings) as queue:
        row = require_result(queue, job, question)
    if html is not None:
        from polyhop.pages.answer_page import PAGE, write_stored_page
        from polyhop.warehouse.files.disk import HTML, require_writable

        require_writable(html, PAGE, HTML)
        write_stored_page(html, row.result, settings)
        print_error(f"Page written to {html}")
    if json:
        print_json(dict(row.result))
        return
    from polyhop.api import Answer
    from polyhop.commands.ask import print_answer
    from polyhop.terminal import stored_texts

    stored: Any = row.result
    answer = Answer(**{field.name: stored[field.name] for field in dataclasses.fields(Answer) if field.name in stored})
    print_answer(answer, stored_texts(stored, settings), explain=True)


@jobs.command("replay")
def replay(
    job: JobId,
    question: QuestionId,
    strategy: Annotated[str | None, Option("--strategy", help="Another strategy; default: the same.")] = None,
    param: options.Parameters = None,
    reader: options.ReaderName = None,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Ask a stored question again on the version it was answered from, side by side with the stored answer."""
    from polyhop.api import open_index
    from polyhop.jobs import require_result
    from polyhop.schemas.queue import model_that_read
    from polyhop.schemas.settings import with_min_confidence
    from polyhop.terminal import triple_words
    from polyhop.warehouse.open import open_questions

    settings = options.with_reader(options.settings_of(root, set_), reader)
    with open_questions(settings) as queue:
        row = require_result(queue, job, question)
    stored: Any = row.result
    chosen = strategy or stored["strategy"]
    same = chosen == stored["strategy"] and not param
    settings = with_min_confidence(settings, stored.get("min_confidence"))
    with open_index(stored["index"], settings=settings, version=row.version) as index:
        again = index.ask(
            row.question,
            strategy=chosen,
            limit=stored["limit"],
            parameters=stored["parameters"] if same else options.pairs(param, "--param"),
            topic=row.topic,
            where=(stored.get("filter") or {}).get("where"),
        ).to_json()
    if json:
        print_json({"stored": dict(stored), "replayed": again})
        return
    print_line(f"Question  {row.question}")
    print_line(f"{'':10}{'stored: ' + stored['strategy']:<50}again: {again['strategy']} (version {again['version']})")
    print_line(f"Answer    {stored['answer']:<50}{again['answer']}")
    both = (stored, again)
    readings = [one.get("reading") or {} for one in both]
    by, by_now = (str(model_that_read(reading) or reading.get("by") or "local") for reading in readings)
    print_line(f"Read by   {by:<50}{by_now}")
    triples = [[triple_words(row)[:48] for row in one.get("triples") or ()] for one in both]
    passages = [[f"{row['title'][:38]} [{row['id']}]" for row in one["passages"]] for one in both]
    for heading, columns in (("Triples", triples), ("Passages" if any(triples) else "", passages)):
        if heading and any(columns):
            print_line(heading)
        for rank, (left, right) in enumerate(zip_longest(*columns, fillvalue=""), start=1):
            print_line(f"{rank:>8}  {left:<50}{right}")
    ids = [[[row["id"] for row in one.get(name) or ()] for name in ("triples", "passages")] for one in both]
    if ids[0] == ids[1]:
        print_error("Both rankings are the same.")


def submit(
    questions: Annotated[Path, Argument(help="Questions: .jsonl, .csv, .parquet, or .txt with one per line.")],
    index: options.IndexName,
    strategy: options.Strategy = None,
    queue: Annotated[str, Option("--queue", help="Queue to submit to.")] = "default",
    limit: options.Limit = 10,
    where: options.Where = None,
    param: options.Parameters = None,
    min_confidence: options.MinConfidence = None,
    priority: Annotated[int, Option("--priority", help="Jobs with a higher priority are answered first.")] = 0,
    key: Annotated[
        str | None, Option("--key", help="Idempotency key: submitting with the same key again adds nothing.")
    ] = None,
    name: Annotated[str, Option("--name", help="Display name of the job.")] = "",
    deadline: Annotated[float | None, Option("--deadline", help="Seconds until unanswered questions expire.")] = None,
    skip_bad: Annotated[
        bool, Option("--skip-bad", help="Submit the valid questions of a file that has invalid ones.")
    ] = False,
    wait: Annotated[bool, Option("--wait", help="Wait until every question is answered or dead.")] = False,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Submit a file of questions as one job for the workers."""
    from polyhop.flows.answer import submit_file
    from polyhop.jobs import unserved_sentence
    from polyhop.schemas.queue import JobSpec
    from polyhop.schemas.requests import SubmissionRequest
    from polyhop.warehouse.open import open_questions

    settings = options.settings_of(root, set_)
    spec = JobSpec(
        index=index,
        name=name,
        queue=queue,
        strategy=strategy or "",
        parameters=options.pairs(param, "--param"),
        limit=limit,
        priority=priority,
        deadline_seconds=deadline,
        key=key,
        min_confidence=min_confidence,
        where=where,
    )
    with open_questions(settings) as opened:
        submitted = submit_file(settings, opened, SubmissionRequest(questions, spec, skip_bad))
        job_id, count = submitted.job_id, submitted.count
        for record in submitted.bad:
            print_error(f"{record.source} line {record.line} was left out: {record.reason}")
        unserved = unserved_sentence(opened.job(job_id), opened.workers(), settings)
        if unserved and (wait or json):
            print_error(unserved)
        with progress() if wait else nullcontext() as update:
            while wait and (job := opened.job(job_id)).is_open:  # a question is open until it is answered or dead
                if update is not None:
                    update("questions", job.question_count - job.open_count, job.question_count)
                time.sleep(0.5)
                opened.sweep()
    if json:
        print_json({"job_id": job_id, "questions": count, "new": submitted.is_new})
        return
    questions_words = f"{plural(count, 'question')} for '{index}', queue '{queue}'"
    if submitted.is_new:
        print_line(f"Job {job_id}: {questions_words}")
    else:
        print_line(f"Job {job_id} has the key '{key}' already: {questions_words}; nothing was submitted again")
    if unserved and not wait:
        print_line(f"  {unserved}")
    print_line(f"  read them with:   polyhop jobs results {job_id}")


def worker(
    queues: Annotated[str, Option("--queues", help="Queues to serve, separated by commas.")] = "default",
    batch: Annotated[int | None, Option("--batch", min=1, help="Questions per batch.")] = None,
    until_empty: Annotated[bool, Option("--until-empty", help="Exit when no question is queued or leased.")] = False,
    metrics_port: Annotated[
        int | None, Option("--metrics-port", help="Serve Prometheus /metrics and /healthz on this port.")
    ] = None,
    metrics_address: Annotated[str, Option("--metrics-address", help="Address to serve on.")] = "127.0.0.1",
    reader: options.ReaderName = None,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Answer questions from queues. SIGTERM finishes the batch at work, a second one gives it back."""
    from polyhop.flows.runner import model_run
    from polyhop.schemas.chat import JOBS, Role
    from polyhop.schemas.text import names_in
    from polyhop.warehouse.machine import gc_throttled
    from polyhop.warehouse.open import open_questions
    from polyhop.warehouse.open_models import open_batches
    from polyhop.worker.loop import BATCH, Follower, Worker, WorkerMetrics, WorkerOptions, serve_metrics
    from polyhop.worker.session import IndexPool

    settings = options.with_reader(options.settings_of(root, set_), reader)
    settings = settings.model_copy(update={"cores": settings.cores or 1})
    names = names_in(queues)
    if not names:
        raise ConfigurationError(f"--queues takes names separated by commas, not '{queues}'.")
    duties = WorkerOptions(
        queues=names,
        batch=batch or BATCH,
        until_empty=until_empty,
        question_seconds=settings.worker.question_seconds,
    )
    metrics = WorkerMetrics()
    stop_serving = None if metrics_port is None else serve_metrics(metrics, metrics_port, metrics_address)
    with open_questions(settings) as queue, model_run(index=JOBS), gc_throttled() as collect_garbage:
        batches = open_batches(settings, Role.READ)
        follower = Follower(settings) if settings.index.remote else None
        running = Worker(queue, IndexPool(settings), duties, metrics, collect_garbage, follower, batches)
        running.handle_signals()
        print_error(f"Worker {running.worker_id} answers {', '.join(duties.queues)}.")
        unknown = _unknown_queues(queue, names)
        if unknown:
            print_error(unknown if until_empty else f"{unknown} The worker waits for questions there.")
        ended = Event()
        progress = Thread(target=say_progress, args=(running, queue, names, ended.wait), name="progress", daemon=True)
        progress.start()
        try:
            report = running.run()
        finally:
            ended.set()
    if stop_serving is not None:
        stop_serving()
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(f"{report.finished} answered, {report.failed} failed, {report.released} released")
    if running.awaited is not None:
        raise running.awaited


def _unknown_queues(queue: "QuestionQueue", names: Iterable[str]) -> str:
    """Sentence that some queues have no job, with the queues that have; "" if all have."""
    known = queue.names()
    unknown = ", ".join(f"'{name}'" for name in names if name not in known)
    having = f"queues with jobs: {', '.join(known)}" if known else "no queue has jobs yet"
    return f"Nothing has been submitted to {unknown}; {having}." if unknown else ""


def say_progress(
    running: "Worker", queue: "QuestionQueue", queues: Sequence[str], wait: Callable[[float], bool]
) -> None:
    """Says now and then how far a worker is, until `wait` says that it has ended; nothing while nothing is open."""
    from polyhop.jobs import QuestionPace, pace_words

    pace, said = QuestionPace(), 0
    pace.look(0, 0)
    while not wait(PROGRESS_SECONDS):
        report = running.report
        ended = report.finished + report.failed
        try:
            open_count = queue.count_open(queues)
        except PolyhopError:  # the worker itself says that the queue is unavailable
            continue
        look = pace.look(ended, open_count)
        if open_count or ended != said:
            print_error(
                f"{report.finished:,} answered, {report.failed:,} failed; {plural(open_count, 'question')} open, "
                f"{pace_words(look['per_minute'] or 0.0, look['seconds_left'])}"
            )
        said = ended
