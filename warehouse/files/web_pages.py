"""The text of HTML, Markdown and plain text files: the main part, with headings, items, rows and code.

What stands around the main part (navigation, footers, asides, lists of links) is left out, unless nothing else is
there. Measured against trafilatura and readability with benchmarks/document_formats.py.
"""

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bs4.dammit import EncodingDetector
from lxml import etree

from polyhop.schemas.records import Document, Section
from polyhop.warehouse.files.records import FaultError, encoding_fault

MOST_NESTED = 6_000
"""Open tags: libxml2 looks for each end tag among them (some 2 ns each, measured), so no character costs over 2 µs."""
_PARSED_BYTES = 1 << 16  # chosen: bounds how late an error of ours ends the parser; any number gives the same text
_DECLARATION_BYTES = 8192  # where a page may declare its encoding; browsers read 1024 (HTML standard, section 13.2.3.2)
_UNREAD = frozenset(("script", "style", "nav", "head", "noscript", "template", "svg"))
_AROUND = frozenset(("aside", "button", "dialog", "footer", "menu", "select"))
_AROUND_ROLES = frozenset(("banner", "complementary", "contentinfo", "dialog", "navigation", "search"))
_AROUND_NAMES = re.compile(
    r"(?:^|[\s_-])(?:advert(?:isement)?s?|breadcrumbs?|consent|cookies?|newsletter|sidebar|share|social)(?:$|[\s_-])"
)
"""Names of classes and ids; each stands for one kind of thing that pages have around their text."""
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
_MAIN_SHARE = 0.25  # of the text that is not around it: a smaller <main> or <article> is not all of the page. Chosen.
_LINKED_SHARE = 0.8  # of a block's characters
_FEWEST_LINKS = 3
"""A block of so many links, and hardly anything else, leads to other pages. Chosen, as Readability's rule of 2010."""


def read_html(data: bytes, stem: str) -> Document:
    """Title, main text and headings of an HTML file: an empty line between blocks, a line for list items and rows.

    The title is that of `<title>`, else the first `<h1>`, else the file's stem.

    Raises:
        FaultError: If it is in no known encoding, holds half a surrogate pair, or is nested too deeply.
    Cost: O(characters), whatever the markup: unclosed tags, comments and attributes included.
    """
    page = parse_page(decode(data))
    return page.document(page.heading("title") or page.heading("h1") or stem)


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
        joined = "".join(self.pieces)
        if self.is_code:
            return "\n".join(line.rstrip() for line in joined.split("\n")).strip("\n")
        lines = (" ".join(line.split()) for line in joined.split("\n"))
        return "\n".join(line for line in lines if line)

    @property
    def is_around(self) -> bool:
        """Returns whether the block is boilerplate around the page's content."""
        leads_away = self.links >= _FEWEST_LINKS and self.linked >= _LINKED_SHARE * self.characters
        return self.around * 2 > self.characters or (leads_away and not self.level)


