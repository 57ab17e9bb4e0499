"""Title, text and headings of a plain text or Markdown file.

Opens nothing and checks nothing: the rules for records are in records.py, HTML is read by web_pages.py.
"""

import re

from polyhop.schemas.sections import Document
from polyhop.warehouse.files.web_pages import decode, parse_page

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FRONT_FIELD = re.compile(r"^([A-Za-z][\w-]{0,63}):[ \t]*(\S.*)", re.MULTILINE)
_OWN_FIELDS = frozenset(("title", "text", "id"))


def read_text(data: bytes, stem: str) -> Document:
    """Title (the file's stem) and text of a plain text file.

    Raises:
        FaultError: If it is in no known encoding.
    """
    return Document(stem, decode(data))


def read_markdown(data: bytes, stem: str) -> Document:
    """Title, text and headings of a Markdown file (CommonMark and tables), and the front matter's fields as metadata.

    Markup is gone: a line for each list item and each row of a table, cells apart by `|`, code as it is. The title is
    the first heading of the first level, else the front matter's, else the file's stem.

    Raises:
        FaultError: If it is in no known encoding, or is nested too deeply.
    Cost: O(characters), whatever the markup.
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
