"""Polyhop: index a corpus once, answer multi-hop questions in batches with interchangeable strategies.

The front door: `polyhop.open_index(name).ask(question)` in Python, `polyhop` on the command line.
"""

import logging
from typing import TYPE_CHECKING, Any

from polyhop.schemas.version import VERSION

__version__ = VERSION
logging.getLogger("polyhop").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from polyhop.api import Answer, Index, open_index
    from polyhop.several import Indexes, SeveralAnswers, open_indexes

__all__ = ["Answer", "Index", "Indexes", "SeveralAnswers", "__version__", "open_index", "open_indexes"]


def __getattr__(name: str) -> Any:
    """Loads the API when it is first used, so that `polyhop --help` answers at once."""
    if name in {"Answer", "Index", "open_index"}:
        from polyhop import api

        return getattr(api, name)
    if name in {"Indexes", "SeveralAnswers", "open_indexes"}:
        from polyhop import several

        return getattr(several, name)
    raise AttributeError(f"module 'polyhop' has no attribute '{name}'")
