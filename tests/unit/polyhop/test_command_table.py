"""The table of commands in architecture.md section 9 names every command of ours, and options that they have."""

import re
from pathlib import Path

import pytest
import typer

from polyhop.cli import OURS, app

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("| command | what it does | JSON |") : TEXT.index("### Experiments by")]
ROWS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in TABLE.splitlines()[2:] if line.startswith("|")]


def _names(cell: str) -> list[str]:
    """The commands in the first cell of a row: `polyhop cache stats|evict`, or several in backticks."""
    words = [part.removeprefix("polyhop ").split()[0] for part in re.findall(r"`([^`]+)`", cell)]
    return [word.partition("\\")[0] for word in words]


def _options(name: str) -> set[str]:
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    parts = [command, *getattr(command, "commands", {}).values()]
    return {option for part in parts for parameter in part.params for option in parameter.opts}


def test_every_command_has_a_row() -> None:
    assert sorted({name for row in ROWS for name in _names(row[0])}) == sorted(OURS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(_names(row[0])))
def test_a_row_names_options_that_its_commands_have(row: list[str]) -> None:
    known = set().union(*map(_options, _names(row[0])))
    named = {option for part in re.findall(r"`([^`]+)`", row[0] + row[1]) for option in re.findall(r"--[a-z-]+", part)}
    assert named <= known | {"--root", "--json"}
