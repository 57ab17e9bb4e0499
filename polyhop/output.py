"""Output of commands: JSON on standard output, all else on standard error, progress on terminals only."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

from polyhop.schemas.errors import redact
from polyhop.schemas.text import escaped_json, printable_line


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    print(json_text(document))  # noqa: T201


def json_text(document: Any) -> str:
    """A document as JSON: NaN and infinity, which JSON has not, are their names as text."""
    try:
        text = json.dumps(document, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        named = _with_floats(document, lambda value: value if isfinite(value) else str(value))
        text = json.dumps(named, ensure_ascii=False, default=str)
    return escaped_json(text)


def _with_floats(document: Any, change: Callable[[float], object]) -> Any:
    """The same document with each float changed, tuples as lists."""
    if isinstance(document, float):
        return change(document)
    if isinstance(document, Mapping):
        return {key: _with_floats(value, change) for key, value in document.items()}
    return [_with_floats(value, change) for value in document] if isinstance(document, list | tuple) else document


def print_line(text: str = "") -> None:
    """A line for people on standard output."""
    print(printable_line(text))  # noqa: T201


def print_block(label: str, text: str) -> None:
    """Text of any number of lines next to a label, all of them indented alike; blank ones are left out."""
    for line in [line for line in text.split("\n") if line.strip()] or [""]:
        print_line(f"{label:<10}{line.strip()}".rstrip())
        label = ""


def print_error(text: str) -> None:
    """A line on standard error, without secrets and fit for a terminal."""
    print(printable_line(redact(text)), file=sys.stderr)  # noqa: T201


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns aligned by width; numbers to the right."""
    names = [_cell(name) for name in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[n]) for row in cells)]) for n, name in enumerate(names)]
    numeric = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(names))]
    sides = [str.rjust if is_number else str.ljust for is_number in numeric]
    for row in [names, *cells]:
        padded = (side(cell, width) for cell, width, side in zip(row, widths, sides, strict=True))
        print_line("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = "" if value is None else str(value)
    return printable_line(" ".join(text.split()))  # before widths are measured


def clear_screen() -> None:
    """Makes room for the same table again, on a terminal; nothing in a file."""
    if sys.stdout.isatty():
        print("\x1b[2J\x1b[H", end="")  # noqa: T201 - erase the screen, cursor to its first line (ECMA-48)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A callback (stage, done, total) that draws bars on a terminal; None when standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        rows: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in rows:
                rows[stage] = bars.add_task(printable_line(stage), total=total)
            bars.update(rows[stage], completed=done, total=total)

        yield update


def rounded(document: Any) -> Any:
    """The same document with floats rounded to 6 decimals."""
    return _with_floats(document, lambda value: round(value, 6))
