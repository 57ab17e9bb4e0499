"""How the top of a ranking is put in another order: parameters of strategies that do, and what all others take."""

from pydantic import Field

from polyhop.worker.strategies.base import Parameters


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


class Reranking(RerankParameters):
    """What every strategy takes beside its own parameters."""

    rerank: bool = Field(
        default=False,
        description="Re-rank the top passages by the cross-encoder (models.rerank), or by shared words without one.",
    )
