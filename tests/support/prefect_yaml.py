"""prefect.yaml of the repository, made from the deployments that the product registers."""

from collections.abc import Iterable
from typing import Any

from polyhop.flows.prefect_deploy import DeployedIndex, Deployment, deployments
from polyhop.flows.prefect_run import TAG

POOL = "polyhop"


def prefect_document(indexes: Iterable[DeployedIndex], pool: str = POOL) -> dict[str, Any]:
    """The content of a prefect.yaml with the same deployments."""
    return {
        "name": TAG,
        "pull": [{"prefect.deployments.steps.set_working_directory": {"directory": "{{ $PWD }}"}}],
        "deployments": [_entry(each, pool) for each in deployments(indexes)],
    }


def _entry(deployment: Deployment, pool: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": deployment.name,
        "description": deployment.description,
        "entrypoint": deployment.entrypoint,
        "work_pool": {"name": pool},
        "tags": deployment.tags,
        "parameters": dict(deployment.parameters),
    }
    if deployment.cron:
        when = {"cron": deployment.cron, "timezone": "UTC", "active": False}
        by_source = deployment.by_source.items()
        entry["schedules"] = [{**when, "slug": name, "parameters": dict(given)} for name, given in by_source] or [when]
    if deployment.collision:
        entry["concurrency_limit"] = {"limit": 1, "collision_strategy": deployment.collision}
    return entry
