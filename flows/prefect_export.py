"""The export flow on Prefect: the same steps as export.py, each a task run, with a table of what was written.

A shell: decides nothing. The password comes from NEO4J_PASSWORD, so that no server stores it as a parameter.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from prefect import flow, get_run_logger

from polyhop.flows.deployments import run_tags
from polyhop.flows.export import ExportReport, ExportRequest, run_export
from polyhop.flows.prefect_run import clean_run, flow_settings, run_flow, warn_of_secrets
from polyhop.flows.prefect_show import artifact_key, rename_run, show_text, started_name
from polyhop.flows.prefect_steps import run_step
from polyhop.schemas.redaction import has_secret
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.address import find_address
from polyhop.warehouse.settings_file import load_settings

T = TypeVar("T")


class PrefectSteps:
    """Runs every step as a Prefect task run."""

    def step(self, name: str, run: Callable[[], T]) -> T:
        """One task run."""
        return run_step(f"export {name}", run)


@flow(name="export", flow_run_name=started_name("export", "index"), persist_result=False)
def export_flow(
    index: str,
    uri: str | None = None,
    user: str | None = None,
    database: str | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Export to Neo4j: published version in, database that holds it out.

    Args:
        index: Name of the index.
        uri: Address of the server; empty for NEO4J_URI.
        user: User; empty for NEO4J_USER, or neo4j.
        database: Database; empty for NEO4J_DATABASE, or neo4j.
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    with clean_run(run_tags("export", index)):
        log = get_run_logger()
        warn_of_secrets({**(settings or {}), "uri": uri or ""}, log.warning)
        request = ExportRequest(index, find_address(uri, user, None, database))
        report = run_export(load_settings(settings or {}), request, PrefectSteps())
        written = f"{report.created:,} created, {report.updated:,} updated, {report.deleted:,} deleted"
        lines = [f"# Neo4j holds version {report.version} of {index}", "", written, ""]
        lines += [f"* {name.replace('_', ' ')}: {count:,}" for name, count in report.counts.items()]
        log.info("Neo4j holds version %d of %s: %s", report.version, index, written)
        rename_run("export", index, f"v{report.version}")
        show_text(artifact_key("export", index), lines, written)
        return {**report.to_json(), "seconds": dict(report.seconds)}


def run_export_on_prefect(settings: Settings, request: ExportRequest) -> ExportReport:
    """Runs the flow in this process against the configured Prefect server and returns its report.

    Raises:
        StoreUnavailableError: If the Prefect server does not answer.
    """
    address = request.address
    os.environ["NEO4J_URI"], os.environ["NEO4J_PASSWORD"] = address.uri, address.password
    document = run_flow(
        export_flow,
        index=request.index,
        uri=None if has_secret(address.uri) else address.uri,
        user=address.user,
        database=address.database,
        settings=flow_settings(settings),
    )
    return ExportReport(**document)
