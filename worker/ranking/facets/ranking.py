"""Hub paths ranked by the conditions that their hubs meet and by how well they fit the question (pure).

Source: algorithms.md 4B, soft score, rules 6 to 8 and final score.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyhop.schemas.graph import distinct
from polyhop.schemas.hubs import HubPaths
from polyhop.schemas.postings import build_postings
from polyhop.schemas.propositions import CompressedRows
from polyhop.worker.ranking.bm25 import TermImpacts, count_terms, score
from polyhop.worker.ranking.facets.conditions import (
    BEST_SHARE,
    HUB,
    Facet,
    ReadQuestion,
    asked_kinds,
    extreme_facet,
    read_question,
)
from polyhop.worker.ranking.facets.labels import Word, content_stems, words_of
from polyhop.worker.ranking.facets.units import Fields, Units
from polyhop.worker.ranking.fusion import best, best_positive
from polyhop.worker.ranking.similarity import cosines

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


def best_paths(scores: Floats, last_triples: NDArray[np.integer], count: int) -> NDArray[np.intp]:
    """The best path of each of the `count` best triples, in descending order of score; ties by path number.

    Args:
        scores: Shape (p,): of all paths; only those above 0 are ranked.
        last_triples: Shape (p,): the triple that each path ranks.
        count: Triples at most.

    Cost: O(p) unless most paths end in the same few triples.
    """
    wanted = max(count, 0)
    while True:
        order = best(scores, wanted)
        is_last = len(order) < wanted or scores[order[-1:]].min(initial=1.0) <= 0
        order = order[scores[order] > 0]
        _, firsts = np.unique(last_triples[order], return_index=True)
        if len(firsts) >= count or is_last:
            return np.asarray(order[np.sort(firsts)][: max(count, 0)])
        wanted *= 4


class LinkedPassages:
    """Passages that take the scores of paths: those that state a path's last triple, or those of its hub."""

    def __init__(self, paths: HubPaths, triple_passages: Pairs, hub_passages: Pairs) -> None:
        """Links the paths of a version to passages.

        Args:
            paths: Hubs and their paths.
            triple_passages: Shape (e, 2): triples and passages; of a graph there are none.
            hub_passages: Shape (e, 2): hubs and passages, used where no passage states a triple.
        """
        if len(triple_passages):
            owners, pairs = paths.last_triples(), triple_passages
        else:
            owners, pairs = paths.path_hubs(), hub_passages
        count = 1 + int(max(owners.max(initial=-1), pairs[:, 0].max(initial=-1)))
        linked = CompressedRows.of(pairs[:, 0], pairs[:, 1], count)
        path_of, offsets = linked.gathered(owners)
        passages = linked.indices[offsets]
        order = np.argsort(passages, kind="stable")
        self._paths = path_of[order]
        self._passages, self._starts = np.unique(passages[order], return_index=True)

    def rank(self, scores: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
        """At most `count` passages with their best path's score, in descending order; ties by passage number."""
        if not len(self._passages):
            return np.empty(0, dtype=np.intp), np.empty(0)
        values = np.maximum.reduceat(scores[self._paths], self._starts)
        order = best_positive(values, count)
        return self._passages[order].astype(np.intp), values[order]


@dataclass(frozen=True, slots=True)
class FacetRule:
    """Parameters of hub facets; defaults as in algorithms.md 4B."""

    k1: float = 1.5
    b: float = 0.75
    least_coverage: float = 0.6
    floor: float = 0.15
    similarity_share: float = 0.2
    signature_similarity: float = 0.3
    soft_weight: float = 0.7


BEST_SIGNATURES = 4  # Signatures that a hub is judged by: those of its best paths.

HUB_LABEL_SHARE = 0.5  # Weight of a hub's own label.

HUB_POWER = 8  # How much better hubs outweigh better paths; less costs up to .05 of recall@10 (trials).

LEAST_OWN = 0.001  # algorithms.md 4B, rule 8.

SIMILARITY_POWER = 3
"""How much the most similar signatures outweigh others; flat between 2 and 3 on ORKG and the museum, less at 4."""

KIND_WEIGHT = 0.2  # What a field gains whose values are of a kind that the question asks for in plain words.

LEAST_FIELD = 0.45
"""How much a field must be asked for to come before conditions; .28 costs .025 of MRR on the museum's tuned half."""

GIVEN_SHARE = 0.95
"""Of the best score of other fields: what the values of conditions then keep at most; chosen, order is all it sets."""

EXACT_TEXTS = 50_000  # Most vectors that are all compared with a question; of more, those of the best hubs by words.

EXACT_HUBS = 500  # How many; source: algorithms.md 4B, comparing theirs takes 2 ms, all of 140,000 texts 15 ms.

MOST_SIGNATURES = 10_000
"""With more of them, a graph's predicates are free text, and comparing them all takes milliseconds."""


@dataclass(frozen=True, slots=True)
class FacetScores:
    """Scores of a question."""

    paths: Floats  # Shape (p,).
    hubs: Floats  # Shape (h,): H, how well each hub meets the facets.
    met: Sequence[Floats]  # Shape (h,) for each facet: how well each hub meets it.
    asked: Floats  # Shape (s,): how much the question asks for each signature.


class FacetRanking:
    """A version's hub paths, ready to be scored.

    Attributes:
        fields: What its signatures are.
        compares_signatures: Whether scores gain from the vector of a question's rest.
    """

    def __init__(
        self, units: Units, vectors: NDArray[np.float32] | None, hub_types: Collection[str], rule: FacetRule
    ) -> None:
        """Prepares the ranking; `vectors` are those of the documents' texts, None without an encoder."""
        self._units = units
        self._rule = rule
        self._vectors = vectors
        self._types = frozenset(word.stem for name in hub_types for word in words_of(name))
        self.fields = Fields(units, self._types)
        documents = build_postings(content_stems(words) for words in units.document_words())
        self._documents = TermImpacts(documents, rule.k1, rule.b, units.copies)
        hubs = build_postings(content_stems(units.value_words[value]) for value in units.hub_values.tolist())
        self._hub_labels = TermImpacts(hubs, rule.k1, rule.b)
        self._entries = _entries(units)
        self._firsts = np.searchsorted(units.document_signatures, np.arange(len(units.signature_texts)))
        self.compares_signatures = (
            vectors is not None
            and len(vectors) > 0
            and rule.signature_similarity > 0
            and 0 < len(units.signature_texts) <= MOST_SIGNATURES
        )
        self._centroids = _centroids(units, vectors) if vectors is not None and self.compares_signatures else None

    def read(self, question: str) -> ReadQuestion:
        """Reads the conditions of a question."""
        return read_question(self._units, self.fields, question, self._rule.least_coverage, self._types)

    def score(
        self, question: ReadQuestion, vector: NDArray[np.float32] | None, rest: NDArray[np.float32] | None = None
    ) -> FacetScores:
        """Scores of all paths for a question.

        Cost: O(documents * dimension + paths); of more than `EXACT_TEXTS` documents, those of the best hubs only.
        """
        units, floor = self._units, self._rule.floor
        compared = self._compared(question.words)
        similar, rest_similar = self._cosines(vector, compared), self._cosines(rest, compared)
        hub_scores, documents = self.soft(question.words, similar)
        remaining = question.words_without_hubs
        if len(remaining) < len(question.words):
            documents = self._documents_of(remaining, rest_similar)[0]

        met = [self._met(facet) for facet in question.facets]
        hubs = np.ones(units.hub_count)
        for one in met:
            hubs = hubs * np.maximum(one, floor)
        asked = self._asked(question, rest, rest_similar)
        extreme = extreme_facet(units, self.fields.kinds, question, hubs, asked)
        if extreme is not None:
            hubs = hubs * np.maximum(self._met(extreme), floor)
        own = asked[units.document_signatures]
        for facet in (*question.facets, *([extreme] if extreme else [])):
            if facet.documents:
                np.maximum.at(own, list(facet.documents), list(facet.documents.values()))

        facet_scores = hubs[units.path_hubs] * (own + LEAST_OWN)[units.path_documents]
        soft_hubs = hub_scores * np.sqrt(of_maximum(hubs))
        soft_scores = soft_hubs[units.path_hubs] * documents[units.path_documents]
        scores = of_maximum(facet_scores) + self._rule.soft_weight * of_maximum(soft_scores)
        # Where one hub meets all conditions best, what is asked of it comes before the values that describe it.
        given = sorted({signature for facet in question.facets for signature in facet.signatures} - {HUB})
        is_given = np.isin(units.document_signatures, given)[units.path_documents]
        free = np.delete(asked, given)
        top = asked[given].max(initial=LEAST_FIELD)
        if given and free.max(initial=0.0) >= top and np.count_nonzero(hubs >= BEST_SHARE * hubs.max()) == 1:
            other = scores[~is_given].max(initial=0.0)
            scores[is_given] *= min(1.0, GIVEN_SHARE * other / scores[is_given].max(initial=LEAST_OWN))
        return FacetScores(scores, hubs, met, asked)

    def soft(self, words: Sequence[Word], similar: Floats | None) -> tuple[Floats, Floats]:
        """Fit of hubs, shape (h,), 0 to 1, and of documents, shape (d,), at least 0, to a question.

        Args:
            words: The question's.
            similar: Shape (d,): cosines of the documents; None: words alone.
        """
        documents, top = self._documents_of(words, similar)
        hubs = score(self._hub_labels, _counts(words, self._hub_labels)) / (top or 1.0)
        hubs = HUB_LABEL_SHARE * hubs + sum_of_best(self._entries, documents, BEST_SIGNATURES)
        return of_maximum(hubs) ** HUB_POWER, documents

    def _documents_of(self, words: Sequence[Word], similar: Floats | None) -> tuple[Floats, float]:
        """Scores of all documents, and the largest of their words alone."""
        share = self._rule.similarity_share
        lexical = score(self._documents, _counts(words, self._documents))
        top = float(lexical.max(initial=0.0))
        documents = (1 - share) * of_maximum(lexical)
        return documents if similar is None else documents + share * np.maximum(similar, 0.0), top

    def _compared(self, words: Sequence[Word]) -> NDArray[np.int32] | None:
        """Documents whose vectors are compared with a question; None: all."""
        if self._vectors is None or len(self._vectors) <= EXACT_TEXTS:
            return None
        is_chosen = np.zeros(self._units.hub_count, dtype=np.bool_)
        is_chosen[best(self.soft(words, None)[0], EXACT_HUBS)] = True
        return distinct(self._units.path_documents[is_chosen[self._units.path_hubs]])

    def _cosines(self, vector: NDArray[np.float32] | None, compared: NDArray[np.int32] | None) -> Floats | None:
        """Similarity of the documents with a vector, shape (d,), 0 for those that are not compared."""
        if vector is None or self._vectors is None or not len(self._vectors):
            return None
        texts = self._units.document_texts
        if compared is None:
            return np.asarray(cosines(self._vectors, vector)[texts])
        similar = np.zeros(len(texts))
        similar[compared] = cosines(np.ascontiguousarray(self._vectors[texts[compared]]), vector)
        return similar

    def _asked(self, question: ReadQuestion, rest: NDArray[np.float32] | None, similar: Floats | None) -> Floats:
        """Degree to which a question asks for each signature; shape (s,), 0 to 1.

        Source: algorithms.md 4B, rule 7.
        """
        asked = question.shares
        if rest is not None and similar is not None and self._centroids is not None:
            fields = np.maximum(cosines(self._centroids, rest), 0.0)
            fields = fields + np.maximum(np.maximum.reduceat(similar, self._firsts), 0.0)
            weight = self._rule.signature_similarity
            asked = (1.0 - weight) * asked + weight * of_maximum(fields) ** SIMILARITY_POWER
        is_of_kind = self.fields.kinds & int(asked_kinds(question.words)) > 0
        return np.minimum(asked + KIND_WEIGHT * is_of_kind, 1.0)

    def _met(self, facet: Facet) -> Floats:
        """Degree to which each hub meets a facet."""
        units = self._units
        met = np.zeros(units.hub_count)
        if facet.documents:
            strengths = np.array([*facet.documents.values()])
            owners, offsets = units.document_paths.gathered(np.array([*facet.documents]))
            np.maximum.at(met, units.path_hubs[units.document_paths.indices[offsets]], strengths[owners])
        if facet.hubs:
            np.maximum.at(met, list(facet.hubs), list(facet.hubs.values()))
        return met


def _counts(words: Sequence[Word], index: TermImpacts) -> dict[int, int]:
    """The stems of a question that are no stop words, each once."""
    return count_terms(dict.fromkeys(content_stems(words)), index.terms)


def of_maximum(values: Floats) -> Floats:
    """Values of at least 0 divided by the largest; zeros stay zeros."""
    top = float(values.max(initial=0.0))
    return values / top if top else values


_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


def _entries(units: Units) -> _Entries:
    """Distinct (hub, document) pairs in order of (hub, signature): each hub's runs of one signature, and documents."""
    hubs, documents = units.path_hubs.astype(np.int64), units.path_documents
    keys = distinct(hubs * len(units.copies) + documents)  # documents are numbered by signature
    hubs, documents = np.divmod(keys, max(1, len(units.copies)))
    signatures = units.document_signatures[documents]
    is_first = np.ones(len(hubs), dtype=np.bool_)
    is_first[1:] = (hubs[1:] != hubs[:-1]) | (signatures[1:] != signatures[:-1])
    runs = np.flatnonzero(is_first)
    starts = np.searchsorted(hubs[runs], np.arange(units.hub_count + 1))
    return starts, np.append(runs, len(hubs)), documents.astype(np.int32)


def _sum_of_best(entries: _Entries, scores: Floats, count: int) -> Floats:
    """Sum of the `count` largest of the best scores of each hub's signatures."""
    starts, runs, documents = entries
    sums = np.zeros(len(starts) - 1)
    largest = np.zeros(count)
    for hub in range(len(sums)):
        largest[:] = 0.0
        row = runs[starts[hub]]
        for run in range(starts[hub], starts[hub + 1]):
            found = 0.0
            while row < runs[run + 1]:
                found = max(found, scores[documents[row]])
                row += 1
            for rank in range(count):  # in order without a branch: half the time of an insertion
                kept = largest[rank]
                largest[rank] = max(kept, found)
                found = min(kept, found)
        total = 0.0
        for rank in range(count):
            total += largest[rank]
        sums[hub] = total
    return sums


sum_of_best: Any = njit(cache=True)(_sum_of_best)  # Compiled `_sum_of_best`.


def _centroids(units: Units, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean vector of the documents of each signature, of length 1."""
    ones = np.ones(len(units.document_signatures), dtype=np.float32)
    shape = (len(units.signature_texts), len(vectors))
    sums = np.asarray(csr_array((ones, (units.document_signatures, units.document_texts)), shape=shape) @ vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
