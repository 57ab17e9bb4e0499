"""A text with its sections as a reader of a format puts it together, and the words for what went wrong.

Knows no format.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from polyhop.schemas.sections import Document, Section
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, size_words
from polyhop.warehouse.files.records import FaultError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_STOPS = frozenset(".!?:。！？؟”\"'»)")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader of a format is told besides the file.

    Attributes:
        max_unpacked_mb: Most megabytes that a zipped file, or all that is attached to a message, may unpack to.
        passage_characters: Longest passage, for readers that say themselves where one ends.
        depth: How many messages the file is attached in.
        read_attached: An attached file by its name and content: its document, or why it is of no use.
    """

    max_unpacked_mb: int = 1024
    passage_characters: int = 2000
    depth: int = 0
    read_attached: Callable[[str, bytes], Document | str] = lambda _name, _data: "attached files are not read here"


class TextBuilder:
    """Joins pieces of text, and notes where each page, slide, sheet, chapter or heading begins.

    A section begins with the next piece of text: what holds none leaves no trace.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._sections: list[Section] = []
        self._path: list[tuple[int, str]] = []
        self._place = Section(0)
        self._is_new = False

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    @property
    def goes_on(self) -> bool:
        """Whether the text so far ends in the middle of a sentence."""
        return bool(self._pieces) and self._pieces[-1].rstrip()[-1:] not in _STOPS

    def place(
        self,
        *,
        page: int | None = None,
        slide: int | None = None,
        sheet: str = "",
        chapter: str = "",
        rows: tuple[int, int] | tuple[None, None] = (None, None),
    ) -> None:
        """What follows stands there; a slide, sheet, chapter or group of rows has headings of its own."""
        before = self._place.container
        self._place = Section(0, (), page, slide, clean_line(sheet), clean_line(chapter), *rows)
        if self._place.container != before:
            self._path = []
        self._is_new = True

    def heading(self, level: int, text: str) -> None:
        """A heading, which is text, too; 1 is the outermost level."""
        line = clean_line(text)
        if line:
            self.below(level, line)
            self.add(line)

    def below(self, level: int, line: str) -> None:
        """What follows stands below a heading that is not in the text here."""
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
        if self._length:
            self._append(separator)
        if self._is_new:
            headings = tuple(line for _, line in self._path)
            self._sections.append(replace(self._place, start=self._length, headings=headings))
            self._is_new = False
        self._append(cleaned)
        if self._length > MAX_RECORD_BYTES:
            raise FaultError(f"its text is longer than {size_words(MAX_RECORD_BYTES)}; split the file")

    def include(self, part: Document) -> None:
        """Adds the text of another document with its headings, below the ones so far."""
        starts = [section.start for section in part.sections]
        for section, end in zip(part.sections, [*starts[1:], len(part.text)], strict=True):
            self._path = [(level, heading) for level, heading in enumerate(section.headings, start=1)]
            self._is_new = True
            self.add(part.text[section.start : end])
        if not part.sections:
            self.add(part.text)

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
        return Document(clean_line(title), "".join(self._pieces), tuple(sections), known, attached or {}, unread or {})

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)


def clean_text(text: str) -> str:
    """The text without control characters, composed (NFC), with line feeds as ends of lines."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n").replace("\x0c", "\n")
    return unicodedata.normalize("NFC", _CONTROL.sub("", unified.replace("\u2028", "\n").replace("\u2029", "\n")))


def clean_line(text: str) -> str:
    """The same on one line."""
    return " ".join(clean_text(text).split())


def clean_name(text: str) -> str:
    """The same without characters that show as nothing, or that turn the direction of what follows."""
    return "".join(character for character in clean_line(text) if character.isprintable())
