"""Labels of values, hubs and predicates, and which of them a question's words can mean (pure).

Chooses none of them (mentions.py does). Source: algorithms.md 4B, rules 1 and 2.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.tasks.lexical.postings import build_postings
from polyhop.worker.ranking.facets.words import Word, are_family, trigrams

STOP_WORD_FACTOR = 0.1  # algorithms.md 4B, rule 2.
SHORTEST_UNKNOWN = 5  # letters; algorithms.md 4B, rule 1.
LEAST_DICE = 0.6  # algorithms.md 4B, rule 1.
LARGEST_LENGTH_DIFFERENCE = 2  # letters; algorithms.md 4B, rule 1.


class LabelIndex:
    """Distinct labels, by their stems, and the stems by which they are found.

    Attributes:
        stems: The labels, ascending: stems of their words in order.
        lengths: Shape (l,): words of each.
        content_lengths: Shape (l,): those of them that are no stop words.
        idf: By stem number.
        is_stop_stem: By stem number.
        weights: Shape (l,): summed idf of the distinct stems of each label.
        numbers: Number of each stem.
    """

    def __init__(self, labels: Sequence[Sequence[Word]]) -> None:
        """Of labels as words; equal ones are one."""
        distinct = {tuple(word.stem for word in label): label for label in labels}
        self.stems = sorted(distinct)
        self._number_of = {stems: number for number, stems in enumerate(self.stems)}
        index = build_postings(self.stems)
        stop_words = {word.stem for label in distinct.values() for word in label if word.is_stop}
        self.numbers = index.terms
        self.idf = np.log1p(len(self.stems) / (np.diff(index.indptr) + 0.5))
        self.is_stop_stem = np.zeros(len(self.idf), dtype=np.bool_)
        self.is_stop_stem[[index.terms[stop] for stop in sorted(stop_words)]] = True
        self.idf[self.is_stop_stem] *= STOP_WORD_FACTOR
        self.lengths = index.lengths
        terms = np.repeat(np.arange(len(self.idf)), np.diff(index.indptr))
        stops = np.bincount(index.passages, index.tf * self.is_stop_stem[terms], len(self.stems))
        self.content_lengths = self.lengths - stops.astype(np.int32)
        self.weights = np.bincount(index.passages, self.idf[terms], len(self.stems))
        self._index = index
        self._vocabulary = Vocabulary(list(index.terms), stop_words)

    def number_of(self, label: Sequence[Word]) -> int:
        """Number of a label that is among them."""
        return self._number_of[tuple(word.stem for word in label)]

    def labels_with(self, stem: int) -> NDArray[np.int32]:
        """Labels that have a stem, ascending."""
        return self._index.passages[self._index.indptr[stem] : self._index.indptr[stem + 1]]

    def meanings(self, word: Word, family_factor: float) -> list[tuple[int, float]]:
        """Stems of labels that a question's word can stand for, with a factor of at most 1; the word's own first."""
        own = self.numbers.get(word.stem)
        if word.is_stop:
            return [] if own is None else [(own, 1.0)]
        relatives = self._vocabulary.family(word.stem) if family_factor else []
        found = [(self.numbers[stem], family_factor) for stem in relatives]
        if own is not None:
            return [(own, 1.0), *found]
        nearest = self._vocabulary.nearest(word.stem)
        if nearest is not None and nearest not in relatives:
            return [(self.numbers[nearest], 1.0), *found]
        return found


class Vocabulary:
    """Stems to look words up in that are none of them."""

    def __init__(self, stems: Sequence[str], stop_words: set[str]) -> None:
        """Of ascending stems; stop words are never found."""
        self._stems = [stem for stem in stems if stem not in stop_words]
        self._prefixes: dict[str, list[str]] = {}
        self._trigrams = build_postings(sorted(trigrams(stem)) for stem in self._stems)
        for stem in self._stems:
            if len(stem) >= 4:
                self._prefixes.setdefault(stem[:4], []).append(stem)

    def family(self, stem: str) -> list[str]:
        """Other stems of its family, ascending."""
        return [other for other in self._prefixes.get(stem[:4], ()) if other != stem and are_family(stem, other)]

    def nearest(self, stem: str) -> str | None:
        """The most similar stem of about its length, ties alphabetical; None without one. Cost: O(shared trigrams)."""
        if len(stem) < SHORTEST_UNKNOWN or not stem.isalpha():
            return None
        index = self._trigrams
        postings = [
            index.passages[index.indptr[place] : index.indptr[place + 1]]
            for place in (index.terms.get(trigram) for trigram in sorted(trigrams(stem)))
            if place is not None
        ]
        if not postings:
            return None
        numbers, shared = np.unique(np.concatenate(postings), return_counts=True)
        dice = 2 * shared / (index.lengths[numbers] + len(trigrams(stem)))
        fits = [
            (-value, self._stems[number])
            for number, value in zip(numbers.tolist(), dice.tolist(), strict=True)
            if value >= LEAST_DICE and abs(len(self._stems[number]) - len(stem)) <= LARGEST_LENGTH_DIFFERENCE
        ]
        return min(fits)[1] if fits else None
