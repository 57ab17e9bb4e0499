"""Prefect's REST interface, as tests ask it what a run left behind."""

import json
import time
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed

_PAGE = 200
"""Most rows that the server gives at once, in its own order: what a test looks for may be among later ones."""


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
    """The flow runs whose names begin with these words."""
    found = post(environment, "/flow_runs/filter", {"flow_runs": {"name": {"like_": beginning}}})
    return [run for run in found if run["name"].startswith(f"{beginning} ")]


def events_of(environment: Mapping[str, str], event: str, resource: str) -> list[dict[str, Any]]:
    """The events of that name about a resource, at least one: the server stores them a moment after they happen."""
    body: dict[str, object] = {"filter": {"event": {"name": [event]}, "resource": {"id": [resource]}}}
    end = time.monotonic() + 30
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


def _is_busy(error: BaseException) -> bool:
    """Whether the server's SQLite was locked for too long: nothing was done, and Prefect's own client asks again."""
    return isinstance(error, HTTPError) and error.code == HTTPStatus.SERVICE_UNAVAILABLE


@retry(retry=retry_if_exception(_is_busy), stop=stop_after_attempt(6), wait=wait_fixed(1), reraise=True)
def ask(environment: Mapping[str, str], path: str, method: str, body: Mapping[str, object] | None = None) -> Any:
    """What the server of this environment answers."""
    request = urllib.request.Request(
        environment["PREFECT_API_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read() or b"null")
