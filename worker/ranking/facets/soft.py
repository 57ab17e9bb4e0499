"""The soft score of hub paths: how well path and hub fit a question's words and its vector (pure).

Source: algorithms.md 4B, soft score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyhop.tasks.lexical.postings import build_postings
from polyhop.worker.ranking.bm25 import count_terms, impacts, score
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word, content_stems
from polyhop.worker.ranking.order import best
from polyhop.worker.ranking.similarity import cosines

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SoftRule:
    """Weights of the soft score; defaults as in algorithms.md 4B.

    Attributes:
        k1: BM25.
        b: BM25.
        similarity_share: Share of the cosine in a path's score.
        signatures: Signatures that a hub is judged by: those of its best paths.
        hub_label_share: Weight of the hub's label.
        hub_power: Exponent of the hub's score.
        exact_texts: Largest number of vectors that are all compared.
        exact_hubs: Hubs whose paths are compared beyond that.
    """

    k1: float = 1.5
    b: float = 0.75
    similarity_share: float = 0.2
    signatures: int = 4
    hub_label_share: float = 0.5
    hub_power: float = 8.0
    exact_texts: int = 50_000
    exact_hubs: int = 500


@dataclass(frozen=True, slots=True)
class Soft:
    """Factors of the soft score, which is hubs[hub] * documents[document] / maximum.

    Attributes:
        hubs: Shape (h,), 0 to 1.
        documents: Shape (d,), at least 0.
        cosines: Shape (d,): similarity of each document with the question; None without a vector.
    """

    hubs: Floats
    documents: Floats
    cosines: Floats | None


class SoftScores:
    """Word statistics of a version's documents and hub labels, and the scores of questions."""

    def __init__(self, units: Units, vectors: NDArray[np.float32] | None, rule: SoftRule) -> None:
        """Of prepared paths; `vectors` are those of the documents' texts, None without an encoder."""
        documents = build_postings(content_stems(words) for words in units.document_words())
        self._documents = impacts(documents, rule.k1, rule.b, units.copies)
        hub_words = [content_stems(units.value_words[value]) for value in units.hub_values.tolist()]
        self._hubs = impacts(build_postings(hub_words), rule.k1, rule.b)
        self._units = units
        self._vectors = vectors
        self._rule = rule
        self._entries = _entries(units)
        self._all = np.arange(units.hub_count, dtype=np.int32)

    def of(self, words: Sequence[Word], vector: NDArray[np.float32] | None) -> Soft:
        """Scores for a question.

        Cost: O(documents * dimension + paths); of more than `exact_texts` documents, those of the best hubs only.
        """
        rule = self._rule
        texts, top = self._lexical(words)
        labels = score(self._hubs, count_terms(dict.fromkeys(content_stems(words)), self._hubs.terms))
        labels = rule.hub_label_share * labels / top if top else labels
        if vector is None or self._vectors is None or not len(self._vectors):
            return self._soft(labels + self._sums(texts, self._all), texts, None)
        if self.compares_all:
            similar = self.cosines(vector)
            texts = texts + rule.similarity_share * np.maximum(similar, 0.0)
            return self._soft(labels + self._sums(texts, self._all), texts, similar)
        sums = self._sums(texts, self._all)
        hubs = best(sums + labels, rule.exact_hubs).astype(np.int32)
        similar = self._cosines_of(self._vectors, vector, hubs)
        texts = texts + rule.similarity_share * np.maximum(similar, 0.0)
        sums[hubs] = self._sums(texts, hubs)
        return self._soft(labels + sums, texts, similar)

    @property
    def compares_all(self) -> bool:
        """Whether the vectors of all documents are compared with a question."""
        return self._vectors is not None and 0 < len(self._vectors) <= self._rule.exact_texts

    def cosines(self, vector: NDArray[np.float32]) -> Floats:
        """Similarity of all documents with a vector, shape (d,); only where `compares_all`."""
        return np.asarray(cosines(np.asarray(self._vectors), vector)[self._units.document_texts])

    def documents(self, words: Sequence[Word], similar: Floats | None) -> Floats:
        """Scores of all documents for some words of a question, shape (d,), at least 0.

        Args:
            words: Of the question.
            similar: Shape (d,): cosines of the documents; None: words alone.
        """
        texts, _ = self._lexical(words)
        return texts if similar is None else texts + self._rule.similarity_share * np.maximum(similar, 0.0)

    def _lexical(self, words: Sequence[Word]) -> tuple[Floats, float]:
        """Share of the documents' words, divided by the largest score; and that."""
        lexical = score(self._documents, count_terms(dict.fromkeys(content_stems(words)), self._documents.terms))
        top = float(lexical.max(initial=0.0))
        return ((1 - self._rule.similarity_share) * lexical / top if top else lexical), top

    def best_of_hubs(self, documents: Floats) -> Floats:
        """The largest positive score among each hub's documents, 0 without; shape (h,)."""
        return self._sums(documents, self._all, 1)

    def _soft(self, hubs: Floats, documents: Floats, similar: Floats | None) -> Soft:
        return Soft(of_maximum(hubs) ** self._rule.hub_power, documents, similar)

    def _sums(self, documents: Floats, hubs: NDArray[np.int32], count: int | None = None) -> Floats:
        """Of some hubs: summed scores of the best documents of their best signatures, shape of `hubs`."""
        sums: Floats = sum_of_best(self._entries, documents, hubs, count or self._rule.signatures)
        return sums

    def _cosines_of(self, vectors: NDArray[np.float32], vector: NDArray[np.float32], hubs: NDArray[np.int32]) -> Floats:
        """Similarity of the documents of some hubs, 0 for others."""
        units = self._units
        chosen = [units.path_documents[units.hub_starts[hub] : units.hub_starts[hub + 1]] for hub in hubs.tolist()]
        documents = np.unique(np.concatenate(chosen))
        similar = np.zeros(len(units.copies))
        similar[documents] = cosines(np.ascontiguousarray(vectors[units.document_texts[documents]]), vector)
        return similar


