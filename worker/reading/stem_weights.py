"""How rare a stem is in the corpus: what its presence says.

Counts nothing itself; reads the postings' lengths. Source: design/reader.md (idf), algorithms.md 2.9.
"""

from math import log1p

import numpy as np

from schemas.graph import LexicalIndex


class StemWeights:
    """BM25 idf by stem; an unknown stem counts as the rarest one. Without postings every stem counts the same."""

    def __init__(self, lexical: LexicalIndex | None) -> None:
        self._lexical = lexical
        rarest = int(np.diff(lexical.indptr).min(initial=1)) if lexical is not None and len(lexical.terms) else 1
        self._largest = self._of_count(max(1, rarest))

    def __call__(self, stem: str) -> float:
        """The idf of a stem: `ln(1 + (N - df + .5) / (df + .5))`."""
        if self._lexical is None:
            return 1.0
        term = self._lexical.terms.get(stem)
        if term is None:
            return self._largest
        return self._of_count(int(self._lexical.indptr[term + 1] - self._lexical.indptr[term]))

    def _of_count(self, df: int) -> float:
        if self._lexical is None:
            return 1.0
        return log1p((len(self._lexical.lengths) - df + 0.5) / (df + 0.5))
