"""Evaluations to stored runs with their report, and the list of what is stored.

Evaluates nothing (run.py does) and draws nothing (tasks/evaluation does).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.run import Evaluation
from polyhop.schemas.errors import ContractError
from polyhop.schemas.settings import Settings
from polyhop.tasks.evaluation.comparison import compare_runs
from polyhop.tasks.evaluation.run_documents import json_bytes, json_lines
from polyhop.warehouse.files.evaluations import (
    QUESTIONS,
    REPORT,
    RUN,
    SUMMARY,
    TIMINGS,
    StoredRun,
    check_folder,
    read_run,
    run_numbers,
    store_run,
)
from polyhop.warehouse.files.layout import Layout


def store(settings: Settings, evaluation: Evaluation) -> tuple[int, Path]:
    """Stores an evaluation with its report under the root; returns its number and folder.

    Raises:
        StoreError: If the disk refuses.
    """
    files = {
        RUN: json_bytes(evaluation.run),
        TIMINGS: json_bytes(evaluation.timings),
        QUESTIONS: json_lines(evaluation.rows),
        **_report_files(evaluation.run, evaluation.timings),
    }
    return store_run(Layout(settings.root).evaluations, files)


def check_store(settings: Settings) -> None:
    """Finds out before an evaluation runs that it cannot be stored.

    Raises:
        StoreError: If the disk refuses.
    """
    check_folder(Layout(settings.root).evaluations)


def stored_run(settings: Settings, number: int) -> StoredRun:
    """One stored evaluation.

    Raises:
        UnknownIdError: If there is none of that number.
        ContractError: If it cannot be read.
    """
    return read_run(Layout(settings.root).evaluations, number)


def stored_rows(settings: Settings) -> list[dict[str, Any]]:
    """What is stored, the oldest first: one row per evaluation; one that cannot be read is {run, error}."""
    folder = Layout(settings.root).evaluations
    rows: list[dict[str, Any]] = []
    for number in run_numbers(folder):
        try:
            rows.append(_row(read_run(folder, number)))
        except ContractError as error:
            rows.append({"run": number, "error": str(error)})
    return rows


def _row(stored: StoredRun) -> dict[str, Any]:
    run = stored.run
    return {
        "run": stored.number,
        "started": stored.timings["started"],
        "index": run["index"],
        "version": run["version"],
        "questions": run["questions"]["file"],
        "n": run["questions"]["n"],
        "sample": run["questions"].get("sample"),
        "settings_hash": run["settings_hash"],
        "strategies": {
            name: {
                metric: run["results"][name].get(metric)
                for metric in ("recall@5", "em", "triple_recall@10")
                if metric != "triple_recall@10" or metric in run["results"][name]
            }
            for name in run["strategies"]
        },
        "folder": str(stored.path),
    }


def compare(settings: Settings, first: int, second: int) -> dict[str, Any]:
    """What changed from one stored evaluation to another.

    Raises:
        UnknownIdError: If there is none of such a number.
        ContractError: If one cannot be read.
    """
    one, other = stored_run(settings, first), stored_run(settings, second)
    changes = compare_runs(one.run, other.run, (one.question_rows(), other.question_rows()))
    latency = {
        name: {key: [_latency(one.timings, name, key), _latency(other.timings, name, key)] for key in ("p50", "p95")}
        for name in changes["strategies"]
    }
    started = [one.timings["started"], other.timings["started"]]
    return {"first": first, "second": second, "started": started, **changes, "latency_ms": latency}


def _latency(timings: Mapping[str, Any], strategy: str, key: str) -> float | None:
    value: float | None = timings["strategies"].get(strategy, {}).get("latency_ms", {}).get(key)
    return value


def _report_files(run: Mapping[str, Any], timings: Mapping[str, Any]) -> dict[str, bytes]:
    from polyhop.tasks.evaluation.page import report_page, summary_markdown
    from polyhop.tasks.evaluation.plots import report_plots

    plots = report_plots(run, timings)
    page = report_page(run, timings, plots)
    return {REPORT: page.encode(), SUMMARY: summary_markdown(run, timings).encode(), **plots}
