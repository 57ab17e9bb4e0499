"""What other test files use in place of an implementation, loaded from where it is, so that a suite runs on it, too.

Owns no fake. `classes_with` finds them by their method, so that a new fake cannot stay outside of its suite.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).resolve().parents[1]


@cache
def loaded(path: str) -> ModuleType:
    """A test file as a module of its own, beside the one that pytest has: `unit/warehouse/test_onnx_models.py`."""
    name = f"fakes_of_{path.removesuffix('.py').replace('/', '_')}"
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def classes_with(method: str, *arguments: str) -> set[str]:
    """Every class of the tests' files that has such a method, as `unit/worker/test_session.py Paths`.

    Args:
        method: Its name.
        arguments: Its arguments after `self`, without those that can be left out.
    """
    return {
        f"{path.relative_to(TESTS).as_posix()} {found}"
        for path in TESTS.rglob("*.py")
        if f"def {method}(" in (text := path.read_text(encoding="utf-8"))
        for found in _classes(text, method, arguments)
    }


def _classes(text: str, method: str, arguments: tuple[str, ...]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == method:
                    names = tuple(one.arg for one in part.args.args[1:])
                    if names[: len(arguments)] == arguments:
                        yield node.name
