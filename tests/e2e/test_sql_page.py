"""docs/sql.md tells the truth: every query on it prints what the page shows, but for times.

WRITE_SQL_PAGE=1 writes what the queries print into the page.
"""

import os
import re
from pathlib import Path

import pytest
from command_processes import Commands

from polyhop.commands.stores import sql

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "sql.md"
TEXT = PAGE.read_text(encoding="utf-8")
DEMO = PROJECT / "polyhop" / "demo"
_BLOCKS = r"```sql\n(?P<sql>.*?)\n```\n(?:\n```\n(?P<shown>.*?)```\n)?"
SECTION = re.compile(rf"## (?P<title>\d+\. .*?)\n\n{_BLOCKS}", re.DOTALL)
SECTIONS = list(SECTION.finditer(TEXT))
LATE = '{"id": "late", "question": "Where was Galileo born?"}\n'


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """What the first part of the page describes."""
    folder = tmp_path_factory.mktemp("page")
    records = block("jsonl").splitlines(keepends=True)
    (folder / "links.csv").write_text(block("csv"))
    (folder / "late.jsonl").write_text(LATE)

    def run(*arguments: str | Path) -> None:
        done = commands.run(arguments, folder, {})
        assert done.returncode == 0, done.stderr

    for added in (records[:-1], records):
        (folder / "corpus.jsonl").write_text((DEMO / "corpus.jsonl").read_text() + "".join(added))
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
def test_a_query_prints_what_the_page_shows(
    root: Path, section: re.Match[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sql("demo", section["sql"], root=root)
    printed = capsys.readouterr().out
    assert not printed.endswith("(0 rows)\n")
    if os.environ.get("WRITE_SQL_PAGE"):
        _write(section, printed)
        return
    assert comparable(section["sql"], printed) == comparable(section["sql"], section["shown"])


def test_the_page_answers_eleven_questions() -> None:
    assert [int(section["title"].partition(".")[0]) for section in SECTIONS] == list(range(1, 12))


def _write(section: re.Match[str], printed: str) -> None:
    shown = f"## {section['title']}\n\n```sql\n{section['sql']}\n```\n\n```\n{printed}```\n"
    page = PAGE.read_text(encoding="utf-8")
    found = next(each for each in SECTION.finditer(page) if each["title"] == section["title"])
    PAGE.write_text(page[: found.start()] + shown + page[found.end() :], encoding="utf-8")