def of_maximum(values: Floats) -> Floats:
    """Values of at least 0 divided by the largest; zeros stay zeros."""
    top = float(values.max(initial=0.0))
    return values / top if top else values


_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


def _entries(units: Units) -> _Entries:
    """Distinct (hub, document) pairs in order of (hub, signature): each hub's runs of one signature, and documents.

    Returns:
        Shape (h + 1,): where each hub's runs begin; shape (r + 1,): where each run begins; documents.
    """
    hubs, documents = units.path_hubs.astype(np.int64), units.path_documents
    keys = np.unique(hubs * len(units.copies) + documents)  # documents are numbered by signature
    hubs, documents = np.divmod(keys, max(1, len(units.copies)))
    signatures = units.document_signatures[documents]
    is_first = np.ones(len(hubs), dtype=np.bool_)
    is_first[1:] = (hubs[1:] != hubs[:-1]) | (signatures[1:] != signatures[:-1])
    runs = np.flatnonzero(is_first)
    starts = np.searchsorted(hubs[runs], np.arange(units.hub_count + 1))
    return starts, np.append(runs, len(hubs)), documents.astype(np.int32)


def _sum_of_best(entries: _Entries, scores: Floats, hubs: NDArray[np.int32], count: int) -> Floats:
    """Of each hub, the sum of the `count` largest of the best scores of its signatures."""
    starts, runs, documents = entries
    sums = np.zeros(len(hubs))
    largest = np.zeros(count)
    for number in range(len(hubs)):
        hub = hubs[number]
        largest[:] = 0.0
        row = runs[starts[hub]]
        for run in range(starts[hub], starts[hub + 1]):
            found = 0.0
            while row < runs[run + 1]:
                found = max(found, scores[documents[row]])
                row += 1
            for place in range(count):  # in order without a branch: half the time of an insertion
                kept = largest[place]
                largest[place] = max(kept, found)
                found = min(kept, found)
        total = 0.0
        for place in range(count):
            total += largest[place]
        sums[number] = total
    return sums


sum_of_best: Any = njit(cache=True)(_sum_of_best)
"""Compiled `_sum_of_best`."""
