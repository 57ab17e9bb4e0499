"""Golden triples of questions found among the triples of a graph, whatever commas and colons are in names and ids.

Reads no file and no graph: gets the triples of the subjects that the golden ones may have.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from polyhop.schemas.questions import GoldenTriple, TripleIds
from polyhop.schemas.statements import NamedTriple


def possible_subjects(golden: Iterable[GoldenTriple]) -> set[str]:
    """Ids that the subjects of golden triples may have: of a text all that stands before a colon or a comma."""
    found: set[str] = set()
    for triple in golden:
        if isinstance(triple, str):
            body = _body(triple)
            found.update(body[:place] for place, character in enumerate(body) if character in ":,")
        else:
            found.add(triple[0])
    return found


def find_golden(golden: Iterable[GoldenTriple], stated: Iterable[NamedTriple]) -> dict[GoldenTriple, TripleIds]:
    """The ids of golden triples; those that are not among the stated ones are left out.

    A text is the stated triple whose ids and predicate are in it: `id:name, predicate, id:name`, in parentheses or not;
    names may be missing or differ, and a value may be written instead of its id. Of several such triples it is the one
    whose names are the text's own, then the one whose predicate begins last, then the one with the smallest ids.

    Args:
        golden: Of any questions.
        stated: Triples of the graph, at least those of `possible_subjects`.

    Cost: O(golden * triples of its possible subjects).
    """
    by_subject = _by_subject(stated)
    found = {}
    for triple in dict.fromkeys(golden):
        ids = _of_text(triple, by_subject) if isinstance(triple, str) else _of_ids(triple, by_subject)
        if ids is not None:
            found[triple] = ids
    return found


def _by_subject(stated: Iterable[NamedTriple]) -> dict[str, list[NamedTriple]]:
    rows = sorted(stated)
    return {subject: list(some) for subject, some in groupby(rows, key=lambda row: row.subject_id)}


def _body(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def _of_ids(triple: TripleIds, by_subject: Mapping[str, Sequence[NamedTriple]]) -> TripleIds | None:
    """By id; of an object without an id by its value, if only one has it."""
    same = [row for row in by_subject.get(triple[0], ()) if row.predicate == triple[1]]
    by_value = [row.ids for row in same if row.object == triple[2]]
    if any(row.ids == triple for row in same):
        return triple
    return by_value[0] if len(by_value) == 1 else None


def _of_text(text: str, by_subject: Mapping[str, Sequence[NamedTriple]]) -> TripleIds | None:
    body = _body(text)
    fits = [
        (-fit[0], -fit[1], row.ids)
        for subject in possible_subjects([text]) & by_subject.keys()
        for row in by_subject[subject]
        if (fit := _fit(body, row)) is not None
    ]
    return min(fits)[2] if fits else None


def _fit(body: str, row: NamedTriple) -> tuple[int, int] | None:
    """How many of a triple's names a text has in their positions, and where its predicate begins; None if none fits."""
    tails = {
        f", {row.predicate}, {row.object_id}:{row.object}": 1,
        f", {row.predicate}, {row.object}": 1,
        f", {row.predicate}, {row.object_id}": 0,
    }
    place, named = next(((len(body) - len(t), n) for t, n in tails.items() if body.endswith(t)), (-1, 0))
    if place < 0:
        place = body.rfind(f", {row.predicate}, {row.object_id}:")
    head = body[:place]
    if place < len(row.subject_id) or not (head == row.subject_id or head.startswith(f"{row.subject_id}:")):
        return None
    return named + (head == f"{row.subject_id}:{row.subject}"), place
