"""What a question file says is right, in the ids of an open version; golden triples are looked for in its graph.

Measures nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.ports import IndexReader
from polyhop.schemas.questions import QuestionRecord
from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.evaluation.golden_triples import find_golden, possible_subjects
from polyhop.tasks.evaluation.report import GoldQuestion, Outcome
from polyhop.warehouse.triples import TRIPLES_OF_SUBJECTS


@dataclass(frozen=True, slots=True)
class Gold:
    """The questions' gold.

    Attributes:
        questions: In the file's order.
        unknown_supporting: Supporting ids that the index holds neither as a record nor as a piece of one, each once.
        triple_count: Golden triples of all questions; one of two questions counts twice.
        unknown_triples: Those of them that are not in the graph.
    """

    questions: list[GoldQuestion]
    unknown_supporting: list[str]
    triple_count: int
    unknown_triples: int


def gold_of(records: Sequence[QuestionRecord], published: IndexReader) -> Gold:
    """The gold of questions; golden triples that are not in the graph stay as they are and will never be found."""
    golden = [triple for record in records for triple in record.golden_triples]
    rows = published.artefact(TRIPLES_OF_SUBJECTS)(possible_subjects(golden)) if golden else []
    ids = find_golden(golden, [NamedTriple(*row) for row in rows])
    questions = [
        GoldQuestion(
            record.id,
            record.answers,
            frozenset(record.supporting),
            record.hops,
            record.type,
            frozenset(ids.get(triple, triple) for triple in record.golden_triples),
            record.metadata,
        )
        for record in records
    ]
    unknown = sum(triple not in ids for triple in golden)
    return Gold(questions, _unknown_supporting(records, published), len(golden), unknown)


def _unknown_supporting(records: Iterable[QuestionRecord], published: IndexReader) -> list[str]:
    known = set(published.passage_ids)
    known.update(map(published.record_of, published.passage_ids))
    return list(dict.fromkeys(one for record in records for one in record.supporting if one not in known))


def golden_triples_row(gold: Gold, outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """{golden_triples{questions, triples, unknown, not_ranked_by[]}} for the report; empty without golden triples."""
    if not gold.triple_count:
        return {}
    unranked = [name for name, given in outcomes.items() if all(outcome.triples is None for outcome in given)]
    return {
        "golden_triples": {
            "questions": sum(bool(question.triples) for question in gold.questions),
            "triples": gold.triple_count,
            "unknown": gold.unknown_triples,
            "not_ranked_by": unranked,
        }
    }


def golden_sentences(report: Mapping[str, Any]) -> list[str]:
    """What was not judged by golden triples: those that the graph does not have, strategies that rank none."""
    golden = report.get("golden_triples") or {"unknown": 0, "not_ranked_by": []}
    sentences = []
    if golden["unknown"]:
        be, count = ("is", "counts") if golden["unknown"] == 1 else ("are", "count")
        which = f"{golden['unknown']} of {golden['triples']} golden triples {be}"
        sentences.append(f"{which} not in the graph of '{report['index']}' and {count} as missed.")
    if golden["not_ranked_by"]:
        sentences.append(f"Not judged by golden triples, because they rank none: {', '.join(golden['not_ranked_by'])}.")
    return sentences
