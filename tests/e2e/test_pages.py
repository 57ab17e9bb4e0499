"""Pages of docs/ are true: their commands, queries and cells print what they show, but for times.

With WRITE_CLI_PAGE=1, WRITE_SQL_PAGE=1, WRITE_TUTORIAL_PAGE=1, WRITE_EXTENDING_PAGES=1 or WRITE_NOTEBOOK=1 they get
what is printed instead.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
from command_processes import Commands, clean_environment
from nbclient import NotebookClient
from shown_commands import TIME, blocks, commands, is_shown, plain, write, write_files
from small_indexes import Run
from typer.testing import CliRunner

from polyhop.cli import EXAMPLES, GROUPS, OURS, app
from polyhop.commands.stores import sql
from polyhop.warehouse.files.formats import described_formats
from polyhop.warehouse.files.graph_files import described_graphs

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
DEMO = PROJECT / "polyhop" / "demo"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def check_commands(page: Path, variable: str, run: Callable[[str], str]) -> None:
    """Runs every command of a page in order, and compares what is printed, or writes it into the page."""
    printed = [run(command.line) for command in commands(page)]
    if os.environ.get(variable):
        write(page, printed)
    for command, output in zip(commands(page), printed, strict=True):
        assert is_shown(output, command.shown), (command.line, output)


@pytest.mark.rare
def test_the_tutorial_shows_what_its_commands_print(polyhop: Run, tmp_path: Path) -> None:
    page = DOCS / "tutorial.md"
    write_files(page, tmp_path)

    def run(line: str) -> str:
        name, *arguments = shlex.split(line)
        assert name == "polyhop"
        done = polyhop(*arguments)
        assert done.returncode == 0, (line, done.stderr)
        return plain(done.stdout, tmp_path)

    check_commands(page, "WRITE_TUTORIAL_PAGE", run)
    assert len(commands(page)) >= 10


PAGES = sorted((DOCS / "extending").glob("*.md"))
OWN = ("my-strategy/", "my-format/", "corpus.jsonl", "rivers.cards")
"""What a reader writes; every other title is a file of the repository."""
INSTALL = "uv pip install ./"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_excerpts_of_files_and_names_of_tests_on_a_page_about_extending_exist(page: Path) -> None:
    for block in blocks(page):
        if block["title"] and not block["title"].startswith(OWN):
            assert block["text"] in read(PROJECT / block["title"]), block["title"]
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", read(page))
    assert page.stem == "index" or named
    for path, name in named:
        assert f"def {name}(" in read(PROJECT / path) if name else (PROJECT / path).exists()


def test_there_is_a_page_for_each_entry_point() -> None:
    table = read(DOCS / "extending" / "index.md")
    example = read(PROJECT / "examples" / "extensions" / "pyproject.toml")
    assert set(re.findall(r'entry-points\."(polyhop\.\w+)"', example)) == set(re.findall(r"`(polyhop\.\w+)`", table))
    assert {*re.findall(r"\]\((\w[\w-]*)\.md\)", table), "index"} == {page.stem for page in PAGES}


@pytest.mark.rare
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_about_extending_print_what_it_shows(page: Path, polyhop: Run, tmp_path: Path) -> None:
    write_files(page, tmp_path, OWN)
    site = tmp_path / "site"

    def run(line: str) -> str:
        if line.startswith(INSTALL):
            install(line.removeprefix(INSTALL), tmp_path, site)
            return ""
        name, *arguments = shlex.split(line)
        assert name == "polyhop"
        done = polyhop(*arguments, env={"PYTHONPATH": str(site), "OPENAI_API_KEY": "sk-none"})
        return plain(done.stdout + done.stderr, tmp_path)

    check_commands(page, "WRITE_EXTENDING_PAGES", run)


def install(package: str, folder: Path, site: Path) -> None:
    """As `uv pip install` does, into a folder of its own and without what is installed already."""
    path = PROJECT / package if package.startswith("examples/") else folder / package
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(site), "--python", sys.executable]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.rare
def test_the_notebook_shows_what_its_cells_print(tmp_path: Path) -> None:
    """From top to bottom in an empty folder, with the commands of this Python on the path."""
    page = DOCS / "notebook.ipynb"
    shown, run = nbformat.read(page, as_version=4), nbformat.read(page, as_version=4)
    place: Any = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(run, timeout=300, record_timing=False, coalesce_streams=True, resources=place)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "IPYTHONDIR": str(tmp_path / "ipython"), "TERM": "dumb"}
    client.execute(env=clean_environment() | own)
    if os.environ.get("WRITE_NOTEBOOK"):
        nbformat.write(run, page)
        shown = run
    printed, expected = ([texts(cell) for cell in one.cells if cell.cell_type == "code"] for one in (run, shown))
    assert len(expected) > 10
    assert printed == expected


def texts(cell: Any) -> list[str]:
    """What a cell printed and returned, without times."""
    said = [one.get("text") or one.get("data", {}).get("text/plain", one.output_type) for one in cell.outputs]
    return [line.rstrip() for line in TIME.sub(" TIME", "".join(said)).splitlines()]


SQL_PAGE = DOCS / "sql.md"
SECTION = re.compile(
    r"## (?P<title>\d+\. .*?)\n\n```sql\n(?P<sql>.*?)\n```\n(?:\n```\n(?P<shown>.*?)```\n)?", re.DOTALL
)
SECTIONS = list(SECTION.finditer(read(SQL_PAGE)))


@pytest.fixture(scope="module")
def sql_root(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """What the first part of docs/sql.md describes."""
    folder = tmp_path_factory.mktemp("page")
    records, links = (re.search(rf"```{name}\n(.*?)```", read(SQL_PAGE), re.DOTALL)[1] for name in ("jsonl", "csv"))  # type: ignore[index]
    (folder / "links.csv").write_text(links)
    (folder / "late.jsonl").write_text('{"id": "late", "question": "Where was Galileo born?"}\n')

    def run(*arguments: str | Path) -> None:
        done = commands.run(arguments, folder, {})
        assert done.returncode == 0, done.stderr

    lines = records.splitlines(keepends=True)
    for added in (lines[:-1], lines):
        (folder / "corpus.jsonl").write_text(read(DEMO / "corpus.jsonl") + "".join(added))
        run("index", "corpus.jsonl", "--index", "demo", "--set", "resolution.links=links.csv")
    run("submit", DEMO / "questions.jsonl", "--index", "demo")
    run("submit", "late.jsonl", "--index", "demo", "--deadline", "0.01")
    run("worker", "--until-empty")
    return folder / "polyhop-data"


def comparable(query: str, printed: str) -> list[str]:
    """Lines without the width of columns; times are not compared, nor what they put in order."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    if "ORDER BY seconds" in query:
        return [lines[0], *("a row" for _ in lines[1:])]
    return [re.sub(r"\b\d+\.\d{3}\b", "TIME", line) if "seconds" in query else line for line in lines]


