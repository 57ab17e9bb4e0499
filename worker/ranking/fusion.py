"""Reciprocal rank fusion of ranked lists.

Knows ranks only, no scores. Source: algorithms.md 0.5 (Cormack et al. 2009, k = 60).
"""

from collections.abc import Sequence
from math import fsum, inf

from polyhop.worker.ranking.order import DECIMALS


def reciprocal_rank_fusion(lists: Sequence[Sequence[int]], k: float = 60.0) -> list[tuple[int, float]]:
    """Items of all lists by the sum of `1 / (k + rank)`.

    Args:
        lists: Item numbers, in descending order of score; a repeated item keeps its first rank and the rest moves up.
        k: Damping of the first ranks, at least 0.

    Returns:
        (item, score), in descending order of score; ties by rank in the first list, then the second…, then by number.
    Source: algorithms.md 0.5.
    Cost: O(items log items).
    """
    ranks: dict[int, list[float]] = {}
    for place, items in enumerate(lists):
        for rank, item in enumerate(dict.fromkeys(items), start=1):
            ranks.setdefault(item, [inf] * len(lists))[place] = rank
    scored = [(item, fsum(1 / (k + rank) for rank in places), places) for item, places in ranks.items()]
    scored.sort(key=lambda entry: (-round(entry[1], DECIMALS), entry[2], entry[0]))
    return [(item, score) for item, score, _ in scored]
