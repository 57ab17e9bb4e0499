"""Texts of EPUB books, chapter by chapter in the order of reading. Needs nothing but what Polyhop has anyway.

ebooklib, the package that everybody names, is under the AGPL; a book is zipped XHTML with one list of what to read.
"""

import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from urllib.parse import unquote

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import Reading, TextBuilder, clean_line
from polyhop.warehouse.documents.containers import open_container, parse_xml, read_member
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.web_pages import decode, parse_page

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_TEXTS = frozenset(("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document"))


def read_epub(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a book: what its spine lists, in that order, chapters named as in its table of contents.

    Raises:
        FaultError: If it is encrypted, damaged or too large, lists nothing to read, or has no text.
    """
    with open_container(stream, reading.max_unpacked_mb, allows_doctype=True) as archive:
        book = _Book(archive)
        builder = TextBuilder()
        chapter = ""
        for name in book.spine():
            page = parse_page(decode(read_member(archive, name)))
            chapter = book.chapters.get(name, "" if not book.chapters else chapter)
            builder.place(chapter=chapter or page.heading("h1") or page.heading("title"))
            builder.include(page.document("", is_whole=True))
    if not builder.length:
        raise FaultError("it has no text: nothing but pictures, or nothing at all")
    return builder.document(
        book.stated("title"), {"author": book.stated("creator"), "language": book.stated("language")}
    )


class _Book:
    """The package file of a book.

    Attributes:
        chapters: Member to the title of the chapter that begins there.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        container = parse_xml(read_member(archive, _CONTAINER))
        root = next((found.get("full-path") for found in _named(container, "rootfile")), None)
        if not root:
            raise FaultError("it is damaged (it does not say where its list of contents is)")
        self._folder = posixpath.dirname(root)
        self._package = parse_xml(read_member(archive, root))
        self._items = {item.get("id"): item for item in _named(self._package, "item") if item.get("href")}
        self._refuse_encrypted()
        self.chapters = self._chapters()

    def stated(self, name: str) -> str:
        """The first of what the book says of itself under a name, "" if nothing."""
        return next((clean_line(found.text or "") for found in _named(self._package, name)), "")

    def spine(self) -> list[str]:
        """The members to read, in order.

        Raises:
            FaultError: If there are none.
        """
        listed = [self._items.get(found.get("idref")) for found in _named(self._package, "itemref")]
        members = [self._member(item) for item in listed if item is not None and item.get("media-type") in _TEXTS]
        if not members:
            raise FaultError("it is damaged (it has no spine: nothing says what to read in which order)")
        return list(dict.fromkeys(members))

    def _member(self, item: Any) -> str:
        return _joined(self._folder, item.get("href"))

    def _refuse_encrypted(self) -> None:
        """Fonts may be scrambled; a text that is, belongs to a shop."""
        if _ENCRYPTION not in self._archive.namelist():
            return
        found = _named(parse_xml(read_member(self._archive, _ENCRYPTION)), "CipherReference")
        hidden = {unquote(reference.get("URI") or "") for reference in found}
        if any(self._member(i) in hidden for i in self._items.values() if i.get("media-type") in _TEXTS):
            raise FaultError("it is encrypted (digital rights management)")

    def _chapters(self) -> Mapping[str, str]:
        """From the table of contents of EPUB 3, else that of EPUB 2; a damaged one counts as none."""
        for item in self._items.values():
            is_navigation = "nav" in (item.get("properties") or "").split()
            if is_navigation or item.get("media-type") == "application/x-dtbncx+xml":
                member = self._member(item)
                try:
                    entries = _links(parse_xml(read_member(self._archive, member)), is_ncx=not is_navigation)
                except FaultError:
                    continue
                found: dict[str, str] = {}
                for href, title in entries:
                    if title:
                        found.setdefault(_joined(posixpath.dirname(member), href), title)
                if found:
                    return found
        return {}


def _links(root: Any, *, is_ncx: bool) -> Iterator[tuple[str, str]]:
    """(link, title) of the entries of a table of contents."""
    if not is_ncx:
        for link in _named(root, "a"):
            yield link.get("href") or "", clean_line("".join(link.itertext()))
        return
    for point in _named(root, "navPoint"):
        label = next(_named(point, "text"), None)
        content = next(_named(point, "content"), None)
        if label is not None and content is not None:
            yield content.get("src") or "", clean_line(label.text or "")


def _named(root: Any, name: str) -> Iterator[Any]:
    """Elements of a name, in whatever namespace."""
    found: Iterator[Any] = root.iter(f"{{*}}{name}")
    return found


def _joined(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.split("#", 1)[0])))
