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


def table_groups(rows: Iterable[Sequence[str]], characters: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The rows of a sheet in groups of one passage, each below the names of the columns, with its first and last row.

    The first row of two cells or more may name the columns, as in `table_lines`. Names that would take more than a
    quarter of each passage stand before each value instead.

    Args:
        rows: All rows from the first, empty ones included.
        characters: Most characters of a group, unless a single row is longer.
    """
    group: list[str] = []
    first = last = size = 0
    for number, line, head in _lines_below_heads(rows, characters):
        if group not in ([], [head]) and size + len(line) > characters:
            yield "\n".join(group), (first, last)
            group, size, first = [head] * bool(head), len(head) + 1, number
        group.append(line)
        size += len(line) + 1
        first, last = first or number, number
    if group:
        yield "\n".join(group), (first, last)


def _lines_below_heads(rows: Iterable[Sequence[str]], characters: int) -> Iterator[tuple[int, str, str]]:
    """Each row that holds anything: its number, its line, and the line of names that it needs above it."""
    names: Sequence[str] | None = None
    head = ""
    for number, row in enumerate(rows, start=1):
        cells = _cells(row)
        if names is None and len(cells) > 1:
            names = cells if _are_names(cells) else ()
            joined = " | ".join(names)
            head = joined if len(joined) <= characters / _LARGEST_HEAD else ""
            yield number, joined or _line(cells, names, head), ""
        elif cells:
            yield number, _line(cells, names or (), head), head


_LARGEST_HEAD = 4  # passages have room for this many heads; chosen: wider tables have few rows a passage anyway


def _line(cells: Sequence[str], names: Sequence[str], head: str) -> str:
    """A row: below a head empty cells keep their place, else they are left out."""
    if head:
        return " | ".join(cells)
    return "; ".join(_named(cells, names)) if names else " | ".join(cell for cell in cells if cell)


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
