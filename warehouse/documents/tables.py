"""Tables as text: rows that keep their columns, below the names of the columns, and each row as a sentence."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

Cell = tuple[str | None, int, int]
"""Text of a cell, None for that of the cell above, and how many columns and rows it spans."""

_FREE_CHARACTERS, _MOST_REPEATED = 100_000, 3
"""Characters that spans may repeat, besides so many for each that it holds: bounds the cost of crafted tables."""
_LONGEST_NAME = 60  # characters; a longer cell is a text, not the name of a column. Chosen.
_LARGEST_HEAD = 4  # passages have room for this many heads; chosen: wider tables have few rows a passage anyway
_HALF_A_PASSAGE = 1000  # characters: a table between paragraphs is cut between two groups, not in one
_YEAR = re.compile(r"(?:19|20)\d\d")
_STOPS = (".", "!", "?", "。")


def spread(rows: Iterable[Iterable[Cell]]) -> Iterator[list[str]]:
    """The rows of a grid, in which a cell fills each column and row that it spans.

    What spans columns in which no cell of any row begins, spans less.
    """
    kept = [list(row) for row in rows]
    grid = _Grid(max((1 + sum(max(1, width) for _, width, _ in row[:-1]) for row in kept), default=1))
    for cells in kept:
        yield grid.row(cells)


class _Grid:
    """The spans that go on in the next row of a table, and how many characters may still be repeated."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._spans: dict[int, tuple[str, int]] = {}  # by column: a text of the rows above, and the rows it goes on for
        self._above: list[str] = []
        self._left = _FREE_CHARACTERS

    def row(self, cells: Iterable[Cell]) -> list[str]:
        """The texts of a row by column."""
        row: list[str] = []
        for text, width, height in cells:
            while len(row) in self._spans:
                row.append(self._spanned(len(row)))
            above = self._above[len(row)] if len(row) < len(self._above) else ""
            shown = self._repeated(above) if text is None else text
            self._left += _MOST_REPEATED * (len(shown) + 1)
            for number in range(max(1, min(width, self._width - len(row), self._left))):
                if height > 1:
                    self._spans[len(row)] = shown, height - 1
                row.append(self._repeated(shown) if number else shown)
        for column in sorted(self._spans) if self._left > 0 else ():
            if column >= len(row):
                row += [""] * (column - len(row))
                row.append(self._spanned(column))
        self._above = row
        return row

    def _repeated(self, text: str) -> str:
        self._left -= len(text) + 1
        return text if self._left > 0 else ""

    def _spanned(self, column: int) -> str:
        text, height = self._spans.pop(column)
        if height > 1 and self._left > 0:
            self._spans[column] = text, height - 1
        return self._repeated(text)


def table_groups(
    rows: Iterable[Sequence[str]], characters: int = _HALF_A_PASSAGE
) -> Iterator[tuple[str, tuple[int, int]]]:
    """The rows of a table in groups of one passage, with the numbers of their first and last row.

    The first row of two cells or more, and the first one after an empty row, names the columns if its cells are short,
    different words, or years; a value alone in the first row of all is a title, which has no column. A group begins
    with these names, and ends with each of its rows as a sentence: `Name: Ada; Born: 1815.` Names that would take more
    than a quarter of each passage are in the sentences only.
    """
    group = _Group()
    may_name = True
    for number, row in enumerate(rows, start=1):
        cells = [" ".join(cell.split()) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            may_name = True
            continue
        values = sum(map(bool, cells))
        if values == 1 and not group.first:  # a title above the table, wherever it stands
            cells = cells[-1:]
        if may_name and len(cells) > 1 and _are_names(cells):
            yield from group.text()
            group = _Group(cells, " | ".join(cells), number)
            if len(group.head) > characters / _LARGEST_HEAD:
                group.lines, group.head, group.is_wide = [group.head], "", True
        else:
            if group.size and group.size + group.length_of(cells) > characters:
                yield from group.text()
                group = _Group(group.names, group.head, is_wide=group.is_wide)
            group.add(number, cells)
        may_name = may_name and values < 2
    yield from group.text()


@dataclass(slots=True)
class _Group:
    """Rows below the names of their columns; `is_wide` if these are in the sentences only."""

    names: Sequence[str] = ()
    head: str = ""
    first: int = 0
    last: int = 0
    is_wide: bool = False
    size: int = 0
    lines: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    def length_of(self, cells: Sequence[str]) -> int:
        return sum(map(len, self._parts(cells))) + 2

    def _parts(self, cells: Sequence[str]) -> tuple[str, str]:
        """The row, and its sentence, which one value alone does not make."""
        filled = [number for number, cell in enumerate(cells) if cell]
        line = " | ".join(cells)
        if not self.names or (len(filled) == 1 and not self.is_wide):
            return line, ""
        names = [*self.names, *[""] * (len(cells) - len(self.names))]
        named = (
            f"{names[number].rstrip(':')}: {cells[number]}" if names[number] else cells[number] for number in filled
        )
        sentence = "; ".join(named)
        return "" if self.is_wide else line, sentence if sentence.endswith(_STOPS) else f"{sentence}."

    def add(self, number: int, cells: Sequence[str]) -> None:
        line, sentence = self._parts(cells)
        self.first, self.last = self.first or number, number
        self.size = (self.size or len(self.head)) + len(line) + len(sentence) + 2
        self.lines.append(line)
        self.sentences.append(sentence)

    def text(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """All of it with its first and last row; nothing of none."""
        lines = filter(None, (self.head, *self.lines, *self.sentences))
        if self.first:
            yield "\n".join(lines), (self.first, max(self.first, self.last))


def _are_names(cells: Sequence[str]) -> bool:
    """Returns whether a row names columns, two or more; blank cells are columns without a name."""
    named = list(filter(None, cells))
    numbers = [cell for cell in named if cell[:1].isdigit()]
    are_years = len(numbers) != 1 and all(map(_YEAR.fullmatch, numbers))
    is_short = max(map(len, named)) <= _LONGEST_NAME
    # one that spans columns names each of them
    are_different = 1 < len(set(named)) == sum(1 for name, _ in groupby(cells) if name)
    return is_short and are_years and are_different and cells[0] not in numbers
