"""What holds for every command, Ctrl-C, extensions that cannot be used; and what `polyhop doctor` says."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint, version
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from empty_version import publish_empty

from polyhop import cli
from polyhop import doctor as health
from polyhop.cli import OURS, Commands, app
from polyhop.commands.index import print_report
from polyhop.commands.operate import _print
from polyhop.commands.options import settings_of
from polyhop.flows.maintain import VerifyReport
from polyhop.flows.reports import IndexReport
from polyhop.schemas import errors as extensions
from polyhop.schemas.errors import ConfigurationError, StoreError
from polyhop.schemas.settings import Settings
from polyhop.tasks import registry
from polyhop.tasks.registry import stages_for
from polyhop.warehouse.files import questions as predictions
from polyhop.warehouse.files.formats import records_of_others
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import writer_lease
from polyhop.warehouse.vectors.kinds import kind_of
from polyhop.worker.strategies.registry import spec_of

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("| command | what it does |") : TEXT.index("### JSON documents")]
ROWS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in TABLE.splitlines()[2:] if line.startswith("|")]


def _names(cell: str) -> list[str]:
    """The commands in the first cell of a row: `polyhop cache stats|evict`, or several in backticks."""
    words = [part.removeprefix("polyhop ").split()[0] for part in re.findall(r"`([^`]+)`", cell)]
    return [word.partition("\\")[0] for word in words]


def _options(name: str) -> set[str]:
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    parts = [command, *getattr(command, "commands", {}).values()]
    return {option for part in parts for parameter in part.params for option in parameter.opts}


def test_every_command_has_a_row_that_names_options_that_it_has() -> None:
    assert sorted({name for row in ROWS for name in _names(row[0])}) == sorted(OURS)
    for row in ROWS:
        known = set().union(*map(_options, _names(row[0])))
        parts = re.findall(r"`([^`]+)`", row[0] + row[1])
        assert {option for part in parts for option in re.findall(r"--[a-z-]+", part)} <= known | {"--root", "--json"}


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(predictions, "read_predictions", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr(sys, "argv", ["polyhop", "score", "any.jsonl"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err) == (130, "", "polyhop: stopped; finished work is kept.\n")


def test_what_was_damaged_is_said_with_what_fixes_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(IndexReport("towns", 2, changed=True, damaged=["table 'mentions' cannot be read", "3 cached vectors"]))
    said = capsys.readouterr().out
    assert "  rebuilt after damage: table 'mentions' cannot be read\n  rebuilt after damage: 3 cached vectors\n" in said
    report = VerifyReport("towns", 2, {"tables": [], "older_versions": ["version 1: file 'x' is missing"]})
    _print(report, "version 2")
    lines = ["ok    tables", "FAIL  older versions", "      version 1: file 'x' is missing"]
    fix = "Fix it with: polyhop verify --index towns --repair"
    assert capsys.readouterr().out.splitlines()[1:] == [*lines, fix]


USES: dict[str, tuple[str, Callable[[], Any]]] = {
    "polyhop.commands": ("command", lambda: Commands().get_command(None, ".theirs")),
    "polyhop.formats": ("format", lambda: records_of_others(Path("a.theirs"), ".theirs", "a.theirs")),
    "polyhop.stages": ("stage", lambda: stages_for(["theirs"])),
    "polyhop.strategies": ("strategy", lambda: spec_of(".theirs")),
    "polyhop.vectors": ("vector kind", lambda: kind_of(".theirs")),
}
WRONG = {
    "polyhop.formats": "is polyhop.schemas.text:__doc__, which is not a function",
    "polyhop.stages": "is polyhop.schemas.text:__doc__, which is not a Stage of that name",
    "polyhop.strategies": "is missing: its module polyhop.schemas.text declares none of that name with @strategy",
    "polyhop.vectors": "is polyhop.schemas.text:__doc__, which is not a VectorKind of that name",
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[EntryPoint], None]]:
    """Makes an entry point known as if its package were installed."""

    def known(point: EntryPoint) -> None:
        monkeypatch.setattr(extensions, "entry_points", lambda group: [point] * (point.group == group))
        extensions.extensions.cache_clear()
        registry._of_others.cache_clear()

    yield known
    extensions.extensions.cache_clear()
    registry._of_others.cache_clear()


@pytest.mark.parametrize("group", USES)
def test_an_unusable_extension_is_named_with_its_package(group: str, install: Callable[[EntryPoint], None]) -> None:
    what, use = USES[group]
    missing = "does not load: ModuleNotFoundError: No module named 'polyhop_nowhere'"
    reasons = {"polyhop_nowhere": missing, "polyhop.schemas.text": WRONG.get(group)}
    for module, reason in reasons.items():
        install(EntryPoint(".theirs", f"{module}:__doc__", group))
        if reason:
            with pytest.raises(ConfigurationError) as raised:
                use()
            said = f"The {what} '.theirs' of the package {module!r} {reason}. Update or uninstall that package."
            assert str(raised.value) == said


SETTINGS = Settings()
HIDDEN = {"server": {"database": {"driver": None, "connection_url": "********"}}}
POSTGRES = {"server": {"database": {"driver": "postgresql+asyncpg", "connection_url": "********"}}}


class Server(ThreadingHTTPServer):
    """Answers what it is told to, by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, object] = {"/api/health": True, "/api/admin/version": version("prefect")}
        self.answers["/api/admin/settings"] = HIDDEN
        self.url = f"http://127.0.0.1:{self.server_port}/api"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        answers = self.server.answers
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200 if self.path in answers else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(self.path)).encode())

    do_POST = do_GET  # noqa: N815 - as the library calls it

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as found:
        monkeypatch.setenv("PREFECT_API_URL", found.url)
        Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