@pytest.mark.rare
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section["title"])
def test_a_query_prints_what_the_page_on_sql_shows(
    sql_root: Path, section: re.Match[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sql("demo", section["sql"], root=sql_root)
    printed = capsys.readouterr().out
    assert not printed.endswith("(0 rows)\n")
    if os.environ.get("WRITE_SQL_PAGE"):
        page = read(SQL_PAGE)
        found = next(each for each in SECTION.finditer(page) if each["title"] == section["title"])
        shown = f"## {section['title']}\n\n```sql\n{section['sql']}\n```\n\n```\n{printed}```\n"
        SQL_PAGE.write_text(page[: found.start()] + shown + page[found.end() :], encoding="utf-8")
        return
    assert comparable(section["sql"], printed) == comparable(section["sql"], section["shown"])


def test_the_page_on_sql_answers_eleven_questions() -> None:
    assert [int(section["title"].partition(".")[0]) for section in SECTIONS] == list(range(1, 12))


CLI_PAGE = DOCS / "cli.md"
ROOT: Any = typer.main.get_command(app)
HEAD = """# Command line

What `--help` says, made by `WRITE_CLI_PAGE=1 uv run pytest -n 0 tests/e2e/test_pages.py`.

Exit codes: 0 success, 2 wrong usage, 75 waiting for a model, 1 anything else, 130 after Ctrl-C. Before the command
stand `--version`, `--log-level LEVEL` and `--log-json` ([logs](logging.md)).
"""


def all_commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and those in it, each with its full name."""
    yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from all_commands(f"{name} {part}", inner)


def section_of(name: str, command: Any) -> str:
    lines = [f"{'#' * (2 + len(name.split()))} polyhop {name}", "", " ".join((command.help or "").split()), ""]
    rows = [row_of(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        lines += ["| argument or option | default | |", "|---|---|---|", *rows, ""]
    if name in EXAMPLES:
        lines += ["```text", *EXAMPLES[name], "```", ""]
    return "\n".join(lines)


def row_of(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = ", ".join(f"`{one}`" for one in parameter.opts) if is_option else f"`{parameter.name.upper()}`"
    default = parameter.default
    plain = default if default and isinstance(default, str | int | float) else ""
    needed = "required" if parameter.required else plain
    said = getattr(parameter, "help", None) or ""
    for gap, formats in (("{corpus formats}", described_formats()), ("{graph formats}", described_graphs())):
        said = said.replace(gap, formats)
    return f"| {names} | {needed} | {' '.join(said.split())} |".replace("||", "\\|\\|")


def test_the_page_on_the_command_line_says_what_the_help_says() -> None:
    parts = [HEAD]
    for group, modules in GROUPS.items():
        names = [name for of_module in modules.values() for name in of_module]
        found = [each for name in names for each in all_commands(name, ROOT.get_command(None, name))]
        parts += [f"## {group}\n", *(section_of(*each) for each in found)]
    page = "\n".join(parts).rstrip() + "\n"
    if os.environ.get("WRITE_CLI_PAGE"):
        CLI_PAGE.write_text(page, encoding="utf-8")
    assert read(CLI_PAGE) == page


def test_every_command_has_examples_which_it_takes() -> None:
    assert EXAMPLES.keys() == OURS.keys()
    for line in (line for lines in EXAMPLES.values() for line in lines):
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
