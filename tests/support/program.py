"""What a forked process runs first: a program of a test in place of its command, or a change for it."""

import sys
from functools import partial
from typing import NoReturn


def run_and_end(code: str) -> NoReturn:
    """Runs the code as a main module and ends with 0; what it raises ends the process as it does an interpreter."""
    exec(compile(code, "<program of a test>", "exec"), {"__name__": "__main__"})
    sys.exit(0)


def shorten_leases(seconds: float) -> None:
    """Workers of this process hold their claims for so long, in place of half a minute."""
    from polyhop.worker import loop

    loop.WorkerOptions = partial(loop.WorkerOptions, lease_seconds=seconds)  # type: ignore[assignment,misc]
