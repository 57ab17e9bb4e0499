"""An evaluation from its request to the stored run, the list of stored runs, and what people are shown of one."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.run import (
    Evaluation,
    OnProgress,
    RunStrategy,
    closed_book_labels,
    golden_sentences,
    labels_of,
    run_directly,
    run_evaluation,
    with_strategies,
)
from polyhop.schemas.errors import ContractError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import CLOSED_BOOK, Settings
from polyhop.schemas.text import plural
from polyhop.tasks.evaluation.comparison import check_measured, check_names, compare_runs, gate_rows, parse_gate
from polyhop.tasks.evaluation.report import json_bytes, json_lines
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
    """Finds out before an evaluation runs that it cannot be stored."""
    check_folder(Layout(settings.root).evaluations)


def stored_run(settings: Settings, number: int) -> StoredRun:
    """One stored evaluation."""
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


SHOWN = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1", "containment")
SHOWN_OF_TRIPLES = ("triple_recall@10", "triple_recall@30", "triple_mrr")
"""Shown if the questions have golden triples."""


def evaluate_index(
    settings: Settings,
    request: EvaluationRequest,
    on_progress: OnProgress = None,
    run_strategy: RunStrategy = run_directly,
) -> Evaluation:
    """Evaluates, judges the gates and stores; the report says what became of the gates, and where the run is.

    A gate that fails raises nothing: what was measured is shown first, then `failure_sentence` says what failed.

    Raises:
        ConfigurationError: For a gate that is malformed, or for what is not evaluated or measured; as `run_evaluation`.
        StoreError: If the run cannot be stored, before anything runs; as `run_evaluation`.
        PolyhopError: As `run_evaluation`.
    """
    request = with_strategies(settings, request)
    gates = [parse_gate(text) for text in request.fail_below]
    check_names(gates, [*labels_of(request), *closed_book_labels(request)])
    check_measured(gates, unranked=CLOSED_BOOK, reads=settings.reader.reads)
    if request.is_stored:
        check_store(settings)
    evaluation = run_evaluation(settings, request, on_progress, run_strategy)
    strategies = evaluation.report["strategies"]
    check_names(gates, list(strategies))  # again: of `all`, some could not be served
    rows = gate_rows(gates, strategies, unranked=CLOSED_BOOK)
    report = {**evaluation.report, "gates": rows, "run": None, "folder": None}
    if request.is_stored:
        number, folder = store(settings, evaluation)
        report |= {"run": number, "folder": str(folder)}
    return replace(evaluation, report=report)


def left_out_sentences(evaluation: Evaluation) -> list[str]:
    """What was not evaluated, and why: question records, supporting ids, golden triples, strategies of `all`.

    A sample that is larger than the question set is said here, too.
    """
    report = evaluation.report
    sentences = [f"{record.source} line {record.line} was left out: {record.reason}" for record in evaluation.bad]
    if report["unknown_supporting"]:
        sentences.append(
            f"{plural(report['unknown_supporting'], 'supporting id')} counted as missed, in no passage of "
            f"'{report['index']}'; were the questions written for another corpus?"
        )
    sentences += golden_sentences(report)
    sample = report["sample"]
    if sample is not None and sample["size"] > sample["of"] and not sample.get("rest"):
        sentences.append(f"The sample of {sample['size']} is all there is: {plural(sample['of'], 'usable question')}.")
    left_out: dict[str, str] = report["left_out"]
    if left_out:
        why = "" if len(left_out) == 1 else "; the report has the reasons of all, the first is: "
        names = f"{plural(len(left_out), 'strategy', 'strategies')} of 'all' left out: {', '.join(left_out)}"
        sentences.append(f"{names}{why or ': '}{next(iter(left_out.values()))}")
    return sentences


def strategy_rows(stored: StoredRun) -> list[dict[str, Any]]:
    """One row per strategy, the best by recall@5 (or of triples) first: metrics, answered share, latency, failures."""
    rows = []
    for name in stored.run["strategies"]:
        result = stored.run["results"][name]
        latency = stored.timings["strategies"][name]["latency_ms"]
        rows.append(
            {
                "strategy": name,
                **{metric: _shown(result[metric]) for metric in (*SHOWN, *SHOWN_OF_TRIPLES) if metric in result},
                "answered": _shown(result["answered"]["share"]),
                "p50 ms": _shown(latency["p50"]),
                "p95 ms": _shown(latency["p95"]),
                "failures": result["failures"],
            }
        )
    rows.sort(key=lambda row: -(row["recall@5"] or row.get(SHOWN_OF_TRIPLES[0]) or 0.0))
    return rows


def plot_addresses(stored: StoredRun) -> dict[str, str]:
    """The plots by name, each as an address that holds the whole picture, so that a dashboard anywhere can show it."""
    return {
        path.stem: "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
        for path in sorted(stored.path.glob("*.png"))
    }


def report_files(stored: StoredRun) -> tuple[str, Path]:
    """The summary in Markdown, and the place of the report."""
    return (stored.path / SUMMARY).read_text(encoding="utf-8"), (stored.path / REPORT).resolve()


def _shown(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
