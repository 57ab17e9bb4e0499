"""Prefect's REST interface, as tests ask it what a run left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed

from polyhop.flows.prefect_deploy import DeployedIndex, Deployment, deployments
from polyhop.flows.prefect_run import TAG

_PAGE = 200
"""Most rows that the server gives at once, in its own order: what a test looks for may be among later ones."""


_test_began = [datetime.now(UTC)]


def forget_earlier() -> None:
    """From now on `runs_named` and `events_of` leave out what is there already: of an earlier try of the test."""
    _test_began[0] = datetime.now(UTC)


def post(environment: Mapping[str, str], path: str, body: Mapping[str, object] | None = None) -> Any:
    """What the server of this environment answers; to a filter all rows, however many pages they take."""
    if not path.endswith("/filter") or path.startswith("/events"):
        return ask(environment, path, "POST", body or {})
    found: list[Any] = []
    while page := ask(environment, path, "POST", {**(body or {}), "limit": _PAGE, "offset": len(found)}):
        found += page
        if len(page) < _PAGE:
            break
    return found


def runs_named(environment: Mapping[str, str], beginning: str) -> list[dict[str, Any]]:
    """The flow runs of the test whose names begin with these words."""
    found = post(environment, "/flow_runs/filter", {"flow_runs": {"name": {"like_": beginning}}})
    own = [run for run in found if datetime.fromisoformat(run["created"]) >= _test_began[0]]
    return [run for run in own if run["name"].startswith(f"{beginning} ")]


def events_of(environment: Mapping[str, str], event: str, resource: str) -> list[dict[str, Any]]:
    """The test's events of that name about a resource, at least one: the server stores them a moment later."""
    wanted = {
        "event": {"name": [event]},
        "resource": {"id": [resource]},
        "occurred": {"since": _test_began[0].isoformat()},
    }
    body: dict[str, object] = {"filter": wanted}
    end = time.monotonic() + 120
    while not (found := post(environment, "/events/filter", body)["events"]):
        assert time.monotonic() < end, f"no event {event} about {resource}"
        time.sleep(0.2)
    events: list[dict[str, Any]] = found
    return events


def run_deployment(environment: Mapping[str, str], name: str, parameters: Mapping[str, object]) -> None:
    """Starts a run of a deployment (`answer/batch`), as its button on the dashboard does."""
    post(
        environment, f"/deployments/{_deployment(environment, name)['id']}/create_flow_run", {"parameters": parameters}
    )


