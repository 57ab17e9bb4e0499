"""`rrf`: BM25 and cosine, fused by their ranks. Source: algorithms.md 2.9, 0.5."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.strategies.base import LexicalParameters, RankedStrategy, Ranker, Ranking, rankings, strategy
from polyhop.worker.strategies.dense import DenseRanker
from polyhop.worker.strategies.lexical import LexicalRanker


class FusionParameters(LexicalParameters):
    """Parameters of `rrf`, and of the fusion that seeds `graph-rrf`."""

    grid: ClassVar[Mapping[str, str]] = {"rrf_k": "10,20,60,100", "depth": "50,100,200"}
    """Chosen around the defaults."""

    depth: int = Field(100, ge=1, le=10_000, description="Passages taken from each of the two rankings, default 100.")
    rrf_k: float = Field(60.0, ge=0, le=10_000, description="Damping of the first ranks in the fusion, default 60.")


class FusedRanker:
    """Several rankings fused by rank."""

    def __init__(self, rankers: Sequence[Ranker], depth: int, k: float) -> None:
        self._rankers = rankers
        self._depth = depth
        self._k = k

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score; there are never more than the lists hold."""
        return next(self.rank_each([question], count))

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
        """As `rank`, for each question in order."""
        for found in zip(*(rankings(ranker, questions, self._depth) for ranker in self._rankers), strict=True):
            fused = reciprocal_rank_fusion([numbers.tolist() for numbers, _ in found], self._k)[: max(count, 0)]
            numbers = np.array([number for number, _ in fused], dtype=np.intp)
            yield numbers, np.array([score for _, score in fused], dtype=np.float64)


def fused_ranker(reader: IndexReader, parameters: FusionParameters, strategy: str) -> FusedRanker:
    """BM25 first, then cosine: that is the order of ties."""
    rankers = (LexicalRanker(reader, parameters), DenseRanker(reader, strategy))
    return FusedRanker(rankers, parameters.depth, parameters.rrf_k)


@strategy(
    "rrf",
    "BM25 and dense, fused by rank.",
    FusionParameters,
    needs={"lexical:plain", "vectors:passage"},
    batches=True,
)
def build_rrf(reader: IndexReader, parameters: FusionParameters, _services: Services) -> RankedStrategy:
    """`rrf` on an open version."""
    return RankedStrategy("rrf", reader.passage_ids, fused_ranker(reader, parameters, "rrf"))
