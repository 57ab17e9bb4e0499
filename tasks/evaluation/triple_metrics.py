"""What a ranking of triples is worth against a question's golden triples.

Averages nothing; owns no formula (metrics.py does). Source: algorithms.md 6.2.
"""

from collections.abc import Collection, Mapping, Sequence

from polyhop.schemas.questions import GoldenTriple, TripleIds
from polyhop.tasks.evaluation.metrics import (
    CONTAINMENT,
    f1_at,
    hit_at,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
)

RECALL_DEPTHS = (1, 2, 5, 10, 20, 30)  # algorithms.md 6.2.
DEPTHS = (10, 30)
"""Those of the paper of HubLink."""
PREFIX = "triple_"
TRIPLE_METRICS = (
    *(f"{PREFIX}recall@{k}" for k in RECALL_DEPTHS),
    *(f"{PREFIX}{name}@{k}" for name in ("precision", "f1", "hit", "ndcg") for k in DEPTHS),
    f"{PREFIX}mrr",
)


def triple_values(
    golden: Collection[GoldenTriple], ranking: Sequence[TripleIds] | None, *, failed: bool
) -> dict[str, float | None]:
    """Every metric of one question; None without golden triples, or of a strategy that ranks none (`ranking` None).

    Golden triples that the graph does not have count as missed. A failed question has 0.
    """
    if not golden or ranking is None:
        return dict.fromkeys(TRIPLE_METRICS)
    if failed:
        return dict.fromkeys(TRIPLE_METRICS, 0.0)
    ranked = list(dict.fromkeys(ranking))
    at = {"precision": precision_at, "f1": f1_at, "hit": hit_at, "ndcg": ndcg_at}
    values: dict[str, float | None] = {f"{PREFIX}recall@{k}": recall_at(ranked, golden, k) for k in RECALL_DEPTHS}
    values |= {f"{PREFIX}{name}@{k}": value(ranked, golden, k) for name, value in at.items() for k in DEPTHS}
    return values | {f"{PREFIX}mrr": reciprocal_rank(ranked, golden)}


def metrics_of(names: Sequence[str], values: Mapping[str, Sequence[Mapping[str, float | None]]]) -> tuple[str, ...]:
    """These metrics, and containment and those of triples if the values have them."""
    first = next((rows[0] for rows in values.values() if rows), {})
    further = (CONTAINMENT,) if CONTAINMENT in first else ()
    return (*names, *further, *(TRIPLE_METRICS if TRIPLE_METRICS[0] in first else ()))