@pytest.mark.parametrize(
    ("shown", "address", "said"),
    [
        (HIDDEN, "sqlite+aiosqlite:////home/prefect.db", "SQLite"),
        (POSTGRES, "", "PostgreSQL"),
        ({}, "", "not shown to clients"),
    ],
)
def test_a_prefect_server_is_described(server: Server, monkeypatch: Any, shown: Any, address: str, said: str) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", address)
    monkeypatch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)
    server.answers["/api/admin/settings"] = shown
    assert health.check_prefect(SETTINGS) == f"server {version('prefect')} at {server.url} answers, database {said}"


def test_a_server_of_another_minor_version_or_one_that_is_no_prefect_is_a_fault(server: Server) -> None:
    server.answers["/api/admin/version"] = "2.20.1"
    with pytest.raises(StoreError, match=r"has version 2\.20\.1, this installation .*install the same minor version"):
        health.check_prefect(SETTINGS)
    server.answers.clear()
    with pytest.raises(StoreError, match=r"does not answer .*404.*; start it or unset PREFECT_API_URL$"):
        health.check_prefect(SETTINGS)


def test_deployments_of_ours_without_a_worker_are_named_with_what_starts_one(server: Server) -> None:
    rows = [
        {"name": "nightly", "status": "READY", "entrypoint": "flows/prefect_answer.py:evaluate_flow"},
        {"name": "other", "status": "NOT_READY", "entrypoint": "elsewhere.py:flow", "work_pool_name": "theirs"},
    ]
    server.answers["/api/deployments/filter"] = []
    assert (
        health.check_deployments(SETTINGS) == "none of Polyhop's flows; create them with: polyhop deploy --index NAME"
    )
    server.answers["/api/deployments/filter"] = rows
    assert health.check_deployments(SETTINGS) == "1 of Polyhop's flows, all with a worker"
    rows[0] |= {"status": "NOT_READY", "work_pool_name": "polyhop"}
    words = r"^no worker runs the deployments nightly: .*; start prefect worker start --pool polyhop$"
    with pytest.raises(StoreError, match=words):
        health.check_deployments(SETTINGS)


def test_packages_are_compared_with_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert health.check_packages(SETTINGS).endswith(" requirements met")
    for met in ("numpy>=1", "no-such-package; extra == 'rdf'", "no-such-package; python_version < '3'"):
        assert health.requirement_fault(met) == ""
    assert health.requirement_fault("numpy<1") == f"numpy is {version('numpy')}, Polyhop needs <1"
    assert health.requirement_fault("no-such-package") == "no-such-package is not installed"
    assert health.requirement_fault("numpy<1; extra == 'rdf'") != ""
    monkeypatch.setattr("polyhop.doctor.requires", lambda _: ["numpy<1", "duckdb"])
    words = r"^numpy is .*, Polyhop needs <1\. Install the required versions: pip"
    with pytest.raises(ConfigurationError, match=words):
        health.check_packages(SETTINGS)


def test_writers_are_named_and_no_server_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Layout(tmp_path).index("lakes")
    publish_empty(folder)
    with writer_lease(folder.lease, "lakes"):
        said = health.check_leases(Settings(root=tmp_path))
    assert said.startswith(f"index 'lakes' is being written by process {os.getpid()}")
    assert health.check_leases(Settings(root=tmp_path)) == "no index is being written"
    for name in ("PREFECT_API_URL", "NEO4J_URI"):
        monkeypatch.delenv(name, raising=False)
    assert health.check_prefect(SETTINGS).startswith("no PREFECT_API_URL")
    assert health.check_deployments(SETTINGS) == "skipped: PREFECT_API_URL is not set"
    assert health.check_neo4j(SETTINGS) == "skipped: NEO4J_URI is not set"


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


def test_a_setting_keeps_the_spaces_of_its_value(tmp_path: Path) -> None:
    assert settings_of(tmp_path, ["encoder.query_prefix= query: "]).encoder.query_prefix == " query: "
