"""A strategy for tests that ranks triples: by words that a triple's names share with the question."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest

from polyhop.schemas.ports import Artefact, IndexReader, Services, Stored
from polyhop.schemas.query import Question, RankedPassage, RankedTriple, Retrieval
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy

NAME = "word-triples"
Row = tuple[str, str, str, str, str, str]
_EVERY = """
SELECT r.relation_id, s.node_id, se.name, r.relation, coalesce(o.node_id, r.target_id), oe.name
FROM relations AS r JOIN nodes AS s ON s.entity_id = r.source_id JOIN entities AS se ON se.entity_id = r.source_id
JOIN nodes AS o ON o.entity_id = r.target_id JOIN entities AS oe ON oe.entity_id = r.target_id ORDER BY 1
"""


def _rows(stored: Stored) -> list[Row]:
    return [tuple(row) for row in stored.rows(_EVERY)]


EVERY_TRIPLE = Artefact("triples of tests", _rows, is_optional=False)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class WordTriples:
    """Ranks triples, and beside them the passages in number order."""

    def __init__(self, rows: Sequence[Row], passage_ids: Sequence[str]) -> None:
        self._rows, self._passage_ids = rows, passage_ids

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        return [self._one(question, limit) for question in questions]

    def _one(self, question: Question, limit: int) -> Retrieval:
        asked = words(question.text)
        scored = [
            (len(asked & words(f"{row[2]} {row[3]} {row[5]}")) + (row[1] == question.topic), row) for row in self._rows
        ]
        found = sorted(((-score, row) for score, row in scored if score))[: limit + 5]  # more than asked for
        triples = tuple(RankedTriple(*row, rank, -score) for rank, (score, row) in enumerate(found, start=1))
        passages = tuple(RankedPassage(p, n, 1 / n) for n, p in enumerate(self._passage_ids[:limit], start=1))
        return Retrieval(passages, triples=triples)


def build(index: IndexReader, _parameters: Parameters, _services: Services) -> WordTriples:
    return WordTriples(index.artefact(EVERY_TRIPLE), index.passage_ids)  # type: ignore[arg-type]


@contextmanager
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The strategy as if another package had brought it."""
    strategy(NAME, "Triples by shared words.", Parameters, needs=(), ranks_triples=True)(build)
    point = EntryPoint(NAME, __name__, "polyhop.strategies")
    monkeypatch.setattr(registry, "extensions", lambda _group: {NAME: point})
    yield
    DECLARED.pop(NAME)
