"""What comes out of reading a corpus: passages, and the records that could not be read.

Holds no reader (warehouse/files does) and no splitting rule (tasks/corpus does).
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as a reader found it, not yet split.

    `line` counts from 1 (0 where a format has no lines); `id` is empty if the source gave none.
    """

    id: str
    title: str
    text: str
    source: str
    line: int
    metadata: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be used, and why, in words for a person."""

    source: str
    line: int
    reason: str
    excerpt: str = ""


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
