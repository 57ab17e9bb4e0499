"""A text with its sections as readers build it, zipped containers within limits, numbers of items and superscripts."""

import io
import posixpath
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from lxml import etree

from polyhop.schemas.records import Document, Section
from polyhop.schemas.text import INVISIBLE
from polyhop.warehouse.documents.tables import table_groups
from polyhop.warehouse.files.records import MAX_RECORD_BYTES, FaultError, damage, size_words

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_STOPS = frozenset(".!?:。！？؟”\"'»)")


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of a format's reader."""

    # Most megabytes that a zipped file, or all that is attached to a message, may unpack to.
    max_unpacked_mb: int = 1024
    passage_characters: int = 2000  # Longest passage, for readers that say themselves where one ends.
    depth: int = 0  # How many messages the file is attached in.
    # An attached file by its name and content: its document, or why it is of no use.
    read_attached: Callable[[str, bytes], Document | str] = lambda _name, _data: "attached files are not read here"


class TextBuilder:
    """Joins pieces of text, and notes where each page, slide, sheet, chapter or heading begins.

    A section begins with the next piece of text: what holds none leaves no trace.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0  # characters so far
        self._sections: list[Section] = []
        self._path: list[tuple[int, str]] = []
        self._location = Section(0)
        self._is_new = False
        self.unread: dict[str, str] = {}  # parts of the file that are not read: name to kind

    @property
    def goes_on(self) -> bool:
        """Returns whether the text so far ends in the middle of a sentence."""
        return bool(self._pieces) and self._pieces[-1].rstrip()[-1:] not in _STOPS

    def locate(
        self,
        *,
        page: int | None = None,
        slide: int | None = None,
        sheet: str = "",
        chapter: str = "",
        rows: tuple[int, int] | tuple[None, None] = (None, None),
    ) -> None:
        """Sets the location of the text that follows; a slide, sheet, chapter or group of rows has its own headings."""
        before = self._location.container
        self._location = Section(0, (), page, slide, clean_line(sheet), clean_line(chapter), *rows)
        if self._location.container != before:
            self._path = []
        self._is_new = True

    def heading(self, level: int, text: str) -> None:
        """A heading, which is text, too; 1 is the outermost level."""
        line = clean_line(text)
        if line:
            self.below(level, line)
            self.add(line)

    def below(self, level: int, line: str) -> None:
        """Puts the text that follows below a heading that is not in the text here."""
        self._path = [*(above for above in self._path if above[0] < level), (level, line)]
        self._is_new = True

    def add(self, text: str, separator: str = "\n\n") -> None:
        """Adds a paragraph, or with another separator whatever it separates.

        Raises:
            FaultError: If the text as a whole becomes too long.
        """
        cleaned = "\n".join(line.rstrip() for line in clean_text(text).split("\n")).strip("\n")
        if not cleaned.strip():
            return
        before = separator if self.length else ""
        start = self.length + len(before)
        if self._is_new:
            headings = tuple(line for _, line in self._path)
            self._sections.append(replace(self._location, start=start, headings=headings))
            self._is_new = False
        self._pieces += [before, cleaned]
        self.length = start + len(cleaned)
        if self.length > MAX_RECORD_BYTES:
            raise FaultError(f"its text is longer than {size_words(MAX_RECORD_BYTES)}; split the file")

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Adds a table between paragraphs."""
        for group, _ in table_groups(rows):
            self.add(group)

    def include(self, part: Document) -> None:
        """Adds the text of another document with its headings, below the ones so far."""
        sections = part.sections or (Section(0),)
        ends = [*(section.start for section in sections[1:]), len(part.text)]
        for section, end in zip(sections, ends, strict=True):
            self._path = [(level, heading) for level, heading in enumerate(section.headings, start=1)]
            self._is_new = True
            self.add(part.text[section.start : end])

    def skip(self, kind: str) -> None:
        """Notes a part of the file that is not read."""
        self.unread[f"{kind} {len(self.unread) + 1}"] = kind

    def document(
        self,
        title: str,
        metadata: Mapping[str, object] | None = None,
        attached: Mapping[str, Document | str] | None = None,
        unread: Mapping[str, str] | None = None,
    ) -> Document:
        """All of it; the title may be "", metadata without a value is left out."""
        sections = self._sections
        if sections and sections[0].start:
            sections = [Section(0), *sections]
        known = {name: value for name, value in (metadata or {}).items() if value not in (None, "", [])}
        if str(known.get("author")).lower().strip("()") in _GENERATORS:
            del known["author"]
        left = {**(unread or {}), **self.unread}
        return Document(clean_line(title), "".join(self._pieces), tuple(sections), known, attached or {}, left)


