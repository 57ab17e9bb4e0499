"""Batch answering on Prefect: one flow run per job, with progress, a table of results and metrics.

The flow submits and watches; workers answer, which it starts where none runs. `worker_flow` is a worker by itself.
"""

import time
from itertools import islice
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from polyhop.flows.answer import submit_file
from polyhop.flows.job_metrics import job_metrics
from polyhop.flows.prefect_run import clean_run, warn_of_secrets
from polyhop.flows.workers import Crew, end_worker, start_worker
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.queue import JobSpec, QuestionState
from polyhop.schemas.requests import SubmissionRequest
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.settings_file import load_settings

SHOWN_RESULTS = 100


def cancel_questions(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 - Prefect passes them by name
    """What is left to do if a run was killed: its unanswered questions are cancelled, or the next worker would answer.

    Prefect calls this where runs are started, after a run was cancelled or crashed.
    """
    parameters = flow_run.parameters
    with open_questions(load_settings(parameters.get("settings") or {})) as opened:
        job_id = opened.job_of_key(parameters.get("key") or _own_key(flow_run.id))
        if job_id is not None:
            opened.cancel(job_id)


@flow(
    name="answer",
    flow_run_name="answer {questions}",
    persist_result=False,
    on_cancellation=[cancel_questions],
    on_crashed=[cancel_questions],
)
def answer_flow(  # noqa: PLR0913, PLR0917 - the form that a person fills in on the dashboard
    questions: str,
    index: str,
    strategy: str | None = None,
    queue: str = "default",
    limit: int = 10,
    parameters: dict[str, Any] | None = None,
    key: str | None = None,
    skip_bad: bool = False,  # noqa: FBT001, FBT002
    workers: int = 1,
    min_confidence: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer a question file: submit it as one job and watch it to its end.

    A run that is cancelled or crashes cancels the questions that nobody has answered; run it again (the same run, from
    the dashboard) and they are asked again.

    Args:
        questions: Question file.
        index: Name of the index.
        strategy: Strategy; default: bridge, for graphs with hubs hub-facets.
        queue: Queue to submit to.
        limit: Passages per question.
        parameters: The strategy's parameters.
        key: The same key again submits nothing new and watches the same job.
        skip_bad: Leave out bad questions instead of refusing the file.
        workers: Worker processes to start while nobody serves the queue; 0: rely on others, and say if there are none.
        min_confidence: Leave answers by rules below this confidence empty.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    flags = settings or {}
    job = JobSpec(
        index=index,
        queue=queue,
        strategy=strategy or "",
        parameters=parameters or {},
        limit=limit,
        key=key or _own_key(runtime.flow_run.id),
        min_confidence=min_confidence,
    )
    request = SubmissionRequest(Path(questions), job, skip_bad)
    log = get_run_logger()
    with clean_run():
        warn_of_secrets(flags, log.warning)
        chosen = load_settings(flags)
        with open_questions(chosen) as opened:
            submitted = submit_file(chosen, opened, request)
            job_id, known = submitted.job_id, "" if submitted.is_new else " (submitted before with this key)"
            log.info("job %d%s: %d questions, %d left out", job_id, known, submitted.count, len(submitted.bad))
            if runtime.flow_run.run_count > 1:
                log.info("job %d: %d questions are asked again", job_id, opened.retry(job_id))
            _answered(opened, job_id, Crew(opened, queue, workers, flags, log.warning))
            return _report(opened, job_id)


def _own_key(flow_run_id: object) -> str:
    """The key of a run's job: found again by whoever cancels the run, and by the run itself if it is run again."""
    return f"flow run {flow_run_id}"


def _answered(queue: QuestionQueue, job_id: int, crew: Crew) -> None:
    """Watches a job to its end; whatever ends the watch before (Prefect cancels by SIGTERM) cancels the job."""
    try:
        _watch(queue, job_id, crew)
    except BaseException:  # SIGTERM and Ctrl-C raise no Exception
        queue.cancel(job_id)
        raise
    finally:
        crew.end()


def _watch(queue: QuestionQueue, job_id: int, crew: Crew) -> None:
    progress: Any = create_progress_artifact(
        0.0, key=f"job-{job_id}-progress", description=f"Questions of job {job_id}"
    )
    while True:
        job = queue.job(job_id)
        update_progress_artifact(progress, progress=100.0 * (job.question_count - job.open_count) / job.question_count)
        if not job.is_open:
            return
        crew.look_after()
        time.sleep(1.0)
        queue.sweep()


def _report(queue: QuestionQueue, job_id: int) -> dict[str, Any]:
    rows = [
        {
            "id": r.question_id,
            "question": r.question,
            "answer": r.answer or "",
            "state": r.state.value,
            "error": r.error,
        }
        for r in islice(queue.results(job_id), SHOWN_RESULTS)
    ]
    create_table_artifact(rows, key=f"job-{job_id}-results", description=f"The first {SHOWN_RESULTS} results")
    job = queue.job(job_id)
    metrics = job_metrics(queue.results(job_id))
    lines = [f"# Job {job_id}", "", *(f"* {state.value}: {job.counts[state]}" for state in QuestionState)]
    if metrics is not None:
        lines += ["", *(f"* {name}: {value}" for name, value in metrics.items() if isinstance(value, int | float))]
    create_markdown_artifact("\n".join(lines), key=f"job-{job_id}-summary", description="Outcome of the job")
    return {"job_id": job_id, "metrics": metrics, **{state.value: job.counts[state] for state in QuestionState}}


@flow(name="worker", flow_run_name="worker {queues}", persist_result=False)
def worker_flow(queues: str = "default", settings: dict[str, Any] | None = None) -> None:
    """Answer questions from queues until they are empty, in a process of its own.

    Args:
        queues: Names, separated by commas.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    with clean_run():
        warn_of_secrets(settings or {}, get_run_logger().warning)
        load_settings(settings or {})
        worker = start_worker(queues, settings or {})
        try:
            code = worker.wait()
        finally:
            end_worker(worker)
        if code:
            raise PolyhopError(
                f"The worker ended with code {code}; what it printed is in the log of the process that runs flows."
            )
