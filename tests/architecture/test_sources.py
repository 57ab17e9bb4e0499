"""Words, habits, constants and statements in sources and docs, and the commands that a developer and CI run."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from vulture import Vulture

PROJECT = Path(__file__).resolve().parents[2]
GLOSSARY = PROJECT / "docs" / "glossary.md"
ROOMS = ("flows", "tasks", "schemas", "warehouse", "worker", "polyhop/commands", "polyhop/pages")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/how-to/*.md", "docs/reference/*.md", "docs/extending/*.md")
NOT_OURS = {
    "schemas/names.py": "a list of English words",
    "docs/glossary.md": "it forbids them",
    "docs/house-style.md": "it says what was wrong",
    "docs/notes.md": "notes among developers",
    "docs/algorithms.md": "quotes the papers and their code",
    "docs/reader.md": "has lists of English words",
}


@cache
def forbidden() -> re.Pattern[str]:
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    words = {word.strip() for row in rows for word in row.split(",")} - {"not", "---", ""}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)


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
    return [f"{file.name}:{line}: {hit[0]}" for line, text in texts_of(file) for hit in forbidden().finditer(text)]


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
    assert all((PROJECT / path).exists() for path in NOT_OURS)
    assert found_in(GLOSSARY)  # the search still finds what that page forbids
    assert [hit for file in files for hit in found_in(file)] == []


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
    files = [file for folder in (".", "commands", "evaluation") for file in (PROJECT / room / folder).glob("*.py")]
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


CONTRIBUTING = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TESTS = (PROJECT / "tests/e2e/test_extensions.py").read_text(encoding="utf-8")


def test_contributing_names_every_entry_point_and_only_tests_that_exist() -> None:
    example = tomllib.loads((PROJECT / "examples/extensions/pyproject.toml").read_text(encoding="utf-8"))
    rows = [line for line in CONTRIBUTING.splitlines() if "`polyhop." in line and line.startswith("|")]
    assert {re.findall(r"`(polyhop\.\w+)`", row)[0] for row in rows} == set(example["project"]["entry-points"])
    named = [re.findall(r"`(test_\w+)`", row)[0] for row in rows]
    assert [test for test in named if f"def {test}(" not in TESTS] == []


def test_every_file_of_the_example_package_is_in_contributing() -> None:
    modules = {path.name for path in (PROJECT / "examples/extensions/polyhop_examples").glob("*.py")} - {"__init__.py"}
    assert {name for name in modules if f"/{name})" not in CONTRIBUTING} == set()


def test_issue_forms_can_be_read() -> None:
    for path in (PROJECT / ".github/ISSUE_TEMPLATE").glob("*.yaml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form), path
        assert all(part["attributes"]["label"] for part in form["body"]), path


PACKAGES = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker", "weights")
NAME = re.compile(r"_?[A-Z][A-Z0-9_]*")
TOOLS = re.compile(r"#\s*(?:noqa|fmt|type|pragma|mypy|ruff)\b.*")
WHAT_TO_DO = (
    "Say in a comment on its line or directly above, or in a docstring below, what these numbers are (unit) and where "
    "each comes from: a section of docs/, a paper, a library's limit, a measurement with its script, or `chosen` and "
    "why its order of magnitude is right (docs/house-style.md):\n"
)


def test_every_named_number_says_where_it_comes_from() -> None:
    found = [(path, *number) for path in files() for number in named_numbers(path.read_text(encoding="utf-8"))]
    assert len(found) > 300  # the search still finds what the code names
    silent = [
        f"{path.relative_to(PROJECT)}:{line}: {name}" for path, line, name, said in found if says_nothing(name, said)
    ]
    assert silent == [], WHAT_TO_DO + "\n".join(silent)
    shown = "A = 1\nB = 2  # noqa: PLR2004\nLONGEST = 3  # the longest\nD = 4  # chosen\nE = (1, -2)\n'Chosen.'\n"
    assert [name for _, name, said in named_numbers(shown) if says_nothing(name, said)] == ["A", "B", "LONGEST"]


def files() -> list[Path]:
    """Every module of the product; polyhop/ links to the other packages, which are not read twice."""
    found = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    return [path for path in found if not any(folder.is_symlink() for folder in path.parents)]


def named_numbers(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, names, what is said) of each assignment of numbers to names in capitals at the top of a module."""
    lines, body = text.splitlines(), ast.parse(text).body
    for statement, below in zip(body, [*body[1:], None], strict=True):
        if (
            (name := names_of(statement))
            and isinstance(statement, ast.Assign | ast.AnnAssign)
            and is_number(statement.value)
        ):
            beside = [comment_of(line) for line in lines[statement.lineno - 1 : statement.end_lineno]]
            above = lines[statement.lineno - 2] if statement.lineno > 1 else ""
            comment = comment_of(above) if above.startswith("#") else ""
            yield statement.lineno, name, " ".join((*beside, comment, docstring_of(below)))


def names_of(statement: ast.stmt) -> str:
    """`WIDTH, HEIGHT` if a statement assigns to names in capitals alone, else ""."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return ""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id if isinstance(part, ast.Name) else "" for part in parts]
    return ", ".join(names) if all(NAME.fullmatch(name) for name in names) else ""


def is_number(value: ast.expr | None) -> bool:
    """Whether an expression is a number, arithmetic of numbers, or a tuple or list of such."""
    match value:
        case ast.Constant(value=constant):
            return isinstance(constant, int | float) and not isinstance(constant, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(map(is_number, parts))
    return False


def comment_of(line: str) -> str:
    """A line's comment without what it says to tools: `# noqa: S311 - guards no secret` says something to people."""
    _, sign, comment = line.partition("#")
    return comment.partition(" - ")[2] if TOOLS.fullmatch(sign + comment) else comment


