"""What a document file becomes: its text, its title, and sections that say where each part of the text stands in it.

Reads no file (warehouse/documents does) and cuts nothing (tasks/passages does).
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text, up to the next section's start.

    Attributes:
        start: Its first character in the text.
        headings: The headings above it, outermost first; its own is the last.
        page: Page from 1, as a viewer counts them; None where there are no pages.
        slide: Slide from 1; None where there are none.
        sheet: Name of its sheet, "" where there are none.
        chapter: Title of its chapter, "" where there are none.
        first_row: First row of a sheet or table, from 1; None where there are none.
        last_row: Its last row.
    """

    start: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    slide: int | None = None
    sheet: str = ""
    chapter: str = ""
    first_row: int | None = None
    last_row: int | None = None

    @property
    def container(self) -> tuple[int | None, str, str, int | None]:
        """What a passage never crosses: slide, sheet, chapter and rows. Sentences run on over the end of a page."""
        return self.slide, self.sheet, self.chapter, self.first_row


@dataclass(frozen=True, slots=True)
class Location:
    """Where a passage stands in its file: as in `Section`, with the pages that it begins and ends on."""

    first_page: int | None = None
    last_page: int | None = None
    slide: int | None = None
    sheet: str | None = None
    chapter: str | None = None
    headings: tuple[str, ...] = ()
    first_row: int | None = None
    last_row: int | None = None

    def words(self) -> str:
        """For a person: `pages 3-4, Methods > Sampling`, `sheet Costs, rows 2-40`; "" if nothing is known."""
        parts = (
            _range("page", self.first_page, self.last_page),
            f"slide {self.slide}" if self.slide is not None else "",
            f"sheet {self.sheet}" if self.sheet else "",
            _range("row", self.first_row, self.last_row),
            self.chapter or "",
            " > ".join(self.headings),
        )
        return ", ".join(dict.fromkeys(part for part in parts if part))

    def document(self) -> dict[str, Any]:
        """What is known, as JSON has it."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", ())}


def _range(what: str, first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f"{what} {first}" if first == last else f"{what}s {first}-{last}"


@dataclass(frozen=True, slots=True)
class Document:
    """Title and text of a file, the sections of the text in order, and what else the file says of itself.

    Attributes:
        attached: Files attached to it, by name: each a document of its own, or why it is of no use.
        unread: Attached files that are not read: name to kind.
    """

    title: str
    text: str
    sections: tuple[Section, ...] = ()
    metadata: dict[str, object] = field(default_factory=dict)
    attached: "Mapping[str, Document | str]" = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def location_of(sections: Sequence[Section], text: str, start: int, end: int) -> Location | None:
    """Where the characters from `start` up to `end` of a text stand; None if its sections say nothing of it.

    The headings are those that all parts of it share that are more than a heading.

    Args:
        sections: In order of their starts.
        text: The whole text.
        start: First character.
        end: After the last one.
    """
    first = max(0, bisect_right(sections, start, key=lambda section: section.start) - 1)
    last = bisect_right(sections, end - 1, key=lambda section: section.start)
    inside = [number for number in range(first, last) if sections[number].start < end]
    if not inside:
        return None
    bodies = [number for number in inside if not is_heading_only(sections, text, number)] or inside
    of_container = sections[bodies[0]]
    first_page, last_page = _pages(sections[number] for number in inside)
    found = Location(
        first_page=first_page,
        last_page=last_page,
        slide=of_container.slide,
        sheet=of_container.sheet or None,
        chapter=of_container.chapter or None,
        headings=_shared([sections[number].headings for number in bodies]),
        first_row=of_container.first_row,
        last_row=of_container.last_row,
    )
    return None if found == Location() else found


def _pages(sections: Iterable[Section]) -> tuple[int | None, int | None]:
    """The first and the last page of some sections; None where no section has one."""
    pages = [section.page for section in sections if section.page is not None]
    return (pages[0], pages[-1]) if pages else (None, None)


def is_heading_only(sections: Sequence[Section], text: str, number: int) -> bool:
    """Whether a section holds nothing but its own heading."""
    section = sections[number]
    if not section.headings:
        return False
    heading = section.headings[-1]
    end = sections[number + 1].start if number + 1 < len(sections) else len(text)
    # without this a section of a megabyte would be copied for each of its passages
    return end - section.start <= len(heading) + 4 and text[section.start : end].strip() in {heading, ""}


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The beginning that all paths have in common."""
    shortest, longest = min(paths), max(paths)
    count = 0
    while count < min(len(shortest), len(longest)) and shortest[count] == longest[count]:
        count += 1
    return shortest[:count]


def sections_json(sections: Iterable[Section]) -> str:
    """Sections as JSON, without what is empty; "" if there are none."""
    found = [{name: value for name, value in asdict(one).items() if value not in (None, "", ())} for one in sections]
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if found else ""


def sections_of(stored: str) -> tuple[Section, ...]:
    """The sections of `sections_json`.

    Raises:
        ValueError: If it is not such JSON.
    """
    return tuple(_section(one) for one in json.loads(stored)) if stored else ()


def _section(stored: Mapping[str, Any]) -> Section:
    try:
        return Section(**{**stored, "headings": tuple(stored.get("headings", ())), "start": stored.get("start", 0)})
    except TypeError as error:
        raise ValueError(f"not a section: {stored}") from error


def document_json(document: Document) -> dict[str, Any]:
    """A document as JSON has it; the other way is `document_of`."""
    return {
        "title": document.title,
        "text": document.text,
        "sections": sections_json(document.sections),
        "metadata": document.metadata,
        "attached": {n: one if isinstance(one, str) else document_json(one) for n, one in document.attached.items()},
        "unread": dict(document.unread),
    }


def document_of(stored: Mapping[str, Any]) -> Document:
    """The document of `document_json`.

    Raises:
        ValueError: If it is not one.
    """
    title, text, metadata = stored.get("title"), stored.get("text"), stored.get("metadata")
    if not (isinstance(title, str) and isinstance(text, str) and isinstance(metadata, dict)):
        raise ValueError("not a document")
    attached = {
        name: one if isinstance(one, str) else document_of(one) for name, one in stored.get("attached", {}).items()
    }
    return Document(
        title, text, sections_of(str(stored.get("sections", ""))), metadata, attached, stored.get("unread", {})
    )
