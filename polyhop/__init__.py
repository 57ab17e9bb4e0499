"""Polyhop: index a corpus once, answer multi-hop questions in batches with interchangeable strategies.

The front door: `polyhop.open_index(name).ask(question)` in Python, `polyhop` on the command line.
"""

import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyhop.schemas.version import VERSION

if sys.platform == "win32":
    raise ImportError("Polyhop runs on Linux and macOS; on Windows, install and run it within WSL (docs/install.md).")

__version__ = VERSION
logging.getLogger("polyhop").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from polyhop.api import (
        Answer,
        Comparison,
        Index,
        Indexes,
        Job,
        SeveralAnswers,
        asubmit,
        evaluate,
        index,
        open_index,
        open_indexes,
        plan,
        submit,
    )
    from polyhop.client import RemoteIndex, connect
    from polyhop.inbox import InboxRun, add
    from polyhop.protocol import IndexLike
    from polyhop.schemas import errors
    from polyhop.schemas.settings import Settings

__all__ = ["Answer", "Comparison", "InboxRun", "Index", "Indexes", "Job", "RemoteIndex", "Settings", "SeveralAnswers"]
__all__ += ["__version__", "add", "asubmit", "connect", "errors", "evaluate", "index", "open_index", "open_indexes"]
__all__ += ["IndexLike", "plan", "submit"]
_ELSEWHERE = {"Settings": "polyhop.schemas.settings", "RemoteIndex": "polyhop.client", "connect": "polyhop.client"}
_ELSEWHERE |= {"InboxRun": "polyhop.inbox", "add": "polyhop.inbox", "IndexLike": "polyhop.protocol"}


def __getattr__(name: str) -> Any:
    """Loads the API when it is first used, so that `polyhop --help` answers at once."""
    if name == "errors":
        return import_module("polyhop.schemas.errors")
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "polyhop.api")), name)
    raise AttributeError(f"module 'polyhop' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Lists the public names, for tab completion."""
    return sorted(__all__)
