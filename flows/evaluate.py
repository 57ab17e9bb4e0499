"""An evaluation as a process of its own, and what it stored: the plain functions behind the flow.

Measures nothing: `polyhop eval` does, which flows may not import; the stored run is what both sides know.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.errors import PolyhopError
from schemas.settings import Settings
from tasks.evaluation.gate import failure_sentence
from warehouse.files.evaluations import REPORT, SUMMARY, StoredRun, read_run
from warehouse.files.layout import Layout

SHOWN = ("recall@2", "recall@5", "recall@10", "mrr", "em", "f1")


@dataclass(frozen=True, slots=True)
class EvaluationOrder:
    """What to evaluate, as `polyhop eval` takes it.

    Attributes:
        questions: Question file.
        index: Name of the index.
        strategies: Names, separated by commas, or `all`.
        parameters: Given to every strategy.
        baseline: What the others are compared with; None: the first.
        fail_below: Gates like recall@5=.65.
        min_confidence: Answers by rules below it are left empty; None: as the settings say.
    """

    questions: str
    index: str
    strategies: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    fail_below: tuple[str, ...] = ()
    min_confidence: float | None = None


def evaluation_command(order: EvaluationOrder, flags: Mapping[str, Any]) -> list[str]:
    """The command line of the evaluation; `flags` are settings by dotted name."""
    options = [("--index", order.index), ("--strategies", order.strategies)]
    options += [("--param", f"{name}={value}") for name, value in order.parameters.items()]
    options += [("--fail-below", gate) for gate in order.fail_below]
    options += [("--set", f"{name}={value}") for name, value in flags.items()]
    if order.baseline:
        options.append(("--baseline", order.baseline))
    if order.min_confidence is not None:
        options.append(("--min-confidence", str(order.min_confidence)))
    flat = [part for option in options for part in option]
    return [sys.executable, "-m", "polyhop.cli", "eval", order.questions, "--json", *flat]


def run_evaluation(
    order: EvaluationOrder, settings: Settings, flags: Mapping[str, Any]
) -> tuple[StoredRun, str | None]:
    """Evaluates in a process of its own; returns the stored run, and the sentence of a gate that failed.

    Args:
        order: What to evaluate.
        settings: Where evaluations are stored.
        flags: The same settings, as far as they differ from file and environment.

    Raises:
        PolyhopError: If the evaluation could not be made; its own sentence.
    """
    command = evaluation_command(order, flags)
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    report = _report(done.stdout)
    if report is None:
        raise PolyhopError(_last_sentence(done.stderr) or f"polyhop eval ended with code {done.returncode}.")
    stored = read_run(Layout(settings.root).evaluations, report["run"])
    return stored, failure_sentence(report["gates"])


def strategy_rows(stored: StoredRun) -> list[dict[str, Any]]:
    """One row per strategy, the best by recall@5 first: metrics, answered share, latency, failures."""
    rows = []
    for name in stored.run["strategies"]:
        result = stored.run["results"][name]
        latency = stored.timings["strategies"][name]["latency_ms"]
        rows.append(
            {
                "strategy": name,
                **{metric: _shown(result[metric]) for metric in SHOWN},
                "answered": _shown(result["answered"]["share"]),
                "p50 ms": _shown(latency["p50"]),
                "p95 ms": _shown(latency["p95"]),
                "failures": result["failures"],
            }
        )
    rows.sort(key=lambda row: -(row["recall@5"] or 0.0))
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


def _report(output: str) -> dict[str, Any] | None:
    """The JSON document of `polyhop eval`; None if it printed none."""
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return None
    return report


def _last_sentence(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].removeprefix("polyhop: ") if lines else ""


def _shown(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
