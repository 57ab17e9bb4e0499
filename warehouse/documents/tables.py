"""Rows of a table as lines that say by themselves what their values are.

Knows no format.
"""

from collections.abc import Iterable, Iterator, Sequence

_LONGEST_HEADING = 60
"""Characters; a longer first cell is a text, not the name of a column. Chosen."""


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A line for each row that holds anything, `Name: Ada; Born: 1815` if the first row names columns, else by `|`.

    The first row names columns if its cells (two or more) are different short words without a number in front.
    """
    names: Sequence[str] | None = None
    is_first = True
    for row in rows:
        cells = _cells(row)
        if not cells:
            continue
        if is_first:
            is_first = False
            names = cells if _are_names(cells) else None
        elif names is not None:
            yield "; ".join(_named(cells, names))
            continue
        yield " | ".join(cell for cell in cells if cell)


def _cells(row: Sequence[str]) -> list[str]:
    """The cells of a row with single spaces, without the empty ones at its end."""
    cells = [" ".join(cell.split()) for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _are_names(cells: Sequence[str]) -> bool:
    is_short = all(cell and len(cell) <= _LONGEST_HEADING and not cell[0].isdigit() for cell in cells)
    return len(cells) > 1 and is_short and len(set(cells)) == len(cells)


def _named(cells: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    for number, cell in enumerate(cells):
        if cell:
            yield f"{names[number].rstrip(':')}: {cell}" if number < len(names) else cell
