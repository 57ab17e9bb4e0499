"""`bridge` and `bridge-lexical`: seed, spread, fuse, cover; with and without an encoder.

One class; both differ only in what similarity is. Source: algorithms.md 2B.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import PASSAGES_ONLY
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.stems import ANALYSERS
from polyhop.warehouse.artefacts import GRAPH, lexical_of, vectors_of
from polyhop.worker.ranking.bm25 import containment, count_terms, impacts, score
from polyhop.worker.ranking.bridge import cover, fuse, relative, seed_passages
from polyhop.worker.ranking.order import best
from polyhop.worker.ranking.pagerank import WalkSeeds, bipartite_transition, entity_weights, mix, walk_passages
from polyhop.worker.ranking.similarity import cosines
from polyhop.worker.strategies.base import Parameters, question_vector, ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.entities import EntityMatcher, Start

ANALYSER = "stems"
K1, B = 1.2, 0.75
ENTITY_PENALTY = 0.5


class BridgeLexicalParameters(Parameters):
    """Parameters of `bridge-lexical`; see algorithms.md 2B.3 for how far each may move without harm."""

    seeds: int = Field(5, ge=1, le=10_000, description="k: passages that start the walk, default 5.")
    seed_temperature: float = Field(
        0.1, gt=0, le=100, description="tau: how evenly they share, small favours the best, default 0.1."
    )
    entity_weight: float = Field(
        2.0, ge=0, le=1000, description="omega: a question entity starts with omega / sqrt(df), default 2."
    )
    restart: float = Field(0.1, gt=0, lt=1, description="alpha: probability of returning to the seeds, default 0.1.")
    steps: int = Field(5, ge=1, le=10_000, description="T: half-steps of the walk, default 5.")
    title_boost: float = Field(
        5.0,
        gt=0,
        le=1000,
        description="beta: factor of steps to the passage that an entity is the title of, default 5.",
    )
    graph_weight: float = Field(0.4, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.4.")
    reference_rank: int = Field(
        10, ge=1, le=10_000, description="m: the walk's mass at this rank counts as 1, default 10."
    )
    coverage_weight: float = Field(
        1.0, ge=0, le=1000, description="nu: weight of question words not yet covered, default 1; 0 keeps the order."
    )
    pool: int = Field(30, ge=1, le=10_000, description="Passages among which the first are chosen, default 30.")
    choose: int = Field(20, ge=1, le=10_000, description="Passages chosen for what they add, default 20.")


class BridgeParameters(BridgeLexicalParameters):
    """Parameters of `bridge`."""

    lexical_weight: float = Field(
        0.3, ge=0, le=1000, description="mu: weight of BM25 beside the cosine among the seeds, default 0.3."
    )
    seed_temperature: float = Field(
        0.03, gt=0, le=100, description="tau: how evenly they share, small favours the best, default 0.03."
    )
    graph_weight: float = Field(0.2, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.2.")


Similarity = Callable[[Question, NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Question and relative BM25 to the similarities for seeding and for fusing, shape (n_passages,) each."""


class BridgeStrategy:
    """Seed, spread, fuse, cover. A passage's score is F; the order of the first ones also covers the question."""

    def __init__(
        self,
        name: str,
        reader: IndexReader,
        parameters: BridgeLexicalParameters,
        similarity: Similarity,
        *,
        positive_only: bool,
    ) -> None:
        self.name = name
        self._parameters = parameters
        self._similarity = similarity
        self._positive_only = positive_only
        self._passage_ids = reader.passage_ids
        graph = reader.artefact(GRAPH)
        self._keys = graph.keys
        self._matcher = EntityMatcher(reader)
        self._entity_weights = parameters.entity_weight * entity_weights(np.maximum(graph.df, 1), ENTITY_PENALTY)
        self._matrices = bipartite_transition(graph, title_boost=parameters.title_boost)
        self._impacts = impacts(reader.artefact(lexical_of(ANALYSER)), K1, B)
        self._stems = ANALYSERS[ANALYSER]

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        stems = sorted(count_terms(self._stems(question.text), self._impacts.terms))
        lexical = relative(score(self._impacts, dict.fromkeys(stems, 1)))
        seeding, fused = self._similarity(question, lexical)
        start = self._start(question, seeding)
        seeded = time.perf_counter()
        scores = fuse(fused, self._spread(start.seeds), self._parameters.graph_weight, self._parameters.reference_rank)
        numbers = self._order(scores, stems, limit)
        ranked = ranked_passages(self._passage_ids, (numbers, scores[numbers]))
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        return Retrieval(ranked, start.evidence(self._passage_ids, self._keys), seconds)

    def _start(self, question: Question, similarity: NDArray[np.float64]) -> Start:
        count = self._parameters.seeds
        if self._positive_only:
            count = min(count, int(np.count_nonzero(similarity > 0)))
        numbers, passages = seed_passages(similarity, count, self._parameters.seed_temperature)
        entities = self._matcher.match(question.text)
        weights, passages = mix(self._entity_weights[entities.numbers], passages)
        seeds = WalkSeeds(entities.numbers, weights, numbers, passages)
        return Start(entities, seeds, None if entities.matched else PASSAGES_ONLY)

    def _spread(self, seeds: WalkSeeds) -> NDArray[np.float64]:
        parameters = self._parameters
        return walk_passages(self._matrices, seeds, parameters.restart, parameters.steps, return_dangling=False)

    def _order(self, scores: NDArray[np.float64], stems: list[int], limit: int) -> NDArray[np.intp]:
        """The first by cover, the rest by score."""
        parameters = self._parameters
        numbers = best(scores, max(limit, parameters.pool))
        if self._positive_only:
            numbers = numbers[scores[numbers] > 0]
        pool = numbers[: parameters.pool]
        contains = containment(self._impacts, stems, pool)
        order = cover(scores[pool], contains, self._impacts.idf[stems], parameters.coverage_weight, parameters.choose)
        return np.concatenate((pool[order], numbers[parameters.pool :]))[: max(limit, 0)]


@strategy(
    "bridge",
    "Cosine and BM25 seed a walk over shared entities; the top passages are re-ranked to cover the question's terms.",
    BridgeParameters,
    needs={"graph", "lexical:stems", "vectors:passage"},
)
def build_bridge(reader: IndexReader, parameters: BridgeParameters, _services: Services) -> BridgeStrategy:
    """`bridge` on an open version."""
    vectors = np.asarray(reader.artefact(vectors_of("passage")))

    def similarity(question: Question, lexical: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        cosine = cosines(vectors, question_vector(question, "bridge"))
        return cosine + parameters.lexical_weight * lexical, cosine

    return BridgeStrategy("bridge", reader, parameters, similarity, positive_only=False)


@strategy(
    "bridge-lexical",
    "As bridge, with BM25 in place of vectors.",
    BridgeLexicalParameters,
    needs={"graph", "lexical:stems"},
)
def build_bridge_lexical(
    reader: IndexReader, parameters: BridgeLexicalParameters, _services: Services
) -> BridgeStrategy:
    """`bridge-lexical` on an open version: relative BM25 is the similarity; what shares nothing is not returned."""

    def similarity(
        _question: Question, lexical: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return lexical, lexical

    return BridgeStrategy("bridge-lexical", reader, parameters, similarity, positive_only=True)
