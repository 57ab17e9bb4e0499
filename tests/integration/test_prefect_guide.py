"""docs/operations.md tells the truth: its commands lead from nothing to a scheduled installation with alerts.

Its services are replaced by those of the tests: the Prefect server of the session, and none that starts runs.
"""

import configparser
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect_rest import ask, post

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
GUIDE = re.search(
    r"\n## Prefect: deploy, serve, watch\n.*?\n### On one host\n(?P<one>.*?)\n### On three hosts\n(?P<three>.*?)\n### ",
    (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
DOCUMENT = {"id": "p1", "title": "Lake", "text": "The Lake lies near Mount One."}
QUESTION = {"id": "q1", "question": "What lies near Mount One?", "answers": ["Lake"], "supporting": ["p1"]}


def blocks(part: str, language: str) -> list[str]:
    """The fenced blocks of a part of the page, without the indentation of the list that they stand in."""
    assert GUIDE is not None, "docs/operations.md has lost its guide"
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", GUIDE[part], re.DOTALL | re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in found]


def units(part: str) -> list[configparser.ConfigParser]:
    """The systemd units."""
    found = []
    for block in blocks(part, "ini"):
        if "[Service]" in block:
            unit = configparser.ConfigParser(interpolation=None)
            unit.optionxform = str  # type: ignore[assignment,method-assign]
            unit.read_string(block)
            found.append(unit)
    return found


@pytest.mark.rare
@pytest.mark.prefect
def test_the_commands_of_the_guide_deploy_with_schedules_alerts_and_a_first_run(
    clean_server: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps(DOCUMENT) + "\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    (one,) = blocks("one", "bash")
    printed = _run(one, clean_server, tmp_path)
    assert "Created flow run" in printed
    block = ask(clean_server, "/block_types/slug/slack-webhook/block_documents/name/ops", "GET")
    assert block["data"]["url"] == "********"
    for kind, flow in (("incremental", "index"), ("check", "verify"), ("evaluation", "evaluate")):
        deployment = ask(clean_server, f"/deployments/name/{flow}/main-{kind}", "GET")
        assert [schedule["active"] for schedule in deployment["schedules"]] == [kind != "evaluation"]
    is_on = {automation["name"]: automation["enabled"] for automation in post(clean_server, "/automations/filter")}
    assert is_on["polyhop: notify of failures"]
    assert is_on["polyhop: evaluation of main after publish"]
    assert not is_on["polyhop: export of main after publish"]


@pytest.mark.rare
def test_the_commands_of_a_host_that_answers_questions_run(polyhop: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps(DOCUMENT) + "\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    (three,) = blocks("three", "bash")
    for command in three.splitlines():
        name, *arguments = command.split()
        assert name == "polyhop"
        done = polyhop(*arguments)
        assert done.returncode == 0, (command, done.stderr)
    assert polyhop("worker", "--queues", "default", "--until-empty").returncode == 0
    assert '"done": 1' in polyhop("jobs", "--json").stdout


def test_the_services_of_the_guide_are_those_that_the_tests_start_and_start_again() -> None:
    for part, started in (("one", ["prefect server start", "prefect worker start"]), ("three", ["polyhop worker"])):
        services = [unit["Service"] for unit in units(part)]
        for service, command in zip(services, started, strict=True):
            assert service["ExecStart"].startswith(f"/opt/polyhop/bin/{command} --")
        assert {service["Restart"] for service in services} == {"always"}
        assert all(service["EnvironmentFile"] == "/etc/polyhop.env" for service in services)


def _run(script: str, server: dict[str, str], folder: Path) -> str:
    """What a shell prints that runs the commands with the server of the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_", "NEO4J_"))}
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "POLYHOP_ROOT": str(folder / "root")}
    done = subprocess.run(
        ["bash", "-euc", script],
        env=clean | server | path, cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
