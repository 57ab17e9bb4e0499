"""Tables as text: rows that keep their columns, below the names of the columns, and each row as a sentence."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Cell = tuple[str | None, int, int]
"""Text of a cell, None for that of the cell above, and how many columns and rows it spans."""

_FREE_CHARACTERS, _MOST_REPEATED = 100_000, 3
"""Characters that spans may repeat, besides so many for each that the table holds: bounds what a crafted table costs."""
_LONGEST_NAME = 60  # characters; a longer cell is a text, not the name of a column. Chosen.
_LARGEST_HEAD = 4  # passages have room for this many heads; chosen: wider tables have few rows a passage anyway
_HALF_A_PASSAGE = 1000  # characters: a table between paragraphs is cut between two groups, not in one
_YEAR = re.compile(r"(?:19|20)\d\d")
_STOPS = (".", "!", "?", "。")


def spread(rows: Iterable[Iterable[Cell]]) -> Iterator[list[str]]:
    """The rows of a grid, in which a cell stands in each column and row that it spans."""
    spans: dict[int, tuple[str, int]] = {}  # by column: a text of the rows above, and how many rows it goes on for
    above: list[str] = []
    left = _FREE_CHARACTERS

    def repeated(text: str) -> str:
        nonlocal left
        left -= len(text) + 1
        return text if left > 0 else ""

    def spanned(column: int) -> str:
        text, height = spans.pop(column)
        if height > 1 and left > 0:
            spans[column] = text, height - 1
        return repeated(text)

    for cells in rows:
        row: list[str] = []
        for text, width, height in cells:
            while len(row) in spans:
                row.append(spanned(len(row)))
            shown = text if text is not None else repeated(above[len(row)]) if len(row) < len(above) else ""
            left += _MOST_REPEATED * (len(shown) + 1)
            for number in range(max(1, width)):
                if left <= 0:
                    break
                if height > 1:
                    spans[len(row)] = shown, height - 1
                row.append(repeated(shown) if number else shown)
        for column in sorted(spans):
            if column >= len(row) and left > 0:
                row += [""] * (column - len(row))
                row.append(spanned(column))
        above = row
        yield row


def table_groups(rows: Iterable[Sequence[str]], characters: int = _HALF_A_PASSAGE) -> Iterator[tuple[str, tuple[int, int]]]:
    """The rows of a table in groups of one passage, with the numbers of their first and last row.

    The first row of two cells or more, and the first one after an empty row, names the columns if its cells are short,
    different words, or years. A group begins with these names, and ends with each of its rows as a sentence: `Name:
    Ada; Born: 1815.` Names that would take more than a quarter of each passage stand in the sentences alone.
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
        may_name = may_name and len(cells) < 2
    yield from group.text()


@dataclass(slots=True)
class _Group:
    """Rows below the names of their columns; `is_wide` if these stand in the sentences alone."""

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
        line = cells[filled[0]] if len(filled) == 1 and not self.names else " | ".join(cells)
        if not self.names or (len(filled) == 1 and not self.is_wide):
            return line, ""
        names = [*self.names, *[""] * (len(cells) - len(self.names))]
        named = (f"{names[number].rstrip(':')}: {cells[number]}" if names[number] else cells[number] for number in filled)
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
    """Returns whether a row names columns; blank cells may stand above the names of rows."""
    named = cells[next(number for number, cell in enumerate(cells) if cell) :]
    numbers = [cell for cell in named if cell[:1].isdigit()]
    are_years = len(numbers) != 1 and all(map(_YEAR.fullmatch, numbers))
    is_short = all(0 < len(cell) <= _LONGEST_NAME for cell in named)
    return is_short and are_years and 1 < len(set(named)) == len(named) and len(numbers) < len(cells)
