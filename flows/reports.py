"""What an index run is asked to do, and what it says it did (the JSON contract of `polyhop index`).

Does nothing itself.
"""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What a run took of language models: calls, requests that a cache answered, tokens, United States dollars."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What to index.

    Attributes:
        index: Name of the index.
        source: The corpus, or None to build on the current version's.
        add_strategies: Strategies to build for besides the settings' and the index's own.
        full: Derive every stage again (caches are still used: nothing is paid or encoded twice).
        extractor: Who extracts, if the request says so; else the settings, and before their default the current
            version: an index keeps the extractor that it was built with.
    """

    index: str
    source: Path | None
    add_strategies: tuple[str, ...] = ()
    full: bool = False
    extractor: str | None = None


@dataclass(slots=True)
class IndexReport:
    """What a run did."""

    index: str
    version: int = 0
    changed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    removed_versions: list[int] = field(default_factory=list)
    model: ModelUse = field(default_factory=ModelUse)
    extraction: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop index` (architecture.md section 9)."""
        return {
            "index": self.index,
            "version": self.version,
            "changed": self.changed,
            "counts": self.counts,
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "model": asdict(self.model),
            "extraction": self.extraction,
            "computed": self.computed,
            "reused": self.reused,
            "removed_versions": self.removed_versions,
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> "IndexReport":
        """The report whose `to_json` this is."""
        names = [f.name for f in fields(IndexReport) if f.name != "model"]
        return IndexReport(**{name: document[name] for name in names}, model=ModelUse(**document["model"]))
