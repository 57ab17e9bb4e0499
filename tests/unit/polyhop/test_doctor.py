"""What `polyhop doctor` says of packages, writers, Prefect servers and deployments; a check that breaks is a line."""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pytest
from empty_version import publish_empty

from polyhop import doctor as health
from polyhop.doctor import (
    check_deployments,
    check_leases,
    check_neo4j,
    check_packages,
    check_prefect,
    requirement_fault,
)
from polyhop.schemas.errors import ConfigurationError, StoreError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import writer_lease

SETTINGS = Settings()
HIDDEN = {"server": {"database": {"driver": None, "connection_url": "********"}}}
POSTGRES = {"server": {"database": {"driver": "postgresql+asyncpg", "connection_url": "********"}}}


class Server:
    """Answers what it is told to, by path."""

    def __init__(self) -> None:
        self.answers: dict[str, object] = {
            "/api/health": True,
            "/api/admin/version": version("prefect"),
            "/api/admin/settings": HIDDEN,
        }
        answers = self.answers

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(200 if self.path in answers else 404)
                self.end_headers()
                self.wfile.write(json.dumps(answers.get(self.path)).encode())

            do_POST = do_GET  # noqa: N815 - as the library calls it

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    monkeypatch.setenv("PREFECT_API_URL", found.url)
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.parametrize(
    ("shown", "address", "said"),
    [
        (HIDDEN, "sqlite+aiosqlite:////home/prefect.db", "SQLite"),
        (POSTGRES, "", "PostgreSQL"),
        (HIDDEN, "", "not shown to clients"),
        ({}, "", "not shown to clients"),
    ],
)
def test_a_prefect_server_is_described(
    server: Server, monkeypatch: pytest.MonkeyPatch, shown: object, address: str, said: str
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", address)
    monkeypatch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)
    server.answers["/api/admin/settings"] = shown
    assert check_prefect(SETTINGS) == f"server {version('prefect')} at {server.url} answers, database {said}"


def test_a_server_of_another_minor_version_or_one_that_is_no_prefect_is_a_fault(server: Server) -> None:
    server.answers["/api/admin/version"] = "2.20.1"
    with pytest.raises(StoreError, match=r"has version 2\.20\.1, this installation .*install the same minor version"):
        check_prefect(SETTINGS)
    server.answers.clear()
    with pytest.raises(StoreError, match=r"does not answer .*404.*; start it or unset PREFECT_API_URL$"):
        check_prefect(SETTINGS)


def test_deployments_of_ours_without_a_worker_are_named_with_what_starts_one(server: Server) -> None:
    rows = [
        {"name": "nightly", "status": "READY", "entrypoint": "flows/prefect_answer.py:evaluate_flow"},
        {"name": "other", "status": "NOT_READY", "entrypoint": "elsewhere.py:flow", "work_pool_name": "theirs"},
    ]
    server.answers["/api/deployments/filter"] = []
    assert check_deployments(SETTINGS) == "none of Polyhop's flows; make them with: polyhop deploy --index NAME"
    server.answers["/api/deployments/filter"] = rows
    assert check_deployments(SETTINGS) == "1 of Polyhop's flows, all with a worker"
    rows[0] |= {"status": "NOT_READY", "work_pool_name": "polyhop"}
    words = r"^no worker runs the deployments nightly: .*; start prefect worker start --pool polyhop$"
    with pytest.raises(StoreError, match=words):
        check_deployments(SETTINGS)


def test_without_servers_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PREFECT_API_URL", "NEO4J_URI"):
        monkeypatch.delenv(name, raising=False)
    assert check_prefect(SETTINGS).startswith("no PREFECT_API_URL")
    assert check_deployments(SETTINGS) == "not looked for without PREFECT_API_URL"
    assert check_neo4j(SETTINGS) == "no NEO4J_URI: nothing is exported"


def test_packages_are_compared_with_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_packages(SETTINGS).endswith(" requirements met")
    for met in ("numpy>=1", "no-such-package; extra == 'rdf'", "no-such-package; python_version < '3'"):
        assert requirement_fault(met) == ""
    assert requirement_fault("numpy<1") == f"numpy is {version('numpy')}, Polyhop needs <1"
    assert requirement_fault("no-such-package") == "no-such-package is not installed"
    assert requirement_fault("numpy<1; extra == 'rdf'") != ""
    monkeypatch.setattr("polyhop.doctor.requires", lambda _: ["numpy<1", "duckdb"])
    words = r"^numpy is .*, Polyhop needs <1\. Install what Polyhop asks for: pip"
    with pytest.raises(ConfigurationError, match=words):
        check_packages(SETTINGS)


def test_the_writer_of_an_index_is_named_while_it_writes(tmp_path: Path) -> None:
    folder = Layout(tmp_path).index("lakes")
    publish_empty(folder)
    with writer_lease(folder.lease, "lakes"):
        said = check_leases(Settings(root=tmp_path))
    assert said.startswith(f"index 'lakes' is being written by process {os.getpid()}")
    assert check_leases(Settings(root=tmp_path)) == "no index is being written"


def test_a_check_that_breaks_is_a_line_and_the_others_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(_: Settings) -> str:
        raise KeyError("postgresql://me:secret@host/db")

    for name in ("check_encoder", "check_packages", "_lancedb"):
        monkeypatch.setattr(health, name, lambda _: "fine")
    monkeypatch.setattr(health, "check_neo4j", broken)
    checks = {check.name: check for check in health.run_checks(Settings(root=tmp_path))}
    assert not checks["neo4j"].ok
    assert checks["neo4j"].message.startswith("KeyError: ")
    assert "secret" not in checks["neo4j"].message
    assert checks["writers"].ok
    assert checks["queue"].ok
