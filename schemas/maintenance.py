"""What maintenance is asked for, what it may remove, and what it reports.

Removes nothing (flows/maintain.py does).
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import Field

from polyhop.schemas.setting_section import Section


class MaintenanceSettings(Section):
    """The policy of `polyhop maintain`, besides keep_versions; the current version and those in use always stay."""

    max_version_days: float | None = Field(
        None,
        ge=0,
        description="Days after which a version goes although keep_versions would keep it; unset: none does.",
    )
    max_versions_mb: float | None = Field(
        None,
        ge=0,
        description="MB (10**6 bytes) that the versions of an index may take, the oldest go first; unset: no limit.",
    )
    unreferenced_vectors: bool = Field(
        default=True,
        description="Whether cached vectors go whose texts are in no published version of any index; false: they stay.",
    )
    reply_days: float | None = Field(
        None, ge=0, description="Days after which cached replies of models go, which were paid for; unset: they stay."
    )
    staging_days: float = Field(
        7,
        ge=0,
        description="Days after which the parts of an interrupted run go; until then a run continues from them.",
    )


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """What to maintain.

    Attributes:
        index: Name of the only index; None: all.
        dry_run: Change nothing, report what would go.
        queue_days: Forget jobs that ended so many days ago; None: none.
    """

    index: str | None = None
    dry_run: bool = False
    queue_days: float | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """What a part takes on the disk; a file with several names counts once."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class PartSize:
    """A part before and after."""

    part: str
    before: Size
    after: Size


@dataclass(slots=True)
class MaintenanceReport:
    """What maintenance did, or would do.

    Attributes:
        dry_run: Whether nothing was changed.
        removed_versions: Numbers of versions by index.
        removed: How many of other things, by name: "cached vectors", "cached replies", "jobs", "leftovers".
        compacted: Bytes of empty pages that were given back to the disk, by part.
        skipped: Parts that were left alone, and why, in sentences.
        parts: Sizes before and after.
    """

    dry_run: bool
    removed_versions: dict[str, list[int]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    compacted: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    parts: list[PartSize] = field(default_factory=list)

    @property
    def before(self) -> Size:
        """All parts together, before."""
        return sum((part.before for part in self.parts), Size())

    @property
    def after(self) -> Size:
        """All parts together, after."""
        return sum((part.after for part in self.parts), Size())

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop maintain` (architecture.md section 9)."""
        return {
            "dry_run": self.dry_run,
            "removed_versions": self.removed_versions,
            "removed": self.removed,
            "compacted": self.compacted,
            "skipped": self.skipped,
            "parts": [asdict(part) for part in self.parts],
            "before": asdict(self.before),
            "after": asdict(self.after),
        }
