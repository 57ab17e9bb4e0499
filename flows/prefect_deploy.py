"""Deployments on a Prefect server: registered for a work pool, or served by this process.

What they are is data (deployments.py). A second run changes nothing but what is different, and keeps what people
switched on: schedules are off until then.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound, TerminationSignal
from prefect.runner import Runner
from prefect.runner.storage import LocalStorage
from prefect.settings import PREFECT_API_URL
from prefect.workers.process import ProcessWorker

from polyhop.flows.deployments import DeployedIndex, Deployment, deployments
from polyhop.flows.prefect_automations import AutomationRequest, make_automations
from polyhop.flows.prefect_run import require_server, unreachable
from polyhop.flows.prefect_schedules import merged_schedules
from polyhop.schemas.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Deployed:
    """What was registered: full names of deployments, whether the pool was made, names of automations."""

    deployments: list[str]
    is_new_pool: bool
    automations: list[str]


def deploy(
    indexes: Iterable[DeployedIndex], pool: str, request: AutomationRequest, switched_on: Collection[str] = ()
) -> Deployed:
    """Registers all deployments for a work pool, which is made if it is missing, and their automations.

    Args:
        indexes: What to make deployments for.
        pool: Name of the work pool.
        request: What automations are to do.
        switched_on: Kinds (deployments.SCHEDULED) whose schedules are switched on; others stay as they are.

    Raises:
        ConfigurationError: If no server is named, or the block to notify by does not exist.
        StoreUnavailableError: If the server does not answer.
    """
    request.check()
    with _server() as client:
        made = make_pool(client, pool)
        here = LocalStorage(str(Path.cwd()))
        built = [(each, _built(client, each, here, is_on=each.kind in switched_on)) for each in deployments(indexes)]
        ids = _registered(built, partial(RunnerDeployment.apply, work_pool_name=pool))
        return Deployed([one.full_name for _, one in built], made, make_automations(client, ids, request))


def serve_all(
    indexes: Iterable[DeployedIndex], request: AutomationRequest, limit: int, switched_on: Collection[str] = ()
) -> None:
    """Registers all deployments and runs what is due in processes of this one, until it is stopped.

    Args:
        indexes: What to make deployments for.
        request: What automations are to do.
        limit: Runs at the same time at most.
        switched_on: As for `deploy`.

    Raises:
        ConfigurationError: If no server is named, or the block to notify by does not exist.
        StoreUnavailableError: If the server does not answer.
    """
    request.check()
    with _server() as client:
        built = [(each, _built(client, each, None, is_on=each.kind in switched_on)) for each in deployments(indexes)]
        # not prefect.serve, which registers again, over what somebody has switched on since
        runner = Runner(pause_on_shutdown=False, limit=limit)
        make_automations(client, _registered(built, runner.add_deployment), request)
    with suppress(KeyboardInterrupt, TerminationSignal):
        asyncio.run(runner.start())


def make_pool(client: SyncPrefectClient, pool: str) -> bool:
    """Makes a work pool of processes unless there is one of that name; whether it was made."""
    try:
        client.read_work_pool(pool)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template))
        return True
    return False


@contextmanager
def _server() -> Iterator[SyncPrefectClient]:
    if not PREFECT_API_URL.value():
        raise ConfigurationError(
            "No Prefect server is named; start one with `prefect server start`, and set "
            "PREFECT_API_URL=http://127.0.0.1:4200/api."
        )
    require_server()
    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.TransportError as error:
        raise unreachable(error) from error


def _built(
    client: SyncPrefectClient, deployment: Deployment, storage: LocalStorage | None, *, is_on: bool
) -> RunnerDeployment:
    limit = None
    if deployment.collision:
        limit = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy(deployment.collision))
    built = RunnerDeployment.from_entrypoint(
        deployment.entrypoint,
        name=deployment.name,
        concurrency_limit=limit,
        description=deployment.description,
        tags=deployment.tags,
    )
    form = built._parameter_openapi_schema  # noqa: SLF001 - Prefect makes it and offers no way to narrow it
    if deployment.index:  # its limit of one run at a time holds for this index only
        form.properties["index"]["enum"] = [deployment.index]
    found = _on_server(client, built.full_name)
    built.parameters = _parameters(deployment, found, form.properties)
    built.schedules = merged_schedules(deployment, found, is_on=is_on)  # type: ignore[assignment]
    if storage is not None:
        built.storage = storage
    return built


def _on_server(client: SyncPrefectClient, full_name: str) -> DeploymentResponse | None:
    """What the server has under the name of a deployment."""
    try:
        return client.read_deployment_by_name(full_name)
    except ObjectNotFound:
        return None


def _parameters(deployment: Deployment, found: DeploymentResponse | None, form: Collection[str]) -> dict[str, Any]:
    """What people have set on the server, but for fixed parameters and those that are not in the form any more."""
    kept = {name: value for name, value in found.parameters.items() if name in form} if found else {}
    given = {
        name: value for name, value in deployment.parameters.items() if name in deployment.fixed or name not in kept
    }
    return {name: value for name, value in kept.items() if name not in deployment.fixed} | given


def _registered(
    built: list[tuple[Deployment, RunnerDeployment]], register: Callable[[RunnerDeployment], object]
) -> dict[str, dict[str, UUID]]:
    """Registers deployments; ids of those of indexes, by index and kind."""
    found: dict[str, dict[str, UUID]] = {}
    for deployment, one in built:
        made = cast("UUID", register(one))
        if deployment.index:
            found.setdefault(deployment.index, {})[deployment.kind] = made
    return found
