"""docs/tutorial.md is true: with its files its commands print what it shows.

With WRITE_TUTORIAL_PAGE=1 the page gets the output of its commands instead.
"""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shown_commands import commands, is_shown, plain, write, write_files

pytestmark = pytest.mark.rare

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_shows_what_its_commands_print(
    polyhop: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    write_files(PAGE, tmp_path)
    printed = []
    for command in commands(PAGE):
        name, *arguments = shlex.split(command.line)
        assert name == "polyhop"
        done = polyhop(*arguments)
        assert done.returncode == 0, (command.line, done.stderr)
        printed.append(plain(done.stdout, tmp_path))
    if os.environ.get("WRITE_TUTORIAL_PAGE"):
        write(PAGE, printed)
    shown = commands(PAGE)
    assert len(shown) >= 10
    for command, output in zip(shown, printed, strict=True):
        assert is_shown(output, command.shown), (command.line, output)


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("a 1.5 s\n", "a 12 ms\n", True),
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a b c\n", "a …\n", True),
        ("a b c\nd\n", "a …\n", False),
        ("a\n", "b\n", False),
        ("The Analytical E…\n", "The …\n", True),
        ("a+b\n", "aab\n", False),
    ],
)
def test_what_a_page_leaves_out_is_marked(printed: str, shown: str, expected: bool) -> None:
    assert is_shown(printed, shown) is expected
