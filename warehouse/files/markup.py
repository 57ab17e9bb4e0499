"""Title and text of a text, Markdown or HTML file.

Opens nothing and checks nothing: the rules for records are in records.py.
"""

import re
import warnings
from collections.abc import Callable, Iterator

from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from bs4.element import CData, NavigableString, PageElement, Tag
from bs4.exceptions import ParserRejectedMarkup

from warehouse.files.lines import encoding_fault
from warehouse.files.records import FaultError

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:(.*)", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_UNREAD = frozenset(("script", "style", "nav", "head", "noscript", "template", "svg"))
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
        FaultError: If it is in no known encoding, or no parser can make sense of it.
    """
    soup = _parse(_decode_html(data))
    title = _inline(soup.title) or _inline(soup.h1) or stem
    lines = (" ".join(line.split()) for line in "".join(_visible(soup)).split("\n"))
    return title, re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _visible(soup: BeautifulSoup) -> Iterator[str]:
    """The strings that a reader sees, and the separators of the tags around them."""
    around: list[PageElement] = [soup]
    hidden_count = 0
    for element in soup.descendants:
        while element.parent is not around[-1]:
            closed = around.pop()
            hidden_count -= _name(closed) in _UNREAD
            yield "\n\n" if _name(closed) in _PARAGRAPHS else ""
        if isinstance(element, Tag):
            around.append(element)
            hidden_count += element.name in _UNREAD
            yield _SEPARATORS.get(element.name, "")
        elif not hidden_count and type(element) in {NavigableString, CData}:
            yield str(element)


def _name(element: PageElement) -> str:
    return element.name if isinstance(element, Tag) else ""


def _parse(markup: str) -> BeautifulSoup:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarkupResemblesLocatorWarning)
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        try:
            return BeautifulSoup(markup, "html.parser")
        except ParserRejectedMarkup as error:
            raise FaultError("HTML that cannot be parsed") from error


def _inline(tag: object) -> str:
    return " ".join(tag.get_text().split()) if tag is not None and hasattr(tag, "get_text") else ""


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
        declared = EncodingDetector.find_declared_encoding(data, is_html=True)
        try:
            if declared:
                return data.decode(declared)
        except (LookupError, UnicodeDecodeError):
            pass
        raise


TEXT_FORMATS: dict[str, Callable[[bytes, str], tuple[str, str]]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
}
"""How to get (title, text) from a file's bytes and stem, by suffix."""