_GENERATORS = frozenset(("python-docx", "python-pptx", "openpyxl", "anonymous", "unknown", "microsoft office user"))
"""Authors that programs write by default."""


def clean_text(text: str) -> str:
    """The text without control and invisible characters, composed (NFC), with line feeds as ends of lines."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n").replace("\x0c", "\n")
    unified = unified.replace("\u2028", "\n").replace("\u2029", "\n").translate(INVISIBLE)
    return unicodedata.normalize("NFC", _CONTROL.sub("", unified))


def clean_line(text: str) -> str:
    """The same on one line."""
    return " ".join(clean_text(text).split())


def clean_name(text: str) -> str:
    """The same without characters that show as nothing, or that turn the direction of what follows."""
    return "".join(character for character in clean_line(text) if character.isprintable())


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How files of Microsoft's older container begin: Office before 2007, and any Office file with a password."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""A member, or of an empty file the end of its list (ZIP's APPNOTE, 4.3.6); a CSV file may begin with PK."""
_HEAD_BYTES = 1024  # in which Acrobat looks for `%PDF-` (PDF Reference 1.7, appendix H); DOCTYPEs stand there, too
_MOST_MEMBERS = 20_000  # chosen: a book of 5,000 pictures has some 6,000
_MEGABYTE = 1024 * 1024  # as `max_unpacked_mb` counts
_KINDS = (("word/", ".docx"), ("ppt/", ".pptx"), ("xl/", ".xlsx"))
_ENCRYPTED_FLAG = 1  # bit 0 of a member's flags (ZIP's APPNOTE, 4.4.4)


def kind_of_content(stream: BinaryIO) -> str:
    """Format of a file by its content, as its ending; "" if it has no known signature."""
    head = stream.read(_HEAD_BYTES)
    if b"%PDF-" in head:
        return ".pdf"
    if head.startswith(OLE):
        if _ENCRYPTED in head + stream.read():
            raise FaultError("it is encrypted with a password; save it without one")
        raise FaultError("it is in the format of Office 97 to 2003; save it in a format of today (.docx, .pptx, .xlsx)")
    if not head.startswith(_ZIP):
        return ""
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error
    if "META-INF/container.xml" in names or "mimetype" in names:
        return ".epub"
    return next((ending for folder, ending in _KINDS if any(name.startswith(folder) for name in names)), "")


def open_container(stream: BinaryIO, max_unpacked_mb: int, *, allows_doctype: bool = False) -> zipfile.ZipFile:
    """Opens a zipped document whose members are few, small and not encrypted; Office never declares a document type."""
    try:
        archive = zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error
    try:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            raise FaultError(f"it holds {len(members):,} files, more than {_MOST_MEMBERS:,}")
        size = sum(member.file_size for member in members)
        if size > max_unpacked_mb * _MEGABYTE:
            raise FaultError(f"it would unpack to {size / _MEGABYTE:,.0f} MB, more than {max_unpacked_mb:,}")
        if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
            raise FaultError("it is encrypted with a password; save it without one")
        for member in () if allows_doctype else members:
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as file:
                    head = file.read(_HEAD_BYTES)
                if b"<!DOCTYPE" in head.replace(b"\0", b""):  # UTF-16 has a zero byte next to each letter
                    name = member.filename[:100]
                    raise FaultError(f"{name} in it declares a document type, which Office files never do")
    except BaseException:
        archive.close()
        raise
    return archive


