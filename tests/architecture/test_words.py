"""The glossary's words, and none of those that it forbids: in docstrings, messages, help and pages for users."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
GLOSSARY = PROJECT / "docs" / "glossary.md"
ROOMS = ("flows", "tasks", "schemas", "warehouse", "worker", "polyhop/commands", "polyhop/pages")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/how-to/*.md", "docs/reference/*.md", "docs/extending/*.md")
NOT_OURS = {
    "schemas/names.py": "a list of English words",
    "docs/glossary.md": "it forbids them",
    "docs/house-style.md": "it says what was wrong",
    "docs/left.md": "notes among developers",
    "docs/algorithms.md": "quotes the papers and their code",
    "docs/reader.md": "has lists of English words",
}


def forbidden() -> list[str]:
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    return [
        word.strip() for row in rows if row.strip() not in {"not", "---"} for word in row.split(",") if word.strip()
    ]


@cache
def pattern() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, forbidden()))})\b", re.IGNORECASE)


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """Strings of a Python file with their lines, or all of another file."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found_in(file: Path) -> list[str]:
    return [f"{file.name}:{line}: {hit[0]}" for line, text in texts_of(file) for hit in pattern().finditer(text)]


FILES = [
    file
    for folder in ROOMS
    for file in (PROJECT / folder).rglob("*")
    if file.suffix in {".py", ".jinja", ".sql", ".cypher"}
]
FILES += [*PROJECT.glob("polyhop/*.py"), *(file for glob in PAGES for file in PROJECT.glob(glob))]


def test_no_forbidden_word_is_written() -> None:
    files = [file for file in FILES if str(file.relative_to(PROJECT)) not in NOT_OURS]
    assert len(files) > 250
    assert [hit for file in files for hit in found_in(file)] == []


def test_exceptions_are_still_needed() -> None:
    assert all((PROJECT / path).exists() for path in NOT_OURS)


@pytest.mark.parametrize("word", ["stand-in", "likeness", "strangers", "gives free"])
def test_a_forbidden_word_in_a_docstring_is_seen(word: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f'"""A {word} for something."""\n', "utf-8")
    assert found_in(file) == [f"module.py:1: {word}"]


def test_the_glossary_has_every_word_once() -> None:
    words = re.findall(r"^\| ([^|]+) \| [^|]+ \|[^|]*\|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    words = [word for word in words if word not in {"word", "---"}]
    assert len(words) == len(set(words)) > 40


COUNTED = re.compile(
    r" (?:more |further |usable |other |new )?(?:questions|jobs|rows|files|records|calls|versions|workers|units|"
    r"passages|deployments|automations|replies|texts|entities|relations|lines|nodes|sources|triples|strategies|columns|"
    r"attempts|documents|indexes|predictions)\b"
)
"""After a number of any size: "1 questions" is what a reader sees in the end, `plural` knows better."""
OF_SEVERAL = re.compile(r"\b(of|least|most|top|all|first|last|to|by|than|and) $")
"""Before a number that is no count of what follows, or never 1."""


@pytest.mark.parametrize("room", ["polyhop", "flows"])
def test_counts_in_messages_agree_with_their_nouns(room: str) -> None:
    files = [
        *(PROJECT / room).glob("*.py"),
        *(PROJECT / room / "commands").glob("*.py"),
        *(PROJECT / room / "evaluation").glob("*.py"),
    ]
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            parts = node.values
            texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
            for before, part, after in zip(["", *texts], parts, texts[1:], strict=False):
                if isinstance(part, ast.FormattedValue) and COUNTED.match(after) and not OF_SEVERAL.search(before):
                    found.append(f"{file.name}:{node.lineno}: {ast.unparse(part)}{after[:30]}")
    assert len(files) > 10
    assert found == []
