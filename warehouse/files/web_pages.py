"""The text of HTML, Markdown and plain text files: the main part, with headings, items, tables and code.

Elements and roles say what stands around the main part (navigation, footers, asides), names of classes never do; all
is kept if nothing else is there.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile

from bs4.dammit import EncodingDetector
from lxml import etree
from lxml.html.defs import tags as html_tags

from polyhop.schemas.records import Document, Section
from polyhop.schemas.text import INVISIBLE
from polyhop.warehouse.documents.building import list_number, raised
from polyhop.warehouse.documents.tables import Cell, spread, table_groups
from polyhop.warehouse.files.encodings import decode
from polyhop.warehouse.files.records import FaultError

MOST_NESTED = 6_000
"""Open tags: libxml2 looks for each end tag among them (some 2 ns each, measured), so no character costs over 2 µs."""
_PARSED_BYTES = 1 << 16  # chosen: bounds how late an error of ours ends the parser; any number gives the same text
_DECLARATION_BYTES = 8192  # where a page may declare its encoding; browsers read 1024 (HTML standard, section 13.2.3.2)
_UNREAD = frozenset(("script", "style", "nav", "head", "noscript", "template", "svg", "del"))
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_AROUND = frozenset(("aside", "button", "dialog", "footer", "menu", "select"))
_AROUND_ROLES = frozenset(("banner", "complementary", "contentinfo", "dialog", "navigation", "search"))
_MAIN = frozenset(("article", "main"))
_HEADINGS = ("title", "h1")
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_PARAGRAPHS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "dl", "div", "fieldset", "figcaption", "figure"),
        *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "ol", "p", "pre", "section"),
        *("table", "ul"),
    )
)
_LISTS = frozenset(("ol", "ul"))
_LINES = frozenset(("br", "caption", "dd", "dt", "li", "option", "tr"))
_CELLS = frozenset(("td", "th"))
_ALL_ROWS = 65_534  # that a cell may span, and does by rowspan=0 (HTML standard, section 4.9.11)
_MAIN_SHARE = 0.25  # of the text that is not around it: a smaller <main> or <article> is not all of the page. Chosen.
_FEWEST_LINKS = 3  # chosen, as Readability's rule of 2010


def read_html(data: bytes, stem: str) -> Document:
    """Title, main text and headings of an HTML file: an empty line between blocks, a line for list items and rows.

    The title is that of `<title>`, else the first `<h1>`, else the file's stem.

    Raises:
        FaultError: If it is in no known encoding, holds half a surrogate pair, or is nested too deeply.
    Cost: O(characters), whatever the markup: unclosed tags, comments and attributes included.
    """
    page = parse_page(decode(data, declared_encoding(data)))
    return page.document(page.heading("title") or page.heading("h1") or stem)


def declared_encoding(data: bytes) -> str:
    """The encoding that a page declares, "" without one."""
    return EncodingDetector.find_declared_encoding(data[:_DECLARATION_BYTES], is_html=True) or ""


@dataclass(slots=True)
class _Block:
    """A paragraph, list, table or heading; characters of its text, and how many of them are of some kind."""

    level: int = 0
    is_code: bool = False
    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    around: int = 0
    main: int = 0
    linked: int = 0
    links: int = 0

    def text(self) -> str:
        joined = "".join(self.pieces).translate(INVISIBLE)
        if self.is_code:
            return "\n".join(line.rstrip() for line in joined.split("\n")).strip("\n")
        lines = (" ".join(line.split()) for line in joined.split("\n"))
        return "\n".join(line for line in lines if line)

    @property
    def leads_away(self) -> bool:
        """Returns whether the block holds links and nothing else."""
        return self.links >= _FEWEST_LINKS and self.linked == self.characters and not self.level


@dataclass(slots=True)
class _Table:
    """An open table: its rows, and the pieces of the open cell with what it spans."""

    rows: list[list[Cell]] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)  # of the cells of each row
    cell: list[str] | None = None
    spans: tuple[int, int] = (1, 1)
    has_names: bool = False
    filled: int = 0  # closed cells with a text
    inner: int = 0  # open tables in the open cell, whose texts are its text

    @property
    def is_named(self) -> bool:
        """Returns whether the open cell names a row or column."""
        return self.cell is not None and self.tags[-1][-1] == "th"

    @property
    def has_data(self) -> bool:
        """Returns whether its cells so far are those of data, not of a page's layout."""
        return self.has_names or self.filled > 1

    def open_row(self) -> None:
        self.close_cell()
        self.rows.append([])
        self.tags.append([])

    def open_cell(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.close_cell()
        if not self.rows:
            self.open_row()
        self.tags[-1].append(tag)
        self.has_names = self.has_names or tag == "th"
        columns, rows = (attributes.get(name, "") for name in ("colspan", "rowspan"))
        self.spans = (int(columns) if columns.isdecimal() else 1, int(rows) or _ALL_ROWS if rows.isdecimal() else 1)
        self.cell = []

    def close_cell(self) -> None:
        if self.cell is not None:
            text = " ".join("".join(self.cell).split())
            self.rows[-1].append((text, *self.spans))
            self.filled += bool(text)
            self.cell = None

    def end_inner(self, tag: str) -> None:
        """A row or table in the open cell ends."""
        pieces = self.cell if self.cell is not None else []
        while pieces and not pieces[-1].strip("; \n"):
            pieces.pop()
        if pieces:
            pieces.append("; " if tag == "tr" else " ")
        self.inner -= tag == "table"

    def texts(self) -> Iterator[list[str]]:
        """The texts of its rows; `Maker: Sulzer` if each row begins with its name, and none names the columns."""
        self.close_cell()
        wide = [tags for tags in self.tags if len(tags) > 1]
        is_named = bool(wide) and all(tags[0] == "th" and "th" not in tags[1:] for tags in wide)
        for name, *values in spread(self.rows) if is_named else ():
            value = "; ".join(value for value in values if value not in {"", name})
            yield [f"{name.rstrip(': ')}: {value}" if name and value else name or value]
        if not is_named:
            yield from spread(self.rows)


@dataclass(slots=True)
class _List:
    """An open list; in one that counts down to 1 its numbers are known at its end."""

    kind: str  # of its numbers, "" without them
    number: int
    step: int = 1
    written: list[tuple[list[str], int, int]] = field(default_factory=list)  # where each number stands, if they change

    @classmethod
    def of(cls, tag: str, attributes: Mapping[str, str]) -> "_List":
        start = attributes.get("start", "")
        is_down = "reversed" in attributes
        first = int(start) if start.isdecimal() else int(not is_down)
        return cls(attributes.get("type", "1") if tag == "ol" else "", first, -1 if is_down else 1)

    def write(self, pieces: list[str], number: int) -> None:
        if self.kind:
            if self.step < 0:
                self.written.append((pieces, len(pieces), number))
            pieces.append(f"{list_number(number, self.kind)}. ")

    def close(self) -> None:
        last = self.number + 1
        for pieces, position, number in self.written if last < 1 else ():
            pieces[position] = f"{list_number(number - last + 1, self.kind)}. "


class Page:
    """Collects the blocks of a page, and the first `<title>` and `<h1>`, while the parser goes through it."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = [_Block()]
        self._open_tags: list[tuple[str, bool, bool]] = []
        self._counts: Counter[str] = Counter()
        self._headings: dict[str, list[str]] = {}
        self._open = ""
        self._lists: list[_List] = []
        self._numbers: list[tuple[_List, int]] = []  # of the open items whose text has not begun
        self._tables: list[_Table | None] = []  # None for a table that lays out a page
        self._raised: list[tuple[list[str], int, bool]] = []  # where each open <sup> begins, and whether it is a link

    @property
    def _table(self) -> _Table | None:
        return self._tables[-1] if self._tables else None

    @property
    def _pieces(self) -> list[str]:
        table = self._table
        return self._blocks[-1].pieces if table is None or table.cell is None else table.cell

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A tag opens."""
        if len(self._open_tags) >= MOST_NESTED:
            raise FaultError(f"its tags are nested more than {MOST_NESTED:,} deep")
        is_hidden = tag in _UNREAD or "hidden" in attributes or attributes.get("aria-hidden") == "true"
        is_hidden = is_hidden or _INVISIBLE.search(attributes.get("style", "")[:_LONGEST_STYLE]) is not None
        is_around = not is_hidden and (tag in _AROUND or attributes.get("role") in _AROUND_ROLES)
        is_around = is_around or (tag == "header" and not self._counts["main"])
        self._open_tags.append((tag, is_hidden, is_around))
        self._count(tag, 1, is_hidden=is_hidden, is_around=is_around)
        self._separate(tag, attributes)
        if tag in _LISTS:
            self._lists.append(_List.of(tag, attributes))
        elif tag == "li" and self._lists and not self._counts["hidden"]:
            of_list, value = self._lists[-1], attributes.get("value", "")
            number = int(value) if value.isdecimal() else of_list.number
            of_list.number = number + of_list.step
            self._numbers.append((of_list, number))
        elif tag == "a":
            self._blocks[-1].links += 1
            self._raised[-1:] = [(pieces, start, True) for pieces, start, _ in self._raised[-1:]]
        elif tag == "sup":
            self._raised.append((self._pieces, len(self._pieces), self._counts["a"] > 0))
        if tag in _HEADINGS and not self.heading(tag):
            self._headings[tag] = []
            self._open = tag

    def end(self, tag: str) -> None:
        """A tag closes, in the file or because the parser closes what the file left open."""
        if self._open_tags:
            _, is_hidden, is_around = self._open_tags.pop()
            if is_around and tag not in _PARAGRAPHS:
                self._next_block(0)
            self._count(tag, -1, is_hidden=is_hidden, is_around=is_around)
        if tag == "sup" and self._raised:
            pieces, start, is_mark = self._raised.pop()
            if pieces is self._pieces and len(self._raised) < _MOST_RAISED:
                text = "".join(pieces[start:]).strip()
                del pieces[start:]
                pieces.append(raised("".join(piece[-_LONGEST_BASE:] for piece in pieces[-2:]), text, is_mark=is_mark))
        if tag in _LISTS and self._lists:
            self._lists.pop().close()
        if tag == "li":
            self._numbers.clear()
        self._end_block(tag)
        if tag == self._open:
            self._open = ""

    def _end_block(self, tag: str) -> None:
        table = self._table
        if table is not None and table.inner:
            if tag in {"table", "tr"}:
                table.end_inner(tag)
        elif tag == "table" and self._tables:
            self._close_table()
        elif tag in _LISTS and self._counts["list"]:
            self._pieces.append("\n")
        elif tag in _PARAGRAPHS:
            self._next_block(0)

    def data(self, text: str) -> None:
        """Text between tags, entities resolved."""
        counts = self._counts
        if self._open == "title" or (self._open and not counts["hidden"]):
            self._headings[self._open].append(text)
        if counts["hidden"]:
            return
        if self._numbers and not text.isspace():
            for of_list, number in self._numbers:
                of_list.write(self._pieces, number)
            self._numbers.clear()
        block = self._blocks[-1]
        self._pieces.append(text if counts["pre"] else text.replace("\n", " "))
        length = len(text) if not text.isspace() else 0
        block.characters += length
        block.around += length if counts["around"] else 0
        block.main += length if counts["main"] else 0
        block.linked += length if counts["a"] else 0

    def close(self) -> "Page":
        """The end of the page."""
        return self

    def heading(self, tag: str) -> str:
        """The first element of this name on one line, "" without one."""
        return " ".join("".join(self._headings.get(tag, ())).translate(INVISIBLE).split())

    def document(self, title: str, *, is_whole: bool = False) -> Document:
        """The text and its sections; with `is_whole` all that is visible."""
        blocks = [block for block in self._blocks if block.characters]
        if not is_whole:  # <main> and <article> if they hold a good part of what is not around; all if nothing is left
            rest = [block for block in blocks if block.around * 2 <= block.characters]
            rest = list(dropwhile(lambda block: block.leads_away, rest))
            main = [block for block in rest if block.main]
            size, whole = (sum(block.characters for block in some) for some in (main, rest))
            blocks = main if main and size >= _MAIN_SHARE * whole else rest or blocks
        sections: list[Section] = []
        texts: list[str] = []
        path: list[tuple[int, str]] = []
        start = 0
        for block in blocks:
            text = block.text()
            if not text:
                continue
            if block.level:
                path = [*(above for above in path if above[0] < block.level), (block.level, " ".join(text.split()))]
                sections.append(Section(start, tuple(heading for _, heading in path)))
            texts.append(text)
            start += len(text) + 2
        if sections and sections[0].start:
            sections.insert(0, Section(0))
        return Document(title, "\n\n".join(texts), tuple(sections))

    def _separate(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Puts between the text before a tag and that in it what separates them."""
        table = self._table
        is_inner_list = tag in _LISTS and self._counts["list"] > 1
        if table is not None and table.cell is not None and tag == "table" and (table.inner or table.has_data):
            table.inner += 1
        if table is not None and table.cell is not None and table.inner:
            if tag in _CELLS or tag in _PARAGRAPHS or tag in _LINES:
                table.cell.append(" ")
        elif tag == "table":
            self._lay_out()
            self._next_block(0)
            self._tables.append(None if attributes.get("role") == "presentation" else _Table())
        elif table is not None and tag == "tr":
            table.open_row()
        elif table is not None and tag in _CELLS:
            table.open_cell(tag, attributes)
        elif table is not None and tag in _LEVELS and len(table.rows) < 2 and not table.is_named:
            self._lay_out()  # a table of one row with a heading holds the columns of a page
            self._next_block(_LEVELS[tag])
        elif tag in _CELLS or (tag in _PARAGRAPHS and not is_inner_list):
            self._next_block(_LEVELS.get(tag, 0))
        elif tag in _LINES or is_inner_list:
            self._pieces.append("\n")

    def _lay_out(self) -> None:
        """Takes the open table for one that lays out a page: its cells are blocks."""
        table = self._table
        if table is not None:
            table.close_cell()
            self._tables[-1] = None
            rows = (filter(None, (text for text, _, _ in row)) for row in table.rows)
            self._blocks[-1].pieces += [f"{' | '.join(cells)}\n" for cells in rows]
            self._next_block(0)

    def _close_table(self) -> None:
        table = self._tables.pop()
        if table is not None:
            block = self._blocks[-1]
            groups = "\n\n".join(text for text, _ in table_groups(table.texts()))
            block.pieces, block.is_code = [f"{block.text()}\n{groups}"], True
        self._next_block(0)

    def _count(self, tag: str, step: int, *, is_hidden: bool, is_around: bool) -> None:
        counts = self._counts
        counts["hidden"] += step * is_hidden
        counts["around"] += step * is_around
        counts["main"] += step * (tag in _MAIN)
        counts["list"] += step * (tag in _LISTS)
        if tag in {"a", "pre"}:
            counts[tag] += step

    def _next_block(self, level: int) -> None:
        if self._table is not None and self._table.cell is not None:
            self._table.cell.append(" ")
            return
        if self._blocks[-1].characters:
            self._blocks.append(_Block())
        self._blocks[-1] = _Block(level, self._counts["pre"] > 0)


_LONGEST_STYLE = 1_000  # characters of a style that are looked at
_MOST_RAISED = 8  # nested superscripts that are read as exponents; chosen: bounds how often a text is joined
_LONGEST_BASE = 20  # characters before a raised number that are looked at


def parse_page(markup: str) -> Page:
    """Goes through a page with libxml2, which reads any markup in time linear in its length.

    Python's html.parser takes quadratic time for unclosed comments and attributes, parsers that repair misnested tags
    as the HTML standard asks do so for those.
    """
    page = Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    try:
        data = markup.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FaultError(f"the file holds half a surrogate pair, U+{ord(markup[error.start]):04X}") from error
    # piece by piece, because an error of the target ends the parser only after the piece
    for start in range(0, len(data), _PARSED_BYTES):
        parser.feed(data[start : start + _PARSED_BYTES])
    if data:
        parser.close()
    return page


_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_FIELD = re.compile(r"^([A-Za-z][\w-]{0,63}):[ \t]*(\S.*)", re.MULTILINE)
_OWN_FIELDS = frozenset(("title", "text", "id"))
_FOOTNOTE = re.compile(r'(class="footnote-definition-label">[^<]*</sup>)\s*<p>')  # on one line with its text
_TAG = re.compile(r"</?([A-Za-z][\w.:-]*)(?:[\s/][^<>]*)?>")


def read_text(data: bytes, stem: str) -> Document:
    """Title (the file's stem) and text of a plain text file."""
    return Document(stem, decode(data))


def read_markdown(data: bytes, stem: str) -> Document:
    """Title, text and headings of a Markdown file (CommonMark, tables, footnotes), and the front matter as metadata.

    Without markup: a line for each list item, tables as rows and sentences, code as it is. The title is the first
    heading of the first level, else the front matter's, else the file's stem. What looks like an element that HTML
    does not have is text: `List<Pump>`, `<T extends Pump>`.
    """
    import pyromark

    text = decode(data)
    front = _FRONT_MATTER.match(text)
    fields = dict(_FRONT_FIELD.findall(front[1] or "")) if front else {}
    stated = {name: value.strip().strip("\"'") for name, value in fields.items()}
    options = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_FOOTNOTES
    markup = pyromark.html(text[front.end() :] if front else text, options=options)
    page = parse_page(_TAG.sub(_known_tag, _FOOTNOTE.sub(r"\1 ", markup)))
    found = page.document(page.heading("h1") or stated.get("title", "") or stem, is_whole=True)
    metadata: dict[str, object] = {name: value for name, value in stated.items() if name not in _OWN_FIELDS}
    return Document(found.title, found.text, found.sections, metadata)


def _known_tag(match: re.Match[str]) -> str:
    return match[0] if match[1].lower() in html_tags else f"&lt;{match[0][1:-1]}&gt;"
