"""docs/extending is true: its files make packages, its excerpts are of files, its commands print what it shows.

With WRITE_EXTENDING_PAGES=1 the pages get the output of their commands instead.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shown_commands import blocks, commands, is_shown, plain, write, write_files

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted((PROJECT / "docs" / "extending").glob("*.md"))
OWN = ("my-strategy/", "my-format/", "corpus.jsonl", "rivers.cards")
"""What a reader writes; every other title is a file of the repository."""
INSTALL = "uv pip install ./"
_TEST = re.compile(r"`(tests/[\w/.]+)(?:::(\w+))?`")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_excerpts_are_those_of_the_files_that_they_name(page: Path) -> None:
    for block in blocks(page):
        if block["title"] and not block["title"].startswith(OWN):
            assert block["text"] in (PROJECT / block["title"]).read_text(encoding="utf-8"), block["title"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    named = _TEST.findall(page.read_text(encoding="utf-8"))
    assert page.stem == "index" or named
    for path, name in named:
        assert f"def {name}(" in (PROJECT / path).read_text(encoding="utf-8") if name else (PROJECT / path).exists()


def test_there_is_a_page_for_each_entry_point() -> None:
    table = (PROJECT / "docs" / "extending" / "index.md").read_text(encoding="utf-8")
    example = (PROJECT / "examples" / "extensions" / "pyproject.toml").read_text(encoding="utf-8")
    assert set(re.findall(r'entry-points\."(polyhop\.\w+)"', example)) == set(re.findall(r"`(polyhop\.\w+)`", table))
    assert {f"{name}.md" for name in re.findall(r"\]\((\w[\w-]*)\.md\)", table)} == {p.name for p in PAGES} - {
        "index.md"
    }


@pytest.mark.rare
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_its_commands_print_what_it_shows(page: Path, polyhop: Run, tmp_path: Path) -> None:
    write_files(page, tmp_path, OWN)
    site, printed = tmp_path / "site", []
    for command in commands(page):
        if command.line.startswith(INSTALL):
            install(command.line.removeprefix(INSTALL), tmp_path, site)
            printed.append("")
            continue
        name, *arguments = shlex.split(command.line)
        assert name == "polyhop"
        done = polyhop(*arguments, env={"PYTHONPATH": str(site), "OPENAI_API_KEY": "sk-none"})
        printed.append(plain(done.stdout + done.stderr, tmp_path))
    if os.environ.get("WRITE_EXTENDING_PAGES"):
        write(page, printed)
    for command, output in zip(commands(page), printed, strict=True):
        assert is_shown(output, command.shown), (command.line, output)


def install(package: str, folder: Path, site: Path) -> None:
    """As `uv pip install` does, into a folder of its own and without what is installed already."""
    path = PROJECT / package if package.startswith("examples/") else folder / package
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(site), "--python", sys.executable]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
