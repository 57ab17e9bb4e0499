"""Every source that the code cites can be looked up: a document in docs/, and one of its headings."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
FOLDERS = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker", "tests", "benchmarks")
DOCUMENT = r"(?:algorithms|architecture|reader|house-style|bridge-masked)\.md"
SECTION = r"(?:\d+B?(?:\.\d+)?|G-[A-Z]+(?:-\d+)?)"
# A citation goes on to the end of its sentence, or to the next document: "algorithms.md 2.9, 2B.2; architecture.md 3".
CITATION = re.compile(rf"({DOCUMENT})(,? (?:section )?{SECTION})?((?:(?!{DOCUMENT}|[.!?:](?:\s|\"|$)|\").)*)")
FURTHER = re.compile(r"(?<![\w.])(\d+B?\.\d+|\d+B|G-[A-Z]+-\d+)(?![\w%])")
SOURCE = re.compile(r"\bSource: (.*?)(?:Cost:|\"\"\"|\n\n|$)")


def test_every_cited_section_is_a_heading() -> None:
    headings = {path.name: sections_of(path) for path in DOCS.glob("*.md")}
    found = [(path, *cited) for path in files() for cited in citations(path)]
    assert len(found) > 300  # the pattern still reads what the code writes
    missing = [f"{path}: {name} {section}" for path, name, section in found if section not in headings[name]]
    assert missing == []


def test_every_source_names_something_to_read() -> None:
    """A document of ours, a file of this repository, or a publication with its year."""
    lost = [f"{path}: {said}" for path in files() for said in SOURCE.findall(flat(path)) if not is_found(said)]
    assert lost == []


def test_every_golden_case_that_a_test_names_is_specified() -> None:
    specified = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    named = {
        (name, str(path.relative_to(PROJECT)))
        for path in (PROJECT / "tests").rglob("*.py")
        for name in re.findall(r"\bG-[A-Z]+(?:-\d+)?\b", path.read_text(encoding="utf-8"))
    }
    assert [where for where in sorted(named) if where[0] not in specified] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Source: algorithms.md 2.9, 2B.2; the idf of 1994.", [("algorithms.md", "2.9"), ("algorithms.md", "2B.2")]),
        ("see architecture.md section 3; algorithms.md 2.8.", [("architecture.md", "3"), ("algorithms.md", "2.8")]),
        ("algorithms.md 1.4, step 6 (validation).", [("algorithms.md", "1.4")]),
        ("algorithms.md G-EVAL. It is 2.5 times", [("algorithms.md", "G-EVAL")]),
    ],
)
def test_citations_are_read_as_they_are_written(text: str, expected: list[tuple[str, str]]) -> None:
    assert cited_in(text) == expected


def files() -> list[Path]:
    """Every file of ours that may cite; paths below the project."""
    return [
        path.relative_to(PROJECT)
        for folder in FOLDERS
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.suffix in {".py", ".toml", ".sql", ".cypher", ".md"} and path.name != Path(__file__).name
    ]


def flat(path: Path) -> str:
    """A file's text with wrapped lines joined, empty lines kept."""
    text = (PROJECT / path).read_text(encoding="utf-8")
    return re.sub(r"(?<!\n)\n[ \t]*(?:#|--|//)?[ \t]*(?!\n)", " ", text)


def citations(path: Path) -> list[tuple[str, str]]:
    """(document, section) of every citation in a file."""
    return cited_in(flat(path))


def cited_in(text: str) -> list[tuple[str, str]]:
    found = []
    for name, first, rest in CITATION.findall(text):
        if first:
            found.append((name, re.sub(r"^,? (?:section )?", "", first)))
            found += [(name, section) for section in FURTHER.findall(rest)]
    return found


def sections_of(path: Path) -> set[str]:
    """The numbers and names that the headings of a document begin with."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {match[1] for heading in headings if (match := re.match(rf"({SECTION})(?=[.:, (]|$)", heading))}


def is_found(said: str) -> bool:
    """Whether a source is one of our documents, a file of the repository, or a publication with its year."""
    paths = re.findall(r"[\w./-]+\.(?:md|py|toml|jsonl)\b", said)
    known = [name for name in paths if (DOCS / name).exists() or list(PROJECT.glob(f"*/**/{name}"))]
    return bool(known) or re.search(r"\b(19|20)\d\d\b|\bPropRAG|\bpool adjacent violators\b", said) is not None
