"""`dense`: passages by cosine; `naive-vector`: passages of the entities nearest to the question.

Source: algorithms.md 2.9, 1.7, 6.2.
"""

import numpy as np
from pydantic import Field

from schemas.ports import IndexReader
from schemas.query import Question
from worker.ranking.order import best
from worker.ranking.similarity import cosines, mentioned_in, passages_of_entities
from worker.strategies.ranked import RankedStrategy
from worker.strategies.results import Ranking, question_vector
from worker.strategies.spec import Parameters


class DenseParameters(Parameters):
    """`dense` has none."""


class NaiveVectorParameters(Parameters):
    """Parameters of `naive-vector`."""

    entities: int = Field(
        30, ge=1, le=10_000, description="Entities nearest to the question that are used, default 30."
    )


class DenseRanker:
    """Exact cosines with all passages."""

    def __init__(self, reader: IndexReader, strategy: str) -> None:
        self._vectors = np.asarray(reader.vectors("passage"))
        self._strategy = strategy

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, best first."""
        scores = cosines(self._vectors, question_vector(question, self._strategy))
        numbers = best(scores, count)
        return numbers, scores[numbers]


class NearEntitiesRanker:
    """Passages that mention the entities nearest to the question."""

    def __init__(self, reader: IndexReader, entities: int) -> None:
        self._vectors = np.asarray(reader.vectors("entity"))
        self._entities = entities
        self._mentioned_in = mentioned_in(reader.graph)

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, best first."""
        scores = cosines(self._vectors, question_vector(question, "naive-vector"))
        nearest = best(scores, self._entities)
        return passages_of_entities(self._mentioned_in, nearest, scores[nearest], count)


def build_dense(reader: IndexReader, parameters: DenseParameters) -> RankedStrategy:
    """`dense` on an open version; it has no parameters."""
    del parameters
    return RankedStrategy("dense", reader.passage_ids, DenseRanker(reader, "dense"))


def build_naive_vector(reader: IndexReader, parameters: NaiveVectorParameters) -> RankedStrategy:
    """`naive-vector` on an open version."""
    return RankedStrategy("naive-vector", reader.passage_ids, NearEntitiesRanker(reader, parameters.entities))
