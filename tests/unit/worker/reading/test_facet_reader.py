"""The reader of hub facets: algorithms.md 4B, answers."""

from typing import Any

import pytest

from polyhop.schemas.evidence import Evidence
from polyhop.schemas.query import Question, Reading, ReadingItem, Retrieval
from polyhop.worker.reading.reader import FacetReader

ANSWER = {
    "texts": ["Iron", "Steel"],
    "kind": "values",
    "confidence": 0.9,
    "hub_count": 1,
    "hubs": [{"id": "b1", "name": "Old Crossing"}],
    "triples": [
        {
            "id": "r1",
            "hub": "Old Crossing",
            "subject": "Old Crossing",
            "predicate": "material",
            "object": "Iron",
            "hops": [["Old Crossing", "material", "Iron"]],
        },
        {
            "id": "r2",
            "hub": "Old Crossing",
            "subject": "Old Crossing",
            "predicate": "material",
            "object": "Steel",
            "hops": [["Old Crossing", "material", "Steel"]],
        },
    ],
}


class Passages:
    """Answers from passages."""

    batches = False

    def read(self, items: Any) -> list[Reading]:
        return [Reading("from passages") for _ in items]


def read(answer: dict[str, Any] | None) -> Reading:
    evidence = Evidence(data={} if answer is None else {"short": answer})
    (reading,) = FacetReader("short", Passages()).read([ReadingItem(Question("What?"), Retrieval((), evidence), ())])
    return reading


def test_the_answer_of_the_facets_comes_with_its_hubs_and_triples() -> None:
    reading = read(ANSWER)
    assert (reading.answer, reading.kind, reading.confidence) == ("Iron; Steel", "computed", 0.9)
    assert [(one.hub_id, one.name, one.number) for one in reading.citations] == [("b1", "Old Crossing", 1)]
    assert [(one.name, one.value) for one in reading.values] == [("Old Crossing", "Iron"), ("Old Crossing", "Steel")]
    assert reading.notes[0].text.startswith("values, from 1 hub: (Old Crossing, material, Iron); (")
    assert reading.triples is None


@pytest.mark.parametrize("answer", [None, {**ANSWER, "confidence": 0.001}])
def test_without_an_answer_of_the_facets_passages_are_read(answer: dict[str, Any] | None) -> None:
    assert read(answer).answer == "from passages"
