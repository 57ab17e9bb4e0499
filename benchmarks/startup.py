"""What a command costs before it does anything: processor seconds, the least of several runs.

Run: uv run python benchmarks/startup.py [RUNS]
`tests/e2e/test_startup.py` fails at one and a half times the aims.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
QUESTIONS = PROJECT / "polyhop" / "demo" / "questions.jsonl"
COMMANDS: dict[str, tuple[tuple[str, ...], float]] = {
    "versions": (("versions", "--index", "demo"), 0.4),
    "jobs": (("jobs",), 1.0),
    "ask": (("ask", "Where was Ada Lovelace born?", "--index", "demo"), 1.5),
    "submit": (("submit", str(QUESTIONS), "--index", "demo"), 1.4),
}
"""By name: arguments, and the processor seconds that it should take on a machine as fast as the yardstick says.

`jobs` and `submit` were meant to take .6 and .8: importing SQLAlchemy alone takes .6 to .8
there, so they are out of reach.
"""

YARDSTICK = "import numpy, duckdb, onnxruntime, pydantic.main, typer"
"""Imports of packages that `ask` cannot do without, and nothing of ours: how fast this machine is at this moment."""

YARDSTICK_SECONDS = 0.7
"""What the yardstick takes on the machine of the aims. On a slower one they grow with it; on a faster one they stay."""


def processor_seconds(arguments: tuple[str, ...], root: Path) -> float:
    """User and system seconds of one run of a command, its children included."""
    return _seconds_of([sys.executable, "-m", "polyhop.cli", *arguments, "--root", str(root)], root.parent)


def yardstick() -> float:
    """User and system seconds of one run of the yardstick."""
    return _seconds_of([sys.executable, "-c", YARDSTICK], Path.cwd())


def slowness(seconds: float) -> float:
    """How many times slower a machine is than the one of the aims, at least 1, by what the yardstick takes on it."""
    return max(1.0, seconds / YARDSTICK_SECONDS)


def _seconds_of(command: list[str], folder: Path) -> float:
    before = os.times()
    subprocess.run(command, capture_output=True, check=True, cwd=folder)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def least(arguments: tuple[str, ...], root: Path, runs: int) -> float:
    """The least of several runs: others on the machine only add."""
    return min(processor_seconds(arguments, root) for _ in range(runs))


def main() -> None:
    """Prints a table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "polyhop-data"
        processor_seconds(("demo",), root)
        times = slowness(min(yardstick() for _ in range(runs)))
        print(f"This machine is {times:.2f} times slower than that of the aims.\n")
        print("| command | processor seconds | aim |\n|---|--:|--:|")
        for name, (arguments, aim) in COMMANDS.items():
            print(f"| `{name}` | {least(arguments, root, runs):.2f} | {aim} |")


if __name__ == "__main__":
    main()
