"""What a command costs before it does anything; the aims are those of benchmarks/startup.py."""

import subprocess
import sys
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


def test_the_client_that_lancedb_imports_is_loaded_when_it_is_asked_for() -> None:
    client = "lance_namespace_urllib3_client"
    lines = (
        f"import sys; from polyhop.warehouse.vectors.lance import import_lancedb as load; load(); import {client} as c"
    )
    shown = f"print('{client}.api' in sys.modules, c.ApiClient.__name__, '{client}.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{lines}; {shown}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "ApiClient", "True"]
