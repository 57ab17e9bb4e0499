"""What an index run says it did (the JSON contract of `polyhop index`)."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from polyhop.schemas.chat import cost_words
from polyhop.schemas.tables import CHANGE_KINDS
from polyhop.schemas.text import plural


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What a run took of language models: calls, requests that a cache answered, tokens, United States dollars.

    Attributes:
        cost_usd: None where the price of a model is unknown, as in `unknown_cost_usd`.
        replaced_counts: Calls whose reported token counts were impossible, so that our own were taken.
        unknown_calls: Calls of earlier runs that were killed, found by this run; whether they were billed is unknown.
        unknown_tokens: Of these, at their worst case; not among this run's tokens.
        unknown_cost_usd: Of these, at their worst case; not in this run's cost.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    replaced_counts: int = 0
    unknown_calls: int = 0
    unknown_tokens: int = 0
    unknown_cost_usd: float | None = 0.0

    def sentences(self) -> list[str]:
        """What models were asked and what that cost, and what of it is not certain; none if none was asked."""
        said = []
        if self.calls or self.cached:
            said.append(
                f"models: {plural(self.calls, 'call')}, {self.prompt_tokens:,} + {self.completion_tokens:,} tokens, "
                f"{cost_words(self.cost_usd)}; {plural(self.cached, 'reply', 'replies')} from the cache"
            )
        if self.replaced_counts:
            said.append(
                f"models: the server reported impossible token counts of {plural(self.replaced_counts, 'call')}, "
                "which are booked by our own count"
            )
        if self.unknown_calls:
            said.append(
                f"models: the outcome of {plural(self.unknown_calls, 'call')} of earlier, killed runs is unknown, "
                f"booked at the worst case: {self.unknown_tokens:,} tokens, {cost_words(self.unknown_cost_usd)}"
            )
        return said


@dataclass(slots=True)
class IndexReport:
    """What a run did.

    `changes` counts records by how they differ from the version before (0 of each kind if nothing was published);
    `ratios` are those of the version's manifest; `unread` counts files of a folder corpus, and attached to messages,
    that were not read, by kind, and `unread_files` names the first of them; `damaged` is what it found damaged, in the
    version before or in caches, and made again; `failing` counts the units of a stage that a model failed on, which the
    next run asks again; `pinned` is the version that stays current, None if none is pinned.
    """

    index: str
    version: int = 0
    changed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    removed_versions: list[int] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    model: ModelUse = field(default_factory=ModelUse)
    extraction: dict[str, int] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    unread_files: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANGE_KINDS, 0))
    pinned: int | None = None

    @property
    def pin_sentence(self) -> str:
        """Which version questions are answered from although there is a later one, "" if none is pinned."""
        if self.pinned is None:
            return ""
        beside = f"version {self.version} lies" if self.version != self.pinned else "later ones lie"
        return (
            f"version {self.pinned} is pinned and stays current, {beside} beside it; the latest becomes current with: "
            f"polyhop versions --index {self.index} --use latest"
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop index` (architecture.md section 9)."""
        return {
            "index": self.index,
            "version": self.version,
            "changed": self.changed,
            "counts": self.counts,
            "ratios": self.ratios,
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "model": asdict(self.model),
            "extraction": self.extraction,
            "failing": self.failing,
            "unread": self.unread,
            "unread_files": self.unread_files,
            "changes": self.changes,
            "computed": self.computed,
            "reused": self.reused,
            "removed_versions": self.removed_versions,
            "damaged": self.damaged,
            "pinned": self.pinned,
        }

    @property
    def ratios_in_words(self) -> str:
        """How dense the graph is; "" if the version has no mentions."""
        ratios = self.ratios
        return "; ".join(
            f"{ratios[mentions]:.2f} mentions and {ratios[f'relations_per_{unit}']:.2f} relations per {unit}"
            for unit in ("passage", "entity")
            if (mentions := f"mentions_per_{unit}") in ratios
        )

    def model_sentences(self) -> list[str]:
        """What the run took of models, and what they still fail on: of every run, whether it published or not."""
        said = self.model.sentences()
        if self.failing:
            stages = ", ".join(f"{stage} {count:,}" for stage, count in self.failing.items())
            still = "still fails" if sum(self.failing.values()) == 1 else "still fail"
            said.append(f"{plural(sum(self.failing.values()), 'unit')} {still} ({stages}); the next run asks again")
        if "extract" in self.failing:
            said.append(f"why: polyhop sql \"FROM extraction_ledger WHERE state = 'failed'\" --index {self.index}")
        return said

    @staticmethod
    def from_json(document: dict[str, Any]) -> "IndexReport":
        """The report whose `to_json` this is."""
        names = [f.name for f in fields(IndexReport) if f.name != "model"]
        return IndexReport(**{name: document[name] for name in names}, model=ModelUse(**document["model"]))