def docstring_of(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def says_nothing(name: str, said: str) -> bool:
    """Whether nothing is said, or only the name's own words."""
    return set(words(said)) <= {*words(name), "the", "a", "an", "of"}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


PRODUCT = (*ROOMS, "polyhop/integrations", "polyhop/server")
USERS = ("examples", "benchmarks")
"""Programs of other people stand for those that import Polyhop."""
TEMPLATES = ("polyhop/pages/*.jinja", "polyhop/server/templates/*.jinja", "tasks/**/*.jinja")
NAMED_IN = (*TEMPLATES, "pyproject.toml", "README.md", "docs/**/*.md", "polyhop/cli.py")
"""Files that name what they use, as templates, entry points and the documented interface do."""
VALIDATORS = ("_given", "_has_one_set_of_types", "_has_precisions", "_with_preset")
OF_FRAMEWORKS = ("to_dict", "from_dict", "run_async", "_aget_relevant_documents", "_aretrieve")
CALLED_BY_LIBRARIES = (*VALIDATORS, *OF_FRAMEWORKS, "log_message", "__getattr__", "__dir__", "_repr_html_")
"""Pydantic's validators, what http.server, notebooks and frameworks of retrievers call, and a module's own names."""
OF_TESTS = ("put_call",)
"""A call begun and ended at once, as five files of tests write it."""
KINDS = frozenset(("function", "method", "class", "property", "unreachable_code"))
DECLARED_BY = ("@strategy", "@app.*", "@router.*", "@flow", "@*.command", "@*.callback")
"""Decorators that register what they decorate."""


def test_everything_has_a_user() -> None:
    names = {word for glob in NAMED_IN for file in PROJECT.glob(glob) for word in re.findall(r"\w+", file.read_text())}
    for file in (file for folder in PRODUCT for file in (PROJECT / folder).rglob("*.py")):
        names.update(re.findall(r"""[\w.]:(\w+)["']""", file.read_text("utf-8")))  # "module:function", to be imported
    finder = Vulture(ignore_names=[*CALLED_BY_LIBRARIES, *OF_TESTS], ignore_decorators=list(DECLARED_BY))
    finder.scavenge([str(path) for path in (*PROJECT.glob("polyhop/*.py"), *(PROJECT / f for f in PRODUCT + USERS))])
    items = [item for item in finder.get_unused_code(min_confidence=60) if item.typ in KINDS and item.name not in names]
    said = [(Path(item.filename).relative_to(PROJECT), item) for item in items]
    places = [f"{path}:{item.first_lineno}: {item.typ} '{item.name}'" for path, item in said]
    found = [place for place in places if not place.startswith(USERS)]
    assert not found, "\n".join(found)


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
    found = [(path, *cited) for path in product_files() for cited in citations(path)]
    assert len(found) > 300  # the pattern still reads what the code writes
    missing = [f"{path}: {name} {section}" for path, name, section in found if section not in headings[name]]
    assert missing == []


def test_every_source_names_something_to_read() -> None:
    """A document of ours, a file of this repository, or a publication with its year."""
    lost = [f"{path}: {said}" for path in product_files() for said in SOURCE.findall(flat(path)) if not is_found(said)]
    assert lost == []


def test_every_golden_case_that_a_test_names_is_specified() -> None:
    specified = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    named = {
        (name, str(path.relative_to(PROJECT)))
        for path in (PROJECT / "tests").rglob("*.py")
        for name in re.findall(r"\bG-[A-Z]+(?:-\d+)?\b", path.read_text(encoding="utf-8"))
    }
    assert [where for where in sorted(named) if where[0] not in specified] == []


def product_files() -> list[Path]:
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
    found = []
    for name, first, rest in CITATION.findall(flat(path)):
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


COMMANDS = {
    "lint": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "import rules": ["lint-imports"],
    "lock file": ["uv", "lock", "--check"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_house_rule_is_kept(name: str) -> None:
    program, *arguments = COMMANDS[name]
    beside = Path(sys.executable).parent / program
    command = [str(beside) if beside.exists() else program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


def recipe(name: str) -> list[str]:
    """Commands of a recipe of the justfile."""
    text = (PROJECT / "justfile").read_text(encoding="utf-8")
    (block,) = [part for part in text.split("\n\n") if any(line.startswith(name) for line in part.splitlines())]
    return [line.strip() for line in block.splitlines() if line.startswith("    ")]


def test_readme_recipe_and_ci_have_one_command_for_all_tests() -> None:
    assert recipe("all:") == ["uv run pytest"]
    assert "$ uv run pytest\n" in (PROJECT / "README.md").read_text(encoding="utf-8")
    assert (PROJECT / ".ci/run").read_text(encoding="utf-8").rstrip().endswith("\nuv run pytest")
    workflow = yaml.safe_load((PROJECT / ".github/workflows/ci.yaml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["tests"]["steps"] if "run" in step]
    assert [command.split()[-1] for command in commands] == [".ci/run"]


def test_the_quick_recipe_lints_checks_types_and_tests_folders_that_exist() -> None:
    *checks, tests = recipe("quick:")
    assert checks == ["uv run ruff check .", "uv run ruff format --check .", "uv run mypy", "uv run lint-imports"]
    command, _, chosen = tests.partition(" -m ")
    assert all((PROJECT / folder).is_dir() for folder in command.split()[3:] if not folder.startswith("--"))
    assert chosen == '"not slow and not rare and not neo4j"'


@pytest.mark.parametrize("key", ["source_paths", "only_mutate", "pytest_add_cli_args_test_selection"])
def test_what_is_mutated_and_the_nearest_tests_exist(key: str) -> None:
    assert [pattern for pattern in SETTINGS[key] if not list(PROJECT.glob(pattern))] == []
