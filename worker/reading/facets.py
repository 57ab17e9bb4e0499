"""The reader of hub facets: the short answer that the conditions lead to, with the hubs it rests on; else a fallback.

Decides nothing about the answer (worker/ranking/facets/answers.py does). Source: algorithms.md 4B, answers.
"""

from collections.abc import Sequence
from typing import Any

from polyhop.schemas.evidence import Note
from polyhop.schemas.ports import Reader
from polyhop.schemas.query import Citation, ComparedValue, Reading, ReadingItem
from polyhop.worker.reading.reader import MIN_CONFIDENCE, RuleReader


class FacetReader:
    """Reads what `hub-facets` retrieved, without a model.

    Args:
        key: Of the short answer among an evidence's data.
        fallback: Reads the passages of questions to which facets give no answer.
    """

    batches = False

    def __init__(self, key: str, fallback: Reader) -> None:
        self._key = key
        self._fallback = fallback
        self._min_confidence = fallback.min_confidence if isinstance(fallback, RuleReader) else MIN_CONFIDENCE

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; its `values` and `citations` name hubs."""
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> Reading:
        found: dict[str, Any] | None = item.retrieval.evidence.data.get(self._key)
        if found is None or found["confidence"] < self._min_confidence:
            (reading,) = self._fallback.read([item])
            return reading
        # all hops of every path, each triple once; answers of earlier releases have the last ones alone
        ways = [one.get("hops") or [[one["subject"], one["predicate"], one["object"]]] for one in found["triples"]]
        stated = dict.fromkeys(f"({', '.join(hop)})" for way in ways for hop in way)
        count = found["hub_count"]
        text = f"{found['kind']}, from {count} {'hub' if count == 1 else 'hubs'}: {'; '.join(stated)}"
        return Reading(
            "; ".join(found["texts"]),  # names have commas
            score=found["confidence"],
            kind="computed",
            citations=tuple(
                Citation("", hub_id=hub["id"], name=hub["name"], number=number)
                for number, hub in enumerate(found["hubs"], start=1)
            ),
            confidence=found["confidence"],
            rule=f"facets: {found['kind']}",
            values=tuple(dict.fromkeys(ComparedValue(one["hub"], one["object"]) for one in found["triples"])),
            notes=(Note("Answer", text),),
        )
