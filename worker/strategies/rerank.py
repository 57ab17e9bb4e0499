"""`bm25-ce` and `rrf-ce`: the first passages of a ranking, put in another order by who reads question and passage.

Re-ranks nothing itself (reranked.py does). Source: algorithms.md 2.9.
"""

from pydantic import Field

from polyhop.schemas.ports import IndexReader, Services
from polyhop.worker.strategies.base import LexicalParameters, RankedStrategy, Ranker, strategy
from polyhop.worker.strategies.fused import FusionParameters, fused_ranker
from polyhop.worker.strategies.lexical import LexicalRanker
from polyhop.worker.strategies.rerank_parameters import RerankParameters
from polyhop.worker.strategies.reranked import RerankedStrategy


class LexicalRerankParameters(RerankParameters, LexicalParameters):
    """Parameters of `bm25-ce`."""


class FusedRerankParameters(RerankParameters, FusionParameters):
    """Parameters of `rrf-ce`."""

    rerank_depth: int = Field(
        20, ge=0, le=10_000, description="Top passages that are re-ranked, default 20; the rest follow."
    )


@strategy(
    "bm25-ce",
    "The top of BM25, re-ranked by a cross-encoder (or its lexical fallback).",
    LexicalRerankParameters,
    needs={"lexical:plain"},
)
def build_bm25_ce(reader: IndexReader, parameters: LexicalRerankParameters, services: Services) -> RerankedStrategy:
    """`bm25-ce` on an open version."""
    return _reranked("bm25-ce", LexicalRanker(reader, parameters), reader, parameters, services)


@strategy(
    "rrf-ce",
    "The top of rrf, re-ranked by a cross-encoder (or its lexical fallback).",
    FusedRerankParameters,
    needs={"lexical:plain", "vectors:passage"},
)
def build_rrf_ce(reader: IndexReader, parameters: FusedRerankParameters, services: Services) -> RerankedStrategy:
    """`rrf-ce` on an open version."""
    return _reranked("rrf-ce", fused_ranker(reader, parameters, "rrf-ce"), reader, parameters, services)


def _reranked(
    name: str, ranker: Ranker, reader: IndexReader, parameters: RerankParameters, services: Services
) -> RerankedStrategy:
    ranked = RankedStrategy(name, reader.passage_ids, ranker)
    return RerankedStrategy(ranked, reader, parameters, services.reranker())
