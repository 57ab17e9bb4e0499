"""Real servers, started once per session."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prefect_rest import ask, forget_earlier, post, wait_for


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # haystack-ai would report each pipeline to its makers

_servers: list[subprocess.Popen[bytes]] = []
"""The Prefect server that runs."""


@pytest.hookimpl(wrapper=True)  # around all tries of a test, and the ends of its fixtures
def pytest_runtest_protocol(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Ends the Prefect server after the last of its tests, which stand together: idle it takes a tenth of a core."""
    done = yield
    while _servers and nextitem is not None and "prefect_server" not in getattr(nextitem, "fixturenames", ()):
        _servers.pop().terminate()
    return done


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a real Prefect server on a free loopback port, with a throwaway database.

    POLYHOP_PREFECT_DATABASE=postgresql+asyncpg://… names another, empty one, which needs the extension pg_trgm (the
    PostgreSQL of the development dependencies has none).
    """
    home = tmp_path_factory.mktemp("prefect")
    port = _free_port()
    database = os.environ.get("POLYHOP_PREFECT_DATABASE", f"sqlite+aiosqlite:///{home}/prefect.db")
    environment = {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_DATABASE_CONNECTION_URL": database,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "0.5",
        "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.5",
        # schedules act within seconds, and make few runs beforehand
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "3",
        "PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS": "4",
        "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT30S",
        "DO_NOT_TRACK": "1",
    }
    address = ("--host", "127.0.0.1", "--port", str(port))
    command = [str(Path(sys.executable).parent / "prefect"), "server", "start", *address]
    log = (home / "server.log").open("w")
    server = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT)
    _servers.append(server)
    try:
        health = f"{environment['PREFECT_API_URL']}/health"
        wait_for(lambda: server.poll() is not None or _is_healthy(health), "the Prefect server did not answer", 300)
        assert server.poll() is None, (home / "server.log").read_text()[-2000:]
        yield environment
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


def _is_healthy(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2):
        return True
    return False


@pytest.fixture(autouse=True)
def _own_runs_only() -> None:
    """A test that is tried again looks at what this try does, not at what the one before left on the server."""
    forget_earlier()


@pytest.fixture
def clean_server(prefect_server: dict[str, str]) -> Iterator[dict[str, str]]:
    """The server without what would go on or be in the way afterwards: automations, blocks, schedules, open runs."""
    yield prefect_server
    for kind in ("deployments", "automations", "block_documents"):
        for each in post(prefect_server, f"/{kind}/filter"):
            ask(prefect_server, f"/{kind}/{each['id']}", "DELETE")
    open_states = {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]}}
    for run in post(prefect_server, "/flow_runs/filter", {"flow_runs": {"state": open_states}}):
        ask(prefect_server, f"/flow_runs/{run['id']}", "DELETE")
