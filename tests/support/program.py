"""What a forked process runs first: a program of a test in place of its command, or a change of a constant."""

import importlib
import sys
from typing import NoReturn


def run_and_end(code: str) -> NoReturn:
    """Runs the code as a main module and ends with 0; what it raises ends the process as it does an interpreter."""
    exec(compile(code, "<program of a test>", "exec"), {"__name__": "__main__"})
    sys.exit(0)


def set_constant(module: str, name: str, value: object) -> None:
    """Gives a constant of a module another value, for the command of this process."""
    setattr(importlib.import_module(module), name, value)
