"""Which share of each signature's words a question has (pure).

Source: algorithms.md 4B, rules 3 and 7.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.labels import LabelIndex
from polyhop.worker.ranking.facets.units import Signature

Meanings = Sequence[Sequence[tuple[int, float]]]
"""By word of the question: stems of labels that it can stand for, with factors."""


class SignatureWords:
    """The words of all signatures, as a matrix of their weights."""

    def __init__(self, signatures: Sequence[Signature], labels: LabelIndex, left_out: Collection[str]) -> None:
        """Of signatures; the stems `left_out` tell nothing: those of hub types."""
        kept = [[stem for stem in signature.stems if stem not in left_out] for signature in signatures]
        self._starts = np.cumsum([0, *map(len, kept)])
        self._stems = np.array([labels.numbers[stem] for stems in kept for stem in stems], dtype=np.int64)
        self._weights = labels.idf[self._stems]
        totals = self._sums(self._weights)
        self._totals = np.where(totals > 0, totals, 1.0)
        self._stem_count = len(labels.idf)
        self.by_predicate = _by_last_predicate(signatures)

    def shares(self, meanings: Meanings, places: Iterable[int]) -> NDArray[np.float64]:
        """Share of each signature's words among some words of a question, weighted by idf: shape (s,), 0 to 1."""
        factors = np.zeros(self._stem_count)
        for place in places:
            for stem, factor in meanings[place]:
                factors[stem] = max(factors[stem], factor)
        return np.asarray(self._sums(self._weights * factors[self._stems]) / self._totals)

    def stems_of(self, signature: int) -> frozenset[int]:
        """Stem numbers of a signature's words."""
        return frozenset(self._stems[self._starts[signature] : self._starts[signature + 1]].tolist())

    def _sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray(totals[self._starts[1:]] - totals[self._starts[:-1]])


def _by_last_predicate(signatures: Sequence[Signature]) -> Mapping[int, list[int]]:
    """Signatures by the number of the predicate that they end in."""
    found: dict[int, list[int]] = {}
    for number, signature in enumerate(signatures):
        found.setdefault(signature.predicates[-1], []).append(number)
    return found
