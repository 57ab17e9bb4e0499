"""The maintenance flow on Prefect: the same functions as maintain.py, with a table of sizes before and after.

A shell: decides nothing.
"""

from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from polyhop.flows.maintain import run_maintenance
from polyhop.flows.prefect_run import clean_run
from polyhop.schemas.maintenance import MaintenanceReport, MaintenanceRequest
from polyhop.warehouse.settings_file import load_settings


@flow(name="maintain", flow_run_name="maintain {index}", persist_result=False)
def maintain_flow(
    index: str | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    queue_days: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Maintenance: prune versions, free vectors, vacuum caches, remove what killed runs left.

    Args:
        index: Name of the only index; empty for all.
        dry_run: Change nothing; report what would go.
        queue_days: Also forget jobs that ended so many days ago; empty for none.
        settings: Settings by dotted name (maintenance.*, keep_versions), over polyhop.toml and the environment.
    """
    with clean_run():
        chosen = load_settings(settings or {})

        @task(name="maintain", cache_policy=NO_CACHE, persist_result=False)
        def work() -> MaintenanceReport:
            return run_maintenance(chosen, MaintenanceRequest(index or None, dry_run, queue_days))

        report = work()
        for sentence in report.skipped:
            get_run_logger().warning(sentence)
        _publish_sizes(report)
        return report.to_json()


def _publish_sizes(report: MaintenanceReport) -> None:
    """The table `maintenance` on the dashboard, under one key, so that it shows its history."""
    rows = [
        {
            "part": part.part,
            "files before": part.before.files,
            "files after": part.after.files,
            "MB before": round(part.before.bytes / 1e6, 3),
            "MB after": round(part.after.bytes / 1e6, 3),
        }
        for part in report.parts
    ]
    versions = sum(map(len, report.removed_versions.values()))
    removed = [f"{versions:,} versions", *(f"{count:,} {name}" for name, count in report.removed.items())]
    verb = "Would remove" if report.dry_run else "Removed"
    create_table_artifact(rows, key="maintenance", description=f"{verb} {', '.join(removed)}")
