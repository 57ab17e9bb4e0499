"""What is known of a question while its hubs are read, and the Reading that comes of it.

Asks nobody (hubs.py does). Calls, tokens and seconds of every level and hub are in the Reading's data.
Source: algorithms.md 4.1, 4.10.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ModelUnavailableError
from polyhop.schemas.evidence import Note
from polyhop.schemas.query import Citation, ModelUse, RankedTriple, Reading, ReadingItem, Sentence, summed_use
from polyhop.worker.reading.hub_steps import HubInput, HubMetadata, merged


@dataclass(frozen=True, slots=True)
class Partial:
    """What one hub contributes.

    Attributes:
        hub: As it was read.
        text: The partial answer.
        used: The paths it rests on, rows of the hub; by rules all kept ones.
        by_model: Whether a model gave it.
        metadata: Fields that it rests on, too.
    """

    hub: HubInput
    text: str
    used: Sequence[Mapping[str, Any]]
    by_model: bool
    metadata: Sequence[HubMetadata] = ()


@dataclass(frozen=True, slots=True)
class Final:
    """The answer from the partial answers of a level.

    Attributes:
        answer: "" if rules found no short answer in them.
        kind: As of a Reading.
        cited: Numbers of the partial answers used, from 1.
        dropped: Numbers cited that no partial answer has.
        sentences: Of passages, that the answer was read from.
        confidence: As of a Reading.
    """

    answer: str
    kind: str
    cited: Sequence[int]
    dropped: int = 0
    sentences: Sequence[Sentence] = ()
    confidence: float = 0.0


@dataclass(slots=True)
class QuestionState:
    """A question between its levels.

    Attributes:
        item: The question with its retrieval.
        inputs: Hubs of the level that is read.
        partials: Their partial answers, by rank of the hub.
        final: The answer, None as long as no level gave one.
        triples: Those that the answer rests on.
        outage: Why the model could not be asked.
        uses: Questions to the model, in the order asked.
    """

    item: ReadingItem
    inputs: list[HubInput] = field(default_factory=list)
    partials: list[Partial] = field(default_factory=list)
    final: Final | None = None
    triples: list[RankedTriple] = field(default_factory=list)
    outage: ModelUnavailableError | None = None
    uses: list[ModelUse] = field(default_factory=list)
    _place: int = 0
    _hubs: list[dict[str, Any]] = field(default_factory=list)
    _levels: list[dict[str, Any]] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)

    @property
    def has_level(self) -> bool:
        """Whether there is a level left to read."""
        return self._place < len(self._rows)

    @property
    def hubs(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the hubs of the level to read."""
        found: Sequence[Mapping[str, Any]] = self._rows[self._place]["hubs"]
        return found

    @property
    def goes_on(self) -> bool:
        """Whether the level can be finished: no outage has ended it."""
        return self.outage is None

    @property
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = self.item.retrieval.evidence.data.get("levels", ())
        return rows

    def begin(self, inputs: list[HubInput]) -> None:
        """Begins the level."""
        self.inputs, self.partials = inputs, []
        row = self._rows[self._place]
        self._levels.append({"level": row["level"], "asked": len(inputs), "sufficient": 0, "uses": []})

    def add(self, partial: Partial | None, use: ModelUse | None = None) -> None:
        """What the next hub of the level contributes, None if nothing, and what a model took for it."""
        if use is not None:
            self.count(use)
        if partial is None:
            return
        self.partials.append(partial)
        level, row = self._levels[-1], partial.hub.row
        level["sufficient"] += 1
        number = len(self.partials)
        self._hubs.append(
            {
                "level": level["level"],
                "number": number,
                "hub_id": row["hub_id"],
                "text": partial.text,
                "used_paths": [path["hash"] for path in partial.used],
                "used_metadata": [dataclasses.asdict(one) for one in partial.metadata],
                "by": "model" if partial.by_model else "rules",
                **_taken([use] if use else []),
            }
        )
        self._notes.append(Note(f"Partial answer {number}", f"{row['name'] or row['hub_id']}: {partial.text}"))
        if partial.metadata:
            self._notes.append(Note(f"Metadata used for {number}", "; ".join(map(str, partial.metadata))))

    def count(self, use: ModelUse) -> None:
        """Counts a question to the model for this level."""
        self.uses.append(use)
        self._levels[-1]["uses"].append(use)

    def next_level(self) -> bool:
        """Goes on to the next level if this one gave no answer; whether there is one to read."""
        self._place += 1
        return self.final is None and self.outage is None and self.has_level

    def keep(self, numbers: Sequence[int]) -> None:
        """Keeps the triples with these numbers, from 1, with new ranks."""
        kept = [self.triples[number - 1] for number in numbers]
        self.triples = [dataclasses.replace(triple, rank=rank) for rank, triple in enumerate(kept, start=1)]

    def reading(self, most_calls: int, *, with_triples: bool) -> Reading:
        """The Reading.

        Args:
            most_calls: What a question may take of the model.
            with_triples: Whether it says which triples the answer rests on.
        """
        use, final = summed_use(self.uses), self.final
        if self.outage is not None:
            return Reading("", use=use, outage=self.outage)
        notes, data = (*self._notes, *self._level_notes()), {"hub_answers": self._data()} if self._levels else {}
        if self.uses:
            notes = (*notes, Note("Model", f"{len(self.uses)} requests; at most {most_calls} for a question"))
        if final is None:
            return Reading("", use=use, notes=notes, data=data)
        return Reading(
            final.answer,
            score=final.confidence,
            sentences=final.sentences,
            kind=final.kind,
            reasoning=merged([partial.text for partial in self.partials]),
            citations=tuple(self._citation(number) for number in final.cited),
            dropped_citations=final.dropped,
            use=use,
            confidence=final.confidence,
            notes=notes,
            data=data,
            triples=tuple(self.triples) if with_triples else None,
        )

    def _citation(self, number: int) -> Citation:
        row = self.partials[number - 1].hub.row
        return Citation("", hub_id=row["hub_id"], name=row["name"] or row["hub_id"], number=number)

    def _level_notes(self) -> list[Note]:
        """What each level took."""
        notes = []
        for level in self._levels:
            taken = _taken(level["uses"])
            said = f"{level['sufficient']} of {level['asked']} hubs contribute"
            if taken["calls"]:
                tokens = f"{taken['prompt_tokens']:,} + {taken['completion_tokens']:,} tokens"
                said += f"; {taken['calls']} calls, {taken['cached']} cached, {tokens}, {taken['seconds']} s"
            notes.append(Note(f"Level {level['level']} read", said))
        return notes

    def _data(self) -> dict[str, Any]:
        levels = [
            {**{name: value for name, value in level.items() if name != "uses"}, **_taken(level["uses"])}
            for level in self._levels
        ]
        return {"levels_used": len(self._levels), "levels": levels, "partial_answers": self._hubs}


def _taken(uses: Sequence[ModelUse]) -> dict[str, Any]:
    """What some questions to the model took when they were answered, and how many replies were cached."""
    usage = sum((use.usage for use in uses), Usage())
    return {
        "calls": usage.calls,
        "cached": sum(use.is_cached for use in uses),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 3),
    }
