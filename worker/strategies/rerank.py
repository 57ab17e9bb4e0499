"""`bm25-ce` and `rrf-ce`: the first passages of a ranking, put in another order by who reads question and passage.

A cross-encoder reads them if one is configured (models.rerank), else a token-free fallback; the evidence says which as
`ce`. Owns no formula (ranking/coverage_rerank.py does) and opens no model. Source: algorithms.md 2.9.
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import Evidence, Note
from polyhop.schemas.ports import IndexReader, Reranker, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.stems import ANALYSERS
from polyhop.schemas.text import passage_text
from polyhop.warehouse.artefacts import lexical_of
from polyhop.worker.ranking.bm25 import inverse_document_frequency
from polyhop.worker.ranking.coverage_rerank import coverage_and_proximity
from polyhop.worker.ranking.order import best
from polyhop.worker.strategies.base import (
    LexicalParameters,
    Parameters,
    Ranker,
    ranked_passages,
    retrieve_each,
    strategy,
)
from polyhop.worker.strategies.fused import FusionParameters, fused_ranker
from polyhop.worker.strategies.lexical import ANALYSER, LexicalRanker


class RerankParameters(Parameters):
    """What is put in another order, and by what if there is no cross-encoder."""

    rerank_depth: int = Field(
        100, ge=0, le=10_000, description="Top passages that are re-ranked, default 100; the rest follow."
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
        20, ge=0, le=10_000, description="Top passages that are re-ranked, default 20; the rest follow."
    )


class LexicalReranker:
    """The fallback: reads words only."""

    model = "lexical"

    def __init__(self, reader: IndexReader, proximity_weight: float) -> None:
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._terms = lexical.terms
        self._idf = inverse_document_frequency(np.diff(lexical.indptr), len(lexical.lengths))
        self._proximity_weight = proximity_weight

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Shape (len(passages),), from 0 to 1 + the weight of proximity."""
        tokens = ANALYSERS[ANALYSER]
        idf = {token: float(self._idf[self._terms[token]]) for token in tokens(question) if token in self._terms}
        parts = [coverage_and_proximity(idf, tokens(passage)) for passage in passages]
        return np.array([coverage + self._proximity_weight * proximity for coverage, proximity in parts], np.float64)


RERANKED = "Re-ranked"
"""Label of the note that says who re-ranked."""


class RerankedStrategy:
    """A ranker's first passages by a reranker's scores, equal ones as the ranker had them; the rest unchanged.

    A passage that was put in order carries the reranker's score, the others keep the ranker's.
    """

    def __init__(
        self, name: str, reader: IndexReader, ranker: Ranker, parameters: RerankParameters, reranker: Reranker | None
    ) -> None:
        self.name = name
        self._reader = reader
        self._ranker = ranker
        self._depth = parameters.rerank_depth
        self._reranker: Reranker = reranker or LexicalReranker(reader, parameters.proximity_weight)
        self._judge = f"the cross-encoder {reranker.model}" if reranker else "shared words (no cross-encoder is set)"

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
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
        evidence = Evidence(notes=(Note(RERANKED, f"the top {len(head)} passages, by {self._judge}"),))
        return Retrieval(passages, evidence, {"seed": ranked - begun, "traversal": time.perf_counter() - ranked})

    def _read(self, question: str, numbers: Sequence[int]) -> NDArray[np.float64]:
        if not numbers:
            return np.empty(0)
        texts = [passage_text(title, text) for _, title, text in self._reader.passages(numbers)]
        return self._reranker.score(question, texts)


@strategy(
    "bm25-ce",
    "The top of BM25, re-ranked by a cross-encoder (or its lexical fallback).",
    LexicalRerankParameters,
    needs={"lexical:plain"},
)
def build_bm25_ce(reader: IndexReader, parameters: LexicalRerankParameters, services: Services) -> RerankedStrategy:
    """`bm25-ce` on an open version."""
    return RerankedStrategy("bm25-ce", reader, LexicalRanker(reader, parameters), parameters, services.reranker())


@strategy(
    "rrf-ce",
    "The top of rrf, re-ranked by a cross-encoder (or its lexical fallback).",
    FusedRerankParameters,
    needs={"lexical:plain", "vectors:passage"},
)
def build_rrf_ce(reader: IndexReader, parameters: FusedRerankParameters, services: Services) -> RerankedStrategy:
    """`rrf-ce` on an open version."""
    return RerankedStrategy(
        "rrf-ce", reader, fused_ranker(reader, parameters, "rrf-ce"), parameters, services.reranker()
    )
