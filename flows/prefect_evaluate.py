"""Evaluation on Prefect: a flow run that measures, shows the results as artifacts, and fails where a gate does.

The evaluation itself is a process (flows/evaluate.py); scheduled, this guards an index against getting worse.
"""

from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)

from flows.evaluate import EvaluationOrder, plot_addresses, report_files, run_evaluation, strategy_rows
from schemas.errors import GateFailedError
from warehouse.settings_file import load_settings


@flow(name="evaluate", flow_run_name="evaluate {index}", persist_result=False)
def evaluate_flow(
    questions: str,
    index: str,
    strategies: str = "all",
    parameters: dict[str, Any] | None = None,
    baseline: str | None = None,
    fail_below: list[str] | None = None,
    min_confidence: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Evaluate strategies on a question file, and fail if a metric is below its gate.

    Args:
        questions: Question file with answers or supporting passages.
        index: Name of the index.
        strategies: Names, separated by commas, or all.
        parameters: Given to every strategy.
        baseline: The strategy that the others are compared with; default: the first.
        fail_below: Least values, like recall@5=.65 or bridge:em=.1; the run fails below one.
        min_confidence: Leave answers by rules below this confidence empty.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    flags = settings or {}
    order = EvaluationOrder(
        questions=questions,
        index=index,
        strategies=strategies,
        parameters=parameters or {},
        baseline=baseline,
        fail_below=tuple(fail_below or ()),
        min_confidence=min_confidence,
    )
    stored, failed = run_evaluation(order, load_settings(flags), flags)
    get_run_logger().info("evaluation %d stored in %s", stored.number, stored.path)
    rows = strategy_rows(stored)
    summary, report = report_files(stored)
    about = f"evaluation {stored.number} of {index}, version {stored.run['version']}"
    create_table_artifact(rows, key=f"evaluation-{stored.number}-strategies", description=f"Strategies in {about}")
    create_markdown_artifact(summary, key=f"evaluation-{stored.number}-summary", description=f"Summary of {about}")
    create_link_artifact(
        report.as_uri(),
        link_text=str(report),
        key=f"evaluation-{stored.number}-report",
        description=f"Report of {about}",
    )
    for name, address in plot_addresses(stored).items():
        key = f"evaluation-{stored.number}-{name.replace('_', '-')}"
        create_image_artifact(address, key=key, description=f"Plot of {about}")
    if failed:
        raise GateFailedError(failed)
    return {"run": stored.number, "folder": str(stored.path), "strategies": rows}
