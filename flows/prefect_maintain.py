"""The maintenance flow on Prefect: the same functions as maintain.py, with a table of sizes before and after.

A shell: decides nothing.
"""

from typing import Any

from prefect import flow, get_run_logger

from polyhop.flows.deployments import run_tags
from polyhop.flows.maintain import run_maintenance
from polyhop.flows.prefect_run import clean_run, warn_of_secrets
from polyhop.flows.prefect_show import show_table, started_name
from polyhop.flows.prefect_steps import run_step
from polyhop.schemas.maintenance import MaintenanceReport, MaintenanceRequest
from polyhop.schemas.printable import plural
from polyhop.warehouse.settings_file import load_settings


@flow(name="maintain", flow_run_name=started_name("maintain", "index"), persist_result=False)
def maintain_flow(
    index: str | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    queue_days: float | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Maintenance: prune versions, free vectors, vacuum caches and queue, remove what killed runs left.

    Args:
        index: Name of the only index; empty for all.
        dry_run: Change nothing; report what would go.
        queue_days: Also forget jobs that ended so many days ago; empty for none.
        settings: Settings by dotted name (maintenance.*, keep_versions), over polyhop.toml and the environment.
    """
    with clean_run(run_tags("maintenance")):
        log = get_run_logger()
        warn_of_secrets(settings or {}, log.warning)
        chosen = load_settings(settings or {})
        request = MaintenanceRequest(index or None, dry_run, queue_days)
        report = run_step("maintain", lambda: run_maintenance(chosen, request))
        for sentence in report.skipped:
            log.warning(sentence)
        log.info(_headline(report))
        show_table("maintenance", _size_rows(report), _headline(report))
        return report.to_json()


def _size_rows(report: MaintenanceReport) -> list[dict[str, Any]]:
    """Files and megabytes of each part, before and after."""
    return [
        {
            "part": part.part,
            "files before": part.before.files,
            "files after": part.after.files,
            "MB before": round(part.before.bytes / 1e6, 3),
            "MB after": round(part.after.bytes / 1e6, 3),
        }
        for part in report.parts
    ]


def _headline(report: MaintenanceReport) -> str:
    """What was removed, in one line."""
    versions = sum(map(len, report.removed_versions.values()))
    removed = [plural(versions, "version"), *(f"{count:,} {name}" for name, count in report.removed.items())]
    return f"{'Would remove' if report.dry_run else 'Removed'} {', '.join(removed)}"
