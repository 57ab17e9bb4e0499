"""The check of an index on Prefect: compares, repairs if asked to, and fails if something still differs.

A shell around verify.py; scheduled, it finds damage before a reader does.
"""

from functools import partial
from typing import Any

from prefect import flow, get_run_logger

from polyhop.flows.deployments import run_tags
from polyhop.flows.prefect_run import clean_run, warn_of_secrets
from polyhop.flows.prefect_show import artifact_key, rename_run, show_text, started_name
from polyhop.flows.prefect_steps import run_step
from polyhop.flows.verify import VerifyReport, run_verify
from polyhop.flows.verify import repair as repair_stores
from polyhop.schemas.errors import StoreError
from polyhop.warehouse.graph.address import find_address
from polyhop.warehouse.settings_file import load_settings


@flow(name="verify", flow_run_name=started_name("verify", "index"), persist_result=False)
def verify_flow(
    index: str,
    repair: bool = False,  # noqa: FBT001, FBT002 - a form field on the dashboard
    neo4j: bool = False,  # noqa: FBT001, FBT002
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Check that every file, table and vector of an index is as it was published.

    Args:
        index: Name of the index.
        repair: Fix what differs, then compare again.
        neo4j: Also compare with Neo4j (NEO4J_URI, NEO4J_PASSWORD where the flow runs).
        settings: Settings by dotted name, over polyhop.toml and the environment.
    """
    with clean_run(run_tags("check", index)):
        log = get_run_logger()
        warn_of_secrets(settings or {}, log.warning)
        chosen = load_settings(settings or {})
        address = find_address(None, None, None, None) if neo4j else None
        compare = partial(run_verify, chosen, index, address)
        report = run_step("compare stores", compare)
        if repair and not report.ok:
            for sentence in _sentences(report):
                log.warning("%s: %s", index, sentence)
            run_step("repair stores", partial(repair_stores, chosen, report, address))
            report = run_step("compare stores again", compare)
        rename_run("verify", index, f"v{report.version}", "ok" if report.ok else "DIFFERS")
        _show(report)
        log.info("index %s, version %d: %s", index, report.version, _said(report))
        if not report.ok:
            raise StoreError(
                f"Index '{index}', version {report.version}: {_sentences(report)[0]}; "
                f"fix it with: polyhop verify --index {index} --repair"
            )
        return report.to_json()


def _show(report: VerifyReport) -> None:
    lines = [f"# Index {report.index}, version {report.version}: {_said(report)}", ""]
    lines += [f"* {name.replace('_', ' ')}: {'; '.join(found) or 'ok'}" for name, found in report.differences.items()]
    show_text(artifact_key("verify", report.index), lines, _said(report))


def _said(report: VerifyReport) -> str:
    return "everything is as it was published" if report.ok else f"{len(_sentences(report))} differences"


def _sentences(report: VerifyReport) -> list[str]:
    return [sentence for found in report.differences.values() for sentence in found]