class Page:
    """Collects the blocks of a page, and the first `<title>` and `<h1>`, while the parser goes through it."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = [_Block()]
        self._open_tags: list[tuple[str, bool, bool]] = []
        self._counts = {"hidden": 0, "around": 0, "main": 0, "a": 0, "pre": 0, "list": 0}
        self._headings: dict[str, list[str]] = {}
        self._open = ""
        self._is_in_row = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A tag opens."""
        if len(self._open_tags) >= MOST_NESTED:
            raise FaultError(f"its tags are nested more than {MOST_NESTED:,} deep")
        is_hidden = tag in _UNREAD or "hidden" in attributes or attributes.get("aria-hidden") == "true"
        is_around = not is_hidden and self._stands_around(tag, attributes)
        self._open_tags.append((tag, is_hidden, is_around))
        self._count(tag, 1, is_hidden=is_hidden, is_around=is_around)
        # What stands between the text before a tag and that in it.
        block = self._blocks[-1]
        is_inner_list = tag in _LISTS and self._counts["list"] > 1
        if tag in _PARAGRAPHS and not is_inner_list:
            self._next_block(_LEVELS.get(tag, 0))
        elif tag in _LINES or is_inner_list:
            block.pieces.append("\n")
            self._is_in_row = False
        elif tag in _CELLS:
            block.pieces.append(" | " if self._is_in_row else " ")
            self._is_in_row = True
        elif tag == "a":
            block.links += 1
        if is_around and tag not in _PARAGRAPHS:
            self._next_block(0)
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
        if tag in _LISTS and self._counts["list"]:
            self._blocks[-1].pieces.append("\n")
        elif tag in _PARAGRAPHS:
            self._next_block(0)
        if tag == self._open:
            self._open = ""

    def data(self, text: str) -> None:
        """Text between tags, entities resolved."""
        counts = self._counts
        if self._open == "title" or (self._open and not counts["hidden"]):
            self._headings[self._open].append(text)
        if counts["hidden"]:
            return
        block = self._blocks[-1]
        block.pieces.append(text if counts["pre"] else text.replace("\n", " "))
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
        return " ".join("".join(self._headings.get(tag, ())).split())

    def document(self, title: str, *, is_whole: bool = False) -> Document:
        """The text and its sections; with `is_whole` all that is visible."""
        blocks = [block for block in self._blocks if block.characters]
        if not is_whole:  # <main> and <article> if they hold a good part of what is not around; all if nothing is left
            rest = [block for block in blocks if not block.is_around]
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

    def _stands_around(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag == "header":
            return not self._counts["main"]
        if tag in _AROUND or attributes.get("role") in _AROUND_ROLES:
            return True
        if tag in _MAIN or tag in {"body", "html"}:
            return False
        named = f"{attributes.get('class', '')} {attributes.get('id', '')}"
        return len(named) > 1 and _AROUND_NAMES.search(named[:_LONGEST_NAMES].lower()) is not None

    def _count(self, tag: str, step: int, *, is_hidden: bool, is_around: bool) -> None:
        counts = self._counts
        counts["hidden"] += step * is_hidden
        counts["around"] += step * is_around
        counts["main"] += step * (tag in _MAIN)
        counts["list"] += step * (tag in _LISTS)
        if tag in {"a", "pre"}:
            counts[tag] += step

    def _next_block(self, level: int) -> None:
        if self._blocks[-1].characters:
            self._blocks.append(_Block())
        self._blocks[-1] = _Block(level, self._counts["pre"] > 0)


_LONGEST_NAMES = 1_000  # characters of a class and an id that are looked at


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


def decode(data: bytes) -> str:
    """The text of a file, whatever it is: UTF-8, UTF-16 with its mark, what a page declares, else windows-1252.

    The last, which browsers take, only if the text is a Western one then: read so, Russian or Chinese would be a text
    of accents.

    Raises:
        FaultError: If it is none of these.
    """
    try:
        return data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        declared = EncodingDetector.find_declared_encoding(data[:_DECLARATION_BYTES], is_html=True)
        for name in filter(None, (declared, _WESTERN)):
            with suppress(LookupError, ValueError):  # a page may declare what is no encoding of texts
                text = data.decode(name)
                if name != _WESTERN or _is_western(text):
                    return text
        raise FaultError(f"the file is {encoding_fault(error)}; save it as UTF-8") from error


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WESTERN = "windows-1252"  # HTML standard, section 13.2.3.2: what a page is in that says nothing
_ACCENTS = 3  # one letter of so many may be none of a to z; chosen: French has one of 25, Russian or Greek only such


def _is_western(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    accented = sum(letter > "\x7f" and letter.isalpha() for letter in text)
    return accented * _ACCENTS <= letters and not _BINARY.search(text)


_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a]")

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_FIELD = re.compile(r"^([A-Za-z][\w-]{0,63}):[ \t]*(\S.*)", re.MULTILINE)
_OWN_FIELDS = frozenset(("title", "text", "id"))


def read_text(data: bytes, stem: str) -> Document:
    """Title (the file's stem) and text of a plain text file."""
    return Document(stem, decode(data))


def read_markdown(data: bytes, stem: str) -> Document:
    """Title, text and headings of a Markdown file (CommonMark and tables), and the front matter's fields as metadata.

    Without markup: a line for each list item and each row of a table, cells apart by `|`, code as it is. The title is
    the first heading of the first level, else the front matter's, else the file's stem.
    """
    import pyromark

    text = decode(data)
    front = _FRONT_MATTER.match(text)
    fields = dict(_FRONT_FIELD.findall(front[1] or "")) if front else {}
    stated = {name: value.strip().strip("\"'") for name, value in fields.items()}
    markup = pyromark.html(text[front.end() :] if front else text, options=pyromark.Options.ENABLE_TABLES)
    page = parse_page(markup)
    found = page.document(page.heading("h1") or stated.get("title", "") or stem, is_whole=True)
    metadata: dict[str, object] = {name: value for name, value in stated.items() if name not in _OWN_FIELDS}
    return Document(found.title, found.text, found.sections, metadata)
