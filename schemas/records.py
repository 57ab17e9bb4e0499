"""Results of reading a corpus, a question file or a file of edits: records, questions, edits of entities."""

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from polyhop.schemas.errors import ConfigurationError

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
"""A text that is a number; those with leading zeros are codes, and a lone sign or point is neither."""

_DATE = re.compile(
    r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(\.\d{1,6})?(Z|[+-]\d{2}:?\d{2})?)?)?)?", re.ASCII
)
_LAST = datetime.max


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A value as it was written, and as a number or a time, if it is one; `kind` is number, flag or text."""

    kind: str
    value: str
    number: float | None = None
    moment: datetime | None = None


def values_of(metadata: Mapping[str, object]) -> Iterator[tuple[str, MetadataValue]]:
    """Field and value of everything in a record's metadata; null, and what is empty, has none.

    The fields of an object follow its name after a dot; a list has several values under one name.
    """
    for name, value in metadata.items():
        yield from _values(str(name), value)


def _values(name: str, value: object) -> Iterator[tuple[str, MetadataValue]]:
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from _values(f"{name}.{inner}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _values(name, part)
    elif isinstance(value, bool):
        yield name, MetadataValue("flag", "true" if value else "false")
    elif isinstance(value, (int, float)):
        yield name, MetadataValue("number", str(value), _finite(str(value)))
    elif isinstance(value, str):
        yield name, MetadataValue("text", value, number_in(value), moment_in(value))


def number_in(text: str) -> float | None:
    """The number that a text is, if it is one."""
    return _finite(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else None


def moment_in(text: str) -> datetime | None:
    """The first moment of a date with month, or of a date and time; None of anything else, a lone year included."""
    interval = interval_of(text)
    return None if interval is None or text.isdigit() else interval[0]


def interval_of(text: str) -> tuple[datetime, datetime] | None:
    """The moment at which a year, month, day, minute or second begins, and that at which the next one does, in UTC.

    None if the text is no date.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, minute, second, fraction, zone = match.groups()
    whole = f"{year}-{month or '01'}-{day or '01'}T{minute or '00:00'}{second or ':00'}{fraction or ''}{zone or ''}"
    try:
        begin = datetime.fromisoformat(whole)
        begin = begin.astimezone(UTC).replace(tzinfo=None) if zone else begin
    except (ValueError, OverflowError):
        return None
    sizes = ((minute, timedelta(days=1)), (second, timedelta(minutes=1)), (fraction, timedelta(seconds=1)))
    try:
        if month is None:
            return begin, begin.replace(year=begin.year + 1)
        if day is None:
            return begin, (begin + timedelta(days=31)).replace(day=1)
        return begin, begin + next((size for part, size in sizes if part is None), timedelta(microseconds=1))
    except (ValueError, OverflowError):
        return begin, _LAST


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text, up to the next section's start."""

    start: int  # Its first character in the text.
    headings: tuple[str, ...] = ()  # The headings above it, outermost first; its own is the last.
    page: int | None = None  # Page from 1, as a viewer counts them; None where there are no pages.
    slide: int | None = None  # Slide from 1; None where there are none.
    sheet: str = ""  # Name of its sheet, "" where there are none.
    chapter: str = ""  # Title of its chapter, "" where there are none.
    first_row: int | None = None  # First row of a sheet or table, from 1; None where there are none.
    last_row: int | None = None

    @property
    def container(self) -> tuple[int | None, str, str, int | None]:
        """Unit that a passage never crosses: slide, sheet, chapter and rows; sentences continue across pages."""
        return self.slide, self.sheet, self.chapter, self.first_row


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a passage in its file: as in `Section`, with its first and last page."""

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
        """Known fields as a JSON object."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", ())}


def _range(what: str, first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f"{what} {first}" if first == last else f"{what}s {first}-{last}"


@dataclass(frozen=True, slots=True)
class Document:
    """Title and text of a file, the sections of the text in order, and what else the file says of itself."""

    title: str
    text: str
    sections: tuple[Section, ...] = ()
    metadata: dict[str, object] = field(default_factory=dict)
    # Files attached to it, by name: each a document, or the reason why it cannot be used.
    attached: "Mapping[str, Document | str]" = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)  # Attached files that are not read: name to kind.


