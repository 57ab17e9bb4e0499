"""`rrf-ppr`: the fusion of BM25 and cosine, fused once more, by scores, with a walk from the question's entities.

Source: algorithms.md 2.9 (RRF+PPR).
"""

import time
from collections.abc import Sequence

from pydantic import Field

from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.worker.ranking.order import best
from polyhop.worker.ranking.score_fusion import weighted_fusion
from polyhop.worker.strategies.base import ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.fused import FusedRanker, FusionParameters, fused_ranker
from polyhop.worker.strategies.sprig import GraphParameters, GraphStrategy, build_graph


class RrfPprParameters(GraphParameters, FusionParameters):
    """Parameters of `rrf-ppr`."""

    rrf_share: float = Field(
        0.5, ge=0, le=1, description="lambda: weight of the fused ranking, the rest is the walk's, default 0.5."
    )


class RrfPprStrategy:
    """Two rankings of `depth` passages each, their scores stretched to 0 … 1 and added."""

    name = "rrf-ppr"

    def __init__(
        self, passage_ids: Sequence[str], fused: FusedRanker, graph: GraphStrategy, parameters: RrfPprParameters
    ) -> None:
        self._passage_ids = passage_ids
        self._fused = fused
        self._graph = graph
        self._depth = parameters.depth
        self._weights = (parameters.rrf_share, 1 - parameters.rrf_share)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        if not self._passage_ids:
            return [Retrieval(()) for _ in questions]
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        fused = self._fused.rank(question, self._depth)
        start = self._graph.start(question)
        seeded = time.perf_counter()
        mass = self._graph.walk(start)
        walked = best(mass, self._depth)
        numbers, scores = weighted_fusion((fused, (walked, mass[walked])), self._weights)
        shown = slice(max(limit, 0))
        ranked = ranked_passages(self._passage_ids, (numbers[shown], scores[shown]))
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        return Retrieval(ranked, self._graph.evidence(start), seconds)


@strategy(
    "rrf-ppr",
    "SPRIG: scores of rrf and of a walk from the question's entities, added.",
    RrfPprParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
)
def build_rrf_ppr(reader: IndexReader, parameters: RrfPprParameters, services: Services) -> RrfPprStrategy:
    """`rrf-ppr` on an open version."""
    fused = fused_ranker(reader, parameters, RrfPprStrategy.name)
    return RrfPprStrategy(reader.passage_ids, fused, build_graph(reader, parameters, services), parameters)
