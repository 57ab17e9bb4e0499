"""`graph-search` and `fusion`: Arcana's passages of entities near the question's, alone or fused with cosine.

Owns no formula (ranking/traversal.py and fusion.py do). Decided here: the lengths of the two lists that are fused do
not depend on the limit, so that fewer passages are the first of more. Source: algorithms.md 5.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import BY_VECTOR, NOTHING_SEARCHED, Fallback
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.warehouse.artefacts import GRAPH, RELATIONS
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.ranking.similarity import mentioned_in
from polyhop.worker.ranking.traversal import expand, passages_by_hops
from polyhop.worker.strategies.arcana_entities import Matcher, StartEntities, start_by
from polyhop.worker.strategies.arcana_evidence import EXPLAINED, ArcanaEvidence
from polyhop.worker.strategies.base import Parameters, Ranking, ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.dense import DenseRanker

GRAPH_SEARCH = "graph-search"
FUSION = "fusion"
FETCH_UNIT = 100
"""`over_fetch` counts passages in these."""


class GraphSearchParameters(Parameters):
    """Parameters of `graph-search`."""

    depth: int = Field(1, ge=0, le=10, description="Relations followed from the question's entities, default 1.")
    decay: float = Field(
        0.5, gt=0, le=1, description="Share of an entity's score that is left after a hop, default 0.5."
    )
    matcher: Matcher = Field(
        "exact",
        description="The question's entities: by exact name (default), names that contain one of the question's "
        "(fuzzy), or similarity to the question (embedding; needs vectors of entities).",
    )
    entities: int = Field(
        20, ge=1, le=10_000, description="matcher=embedding: entities nearest to the question, default 20."
    )
    min_similarity: float = Field(
        0.3, ge=-1, le=1, description="matcher=embedding: smallest cosine that counts, default 0.3."
    )


class ArcanaFusionParameters(GraphSearchParameters):
    """Parameters of `fusion`."""

    rrf_k: float = Field(60.0, ge=0, le=10_000, description="Damping of the first ranks in the fusion, default 60.")
    over_fetch: int = Field(
        2, ge=1, le=100, description="Length of the two lists that are fused, in hundreds of passages, default 2."
    )
    vector_passages: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Length of the list by similarity, in passages, default as over_fetch says; Arcana's page: 10.",
    )
    graph_passages: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Length of the graph's list, in passages, default as over_fetch says; Arcana's page: all.",
    )


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a question started, what was reached (entities ascending, with their hops), and passages by that."""

    start: StartEntities
    entities: NDArray[np.intp]
    hops: NDArray[np.intp]
    ranking: Ranking


class VectorFusion:
    """Joins the graph's list with passages by cosine."""

    def __init__(self, reader: IndexReader, parameters: ArcanaFusionParameters) -> None:
        self._dense = DenseRanker(reader, FUSION)
        self._k = parameters.rrf_k
        length = parameters.over_fetch * FETCH_UNIT
        self._lengths = (parameters.vector_passages or length, parameters.graph_passages or length)
        self.length = max(self._lengths)

    def by_vector(self, question: Question, limit: int) -> Ranking:
        """The list by cosine, as long as `limit` at least, in case it is all there is."""
        return self._dense.rank(question, max(limit, self.length))

    def join(self, by_vector: Ranking, found: Reached) -> tuple[Ranking, Fallback | None]:
        """Both lists by reciprocal rank, cosine first, and what took the place of the graph.

        A question without any name keeps the list by cosine; with names that no entity has, it is fused with an empty
        list, which is the same order. Source: algorithms.md 5.2 (fusion_search, search_with_graph).
        """
        if not found.start.has_names:
            return by_vector, BY_VECTOR
        both = zip((by_vector[0], found.ranking[0]), self._lengths, strict=True)
        lists = [numbers[:length].tolist() for numbers, length in both]
        fused = reciprocal_rank_fusion(lists, self._k)
        numbers = np.array([number for number, _ in fused], dtype=np.intp)
        scores = np.array([score for _, score in fused], dtype=np.float64)
        return (numbers, scores), None if found.start.numbers else BY_VECTOR


class ArcanaStrategy:
    """Graph search, alone or fused with cosine."""

    def __init__(
        self, name: str, reader: IndexReader, parameters: GraphSearchParameters, fusion: VectorFusion | None = None
    ) -> None:
        p = parameters
        self.name = name
        self._parameters = p
        self._fusion = fusion
        self._passage_ids = reader.passage_ids
        self._relations = reader.artefact(RELATIONS)
        self._mentioned_in = mentioned_in(reader.artefact(GRAPH))
        self._start = start_by(reader, name, p.matcher, p.entities, p.min_similarity)
        self._evidence = ArcanaEvidence(reader, self._relations)

    def searched_hints(self, question: Question) -> list[str]:
        """The question itself, where entities are found by similarity to it and it comes without its vector."""
        return [question.text] if self._parameters.matcher == "embedding" and question.vector is None else []

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        by_vector = self._fusion.by_vector(question, limit) if self._fusion else None
        start = self._start.find(question)
        seeding = time.perf_counter() - begun
        found = self._reach(start, max(limit, self._fusion.length if self._fusion else EXPLAINED))
        ranking, fallback = found.ranking, None if start.numbers else NOTHING_SEARCHED
        if self._fusion and by_vector:
            ranking, fallback = self._fusion.join(by_vector, found)
        evidence = self._evidence.of(start, (found.entities, found.hops), found.ranking[0])
        count = max(limit, 0)
        passages = ranked_passages(self._passage_ids, (ranking[0][:count], ranking[1][:count]))
        seconds = {"seed": seeding, "traversal": max(0.0, time.perf_counter() - begun - seeding)}
        return Retrieval(passages, replace(evidence, fallback=fallback), seconds)

    def _reach(self, start: StartEntities, count: int) -> Reached:
        entities, hops = expand(self._relations, start.numbers, self._parameters.depth)
        ranking = passages_by_hops(self._mentioned_in, entities, hops, self._parameters.decay, count)
        return Reached(start, entities, hops, ranking)


@strategy(
    "graph-search",
    "Arcana: passages of entities within a few relations of the question's, fewest relations first.",
    GraphSearchParameters,
    needs={"graph", "graph:relations"},
    needs_question_names=True,
)
def build_graph_search(reader: IndexReader, parameters: GraphSearchParameters, _services: Services) -> ArcanaStrategy:
    """`graph-search` on an open version."""
    return ArcanaStrategy(GRAPH_SEARCH, reader, parameters)


@strategy(
    "fusion",
    "Arcana: graph search and dense, fused by rank.",
    ArcanaFusionParameters,
    needs={"graph", "graph:relations", "vectors:passage"},
    needs_question_names=True,
)
def build_fusion(reader: IndexReader, parameters: ArcanaFusionParameters, _services: Services) -> ArcanaStrategy:
    """`fusion` on an open version."""
    return ArcanaStrategy(FUSION, reader, parameters, VectorFusion(reader, parameters))
