"""`bm25-ce` and `rrf-ce`: the first passages of a ranking, put in another order by who reads question and passage.

A cross-encoder reads them if one is configured (models.rerank), else a token-free stand-in; the evidence says which as
`ce`. Owns no formula (ranking/coverage_rerank.py does) and opens no model. Source: algorithms.md 2.9.
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.ports import IndexReader, Reranker
from schemas.query import Question, Retrieval
from schemas.stems import ANALYSERS
from schemas.text import passage_text
from worker.ranking.bm25 import inverse_document_frequency
from worker.ranking.coverage_rerank import coverage_and_proximity
from worker.ranking.order import best
from worker.strategies.fused import FusionParameters, fused_ranker
from worker.strategies.lexical import ANALYSER, LexicalRanker
from worker.strategies.ranked import Ranker
from worker.strategies.results import ranked_passages, retrieve_each
from worker.strategies.spec import LexicalParameters, Parameters


class RerankParameters(Parameters):
    """What is put in another order, and by what if there is no cross-encoder."""

    rerank_depth: int = Field(
        100, ge=0, le=10_000, description="First passages that are put in another order, default 100; the rest follows."
    )
    proximity_weight: float = Field(
        0.5,
        ge=0,
        le=1000,
        description="Without a cross-encoder: weight of question words close together, their coverage being 1, "
        "default 0.5.",
    )


class LexicalRerankParameters(RerankParameters, LexicalParameters):
    """Parameters of `bm25-ce`."""


class FusedRerankParameters(RerankParameters, FusionParameters):
    """Parameters of `rrf-ce`."""

    rerank_depth: int = Field(
        20, ge=0, le=10_000, description="First passages that are put in another order, default 20; the rest follows."
    )


class LexicalReranker:
    """The stand-in: reads words only."""

    model = "lexical"

    def __init__(self, reader: IndexReader, proximity_weight: float) -> None:
        lexical = reader.lexical(ANALYSER)
        self._terms = lexical.terms
        self._idf = inverse_document_frequency(np.diff(lexical.indptr), len(lexical.lengths))
        self._proximity_weight = proximity_weight

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Shape (len(passages),), from 0 to 1 + the weight of proximity."""
        tokens = ANALYSERS[ANALYSER]
        idf = {token: float(self._idf[self._terms[token]]) for token in tokens(question) if token in self._terms}
        parts = [coverage_and_proximity(idf, tokens(passage)) for passage in passages]
        return np.array([coverage + self._proximity_weight * proximity for coverage, proximity in parts], np.float64)


class RerankedStrategy:
    """A ranker's first passages by a reranker's scores, equal ones as the ranker had them; the rest unchanged.

    A passage that was put in order carries the reranker's score, the others keep the ranker's.
    """

    def __init__(self, name: str, reader: IndexReader, ranker: Ranker, parameters: RerankParameters) -> None:
        self.name = name
        self._reader = reader
        self._ranker = ranker
        self._depth = parameters.rerank_depth
        self._reranker: Reranker = reader.reranker() or LexicalReranker(reader, parameters.proximity_weight)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        numbers, scores = self._ranker.rank(question, max(limit, self._depth))
        ranked = time.perf_counter()
        head = numbers[: self._depth]
        values = self._read(question.text, head.tolist())
        order = best(values, len(values))
        numbers = np.concatenate((head[order], numbers[self._depth :]))[: max(limit, 0)]
        scores = np.concatenate((values[order], scores[self._depth :]))[: max(limit, 0)]
        passages = ranked_passages(self._reader.passage_ids, (numbers, scores))
        evidence = {"ce": self._reranker.model, "reranked": len(head)}
        return Retrieval(passages, evidence, {"seed": ranked - begun, "traversal": time.perf_counter() - ranked})

    def _read(self, question: str, numbers: Sequence[int]) -> NDArray[np.float64]:
        if not numbers:
            return np.empty(0)
        texts = [passage_text(title, text) for _, title, text in self._reader.passages(numbers)]
        return self._reranker.score(question, texts)


def build_bm25_ce(reader: IndexReader, parameters: LexicalRerankParameters) -> RerankedStrategy:
    """`bm25-ce` on an open version."""
    return RerankedStrategy("bm25-ce", reader, LexicalRanker(reader, parameters), parameters)


def build_rrf_ce(reader: IndexReader, parameters: FusedRerankParameters) -> RerankedStrategy:
    """`rrf-ce` on an open version."""
    return RerankedStrategy("rrf-ce", reader, fused_ranker(reader, parameters, "rrf-ce"), parameters)