def location_of(sections: Sequence[Section], text: str, start: int, end: int) -> Location | None:
    """Location of the characters from `start` up to `end` of a text; None if its sections state none.

    The headings are those that all parts of it share that are more than a heading.
    """
    first = max(0, bisect_right(sections, start, key=lambda section: section.start) - 1)
    last = bisect_right(sections, end - 1, key=lambda section: section.start)
    inside = [number for number in range(first, last) if sections[number].start < end]
    if not inside:
        return None
    bodies = [number for number in inside if not is_heading_only(sections, text, number)] or inside
    of_container = sections[bodies[0]]
    pages = [page for number in inside if (page := sections[number].page) is not None]
    paths = [sections[number].headings for number in bodies]
    found = Location(
        first_page=pages[0] if pages else None,
        last_page=pages[-1] if pages else None,
        slide=of_container.slide,
        sheet=of_container.sheet or None,
        chapter=of_container.chapter or None,
        headings=tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))),
        first_row=of_container.first_row,
        last_row=of_container.last_row,
    )
    return None if found == Location() else found


def is_heading_only(sections: Sequence[Section], text: str, number: int) -> bool:
    """Returns whether a section holds nothing but its own heading."""
    section = sections[number]
    if not section.headings:
        return False
    heading = section.headings[-1]
    end = sections[number + 1].start if number + 1 < len(sections) else len(text)
    # without this a section of a megabyte would be copied for each of its passages
    return end - section.start <= len(heading) + 4 and text[section.start : end].strip() in {heading, ""}


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


@dataclass(frozen=True, slots=True)
class PassageOrigin:
    """The origin of a passage."""

    record_id: str
    document_id: str
    source: str  # File that the record came from.
    start: int  # First character in the record's text.
    end: int  # Offset after its last character there.
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """As the JSON contract has it, next to a passage's id and title."""
        return {
            "document": self.document_id,
            "source": self.source,
            "start": self.start,
            "end": self.end,
            "metadata": dict(self.metadata),
        }


SourceKind = Literal["corpus", "graph"]  # What an index is made from: texts, or a knowledge graph.
SOURCE_KINDS: tuple[SourceKind, ...] = ("corpus", "graph")
SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""Schemes of the addresses of graph databases."""
SPARQL_SCHEMES = ("http", "https")
"""Schemes of the addresses of SPARQL endpoints."""


@dataclass(frozen=True, slots=True)
class GraphServer:
    """A graph database as source, by its address, which holds no credentials."""

    uri: str

    def __str__(self) -> str:
        return self.uri

    @property
    def is_sparql(self) -> bool:
        """Returns whether it is a SPARQL endpoint; others are Neo4j's."""
        return self.uri.partition("://")[0].lower() in SPARQL_SCHEMES


BY_OPTION = "--uri"
"""How commands name a graph database that they write to; these have options for user and password, too."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address and user of a graph database."""

    uri: str
    user: str
    password: str
    database: str = "neo4j"
    named_by: str = BY_OPTION

    @property
    def credentials(self) -> str:
        """Settings to check if the server refuses the user."""
        return "the user and NEO4J_PASSWORD" if self.named_by == BY_OPTION else "NEO4J_USER and NEO4J_PASSWORD"


Source = Path | GraphServer  # A file or folder, or a graph database.


def source_of(text: str) -> Path | GraphServer:
    """A source as options, forms and manifests name it."""
    scheme, separator, _ = text.partition("://")
    # an address that ends in the name of a file is that of a file, which is not downloaded
    is_sparql = scheme.lower() in SPARQL_SCHEMES and "." not in urlsplit(text).path.rpartition("/")[2]
    if not separator or not (is_sparql or scheme.lower() in SERVER_SCHEMES):
        return Path(text)
    if "@" in urlsplit(text).netloc or (is_sparql and "?" in text):
        variables = "SPARQL_USER and SPARQL_PASSWORD" if is_sparql else "NEO4J_USER and NEO4J_PASSWORD"
        what = "a user, a password or a query" if is_sparql else "a user or a password"
        raise ConfigurationError(
            f"The address of a graph database holds {what}, which lists of processes and logs would show; leave it "
            f"out, and set {variables}."
        )
    return GraphServer(text)


