"""`polyhop worker`: answers questions from queues until it is stopped."""

from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Json, ReaderName, Root, Set, settings_of, with_reader
from polyhop.output import print_error, print_json, print_line
from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.warehouse.queue.queue import QuestionQueue
    from polyhop.worker.loop import Worker

PROGRESS_SECONDS = 60.0
"""Between two lines of a worker; chosen: a run of hours leaves some hundred lines."""


def worker(
    queues: Annotated[str, typer.Option("--queues", help="Queues to answer, separated by commas.")] = "default",
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Questions to take at once.")] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is queued or leased.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Serve Prometheus /metrics and /healthz on this port.")
    ] = None,
    metrics_address: Annotated[str, typer.Option("--metrics-address", help="Address to serve on.")] = "127.0.0.1",
    reader: ReaderName = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Answer questions from queues. SIGTERM finishes the batch at work, a second one gives it back."""
    import dataclasses

    from polyhop.jobs import unknown_queue_sentence
    from polyhop.schemas.requests import names_in
    from polyhop.warehouse.open import open_questions
    from polyhop.worker.cycles import searched_by_the_clock
    from polyhop.worker.loop import Worker, WorkerOptions
    from polyhop.worker.metrics import WorkerMetrics, serve_metrics
    from polyhop.worker.pool import IndexPool

    settings = with_reader(settings_of(root, set_), reader)
    if not settings.encoder.threads:
        encoder = settings.encoder.model_copy(update={"threads": 1})
        settings = settings.model_copy(update={"encoder": encoder})
    names = names_in(queues)
    if not names:
        raise ConfigurationError(f"--queues takes names separated by commas, not '{queues}'.")
    options = WorkerOptions(
        queues=names,
        batch=batch or settings.worker.batch,
        lease_seconds=settings.worker.lease_seconds,
        poll_seconds=settings.worker.poll_seconds,
        until_empty=until_empty,
        question_seconds=settings.worker.question_seconds,
    )
    metrics = WorkerMetrics()
    stop_serving = None if metrics_port is None else serve_metrics(metrics, metrics_port, metrics_address)
    with open_questions(settings) as queue, searched_by_the_clock() as search_for_cycles:
        running = Worker(queue, IndexPool(settings), options, metrics, search_for_cycles)
        running.handle_signals()
        print_error(f"Worker {running.worker_id} answers {', '.join(options.queues)}.")
        unknown = unknown_queue_sentence(queue, names)
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
        print_line(f"{report.finished} answered, {report.failed} failed, {report.released} given back")


def say_progress(
    running: "Worker", queue: "QuestionQueue", queues: Sequence[str], wait: Callable[[float], bool]
) -> None:
    """Says now and then how far a worker is, until `wait` says that it has ended; nothing while there is nothing to do.

    Args:
        running: The worker.
        queue: Where its questions come from.
        queues: Those it answers.
        wait: Waits so many seconds; True once the worker has ended.
    """
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
