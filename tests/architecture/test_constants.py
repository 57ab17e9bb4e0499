"""Every number that a module names says where it comes from: a paper, a section of docs/, a measurement, or a choice.

What is said cannot be judged here, only that something is said beside the number, and more than its name again.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
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


@pytest.mark.parametrize(
    "text",
    [
        "DEPTH = 3\n",
        "_DEPTH: int = 3\n",
        "SHARE = 1 / 64\n",
        "NOTHING = -1\n",
        "DEPTHS = (1, 2, 5)\n",
        "DELAYS = [1.0, 5.0]\n",
        "LEAST, MOST = 0.02, 0.98\n",
        "DEPTH = 3  # noqa: PLR2004\n",
        "LONGEST_NAME = 3  # the longest name\n",
        "# chosen\n\nDEPTH = 3\n",
        "# chosen\nWIDTH = 2\nDEPTH = 3\n",
        "DEPTH = 3\nWIDTH = 2\n'''Chosen: of the width.'''\n",
        "DEPTH = 3\nif DEPTH:  # chosen\n    pass\n",
    ],
)
def test_a_number_without_a_reason_is_found(text: str) -> None:
    assert any(says_nothing(name, said) for _, name, said in named_numbers(text))


@pytest.mark.parametrize(
    "text",
    [
        "DEPTH = 3  # algorithms.md 6.2.\n",
        "DEPTH = 3  # noqa: PLR2004 - levels; chosen\n",
        "# levels; chosen\nDEPTH = 3\n",
        "DEPTH = 3\n'''Levels; chosen.'''\n",
        "LEAST, MOST = 0.02, 0.98  # of all paths; chosen\n",
        "DEPTHS = (  # algorithms.md 6.2.\n    1,\n    2,\n)\n",
        "IS_DEEP = True\nTITLE = 'three'\nNAMES = ('a', 'b')\nDEPTH = depth_of(3)\ndepth = 3\n",
        "def search() -> None:\n    DEPTH = 3\n",
    ],
)
def test_a_reason_is_seen_wherever_it_may_stand(text: str) -> None:
    assert [name for _, name, said in named_numbers(text) if says_nothing(name, said)] == []


def files() -> list[Path]:
    """Every module of the product; polyhop/ links to the other packages, which are not read twice."""
    return [
        path
        for package in PACKAGES
        for path in sorted((PROJECT / package).rglob("*.py"))
        if not any(folder.is_symlink() for folder in path.parents)
    ]


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
    if not TOOLS.fullmatch(sign + comment):
        return comment
    return comment.partition(" - ")[2]


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
