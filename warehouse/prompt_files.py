"""Prompt files: Markdown beside the code that parses their replies.

Fills nothing in (schemas/prompts.py does).
"""

from functools import cache
from pathlib import Path

from polyhop.schemas.prompts import Prompt


@cache
def read_prompt(path: Path) -> Prompt:
    """The prompt in a file, named by the file: `kg.extract.md` is "kg.extract"."""
    return Prompt(path.name.removesuffix(".md"), path.read_text(encoding="utf-8"))
