"""The table of the papers' statements: each row has an answer, and the files that it names exist."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (PROJECT / "docs" / "seeds.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]
FOLDERS = "flows|polyhop|schemas|tasks|tests|warehouse|worker|benchmarks|docs"
NAMED = re.compile(rf"\b((?:{FOLDERS})/[\w./-]*\w)")


def test_each_statement_of_a_paper_says_where_it_is_and_how_it_is_shown() -> None:
    assert [row for row in ROWS if len(row) != 3 or not all(row)] == []
    assert 100 <= len(ROWS) <= 150


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_the_files_that_a_row_names_exist(row: list[str]) -> None:
    named = [found for cell in row for found in NAMED.findall(cell)]
    assert [name for name in named if not (PROJECT / name).exists()] == []