LINK_OUT = "link out of the folder"
"""A kind of file that a folder corpus does not read: a symbolic link to somewhere else."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as a reader found it, not yet split.

    `line` counts from 1 (0 where a format has no lines); `id` is empty if the source gave none; `sections` say where in
    its file each part of the text stands, empty where the format knows no pages, headings or the like.
    """

    id: str
    title: str
    text: str
    source: str
    line: int
    metadata: dict[str, object] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be used, and why, in words for a person."""

    source: str
    line: int
    reason: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A row that deletes the record of that id, whatever earlier rows of its source say: `{"id": …, "deleted": true}`.

    `line` counts from 1 (0 where a format has no lines).
    """

    id: str
    source: str
    line: int


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit that is ranked and cited.

    `start` and `end` are character offsets into the record's text; `record_id` is the id that the source used, and
    equals `passage_id` unless a long record was split.
    """

    passage_id: str
    record_id: str
    document_id: str
    ordinal: int
    title: str
    text: str
    start: int
    end: int


SHOWN_FILES = 10  # So many files are named at once, of the others how many they are; chosen: they fit on a screen.


class Unread(Counter[str]):
    """Number of files, and parts of files, that were not read, by kind.

    Attributes:
        names: The first of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def add(self, kind: str, name: str) -> None:
        """One more file or part."""
        self[kind] += 1
        if len(self.names) < SHOWN_FILES:
            self.names.append(name)


def some_of(shown: Sequence[str], count: int) -> list[str]:
    """The first few of `count` things, and how many more there are."""
    few = list(shown[:SHOWN_FILES])
    return [*few, f"and {count - len(few):,} more"] if count > len(few) else few


_KINDS_OF_FILES = (".", "attached ", "no suffix", "special file", "broken link", LINK_OUT)


def unread_counts(unread: Mapping[str, int]) -> tuple[int, int]:
    """Number of files that were not read, and of parts of files that were."""
    files = sum(count for kind, count in unread.items() if kind.startswith(_KINDS_OF_FILES))
    return files, sum(unread.values()) - files


def unread_words(unread: Mapping[str, int]) -> str:
    """Files and parts that were not read, by kind, most first: `2 .pdf, 1 .docx`."""
    counted = []
    for kind, count in sorted(unread.items(), key=lambda one: (-one[1], one[0])):
        words = f"{count} {kind.replace('link', 'links', 1) if count > 1 else kind}"
        how = f" (--set corpus.follow_links=true reads {'them' if count > 1 else 'it'})" if kind == LINK_OUT else ""
        counted.append(words + how)
    return ", ".join(counted)


TripleIds = tuple[str, str, str]  # Id of the subject, the predicate, id of the object: the graph's own ids.

GoldenTriple = str | TripleIds
"""A triple that answers a question, by its ids or as a text such as `(R1:Ada Lovelace, born in, R2:London)`."""


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """A question as a file states it.

    `answers`, `supporting` (ids of the records that hold the answer) and `golden_triples` are empty where the file
    names none; `hops` is the number of records to combine, `type` and `topic` are the file's own words.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    supporting: tuple[str, ...] = ()
    hops: int | None = None
    type: str | None = None
    topic: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    golden_triples: tuple[GoldenTriple, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer that somebody predicted ("": none), beside the gold answers (none: it is not judged)."""

    id: str
    prediction: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamePair:
    """Two names that a person says are one entity, or are not."""

    a: str
    b: str
    type: str = ""  # Type that both must have for the pair to count, "" for any.
    location: str = ""  # File and line, for messages.
    are_same: bool = True


Kind = Literal["rename", "merge", "split", "retype", "delete"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NO_TYPE = "NONE"  # What a person writes for an entity that has no type.


@dataclass(frozen=True, slots=True)
class EntityEdit:
    """One decision of a person."""

    kind: Kind  # What is done.
    key: str  # Key of the name that it is done to.
    # Key of the other name for merge and split, the new name for rename, the type for retype, "" for delete.
    other: str = ""
    location: str = field(default="", compare=False)  # File and line, for messages and reasons.


def with_edit(edits: Iterable[EntityEdit], added: EntityEdit) -> list[EntityEdit]:
    """The edits with one more, without those that it replaces.

    A new name or type replaces the one before; merge and split of the same two names replace each other.
    """
    return [edit for edit in edits if _subject(edit) != _subject(added)] + [added]


def _subject(edit: EntityEdit) -> tuple[str, ...]:
    if edit.kind in ("merge", "split"):
        return ("pair", *sorted((edit.key, edit.other)))
    return (edit.kind, edit.key)
