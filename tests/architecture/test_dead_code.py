"""No function, method, class or property without a user: tests alone are none, documents and templates are."""

import re
from collections.abc import Iterable
from pathlib import Path

from vulture import Vulture

PROJECT = Path(__file__).resolve().parents[2]
PRODUCT = ("flows", "tasks", "schemas", "warehouse", "worker", "polyhop/commands", "polyhop/pages")
USERS = ("examples", "benchmarks")
"""Programs of other people stand for those that import Polyhop."""
NAMED_IN = (
    "polyhop/pages/*.jinja",
    "tasks/**/*.jinja",
    "pyproject.toml",
    "README.md",
    "docs/**/*.md",
    "polyhop/cli.py",
)
"""Files that name what they use, as templates, entry points and the documented interface do."""
CALLED_BY_LIBRARIES = (
    "_given",
    "_has_precisions",
    "_with_preset",
    "log_message",
    "__getattr__",
    "__dir__",
    "_repr_html_",
)
"""Pydantic's validators, what http.server and notebooks call, and a module's own names."""
OF_TESTS = ("put_call",)
"""What prefect.yaml is compared with, and a call begun and ended at once, as five files of tests write it."""
KINDS = frozenset(("function", "method", "class", "property", "unreachable_code"))
DECLARED_BY = ("@strategy", "@app.*", "@flow", "@*.command", "@*.callback")
"""Decorators that register what they decorate."""


def unused(paths: Iterable[Path]) -> list[str]:
    """What nothing uses in some files and folders, with its place."""
    names = {word for pattern in NAMED_IN for file in PROJECT.glob(pattern) for word in words_of(file)}
    names |= {name for folder in PRODUCT for file in (PROJECT / folder).rglob("*.py") for name in opened_in(file)}
    found = Vulture(ignore_names=[*CALLED_BY_LIBRARIES, *OF_TESTS], ignore_decorators=list(DECLARED_BY))
    found.scavenge([str(path) for path in paths])
    return [
        f"{Path(item.filename).relative_to(PROJECT)}:{item.first_lineno}: {item.typ} '{item.name}'"
        for item in found.get_unused_code(min_confidence=60)
        if item.typ in KINDS and item.name not in names
        if Path(item.filename).relative_to(PROJECT).parts[0] not in USERS
    ]


def words_of(file: Path) -> set[str]:
    """Words of a file that may be names."""
    return set(re.findall(r"[A-Za-z_]\w+", file.read_text(encoding="utf-8")))


def opened_in(file: Path) -> list[str]:
    """Functions that a program names as "module:function", to import them when they are needed."""
    return re.findall(r"""[\w.]:(\w+)["']""", file.read_text(encoding="utf-8"))


def test_everything_has_a_user() -> None:
    paths = [*PROJECT.glob("polyhop/*.py"), *(PROJECT / folder for folder in (*PRODUCT, *USERS))]
    found = unused(paths)
    assert not found, "\n".join(found)


def test_what_nothing_uses_is_found(tmp_path: Path) -> None:
    found = Vulture()
    (tmp_path / "left.py").write_text("def used():\n    return 1\n\n\ndef left_behind():\n    return used()\n")
    found.scavenge([str(tmp_path)])
    assert [item.name for item in found.get_unused_code(min_confidence=60)] == ["left_behind"]
