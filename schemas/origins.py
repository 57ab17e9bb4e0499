"""Where a passage comes from: its record, file, offsets and metadata.

Opens nothing; what answers show beside every passage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PassageOrigin:
    """The origin of a passage.

    Attributes:
        record_id: Record that it is, or is a piece of.
        document_id: Its document.
        source: File that the record came from.
        start: First character in the record's text.
        end: Offset after its last character there.
        metadata: The record's.
    """

    record_id: str
    document_id: str
    source: str
    start: int
    end: int
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """As the JSON contract has it, beside a passage's id and title."""
        return {
            "document": self.document_id,
            "source": self.source,
            "start": self.start,
            "end": self.end,
            "metadata": dict(self.metadata),
        }
