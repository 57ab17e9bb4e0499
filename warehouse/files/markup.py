"""Title and text of a text, Markdown or HTML file.

Opens nothing and checks nothing: the rules for records are in records.py.
"""

import re

from bs4.dammit import EncodingDetector
from lxml import etree

from polyhop.warehouse.files.lines import encoding_fault
from polyhop.warehouse.files.records import FaultError

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:(.*)", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
MOST_NESTED = 6_000
"""Open tags: libxml2 looks for each end tag among them (some 2 ns each, measured), so no character costs over 2 µs."""
_PARSED_BYTES = 1 << 16
_DECLARATION_BYTES = 8192
"""Where a page may declare its encoding; browsers read 1024 (HTML standard, section 13.2.3.2)."""
_UNREAD = frozenset(("script", "style", "nav", "head", "noscript", "template", "svg"))
_HEADINGS = ("title", "h1")
_PARAGRAPHS = (
    *("address", "article", "aside", "blockquote", "body", "dl", "div", "fieldset", "figcaption", "figure", "footer"),
    *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "ol", "p", "pre", "section", "table", "ul"),
)
_LINES = ("br", "caption", "dd", "dt", "li", "option", "tr")
_CELLS = ("td", "th")
_SEPARATORS = {**dict.fromkeys(_PARAGRAPHS, "\n\n"), **dict.fromkeys(_LINES, "\n"), **dict.fromkeys(_CELLS, " ")}


def read_text(data: bytes, stem: str) -> tuple[str, str]:
    """Title (the file's stem) and text of a plain text file.

    Raises:
        FaultError: If it is not UTF-8.
    """
    return stem, _decode(data)


def read_markdown(data: bytes, stem: str) -> tuple[str, str]:
    """Title and text of a Markdown file: the text as it is, without front matter.

    The title is the first `# ` heading outside code, else the front matter's, else the file's stem.

    Raises:
        FaultError: If it is not UTF-8.
    """
    text = _decode(data)
    front = _FRONT_MATTER.match(text)
    stated = _FRONT_TITLE.search(front[1] or "") if front else None
    if front:
        text = text[front.end() :]
    front_title = stated[1].strip().strip("\"'") if stated else ""
    return _first_heading(text) or front_title or stem, text


def _first_heading(text: str) -> str:
    is_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and line.startswith("# "):
            heading = line[2:].strip()
            bare = heading.rstrip("#")
            heading = bare.rstrip() if bare.endswith((" ", "\t")) or not bare else heading
            if heading:
                return heading
    return ""


def read_html(data: bytes, stem: str) -> tuple[str, str]:
    """Title and visible text of an HTML file: an empty line between blocks, a new line for list items and rows.

    The title is that of `<title>`, else the first `<h1>`, else the file's stem.

    Raises:
        FaultError: If it is in no known encoding, holds half a surrogate pair, or is nested too deeply.
    Cost: O(characters), whatever the markup: unclosed tags, comments and attributes included.
    """
    page = _parse(_decode_html(data))
    lines = (" ".join(line.split()) for line in "".join(page.pieces).split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return page.heading("title") or page.heading("h1") or stem, text


class _VisibleText:
    """Collects what a reader sees of a page, and the first `<title>` and `<h1>`, while the parser goes through it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._depth = 0
        self._hidden_count = 0
        self._headings: dict[str, list[str]] = {}
        self._open = ""

    def start(self, tag: str, _attributes: object) -> None:
        """A tag opens.

        Raises:
            FaultError: If too many are open.
        """
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise FaultError(f"its tags are nested more than {MOST_NESTED:,} deep")
        self._hidden_count += tag in _UNREAD
        self.pieces.append(_SEPARATORS.get(tag, ""))
        if tag in _HEADINGS and tag not in self._headings:
            self._headings[tag] = []
            self._open = tag

    def end(self, tag: str) -> None:
        """A tag closes, in the file or because the parser closes what the file left open."""
        self._depth -= 1
        self._hidden_count -= tag in _UNREAD
        self.pieces.append("\n\n" if tag in _PARAGRAPHS else "")
        if tag == self._open:
            self._open = ""

    def data(self, text: str) -> None:
        """Text between tags, entities resolved."""
        if self._open == "title" or (self._open and not self._hidden_count):
            self._headings[self._open].append(text)
        if not self._hidden_count:
            self.pieces.append(text)

    def close(self) -> "_VisibleText":
        """The end of the page."""
        return self

    def heading(self, tag: str) -> str:
        """The first element of this name on one line, "" without one."""
        return " ".join("".join(self._headings.get(tag, ())).split())


def _parse(markup: str) -> _VisibleText:
    """Goes through a page with libxml2, which reads any markup in time linear in its length.

    Python's html.parser takes quadratic time for unclosed comments and attributes, parsers that repair misnested tags
    as the HTML standard asks do so for those.
    """
    page = _VisibleText()
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


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FaultError(f"the file is {encoding_fault(error)}") from error


def _decode_html(data: bytes) -> str:
    """UTF-8, or what the page itself says that it is."""
    try:
        return _decode(data)
    except FaultError:
        declared = EncodingDetector.find_declared_encoding(data[:_DECLARATION_BYTES], is_html=True)
        try:
            if declared:
                return data.decode(declared)
        except (LookupError, UnicodeDecodeError):
            pass
        raise