_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Namespaces and types of Strict Open XML (ISO/IEC 29500-1), whose transitional names our libraries know."""


def open_office(stream: BinaryIO, max_unpacked_mb: int) -> BinaryIO:
    """Checks an Office file; returns it, or a copy without what Office reads and libraries refuse.

    That are mentions of parts that are missing, and the names of Strict Open XML.
    """
    with open_container(stream, max_unpacked_mb) as archive:
        names = frozenset(archive.namelist())
        changed: dict[str, bytes] = {}
        for name in names:
            if name == _CONTENT_TYPES or (name.endswith(".rels") and not name.startswith("__MACOSX/")):
                root = parse_xml(archive.read(name))
                missing = [entry for entry in root if _is_missing(entry, name, names)]
                for entry in missing:
                    root.remove(entry)
                if missing:
                    changed[name] = etree.tostring(root)
        is_strict = _PACKAGE in names and _STRICT.search(archive.read(_PACKAGE)) is not None
        if not changed and not is_strict:
            stream.seek(0)
            return stream
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as written:
            for name in archive.namelist():
                data = changed.get(name) or archive.read(name)
                if is_strict and name.endswith((".xml", ".rels")):
                    data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
                written.writestr(name, data)
    copy.seek(0)
    return copy


_CONTENT_TYPES, _PACKAGE = "[Content_Types].xml", "_rels/.rels"


def _is_missing(entry: Any, file: str, names: frozenset[str]) -> bool:
    """Returns whether a relationship, or the type of a part, is that of a part that a package does not have."""
    if not isinstance(entry.tag, str) or entry.get("TargetMode") == "External":
        return False
    target = entry.get("PartName" if file == _CONTENT_TYPES else "Target")
    folder = posixpath.dirname(posixpath.dirname(file))
    return target is not None and posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/") not in names


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member."""
    try:
        return archive.read(name)
    except KeyError as error:
        raise FaultError(f"it is damaged ({name[:100]} is missing in it)") from error


def parse_xml(data: bytes) -> Any:
    """The root of an XML file; no entity is resolved, nothing else is read."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error


_RAISED_NUMBER = re.compile(r"[+\-−–]?\d+(?:[.,]\d+)?")
_RAISED_LABEL = re.compile(r"[+\-−–]?\d+(?:[.,–-] ?\d+)*|[^\W\d_]|\d+[^\W\d_]")
"""Numbers, a letter, or a number with a letter: exponents or marks of notes."""
_SUFFIXES = frozenset("deors")  # letters that end an ordinal or an abbreviation: 2e, no, Mr
_SIGNS = frozenset("+-−–*/^=·×")
_WORD = re.compile(r"[^\W\d_]{3}")
_BASE = re.compile(r"(?:(?<![^\W_])(?:[^\W\d_]{1,2}|\d{1,3})|\))\Z")
"""A number of up to three digits, a unit or variable of up to two letters, or a bracket: what has an exponent."""
_ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x", 9: "ix", 5: "v"}
_ROMAN |= {4: "iv", 1: "i"}
_MOST_ROMAN = 4000  # Roman numerals have no letter for 5,000


def raised(before: str, text: str, *, is_mark: bool = False) -> str:
    """A superscript after a text: `^6` or `^(a+b)` as an exponent, ` [12]` as a footnote's mark, else as it is (`1st`).

    Args:
        before: The end of the text before it.
        text: The superscript.
        is_mark: Whether it is known for a mark, such as a link to a footnote.
    """
    label = text.strip("[]()* ")
    is_exponent = not is_mark and not text.startswith(("[", "*"))
    if not _RAISED_LABEL.fullmatch(label) or (is_exponent and label in _SUFFIXES):
        is_term = is_exponent and not _SIGNS.isdisjoint(label) and any(map(str.isalnum, label))
        return f"^({label})" if is_term and not _WORD.search(label) else text
    if is_exponent and label == text and _BASE.search(before):
        return f"^{label}" if len(label) == 1 or _RAISED_NUMBER.fullmatch(label) else f"^({label})"
    return f"{' ' if before[-1:].strip() else ''}[{label}]"


def list_number(number: int, kind: str) -> str:
    """The number of a list item: `kind` is as HTML calls it, 1, a, A, i or I."""
    if kind in {"a", "A"} and number > 0:
        letter = chr(ord(kind) + (number - 1) % 26)
        return letter * (1 + (number - 1) // 26)
    if kind in {"i", "I"} and 0 < number < _MOST_ROMAN:
        written = ""
        for value, letters in _ROMAN.items():
            written += letters * (number // value)
            number %= value
        return written if kind == "i" else written.upper()
    return str(number)