def _deployment(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(environment, f"/deployments/name/{name}", "GET")
    return found


def schedule_once(environment: Mapping[str, str], name: str, parameters: Mapping[str, object] | None = None) -> None:
    """Switches a deployment's schedule on, or gives it one, with one date a few seconds ahead; waits for its plan.

    A server that plans many runs of short intervals stops answering on a small machine. One that plans too late plans
    nothing: it gets a later date then. `parameters` go over those of the deployment.
    """
    found = _deployment(environment, name)
    schedules = f"/deployments/{found['id']}/schedules"
    if not found["schedules"]:
        off = {"schedule": _dates(0, "FREQ=DAILY;COUNT=1"), "active": False}
        found["schedules"] = ask(environment, schedules, "POST", [off])
    own = f"{schedules}/{found['schedules'][0]['id']}"
    for seconds in (8, 16, 32):
        once = {"schedule": _dates(seconds, "FREQ=DAILY;COUNT=1"), "active": True, "parameters": parameters or {}}
        ask(environment, own, "PATCH", once)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if _by_schedule(environment, name):
                return
            time.sleep(0.5)
    pytest.fail(f"the server planned no run of {name}")


def schedule_often(environment: Mapping[str, str], name: str, count: int, seconds: int = 30) -> None:
    """Switches a deployment's schedule on, with so many dates: more than are needed, for a busy server plans late."""
    found = _deployment(environment, name)
    schedule = {"schedule": _dates(10, f"FREQ=SECONDLY;INTERVAL={seconds};COUNT={count}"), "active": True}
    ask(environment, f"/deployments/{found['id']}/schedules/{found['schedules'][0]['id']}", "PATCH", schedule)


def ended_by_schedule(environment: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """The runs of a deployment that a schedule made, and that came to an end."""
    ends = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
    return [run for run in _by_schedule(environment, name) if run["state_type"] in ends]


def _by_schedule(environment: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    deployed = {"deployments": {"id": {"any_": [_deployment(environment, name)["id"]]}}}
    return [run for run in post(environment, "/flow_runs/filter", deployed) if run["auto_scheduled"]]


def _dates(seconds: float, rule: str) -> dict[str, str]:
    """A schedule whose first date is so many seconds ahead."""
    due = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"rrule": f"DTSTART:{due:%Y%m%dT%H%M%SZ}\nRRULE:{rule}", "timezone": "UTC"}


def _is_busy(error: BaseException) -> bool:
    """Whether the server's SQLite was locked for too long: nothing was done, and Prefect's own client asks again."""
    return isinstance(error, HTTPError) and error.code == HTTPStatus.SERVICE_UNAVAILABLE


@retry(retry=retry_if_exception(_is_busy), stop=stop_after_attempt(6), wait=wait_fixed(1), reraise=True)
def ask(
    environment: Mapping[str, str], path: str, method: str, body: Mapping[str, object] | Sequence[object] | None = None
) -> Any:
    """What the server of this environment answers."""
    request = urllib.request.Request(
        environment["PREFECT_API_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read() or b"null")


def kill_run(run_id: str) -> None:
    """The process of a run, as the kernel kills one that takes too much memory."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if run_id.encode() in variables and b"prefect" in command:
            os.kill(int(folder.name), signal.SIGKILL)


PREFECT = str(Path(sys.executable).parent / "prefect")


def _variables(server: Mapping[str, str], root: Path) -> dict[str, str]:
    """Of a process that runs flows on Polyhop's data in `root`, with the environment of a Prefect server."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_", "NEO4J_"))}
    return {**clean, **server, "PREFECT_RUNNER_POLL_FREQUENCY": "1", "POLYHOP_ROOT": str(root)}


@contextmanager
def pool_worker(
    server: Mapping[str, str], root: Path, folder: Path, project: Path, more: Mapping[str, str] | None = None
) -> Iterator[Callable[..., str]]:
    """The pool `polyhop` with a worker; gives a function that runs `prefect` commands beside it, in `project`, too.

    `folder` gets the worker's log; `more` are further variables of the runs.
    """
    environment = {**_variables(server, root), "PREFECT_WORKER_QUERY_SECONDS": "1", **(more or {})}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [PREFECT, "--no-prompt", *arguments],
            env=environment, cwd=project, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    log = (folder / "pool.log").open("w")
    worker = subprocess.Popen(
        [PREFECT, "--no-prompt", "worker", "start", "--pool", "polyhop", "--type", "process"],
        env=environment, cwd=project, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: bool(post(server, "/work_pools/filter")), "the worker made no work pool")
        yield run
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        log.close()


@contextmanager
def serving(
    server: Mapping[str, str], root: Path, folder: Path, options: Sequence[str], more: Mapping[str, str] | None = None
) -> Iterator[None]:
    """`polyhop serve` with these options in `folder`, from when its deployments and automations are registered."""
    command = [sys.executable, "-m", "polyhop.cli", "serve", *options]
    environment = {**_variables(server, root), **(more or {})}
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: _has_automations(server), "nothing was deployed")
        yield
    finally:
        process.terminate()  # as a service manager ends it
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def _has_automations(server: Mapping[str, str]) -> bool:
    """Whether the automations are there, which are made last."""
    return any(each["name"].endswith("after publish") for each in post(server, "/automations/filter"))


def wait_for(is_reached: Callable[[], bool], otherwise: str, seconds: float = 180) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < end, otherwise
        time.sleep(0.2)


def prefect_document(indexes: Iterable[DeployedIndex]) -> dict[str, Any]:
    """The content of a prefect.yaml with the same deployments."""
    return {
        "name": TAG,
        "pull": [{"prefect.deployments.steps.set_working_directory": {"directory": "{{ $PWD }}"}}],
        "deployments": [_entry(each) for each in deployments(indexes)],
    }


def _entry(deployment: Deployment) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": deployment.name,
        "description": deployment.description,
        "entrypoint": deployment.entrypoint,
        "work_pool": {"name": "polyhop"},
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
