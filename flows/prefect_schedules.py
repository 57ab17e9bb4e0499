"""Schedules of a deployment: those that it comes with, and what people have made of them on the server.

Schedules are off until somebody switches them on. Registers nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule

from polyhop.flows.deployments import Deployment


def merged_schedules(
    deployment: Deployment, found: DeploymentResponse | None, *, is_on: bool = False
) -> list[DeploymentScheduleCreate]:
    """The schedules to register: all that the server has, as people left them, and those that it lacks.

    The schedule of a source is found by its slug, the source's name. It keeps when it runs and whether it is on; the
    source's path is set again unless somebody made it read another file in part.

    Args:
        deployment: What it comes with.
        found: What the server has of it; None: nothing yet.
        is_on: Whether to switch all of them on.
    """
    merged = _merged(deployment, found)
    return [each.model_copy(update={"active": True}) for each in merged] if is_on else merged


def _merged(deployment: Deployment, found: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    kept = [_copy(each) for each in found.schedules] if found is not None else []
    if not deployment.cron:
        return kept
    if not deployment.by_source:
        return kept or [_new(deployment.cron, None, {})]
    read_before = str(found.parameters.get("source", "")) if found is not None else ""
    kept = [_with_source(each, deployment.by_source, read_before) for each in kept]
    return kept + _missing(deployment.cron, deployment.by_source, kept)


def _missing(
    cron: str, by_source: Mapping[str, Mapping[str, Any]], kept: Sequence[DeploymentScheduleCreate]
) -> list[DeploymentScheduleCreate]:
    """Schedules for the sources that have none."""
    slugs = {each.slug for each in kept}
    return [_new(cron, name, given) for name, given in by_source.items() if name not in slugs]


def _with_source(
    schedule: DeploymentScheduleCreate, by_source: Mapping[str, Mapping[str, Any]], read_before: str
) -> DeploymentScheduleCreate:
    """The path of a source may have moved; a schedule of an index's only source becomes that of this source."""
    if schedule.slug in by_source:
        if schedule.parameters.get("partial"):
            return schedule
        given = by_source[str(schedule.slug)]
        return schedule.model_copy(update={"parameters": {**given, **schedule.parameters, "source": given["source"]}})
    if schedule.slug is None and not schedule.parameters:
        for name, given in by_source.items():
            if given["source"] == read_before:
                return schedule.model_copy(update={"slug": name, "parameters": dict(given)})
    return schedule


def _copy(schedule: DeploymentSchedule) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate(
        schedule=schedule.schedule,
        active=schedule.active,
        max_scheduled_runs=schedule.max_scheduled_runs,
        parameters=schedule.parameters,
        slug=schedule.slug,
    )


def _new(cron: str, slug: str | None, parameters: Mapping[str, Any]) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate(
        schedule=CronSchedule(cron=cron, timezone="UTC"), active=False, parameters=dict(parameters), slug=slug
    )
