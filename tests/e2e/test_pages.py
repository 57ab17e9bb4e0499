"""README.md and pages of docs/ are true: their commands, queries and cells print what they show, but for times.

A line of a page that is only … stands for any lines, one that ends with " …" for any rest of a line; numbers with a
unit of time may differ. With WRITE_CLI_PAGE=1, WRITE_SQL_PAGE=1, WRITE_TUTORIAL_PAGE=1, WRITE_EXTENDING_PAGES=1 or
WRITE_NOTEBOOK=1 pages get what is printed instead.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
from command_processes import Commands, clean_environment, install
from fakes import loaded
from nbclient import NotebookClient
from scripted_server import Behaviour
from small_indexes import Call, Run, printed, write_rows
from typer.testing import CliRunner

from polyhop.cli import EXAMPLES, GROUPS, OURS, app
from polyhop.commands.stores import sql
from polyhop.warehouse.files.formats import described_formats
from polyhop.warehouse.files.graph_files import described_graphs
from polyhop.worker.strategies.registry import STRATEGIES

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
DEMO = PROJECT / "polyhop" / "demo"
TEXT = "Ada Lovelace was born in London, on the River Thames."
MOST_LINES = 249
MOST_PICTURE_BYTES = 200_000
tables: Any = loaded("../benchmarks/readme_tables.py")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


README = read(PROJECT / "README.md")
_BLOCK = re.compile(r'(?ms)^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$')
TIME = re.compile(r" *\d[\d,.]* ?(?:ms|s)\b")
TIMED = re.compile(r"(?:TIME|\bms|\bs)\b")


def blocks(page: Path) -> Iterator[re.Match[str]]:
    """Fenced blocks with their `language`, `title` and `text`."""
    return _BLOCK.finditer(read(page))


def commands(page: Path) -> list[tuple[str, str]]:
    """Every command of the page's console blocks, in order, with what the page shows of its output."""
    texts = [block["text"] for block in blocks(page) if block["language"] == "console"]
    parts = [part for text in texts for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [(line, shown) for line, _, shown in (part.partition("\n") for part in parts)]


def write_files(page: Path, folder: Path, own: Sequence[str] = ("",)) -> None:
    """Writes the blocks whose title begins with one of `own`, as a reader would."""
    for block in blocks(page):
        if block["title"] and block["title"].startswith(tuple(own)):
            path = folder / block["title"]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")


def plain(output: str, folder: Path) -> str:
    """Output without the folder's path and without spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in output.replace(f"{folder}/", "").splitlines())


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed, but for times and what it leaves out."""
    pattern = "".join(map(_pattern, without_times(shown).splitlines()))
    return re.fullmatch(pattern, without_times(printed)) is not None


def without_times(text: str) -> str:
    """A text without times, also those in columns of tables whose heading names the unit (`p50 ms`)."""
    lines, timed = [], list[bool]()
    for line in TIME.sub("TIME", text).splitlines():
        cells = re.split(" {2,}", line)
        if line.startswith("strategy "):
            timed = [bool(TIMED.search(cell)) for cell in cells]
        is_timed = any(timed) and len(cells) == len(timed)  # else spaces count
        kept = [cell for cell, is_time in zip(cells, timed, strict=True) if not is_time] if is_timed else [line]
        lines.append("  ".join(kept) + "\n")
    return "".join(lines)


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*"
    if line.endswith(" …"):
        return re.escape(line.removesuffix(" …")) + r".*\n"
    return re.escape(line) + r"\n"


def arguments_of(line: str) -> list[str]:
    """Of a command of polyhop."""
    program, *arguments = shlex.split(line)
    assert program == "polyhop"
    return arguments


def check_commands(page: Path, variable: str, run: Callable[[str], str]) -> None:
    """Runs every command of a page in order, and compares what is printed, or writes it into the page."""
    text, start = read(page), 0
    for line, shown in commands(page):
        printed, whole = run(line), f"$ {line}\n{shown}"
        start = text.index(whole, start)
        if not is_shown(printed, shown):
            assert os.environ.get(variable), (line, printed)
            text = f"{text[:start]}$ {line}\n{printed}{text[start + len(whole) :]}"
            page.write_text(text, encoding="utf-8")
        start += 1


@pytest.mark.rare
def test_the_tutorial_shows_what_its_commands_print(polyhop: Run, tmp_path: Path) -> None:
    page = DOCS / "tutorial.md"
    write_files(page, tmp_path)

    def run(line: str) -> str:
        done = polyhop(*arguments_of(line))
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
            package = line.removeprefix(INSTALL)
            install((PROJECT if package.startswith("examples/") else tmp_path) / package, site)
            return ""
        done = polyhop(*arguments_of(line), env={"PYTHONPATH": str(site), "OPENAI_API_KEY": "sk-none"})
        return plain(done.stdout + done.stderr, tmp_path)

    check_commands(page, "WRITE_EXTENDING_PAGES", run)


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
SECTION = re.compile(r"(?s)## (?P<title>\d+\. .*?)\n\n```sql\n(?P<sql>.*?)\n```\n(?:\n```\n(?P<shown>.*?)```\n)?")
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
    names = parameter.opts if parameter.param_type_name == "option" else [parameter.name.upper()]
    default = parameter.default if isinstance(parameter.default, str | int | float) else ""
    needed = "required" if parameter.required else default or ""
    said = getattr(parameter, "help", None) or ""
    for gap, formats in (("{corpus formats}", described_formats()), ("{graph formats}", described_graphs())):
        said = said.replace(gap, formats)
    shown = ", ".join(f"`{name}`" for name in names)
    return f"| {shown} | {needed} | {' '.join(said.split())} |".replace("||", "\\|\\|")


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
        words, command = arguments_of(line), ROOT
        while hasattr(command, "commands") and not words[0].startswith("-"):
            command = command.get_command(None, words.pop(0))
        command.make_context("polyhop", words)


def test_the_help_shows_groups_and_examples() -> None:
    runner = CliRunner(env={"COLUMNS": "120", "TERM": "dumb"})
    whole, one = (runner.invoke(app, words).output for words in (["--help"], ["ask", "--help"]))
    assert [group for group in GROUPS if group not in whole] == []
    assert [part for part in ("Examples:", EXAMPLES["ask"][0]) if part not in one] == []


def how_to(*names: str) -> list[str]:
    """Texts of how-to pages."""
    return [read(DOCS / "how-to" / f"{name}.md") for name in names]


@pytest.mark.parametrize("part", ["settings", "musique", "strategies"])
def test_tables_are_those_of_the_settings_and_of_the_measured_results(part: str) -> None:
    marker, produce, pages = tables.PARTS[part]
    for page in pages:
        text = read(page)
        assert f"<!-- {marker}: begin -->" in text
        assert tables.replaced(text, marker, produce()) == text


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert len(pictures) == 3
    assert [name for name in pictures if (PROJECT / name).stat().st_size > MOST_PICTURE_BYTES] == []


def test_the_demo_prints_what_the_readme_shows(polyhop: Run) -> None:
    shown = re.search(r"<!-- demo output: begin -->\n```console\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert is_shown(plain(polyhop("demo").stdout, PROJECT), shown[1])
    assert printed(polyhop("demo", "--json"))["index"]["changed"] is False


@pytest.mark.rare
def test_the_commands_on_an_own_corpus_run(
    polyhop: Run, write_corpus: Call, tmp_path: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    write_corpus([{"id": "1", "title": "Ada Lovelace", "text": TEXT, "metadata": {"year": 1815}}])
    gold = {"answers": ["London"], "supporting": ["1"]}
    write_rows(tmp_path / "questions.jsonl", [{"question": "Where was Ada Lovelace born?", **gold}])
    write_rows(tmp_path / "predictions.jsonl", [{"id": "q1", "prediction": "London", **gold}])
    start = README.split("## Your own corpus\n", 1)[1].split("\n## ", 1)[0]
    pages = ("indexing", "asking", "filters", "entities", "batches", "evaluation")
    schema = how_to("entities")[0].split("```toml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "firm.toml").write_text(schema, encoding="utf-8")
    assert run_all(polyhop, start, *how_to(*pages), env={"POLYHOP_MODELS__API_BASE": model_server.url}) >= 27


@pytest.mark.rare
def test_the_commands_on_a_knowledge_graph_run(polyhop: Run, tmp_path: Path) -> None:
    named = (("p1", "On Graphs", "Paper"), ("a1", "Ada", "Person"), ("u1", "University of Oslo", "University"))
    paper, person, oslo = ({"id": own_id, "name": name, "types": [kind]} for own_id, name, kind in named)
    author = {"subject": paper, "predicate": "author", "object": person}
    write_rows(tmp_path / "triples.jsonl", [author, {"subject": person, "predicate": "affiliation", "object": oslo}])
    write_rows(tmp_path / "texts.jsonl", [{"id": "p1", "title": "On Graphs", "text": "Graphs are drawn by hand."}])
    golden = ["(p1:On Graphs, author, a1:Ada)"]
    write_rows(tmp_path / "kg-questions.jsonl", [{"question": "Who wrote On Graphs?", "golden_triples": golden}])
    assert run_all(polyhop, *how_to("knowledge-graphs")) == 5


@pytest.mark.rare
def test_the_commands_with_a_model_and_with_neo4j_run(
    polyhop: Run, write_corpus: Call, tmp_path: Path, model_server: Any, neo4j_server: Any
) -> None:
    built = (
        "{} is a ship that {} built in Larvik. Roald Amundsen sailed with it from Oslo to the Arctic Ocean in 1910, "
    )
    built += "and Fridtjof Nansen saw it leave."
    ships = (("Fram", "Colin Archer"), ("Maud", "Christian Jensen"))
    passages = [("Ada Lovelace", TEXT), *((title, built.format(title, name)) for title, name in ships)]
    write_corpus([{"id": str(n), "title": title, "text": text} for n, (title, text) in enumerate(passages, start=1)])
    write_rows(tmp_path / "questions.jsonl", [{"id": "q1", "question": "Who built the Fram?", "answers": ["Archer"]}])
    triples = [["Ada Lovelace", "born in", "London"]]
    write_rows(tmp_path / "openie.jsonl", [{"id": "1", "entities": ["Ada Lovelace", "London"], "triples": triples}])
    env = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    env["POLYHOP_MODELS__API_BASE"] = model_server.url
    types = json.dumps({"types": ["PERSON", "SHIP", "PORT"]})
    model_server.respond(
        lambda asked: Behaviour("reply", content=types if "Name the types of the things" in asked.prompt else None)
    )
    assert run_all(polyhop, *how_to("models", "neo4j"), env=env) == 19


def run_all(polyhop: Run, *texts: str, env: dict[str, str] | None = None) -> int:
    """Runs every polyhop command that the texts show, in order; returns how many there were."""
    blocks = [block for text in texts for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)]
    commands = re.findall(r"^\$ uv run polyhop (.*?)(?: +#.*)?$", "\n".join(blocks), re.MULTILINE)
    for command in commands:
        arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)]
        done = polyhop(*arguments, env=env)
        assert done.returncode == 0, (command, done.stderr)
    return len(commands)


def test_every_strategy_is_in_the_reference() -> None:
    page = read(DOCS / "reference" / "strategies.md")
    assert [name for name in STRATEGIES if f"`{name}`" not in page] == []
