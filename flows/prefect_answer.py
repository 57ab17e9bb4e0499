"""The flows that ask on Prefect: batch answering, and evaluation.

The flow submits and watches; workers answer, which it starts where none runs. `worker_flow` is a worker itself.
"""

import base64
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, runtime
from prefect.artifacts import create_image_artifact

from polyhop.flows import evaluate
from polyhop.flows import prefect_run as runs
from polyhop.flows.answer import Crew, SeenOutages, WorkerProcess, job_metrics, new_outages, submit_file
from polyhop.flows.evaluation.report import failure_sentence
from polyhop.schemas.errors import GateFailedError, PolyhopError, WaitingError
from polyhop.schemas.queue import JobSpec, QuestionState
from polyhop.schemas.requests import EvaluationRequest, SubmissionRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import names_in
from polyhop.warehouse.files.evaluations import REPORT, SUMMARY, StoredRun
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.user_files import load_settings

SHOWN_RESULTS = 100  # rows of an artifact; chosen: Prefect keeps it in its database, and `polyhop jobs results` has all


def cancel_questions(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 - Prefect passes them by name
    """Cancels the open questions of a killed run, which a worker would otherwise answer."""
    parameters = flow_run.parameters
    with open_questions(load_settings(parameters.get("settings") or {})) as opened:
        job_id = opened.job_of_key(parameters.get("key") or _own_key(flow_run.id))
        if job_id is not None:
            opened.cancel(job_id)


@flow(
    name="answer",
    flow_run_name=runs.started_name("answer", "index", "questions"),
    persist_result=False,
    on_cancellation=[cancel_questions],
    on_crashed=[cancel_questions],
)
def answer_flow(  # noqa: PLR0913, PLR0917 - the form that a person fills in on the dashboard
    questions: str,
    index: str,
    strategy: runs.StrategyName | None = None,
    queue: str = "default",
    limit: int = 10,
    parameters: dict[str, Any] | None = None,
    key: str | None = None,
    skip_bad: bool = False,  # noqa: FBT001, FBT002
    workers: int = 1,
    min_confidence: float | None = None,
    settings: dict[str, Any] | None = None,
    where: str | None = None,
) -> dict[str, Any]:
    """Answer a question file: submit it as one job and watch it to its end.

    A run that is cancelled or crashes cancels the questions that are unanswered; run it again (the same run, from
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
        workers: Worker processes to start while no worker serves the queue; 0: rely on others.
        min_confidence: Show sentences, not a short answer without a model, below this confidence.
        settings: Settings by dotted name, over polyhop.toml and the environment.
        where: Only records that match, like metadata.year >= 2020 AND source = 'news.jsonl'.
    """
    job = JobSpec(
        index=index,
        queue=queue,
        strategy=strategy or "",
        parameters=parameters or {},
        limit=limit,
        key=key or _own_key(runtime.flow_run.id),
        min_confidence=min_confidence,
        where=where or None,
    )
    request = SubmissionRequest(Path(questions), job, skip_bad)
    with runs.flow_body("answers", index, settings) as (chosen, log), open_questions(chosen) as opened:
        submitted = runs.run_step("submit questions", partial(submit_file, chosen, opened, request))
        job_id, known = submitted.job_id, "" if submitted.is_new else " (submitted before with this key)"
        log.info("job %d%s: %d questions, %d left out", job_id, known, submitted.count, len(submitted.bad))
        runs.rename_run("answer", index, f"job {job_id}", request.questions.name)
        if runtime.flow_run.run_count > 1:
            log.info("job %d: %d questions are asked again", job_id, opened.retry(job_id))

        def warn(said: str) -> None:
            log.warning(said)
            runs.emit(runs.OUTAGE, "queue", queue, {"queues": [queue], "worker": None, "reason": said})

        crew = Crew(opened, queue, workers, settings or {}, warn, log.info)
        runs.run_step("answer questions", partial(_answered, opened, job_id, crew), retries=0)
        return runs.run_step("show results", partial(_report, opened, job_id, log.info))


def _own_key(flow_run_id: object) -> str:
    """The key of a run's job: found again when the run is cancelled or run again."""
    return f"flow run {flow_run_id}"


def _answered(queue: QuestionQueue, job_id: int, crew: Crew) -> None:
    """Watches a job to its end; whatever ends the watch before (Prefect cancels by SIGTERM) cancels the job."""
    job = queue.job(job_id)
    progress, seen = runs.Progress(runs.artifact_key("job", job.index, "progress")), SeenOutages()
    try:
        while True:
            job = queue.job(job_id)
            progress.update(job.question_count - job.open_count, job.question_count, f"questions of job {job_id}")
            if not job.is_open:
                return
            crew.look_after()
            for outage in new_outages(seen, queue.workers(), [job.queue]):
                runs.emit(runs.OUTAGE, "queue", job.queue, {**outage, "job": job_id, "index": job.index})
            time.sleep(1.0)
            queue.sweep()
    except BaseException:  # SIGTERM and Ctrl-C raise no Exception
        queue.cancel(job_id)
        raise
    finally:
        crew.end()


def _report(queue: QuestionQueue, job_id: int, log: Callable[[str], None]) -> dict[str, Any]:
    rows = [
        {"id": r.question_id, "question": r.question, "answer": r.answer or "", "state": r.state, "error": r.error}
        for r in islice(queue.results(job_id), SHOWN_RESULTS)
    ]
    job = queue.job(job_id)
    key = partial(runs.artifact_key, "job", job.index)
    runs.show_table(key("results"), rows, f"The first {SHOWN_RESULTS} results of job {job_id}")
    metrics = job_metrics(queue.results(job_id))
    said = ", ".join(f"{job.counts[state]} {state.value}" for state in QuestionState if job.counts[state])
    lines = [f"# Job {job_id} on {job.index}: {said}", ""]
    lines += [f"* {state.value}: {job.counts[state]}" for state in QuestionState]
    if metrics is not None:
        lines += ["", *(f"* {name}: {value}" for name, value in metrics.items() if isinstance(value, int | float))]
    runs.show_text(
        key(), [*lines, "", f"All results: `polyhop jobs results {job_id}`"], f"Outcome of job {job_id}: {said}"
    )
    log(f"job {job_id}: {said}")
    if job.counts[QuestionState.DEAD]:
        errors = [{"error": e.error_class, "count": e.count, "example": e.example} for e in job.errors]
        counts = {"dead": job.counts[QuestionState.DEAD], "questions": job.question_count}
        runs.emit(runs.DEAD_LETTER, "queue", job.queue, {"job": job_id, "index": job.index, **counts, "errors": errors})
    return {"job_id": job_id, "metrics": metrics, **{state.value: job.counts[state] for state in QuestionState}}


@flow(name="worker", flow_run_name=runs.started_name("worker", "queues"), persist_result=False)
def worker_flow(queues: str = "default", settings: dict[str, Any] | None = None) -> None:
    """Answer questions from queues until they are empty, in a separate process."""
    with runs.flow_body("worker", None, settings) as (chosen, log), open_questions(chosen) as opened:
        serve = partial(_serve, opened, queues, settings or {}, log.info)
        runs.run_step(f"answer questions of {queues}", serve, "answer questions", retries=0)


def _serve(queue: QuestionQueue, queues: str, settings: dict[str, Any], log: Callable[[str], None]) -> None:
    """A worker from start to end; what it prints is logged, and outages of its models become events."""
    worker, seen = WorkerProcess(queues, settings, log), SeenOutages()
    try:
        while worker.code is None:
            own = [row for row in queue.workers() if row.process_id == worker.pid]
            for outage in new_outages(seen, own, names_in(queues)):
                runs.emit(runs.OUTAGE, "queue", outage["queues"][0], outage)
            time.sleep(1.0)
    finally:
        worker.end()
    if worker.code not in {0, WaitingError.exit_code}:  # the next run goes on with what waits for a batch
        raise PolyhopError(f"The worker ended with code {worker.code}; see its output in the log of this run.")


T = TypeVar("T")
PROGRESS_SECONDS = 30.0
"""Between two lines of the log on one strategy; chosen: shows that it is still running."""


@flow(name="evaluate", flow_run_name=runs.started_name("evaluate", "index"), persist_result=False)
def evaluate_flow(  # noqa: PLR0913, PLR0917 - the form that a person fills in on the dashboard
    questions: str,
    index: str,
    strategies: list[runs.StrategyName] | str = "all",
    parameters: dict[str, Any] | None = None,
    baseline: str | None = None,
    fail_below: list[str] | None = None,
    min_confidence: float | None = None,
    settings: dict[str, Any] | None = None,
    sample: int | None = None,
    seed: int | None = None,
    closed_book: bool = False,  # noqa: FBT001, FBT002
    where: str | None = None,
) -> dict[str, Any]:
    """Evaluate strategies on a question file, and fail if a metric is below its gate.

    Args:
        questions: Question file with answers or supporting passages.
        index: Name of the index.
        strategies: A list of names, or a text: names, separated by commas, all, or own (those that the index was
            built for); with parameters and ranges like proprag:beam_width=1..6.
        parameters: Given to every strategy.
        baseline: The strategies that the others are compared with, separated by commas; default: the first.
        fail_below: Least values, like recall@5=.65 or bridge:em=.1; the run fails below one.
        min_confidence: Show sentences, not a short answer without a model, below this confidence.
        settings: Settings by dotted name, over polyhop.toml and the environment.
        sample: Ask that many of the questions, chosen at random.
        seed: Of the sample; default: 13.
        closed_book: One more row, in which the model answers without passages.
        where: Only records that match, like metadata.year >= 2020 AND source = 'news.jsonl'.
    """
    request = EvaluationRequest(
        questions=Path(questions),
        index=index,
        strategies=(strategies,) if isinstance(strategies, str) else tuple(strategies),
        # as text, as the command line has them: runs by both are stored alike and can be compared
        parameters={name: str(value) for name, value in (parameters or {}).items()},
        baselines=(baseline,) if baseline else (),
        fail_below=tuple(fail_below or ()),
        min_confidence=min_confidence,
        sample=sample,
        seed=seed,
        closed_book=closed_book,
        where=where or None,
    )
    with runs.flow_body("evaluation", index, settings) as (chosen, log):
        return _evaluate(chosen, request, log)


def _evaluate(chosen: Settings, request: EvaluationRequest, log: "Logger | LoggerAdapter[Logger]") -> dict[str, Any]:
    """Measures each strategy as a task run, shows the stored evaluation, and fails below a gate."""
    said_at = time.monotonic()

    def say(strategy: str, done: int, total: int) -> None:  # when it is done, and before that from time to time
        nonlocal said_at
        if done == total or time.monotonic() - said_at >= PROGRESS_SECONDS:
            said_at = time.monotonic()
            log.info("%s: %d of %d questions", strategy, done, total)

    def as_task_run(strategy: str, measure: Callable[[], T]) -> T:
        return runs.run_step(f"evaluate {strategy}", measure, "evaluate strategy")

    evaluation = evaluate.evaluate_index(chosen, request, say, as_task_run)
    for sentence in evaluate.left_out_sentences(evaluation):
        log.warning(sentence)
    stored = evaluate.stored_run(chosen, evaluation.report["run"])
    log.info("evaluation %d stored in %s", stored.number, stored.path)
    rows = evaluate.strategy_rows(stored)
    runs.rename_run("evaluate", request.index, f"v{stored.run['version']}", f"run {stored.number}")
    runs.run_step("show results", partial(_show, stored, rows))
    failed = failure_sentence(evaluation.report["gates"])
    if failed:
        raise GateFailedError(failed)
    return {"run": stored.number, "folder": str(stored.path), "strategies": rows}


def _show(stored: StoredRun, rows: list[dict[str, Any]]) -> None:
    key = partial(runs.artifact_key, "evaluation", stored.run["index"])
    summary, report = (stored.path / SUMMARY).read_text(encoding="utf-8"), (stored.path / REPORT).resolve()
    about = f"evaluation {stored.number} of {stored.run['index']}, version {stored.run['version']}"
    # as text: a browser opens no file:// address from a dashboard, which may be on another machine
    runs.show_text(key(), [summary, "", f"Report: `{report}`"], f"Summary of {about}")
    runs.show_table(key("strategies"), rows, f"Strategies in {about}")
    for path in sorted(stored.path.glob("*.png")):  # each holds the whole picture, for a dashboard anywhere
        address = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
        create_image_artifact(address, key=key(path.stem.replace("_", "-")), description=f"Plot of {about}")
