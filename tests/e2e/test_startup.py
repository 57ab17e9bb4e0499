"""What a command costs before it does anything; the aims are those of benchmarks/startup.py."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import loaded

ALLOWED = 1.5
"""Times the aim, on a machine as fast as the one that the aims were set on: a yardstick is measured beside each run."""

RUNS = 8
LISTING = (
    "import sys, polyhop.cli\ntry:\n    polyhop.cli.main()\nfinally:\n    print('|', *sys.modules, file=sys.stderr)\n"
)
startup: Any = loaded("../benchmarks/startup.py")


@pytest.mark.rare
@pytest.mark.real_time
@pytest.mark.parametrize("name", startup.COMMANDS)
def test_a_command_starts_within_its_processor_seconds(demo_root: Path, name: str) -> None:
    """The least of several runs counts: what else the machine does only adds; the yardstick's too."""
    arguments, aim = startup.COMMANDS[name]
    taken, yardsticks = [startup.processor_seconds(arguments, demo_root)], [startup.yardstick()]
    while len(taken) < RUNS and min(taken) > ALLOWED * aim * startup.slowness(min(yardsticks)):
        taken.append(startup.processor_seconds(arguments, demo_root))
        yardsticks.append(startup.yardstick())
    assert min(taken) <= ALLOWED * aim * startup.slowness(min(yardsticks)), (taken, yardsticks)


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        (("versions", "--index", "demo"), {"numpy", "sqlalchemy", "onnxruntime", "duckdb", "lancedb", "numba"}),
        (("jobs",), {"numpy", "scipy", "onnxruntime", "duckdb", "lancedb", "numba", "prefect", "litellm"}),
        (("ask", "Who?", "--index", "demo"), {"sqlalchemy", "lancedb", "numba", "prefect", "litellm"}),
        (("verify", "--index", "demo"), {"numba", "prefect", "litellm", "lance_namespace_urllib3_client.api"}),
    ],
)  # fmt: skip
def test_a_command_imports_no_package_in_vain(demo_root: Path, command: tuple[str, ...], unwanted: set[str]) -> None:
    words = [sys.executable, "-c", LISTING, *command, "--root", str(demo_root)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert unwanted & set(done.stderr.rpartition("|")[2].split()) == set()


def of_model(server: Any) -> tuple[str, ...]:
    """A question that a model reads, at the scripted server."""
    models = ("--set", "models.read=openai/test-model", "--set", f"models.api_base={server.url}")
    return ("ask", f"Who founded Rosetta {time.monotonic_ns()}?", "--index", "demo", *models)


def test_a_model_of_openais_protocol_is_asked_without_litellm(demo_root: Path, model_server: Any) -> None:
    words = [sys.executable, "-c", LISTING, *of_model(model_server), "--root", str(demo_root)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = set(done.stderr.rpartition("|")[2].split())
    assert ({"litellm", "openai"} & imported, len(model_server.requests)) == (set(), 1)


@pytest.mark.rare
@pytest.mark.real_time
def test_a_question_to_a_model_starts_within_three_processor_seconds(demo_root: Path, model_server: Any) -> None:
    taken = [startup.processor_seconds(of_model(model_server), demo_root) for _ in range(3)]
    assert min(taken) <= 3.0 * startup.slowness(startup.yardstick())


def test_the_client_that_lancedb_imports_is_loaded_when_it_is_asked_for() -> None:
    client = "lance_namespace_urllib3_client"
    lines = (
        f"import sys; from polyhop.warehouse.vectors.lance import import_lancedb as load; load(); import {client} as c"
    )
    shown = f"print('{client}.api' in sys.modules, c.ApiClient.__name__, '{client}.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{lines}; {shown}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "ApiClient", "True"]
