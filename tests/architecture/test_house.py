"""The house rules, run as tests, so that one command checks everything."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "lint": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "import rules": ["lint-imports"],
    "lock file": ["uv", "lock", "--check"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_house_rule_is_kept(name: str) -> None:
    program, *arguments = COMMANDS[name]
    beside = Path(sys.executable).parent / program
    command = [str(beside) if beside.exists() else program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
