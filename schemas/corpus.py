"""What comes out of reading a corpus: passages, and the records that could not be read.

Holds no reader (warehouse/files does) and no splitting rule (tasks/passages does).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.sections import Section

SourceKind = Literal["corpus", "graph"]
"""What an index is made from: texts, or a knowledge graph."""
SOURCE_KINDS: tuple[SourceKind, ...] = ("corpus", "graph")
SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""Schemes of the addresses of graph databases."""


@dataclass(frozen=True, slots=True)
class GraphServer:
    """A graph database as source, by its address, which holds no credentials."""

    uri: str

    def __str__(self) -> str:
        return self.uri


Source = Path | GraphServer
"""A file or folder, or a graph database."""


def source_of(text: str) -> Path | GraphServer:
    """A source as options, forms and manifests name it.

    Raises:
        ConfigurationError: If the address of a database holds a user or a password.
    """
    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() not in SERVER_SCHEMES:
        return Path(text)
    if "@" in urlsplit(text).netloc:
        raise ConfigurationError(
            "The address of a graph database holds a user or a password, which lists of processes and logs would show; "
            "leave it out, and set NEO4J_USER and NEO4J_PASSWORD."
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


SHOWN_FILES = 10
"""So many files are named at once, of the others how many they are; chosen: they fit on a screen."""


class Unread(Counter[str]):
    """How many files were not read, by kind.

    Attributes:
        names: The first of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def add(self, kind: str, name: str) -> None:
        """One more file."""
        self[kind] += 1
        if len(self.names) < SHOWN_FILES:
            self.names.append(name)


def some_of(shown: Sequence[str], count: int) -> list[str]:
    """The first few of `count` things, and how many more there are."""
    few = list(shown[:SHOWN_FILES])
    return [*few, f"and {count - len(few):,} more"] if count > len(few) else few


def unread_words(unread: Mapping[str, int]) -> str:
    """Files that were not read, by kind, most first: `2 .pdf, 1 .docx`."""
    return ", ".join(_counted(kind, count) for kind, count in sorted(unread.items(), key=lambda one: (-one[1], one[0])))


def _counted(kind: str, count: int) -> str:
    words = f"{count} {kind.replace('link', 'links', 1) if count > 1 else kind}"
    return f"{words} (--follow-links reads {'them' if count > 1 else 'it'})" if kind == LINK_OUT else words
