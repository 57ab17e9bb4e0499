"""The export flow on Prefect: the same steps as export.py, each a task run, with a table of what was written.

A shell: decides nothing. The password comes from NEO4J_PASSWORD, so that no server stores it as a parameter.
"""

import os
from collections.abc import Callable
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from polyhop.flows.export import ExportReport, ExportRequest, run_export
from polyhop.flows.prefect_index import RETRIES, RETRY_DELAY_SECONDS, is_retryable
from polyhop.flows.prefect_run import clean_run, flow_settings, run_flow
from polyhop.schemas.redaction import has_secret
from polyhop.schemas.settings import Settings
from polyhop.warehouse.graph.address import find_address
from polyhop.warehouse.settings_file import load_settings


class PrefectSteps:
    """Runs every step as a Prefect task run."""

    def step(self, name: str, run: Callable[[], None]) -> None:
        """One task run."""

        @task(
            name=f"export {name}",
            retries=RETRIES,
            retry_delay_seconds=RETRY_DELAY_SECONDS,
            retry_condition_fn=is_retryable,
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        def work() -> None:
            run()

        work()


@flow(name="export", flow_run_name="export {index}", persist_result=False)
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
    with clean_run():
        request = ExportRequest(index, find_address(uri, user, None, database))
        report = run_export(load_settings(settings or {}), request, PrefectSteps())
        written = f"{report.created:,} created, {report.updated:,} updated, {report.deleted:,} deleted"
        lines = [f"# Neo4j holds version {report.version} of {index}", "", written, ""]
        lines += [f"* {name.replace('_', ' ')}: {count:,}" for name, count in report.counts.items()]
        create_markdown_artifact("\n".join(lines), key="export-neo4j-summary", description=written)
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
