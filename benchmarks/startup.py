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
"""By name: arguments, and the processor seconds that it should take on the developers' machine.

`jobs` and `submit` were meant to take .6 and .8: importing SQLAlchemy alone takes .6 to .8
there, so they are out of reach.
"""


def processor_seconds(arguments: tuple[str, ...], root: Path) -> float:
    """User and system seconds of one run of a command, its children included."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "polyhop.cli", *arguments, "--root", str(root)],
        capture_output=True,
        check=True,
        cwd=root.parent,
    )
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
        print("| command | processor seconds | aim |\n|---|--:|--:|")
        for name, (arguments, aim) in COMMANDS.items():
            print(f"| `{name}` | {least(arguments, root, runs):.2f} | {aim} |")


if __name__ == "__main__":
    main()
