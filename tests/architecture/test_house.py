"""The commands of a developer are those that CI calls."""

import subprocess
import sys
import tomllib
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


SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


def recipe(name: str) -> list[str]:
    """Commands of a recipe of the justfile."""
    text = (PROJECT / "justfile").read_text(encoding="utf-8")
    (block,) = [part for part in text.split("\n\n") if any(line.startswith(name) for line in part.splitlines())]
    return [line.strip() for line in block.splitlines() if line.startswith("    ")]


def test_the_recipe_for_everything_is_the_test_command_of_the_readme() -> None:
    assert recipe("all:") == ["uv run pytest"]
    assert "$ uv run pytest\n" in (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_quick_recipe_lints_checks_types_and_tests_folders_that_exist() -> None:
    *checks, tests = recipe("quick:")
    assert checks == ["uv run ruff check .", "uv run ruff format --check .", "uv run mypy", "uv run lint-imports"]
    command, _, chosen = tests.partition(" -m ")
    assert all((PROJECT / folder).is_dir() for folder in command.split()[3:] if not folder.startswith("--"))
    assert chosen == '"not slow and not rare and not neo4j"'


@pytest.mark.parametrize("key", ["source_paths", "only_mutate", "pytest_add_cli_args_test_selection"])
def test_what_is_mutated_and_the_nearest_tests_exist(key: str) -> None:
    assert [pattern for pattern in SETTINGS[key] if not list(PROJECT.glob(pattern))] == []
