"""Batch answering on Prefect: one flow run per job, with progress, a table of results and metrics.

The flow submits and watches; workers answer. `worker_flow` starts a worker as a process, for process work pools.
"""

import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.answer import Submission, job_metrics, submit_file
from schemas.errors import PolyhopError
from schemas.queue import QuestionState
from warehouse.open import open_questions
from warehouse.queue.queue import QuestionQueue
from warehouse.settings_file import load_settings

SHOWN_RESULTS = 100


@flow(name="answer", flow_run_name="answer {questions}", persist_result=False)
def answer_flow(  # noqa: PLR0913, PLR0917 - the form that a person fills in on the dashboard
    questions: str,
    index: str,
    strategy: str = "bridge",
    queue: str = "default",
    limit: int = 10,
    parameters: dict[str, Any] | None = None,
    key: str | None = None,
    skip_bad: bool = False,  # noqa: FBT001, FBT002
    start_worker: bool = False,  # noqa: FBT001, FBT002
    min_confidence: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer a question file: submit it as one job and watch it to its end.

    Args:
        questions: Question file.
        index: Name of the index.
        strategy: Strategy.
        queue: Queue that some worker answers.
        limit: Passages per question.
        parameters: The strategy's parameters.
        key: The same key again submits nothing new and watches the same job.
        skip_bad: Leave out bad questions instead of refusing the file.
        start_worker: Answer in a worker process of this run, besides any others.
        min_confidence: Leave answers by rules below this confidence empty.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    chosen = load_settings(settings or {})
    submission = Submission(
        questions=Path(questions),
        index=index,
        strategy=strategy,
        queue=queue,
        limit=limit,
        parameters=parameters or {},
        priority=0,
        key=key,
        name=Path(questions).name,
        deadline_seconds=None,
        max_attempts=3,
        skip_bad=skip_bad,
        min_confidence=min_confidence,
    )
    with open_questions(chosen) as opened:
        job_id, count, bad = submit_file(chosen, opened, submission)
        get_run_logger().info("job %d: %d questions, %d left out", job_id, count, len(bad))
        worker = _start_worker(queue, settings or {}) if start_worker else None
        try:
            _watch(opened, job_id)
        finally:
            if worker is not None:
                worker.terminate()
                worker.wait()
        return _report(opened, job_id)


def _watch(queue: QuestionQueue, job_id: int) -> None:
    progress: Any = create_progress_artifact(
        0.0, key=f"job-{job_id}-progress", description=f"Questions of job {job_id}"
    )
    while True:
        job = queue.job(job_id)
        update_progress_artifact(progress, progress=100.0 * (job.question_count - job.open_count) / job.question_count)
        if not job.is_open:
            return
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
    create_markdown_artifact("\n".join(lines), key=f"job-{job_id}-summary", description="What became of the job")
    return {"job_id": job_id, "metrics": metrics, **{state.value: job.counts[state] for state in QuestionState}}


@flow(name="worker", flow_run_name="worker {queues}", persist_result=False)
def worker_flow(queues: str = "default", settings: dict[str, Any] | None = None) -> None:
    """Answer questions from queues until they are empty, in a process of its own.

    Args:
        queues: Names, separated by commas.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    worker = _start_worker(queues, settings or {})
    if worker.wait() != 0:
        raise PolyhopError(f"The worker ended with code {worker.returncode}; its output is in this run's process log.")


def _start_worker(queues: str, settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "polyhop.cli", "worker", "--queues", queues, "--until-empty", *flags]
    return subprocess.Popen(command)  # noqa: S603 - our own command, values as arguments
