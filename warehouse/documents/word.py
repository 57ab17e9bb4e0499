"""Texts of Word files (.docx) with headings, tables, notes and the pages that Word last drew.

Uses python-docx for the package and its styles, and goes through the body itself: in one pass, whatever it holds.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, BinaryIO

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder
from polyhop.warehouse.documents.containers import open_container, parse_xml
from polyhop.warehouse.documents.tables import table_lines
from polyhop.warehouse.files.records import FaultError

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_NOTES = ("footnotes", "endnotes")
_MOST_LEVELS = 9  # Word has nine levels of headings; the tenth is text (ECMA-376, outlineLvl)
_STYLE_DEPTH = 10
"""How often a style may be based on another; Word allows 11."""


def read_word(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a Word file: paragraphs, tables row by row, then notes; deleted text of tracked changes is left out.

    Raises:
        FaultError: If it is damaged, too large or has no text.
    """
    import docx

    open_container(stream, reading.max_unpacked_mb).close()
    file = docx.Document(stream)
    reader = _WordReader(_levels(file))
    body = file.element.body
    if body is None:
        raise FaultError("it is damaged (it has no body)")
    reader.read(body, has_pages=next(body.iter(f"{_W}lastRenderedPageBreak"), None) is not None)
    for related in file.part.rels.values():
        if not related.is_external and related.reltype.rsplit("/", 1)[-1] in _NOTES:
            reader.read_notes(parse_xml(related.target_part.blob))
    if not reader.builder.length:
        raise FaultError("it has no text: nothing but pictures, or nothing at all")
    stated = file.core_properties
    return reader.builder.document(stated.title or reader.title, {"author": stated.author})


class _WordReader:
    """Goes through the elements of a body in their order.

    Attributes:
        builder: Text so far.
        title: The first paragraph in the style Title.
    """

    def __init__(self, levels: Mapping[str, int]) -> None:
        self.builder = TextBuilder()
        self.title = ""
        self._levels = levels
        self._page: int | None = None

    def read(self, body: Any, *, has_pages: bool) -> None:
        """Adds a body; `has_pages` says whether Word noted in it where pages began when it drew it last."""
        if has_pages:
            self._page = 1
            self.builder.place(page=1)
        for element in _below(body, {f"{_W}p", f"{_W}tbl"}):
            if element.tag == f"{_W}tbl":
                self._table(element)
            else:
                self._paragraph(element)

    def read_notes(self, root: Any) -> None:
        """Adds foot- or endnotes, but those that are lines above notes."""
        for note in root:
            if isinstance(note.tag, str) and note.get(f"{_W}type") is None:
                self.builder.add(_words(note)[0])

    def _table(self, table: Any) -> None:
        turned = 0
        rows = []
        for row in _below(table, {f"{_W}tr"}):
            cells = [_words(cell) for cell in _below(row, {f"{_W}tc"})]
            rows.append([text for text, _, _ in cells])
            turned += max((before + after for _, before, after in cells), default=0)
        self.builder.add("\n".join(table_lines(rows)))
        self._turn(turned)

    def _paragraph(self, paragraph: Any) -> None:
        words, before, after = _words(paragraph)
        self._turn(before)
        level = self._level(paragraph)
        if level is None:
            self.builder.add(words)
        elif words.strip():
            self.title = self.title or (words if level == 0 else "")
            self.builder.heading(level, words)
        self._turn(after)

    def _level(self, paragraph: Any) -> int | None:
        """The level of a heading, 0 for the title of the file; None for text."""
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
        if outline is not None:
            return _outline_level(outline)
        return self._levels.get(style.get(f"{_W}val")) if style is not None else None

    def _turn(self, pages: int) -> None:
        if pages and self._page is not None:
            self._page += pages
            self.builder.place(page=self._page)


def _words(element: Any) -> tuple[str, int, int]:
    """The text of an element, and how many pages begin in it: before its first words, and after them."""
    pieces: list[str] = []
    before = after = 0
    for part in _below(element, _WORDS):
        if part.tag == f"{_W}t":
            pieces.append(part.text or "")
        elif part.tag != f"{_W}lastRenderedPageBreak":
            pieces.append(_MARKS[part.tag])
        elif any(not piece.isspace() for piece in pieces):
            after += 1
        else:
            before += 1
    return "".join(pieces), before, after


_MARKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}p": "\n"}
_WORDS = frozenset((*_MARKS, f"{_W}t", f"{_W}lastRenderedPageBreak"))


def _below(root: Any, wanted: Collection[str]) -> Iterator[Any]:
    """The wanted elements below an element, in order; of all but `_WORDS` not those that are in one of them.

    So text boxes and inner tables are words of what they stand in. What older programs are to show instead of something
    (Fallback) is passed over: it says the same again.
    """
    is_whole = wanted is not _WORDS
    waiting = list(reversed(root))
    while waiting:
        element = waiting.pop()
        if not isinstance(element.tag, str) or element.tag == _FALLBACK:
            continue
        if element.tag in wanted:
            yield element
            if is_whole:
                continue
        waiting.extend(reversed(element))


def _levels(file: Any) -> Mapping[str, int]:
    """Id of each style of headings to its level; a style based on one of them is one, too."""
    styles = {style.style_id: style for style in file.styles if style.style_id}
    found = {}
    for style_id, style in styles.items():
        base = style
        for _ in range(_STYLE_DEPTH):
            level = _own_level(base)
            if level is not None:
                found[style_id] = level
            base = getattr(base, "base_style", None)
            if level is not None or base is None:
                break
    return found


def _own_level(style: Any) -> int | None:
    name = str(style.name or "").lower()
    if name == "title":
        return 0
    kind, _, number = name.rpartition(" ")
    if kind == "heading" and number.isdigit() and 1 <= int(number) <= _MOST_LEVELS:
        return int(number)
    outline = style.element.find(f"{_W}pPr/{_W}outlineLvl")
    return None if outline is None else _outline_level(outline)


def _outline_level(outline: Any) -> int | None:
    """Levels are counted from 0 in the file; the tenth is text."""
    stated = str(outline.get(f"{_W}val"))
    return int(stated) + 1 if stated.isdecimal() and int(stated) < _MOST_LEVELS else None
