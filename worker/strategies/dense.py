"""`dense` and `dense-ann`: passages by cosine; `naive-vector`: passages of the entities nearest to the question.

Source: algorithms.md 2.9, 1.7, 6.2.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from polyhop.schemas.evidence import Evidence, Node
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import ENTITIES, GRAPH, NEAREST_PASSAGES, vectors_of
from polyhop.worker.ranking.chain_text import entity_line
from polyhop.worker.ranking.order import best, contenders
from polyhop.worker.ranking.similarity import (
    cosine_error,
    cosines,
    exact_cosines,
    mentioned_in,
    passages_of_entities,
    rough_cosines,
)
from polyhop.worker.strategies.base import (
    Parameters,
    RankedStrategy,
    Ranker,
    Ranking,
    entity_vector,
    question_vector,
    ranked_passages,
    retrieve_each,
    strategy,
)


class DenseParameters(Parameters):
    """`dense` has none."""


class DenseAnnParameters(Parameters):
    """Parameters of `dense-ann`."""

    ef_search: int = Field(
        64, ge=1, le=100_000, description="Candidates that the HNSW graph is searched with, default 64; more find more."
    )


class SearchParameters(DenseAnnParameters):
    """How the nearest passages are found, for strategies that start from them."""

    search: Literal["exact", "ann"] = Field(
        "exact", description="Nearest passages by exact search (default), or ann: an HNSW graph (built for dense-ann)."
    )


class NaiveVectorParameters(Parameters):
    """Parameters of `naive-vector`."""

    entities: int = Field(
        30, ge=1, le=10_000, description="Entities nearest to the question that are used, default 30."
    )


class DenseRanker:
    """Exact cosines with all passages: rough ones of a block of questions choose, as in decision 0023."""

    def __init__(self, reader: IndexReader, strategy: str) -> None:
        self._vectors = np.asarray(reader.artefact(vectors_of("passage")))
        self._error = cosine_error(self._vectors.shape[1])
        self._strategy = strategy

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        return next(self.rank_each([question], count))

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
        """As `rank`, for each question in order; the vectors are read once for all."""
        vectors = [question_vector(question, self._strategy) for question in questions]
        for rough, vector in zip(rough_cosines(self._vectors, vectors), vectors, strict=True):
            near = contenders(rough, count, self._error)
            scores = exact_cosines(self._vectors, near, vector)
            first = best(scores, count)
            yield near[first], scores[first]


class ApproximateRanker:
    """The nearest passages that an HNSW graph finds, ordered by their exact cosines."""

    def __init__(self, reader: IndexReader, strategy: str, ef_search: int) -> None:
        self._nearest = reader.artefact(NEAREST_PASSAGES)
        self._vectors = np.asarray(reader.artefact(vectors_of("passage")))
        self._strategy = strategy
        self._ef_search = ef_search

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        vector = question_vector(question, self._strategy)
        found = np.unique(np.asarray(self._nearest(vector, count, self._ef_search), dtype=np.intp))
        # Row by row: a product with a matrix of another height may differ in the last bit.
        scores = np.sum(self._vectors[found].astype(np.float64) * vector, axis=1)
        order = best(scores, count)
        return found[order], scores[order]


def nearest_ranker(reader: IndexReader, strategy: str, parameters: SearchParameters) -> Ranker:
    """Exact or approximate, as the parameters say."""
    if parameters.search == "ann":
        return ApproximateRanker(reader, strategy, parameters.ef_search)
    return DenseRanker(reader, strategy)


class NearEntitiesStrategy:
    """`naive-vector`: passages that mention the entities nearest to the question, which are its evidence."""

    name = "naive-vector"

    def __init__(self, reader: IndexReader, entities: int) -> None:
        self._passage_ids = reader.passage_ids
        graph = reader.artefact(GRAPH)
        self._keys = graph.keys
        self._vectors = np.asarray(reader.artefact(vectors_of("entity")))
        self._entities = entities
        has_texts = ENTITIES.name in reader.artefacts
        self._texts = reader.artefact(ENTITIES) if has_texts else None
        self._mentioned_in = mentioned_in(graph)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        scores = cosines(self._vectors, entity_vector(question, self.name))
        nearest = best(scores, self._entities)
        seeded = time.perf_counter()
        ranking = passages_of_entities(self._mentioned_in, nearest, scores[nearest], limit)
        nodes = tuple(Node(self._keys[n], self._keys[n], round(float(scores[n]), 6)) for n in nearest.tolist())
        return Retrieval(
            ranked_passages(self._passage_ids, ranking),
            Evidence(nodes=nodes, measure="similarity", node_count=len(nodes), context=self._context(nearest.tolist())),
            {"seed": seeded - begun, "traversal": time.perf_counter() - seeded},
        )

    def _context(self, nearest: list[int]) -> str:
        """Their descriptions, which are all that a model reads in the paper; "" if the version has no texts of them."""
        return "" if self._texts is None else "\n".join(map(entity_line, self._texts(nearest)))


@strategy(
    "dense",
    "Passages by cosine of their vectors.",
    DenseParameters,
    needs={"vectors:passage"},
    batches=True,
)
def build_dense(reader: IndexReader, parameters: DenseParameters, _services: Services) -> RankedStrategy:
    """`dense` on an open version; it has no parameters."""
    del parameters
    return RankedStrategy("dense", reader.passage_ids, DenseRanker(reader, "dense"))


@strategy(
    "dense-ann",
    "As dense, searched approximately by an HNSW graph.",
    DenseAnnParameters,
    needs={"vectors:passage", "ann:passage"},
)
def build_dense_ann(reader: IndexReader, parameters: DenseAnnParameters, _services: Services) -> RankedStrategy:
    """`dense-ann` on an open version."""
    ranker = ApproximateRanker(reader, "dense-ann", parameters.ef_search)
    return RankedStrategy("dense-ann", reader.passage_ids, ranker)


@strategy(
    "naive-vector",
    "Passages that mention the entities nearest to the question.",
    NaiveVectorParameters,
    needs={"graph", "vectors:entity"},
    writes_context=True,
)
def build_naive_vector(
    reader: IndexReader, parameters: NaiveVectorParameters, _services: Services
) -> NearEntitiesStrategy:
    """`naive-vector` on an open version."""
    return NearEntitiesStrategy(reader, parameters.entities)
