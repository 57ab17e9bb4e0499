"""docs/cli.md says what `--help` says, of every command; the examples in it parse.

With WRITE_CLI_PAGE=1 the page is written instead.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from polyhop.cli import EXAMPLES, GROUPS, OURS, app
from polyhop.warehouse.files.formats import described_formats
from polyhop.warehouse.files.graph_files import described_graphs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
ROOT: Any = typer.main.get_command(app)
HEAD = """# Command line

What `--help` says, made by `WRITE_CLI_PAGE=1 uv run pytest -n 0 tests/e2e/test_cli_page.py`.

Exit codes: 0 success, 2 wrong usage, 75 waiting for a model, 1 anything else, 130 after Ctrl-C. Before the command
stand `--version`, `--log-level LEVEL` and `--log-json` ([logs](logging.md)).
"""


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and those in it, each with its full name."""
    yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {part}", inner)


def shown(name: str, command: Any) -> str:
    """A command's section."""
    lines = [f"{'#' * (2 + len(name.split()))} polyhop {name}", "", " ".join((command.help or "").split()), ""]
    rows = [row for parameter in command.params if (row := shown_parameter(parameter))]
    if rows:
        lines += ["| argument or option | default | |", "|---|---|---|", *rows, ""]
    if name in EXAMPLES:
        lines += ["```text", *EXAMPLES[name], "```", ""]
    return "\n".join(lines)


def shown_parameter(parameter: Any) -> str:
    if parameter.name == "help":
        return ""
    is_option = parameter.param_type_name == "option"
    names = ", ".join(f"`{one}`" for one in parameter.opts) if is_option else f"`{parameter.name.upper()}`"
    default = parameter.default
    plain = default if default and isinstance(default, str | int | float) else ""
    needed = "required" if parameter.required else plain
    said = getattr(parameter, "help", None) or ""
    for gap, formats in (("{corpus formats}", described_formats()), ("{graph formats}", described_graphs())):
        said = said.replace(gap, formats)
    return f"| {names} | {needed} | {' '.join(said.split())} |".replace("||", "\\|\\|")


def page() -> str:
    parts = [HEAD]
    for group, modules in GROUPS.items():
        names = [name for of_module in modules.values() for name in of_module]
        parts.append(f"## {group}\n")
        parts += [shown(name, command) for top in names for name, command in commands(top, ROOT.get_command(None, top))]
    return "\n".join(parts).rstrip() + "\n"


def test_the_page_says_what_the_help_says() -> None:
    if os.environ.get("WRITE_CLI_PAGE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_command_has_examples_and_a_group() -> None:
    assert EXAMPLES.keys() == OURS.keys()


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_what_its_command_takes(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "polyhop"
    command = ROOT
    while hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.get_command(None, words.pop(0))
    command.make_context("polyhop", words)


def test_the_help_shows_groups_and_examples() -> None:
    runner = CliRunner(env={"COLUMNS": "120", "TERM": "dumb"})
    whole = runner.invoke(app, ["--help"]).output
    assert [group for group in GROUPS if group not in whole] == []
    one = runner.invoke(app, ["ask", "--help"]).output
    assert "Examples:" in one
    assert EXAMPLES["ask"][0] in one
