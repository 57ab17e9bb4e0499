"""Text as data in Markdown: escaped, and tables of it. Chooses no content and shows nothing."""

import re
from collections.abc import Iterable, Sequence

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    """Text as Markdown shows it: one line, nothing of it markup, no HTML."""
    line = " ".join(text.split())
    line = re.sub(r"[&<>]", lambda match: _ENTITIES[match[0]], line)
    return re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", line)


def table_lines(cells: Iterable[Sequence[str]], name_columns: int) -> list[str]:
    """The lines of a table.

    Args:
        cells: Header and rows, each cell as Markdown (see `escaped`).
        name_columns: How many columns, from the first, are aligned to the left; the others hold numbers.
    """
    header, *body = cells
    rule = ["---" if place < name_columns else "---:" for place in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in [header, rule, *body]]
