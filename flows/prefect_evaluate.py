"""Evaluation on Prefect: a flow run that measures, shows the results as artifacts, and fails where a gate does.

A shell around evaluate.py; scheduled, it guards an index against getting worse.
"""

import time
from collections.abc import Callable
from functools import partial
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, get_run_logger
from prefect.artifacts import create_image_artifact

from polyhop.flows.choices import StrategyName
from polyhop.flows.deployments import run_tags
from polyhop.flows.evaluate import evaluate_index, left_out_sentences, plot_addresses, report_files, strategy_rows
from polyhop.flows.evaluation.run import OnProgress
from polyhop.flows.evaluation.store import stored_run
from polyhop.flows.prefect_run import clean_run, warn_of_secrets
from polyhop.flows.prefect_show import artifact_key, refusal_events, rename_run, show_table, show_text, started_name
from polyhop.flows.prefect_steps import run_step
from polyhop.schemas.errors import GateFailedError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.tasks.evaluation.gate import failure_sentence
from polyhop.warehouse.files.evaluations import StoredRun
from polyhop.warehouse.settings_file import load_settings

T = TypeVar("T")

PROGRESS_SECONDS = 30.0
"""Between two lines of the log on one strategy; chosen: whoever watches sees that it is still running."""


@flow(name="evaluate", flow_run_name=started_name("evaluate", "index"), persist_result=False)
def evaluate_flow(  # noqa: PLR0913, PLR0917 - the form that a person fills in on the dashboard
    questions: str,
    index: str,
    strategies: list[StrategyName] | str = "all",
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
        min_confidence: Leave answers by rules below this confidence empty.
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
    flags = settings or {}
    with clean_run(run_tags("evaluation", index)):
        log = get_run_logger()
        warn_of_secrets(flags, log.warning)
        chosen = load_settings(flags)
        with refusal_events(index):
            evaluation = evaluate_index(chosen, request, _progress_lines(log), _as_task_run)
        for sentence in left_out_sentences(evaluation):
            log.warning(sentence)
        stored = stored_run(chosen, evaluation.report["run"])
        log.info("evaluation %d stored in %s", stored.number, stored.path)
        rows = strategy_rows(stored)
        rename_run("evaluate", index, f"v{stored.run['version']}", f"run {stored.number}")
        run_step("show results", partial(_show, stored, rows))
        failed = failure_sentence(evaluation.report["gates"])
        if failed:
            raise GateFailedError(failed)
        return {"run": stored.number, "folder": str(stored.path), "strategies": rows}


def _as_task_run(strategy: str, measure: Callable[[], T]) -> T:
    return run_step(f"evaluate {strategy}", measure, "evaluate strategy")


def _show(stored: StoredRun, rows: list[dict[str, Any]]) -> None:
    key = partial(artifact_key, "evaluation", stored.run["index"])
    summary, report = report_files(stored)
    about = f"evaluation {stored.number} of {stored.run['index']}, version {stored.run['version']}"
    # as text: a browser opens no file:// address from a dashboard, which may be on another machine
    show_text(key(), [summary, "", f"Report: `{report}`"], f"Summary of {about}")
    show_table(key("strategies"), rows, f"Strategies in {about}")
    for name, address in plot_addresses(stored).items():
        create_image_artifact(address, key=key(name.replace("_", "-")), description=f"Plot of {about}")


def _progress_lines(log: "Logger | LoggerAdapter[Logger]") -> OnProgress:
    """Calls back per question; a strategy gets a line when it is done, and before that one from time to time."""
    said_at = time.monotonic()

    def update(strategy: str, done: int, total: int) -> None:
        nonlocal said_at
        if done == total or time.monotonic() - said_at >= PROGRESS_SECONDS:
            said_at = time.monotonic()
            log.info("%s: %d of %d questions", strategy, done, total)

    return update
