"""Prefect's REST interface, as tests ask it what a run left behind."""

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

import pytest
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed

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
    """Starts a run of a deployment, as its button on the dashboard does.

    Args:
        environment: Of the server.
        name: Flow and deployment: `answer/batch`.
        parameters: Of the flow, as the form would send them.
    """
    found = ask(environment, f"/deployments/name/{name}", "GET")
    post(environment, f"/deployments/{found['id']}/create_flow_run", {"parameters": dict(parameters)})


def schedule_once(environment: Mapping[str, str], name: str, parameters: Mapping[str, object] | None = None) -> None:
    """Switches a deployment's schedule on, with one date a few seconds ahead, and waits until its run is planned.

    A server that plans many runs of short intervals stops answering on a small machine. One that plans too late plans
    nothing: it gets a later date then.

    Args:
        environment: Of the server.
        name: Flow and deployment: `answer/batch`; without a schedule it gets this one.
        parameters: Of the scheduled run, over those of the deployment.
    """
    found = ask(environment, f"/deployments/name/{name}", "GET")
    schedules = f"/deployments/{found['id']}/schedules"
    if not found["schedules"]:
        found["schedules"] = ask(environment, schedules, "POST", [{"schedule": _once(0), "active": False}])
    own = f"{schedules}/{found['schedules'][0]['id']}"
    for seconds in (8, 16, 32):
        once = {"schedule": _once(seconds), "active": True, "parameters": dict(parameters or {})}
        ask(environment, own, "PATCH", once)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if _by_schedule(environment, name):
                return
            time.sleep(0.5)
    pytest.fail(f"the server planned no run of {name}")


def ended_by_schedule(environment: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """The runs of a deployment that a schedule made, and that came to an end."""
    ends = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
    return [run for run in _by_schedule(environment, name) if run["state_type"] in ends]


def _by_schedule(environment: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    found = ask(environment, f"/deployments/name/{name}", "GET")
    runs = post(environment, "/flow_runs/filter", {"deployments": {"id": {"any_": [found["id"]]}}})
    return [run for run in runs if run["auto_scheduled"]]


def _once(seconds: float) -> dict[str, str]:
    """A schedule of one date, so many seconds ahead."""
    due = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"rrule": f"DTSTART:{due:%Y%m%dT%H%M%SZ}\nRRULE:FREQ=DAILY;COUNT=1", "timezone": "UTC"}


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
