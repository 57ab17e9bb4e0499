"""How far BM25 is to be trusted for a question: whether one passage has its words, and whether the vectors agree.

Computes neither BM25 nor cosines. Source: bridge-masked.md 3 steps 0c and 0d.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DEPTH = 10
"""Passages of either ranking that are compared. Source: bridge-masked.md 4 (10-20 do no harm)."""
ENOUGH = 3
"""Common passages that make BM25 trusted in full. Source: bridge-masked.md 4 (2-4 do no harm)."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a question's BM25 is trusted.

    Attributes:
        completeness: kappa: the share of its words, by idf, that BM25's top passage has, 0 to 1.
        agreement: o: passages in both rankings' first `DEPTH`.
    """

    completeness: float
    agreement: int

    @property
    def in_seeds(self) -> float:
        """r, `max(kappa, min(1, o / 3))`: the trust among seeds and in the cover."""
        return max(self.completeness, min(1.0, self.agreement / ENOUGH))

    @property
    def in_fusion(self) -> float:
        """`max(0, 2 kappa - 1)`: the trust in the score itself, none below half of the words."""
        return max(0.0, 2 * self.completeness - 1)


def completeness(contains: NDArray[np.bool_], idf: NDArray[np.float64]) -> float:
    """kappa: the share of the question's words, by idf, that a passage has; 0 without words.

    Args:
        contains: Shape (n_stems,): which of the question's distinct stems the passage has.
        idf: Shape (n_stems,): rarity of each, above 0.
    """
    return float(idf[contains].sum() / idf.sum()) if len(idf) else 0.0


def agreement(by_cosine: NDArray[np.intp], by_words: NDArray[np.intp]) -> int:
    """o: passages in both of two rankings, each of distinct passage numbers."""
    return len(np.intersect1d(by_cosine, by_words, assume_unique=True))
