"""The Prefect server's checks of `polyhop doctor`: that it answers, its version and database, deployments nobody runs.

Asks by HTTP, without importing Prefect; changes nothing.
"""

import os
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from polyhop.schemas.errors import StoreError
from polyhop.schemas.settings import Settings

ANSWER_SECONDS = 5  # chosen: a server that runs answers in far less, and `doctor` asks it several times
_DATABASE = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
_OUR_FLOWS = "prefect_"
"""Part of the entrypoint of every flow of ours (flows/prefect_index.py:index_flow)."""


def check_prefect(_: Settings) -> str:
    """Says which server answers, with which version and database.

    Raises:
        StoreError: If it does not answer, or is of another minor version than the client.
    """
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return "no PREFECT_API_URL: `polyhop index` runs its stages directly"
    _ask(url, "GET", "/health")
    server, client = str(_ask(url, "GET", "/admin/version")), version("prefect")
    if server.split(".")[:2] != client.split(".")[:2]:
        raise StoreError(
            f"the Prefect server at {url} has version {server}, this installation {client}; install the same minor "
            "version on both"
        )
    return f"server {server} at {url} answers, database {_database(url)}"


def check_deployments(_: Settings) -> str:
    """Says whether somebody runs the deployments of our flows.

    Raises:
        StoreError: If nobody does for some.
    """
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        return "not looked for without PREFECT_API_URL"
    found = _our_deployments(url)
    if not found:
        return "none of Polyhop's flows; make them with: polyhop deploy --index NAME"
    idle = sorted((each.get("work_pool_name") or "", each["name"]) for each in found if each["status"] != "READY")
    if not idle:
        return f"{len(found)} of Polyhop's flows, all with a worker"
    names = ", ".join(name for _, name in idle)
    raise StoreError(
        f"no worker runs the deployments {names}: their runs stay scheduled; start {_missing_workers(idle)}"
    )


def _our_deployments(url: str) -> list[dict[str, Any]]:
    """The deployments of our flows; a server may have others."""
    return [each for each in _ask(url, "POST", "/deployments/filter") if _OUR_FLOWS in str(each.get("entrypoint"))]


def _missing_workers(idle: Iterable[tuple[str, str]]) -> str:
    """What to start, so that somebody runs these deployments (work pool, name); without a pool they are served."""
    pools = sorted({pool for pool, _ in idle if pool})
    return " and ".join(f"prefect worker start --pool {pool}" for pool in pools) or "the process that serves them"


def _database(url: str) -> str:
    """The kind of database: the server shows its driver, never its address, which the environment may hold here."""
    shown = _ask(url, "GET", "/admin/settings").get("server", {}).get("database", {})
    address = next((os.environ[name] for name in _DATABASE if os.environ.get(name)), "")
    kind = str(shown.get("driver") or address).partition("+")[0].partition(":")[0]
    return {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(kind, "not shown to clients")


def _ask(url: str, method: str, path: str) -> Any:
    """What the server answers.

    Raises:
        StoreError: If it does not.
    """
    if not url.startswith(("http://", "https://")):
        raise StoreError(f"PREFECT_API_URL is {url}; it must begin with http:// or https://")
    import httpx

    try:
        body: dict[str, str] | None = {} if method == "POST" else None
        answer = httpx.request(method, f"{url.rstrip('/')}{path}", json=body, timeout=ANSWER_SECONDS)
        return answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise StoreError(
            f"the Prefect server at {url} does not answer ({said}); start it or unset PREFECT_API_URL"
        ) from error
