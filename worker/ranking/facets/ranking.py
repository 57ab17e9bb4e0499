"""Hub paths ranked by the conditions that their hubs meet and by how well they fit the question (pure).

Source: algorithms.md 4B, rules 6 to 8 and final score.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyhop.schemas.hubs import HubPaths
from polyhop.tasks.lexical.postings import build_postings
from polyhop.worker.ranking.bm25 import count_terms, impacts, score
from polyhop.worker.ranking.facets.conditions import HUB, ConditionFinder, Facet, ReadQuestion, extreme_facets
from polyhop.worker.ranking.facets.labels import (
    MentionRule,
    Word,
    content_stems,
    find_mentions,
    question_words,
    words_of,
)
from polyhop.worker.ranking.facets.units import Polarity, SignatureWords, Units, asked_kinds
from polyhop.worker.ranking.fusion import best, best_positive
from polyhop.worker.ranking.similarity import cosines

# Source: algorithms.md 4B, final score.

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
        """Of a version.

        Args:
            paths: Hubs and their paths.
            triple_passages: Shape (e, 2): triples and passages; of a graph there are none.
            hub_passages: Shape (e, 2): hubs and passages, used where no passage states a triple.
        """
        count = paths.path_count
        if len(triple_passages):
            owners, pairs = paths.last_triples(), triple_passages
        else:
            owners, pairs = paths.path_hubs(), hub_passages
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        starts = np.searchsorted(pairs[:, 0], owners)
        lengths = np.searchsorted(pairs[:, 0], owners, side="right") - starts
        path_of = np.repeat(np.arange(count), lengths)
        offsets = np.arange(len(path_of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        passages = pairs[np.repeat(starts, lengths) + offsets, 1]
        order = np.argsort(passages, kind="stable")
        self._paths = path_of[order]
        self._passages, self._starts = np.unique(passages[order], return_index=True)

    def rank(self, scores: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
        """At most `count` passages with their best path's score, in descending order; ties by passage number.

        Args:
            scores: Shape (p,): of all paths; a passage without a score above 0 is left out.
            count: Passages at most.
        """
        if not len(self._passages):
            return np.empty(0, dtype=np.intp), np.empty(0)
        values = np.maximum.reduceat(scores[self._paths], self._starts)
        order = best_positive(values, count)
        return self._passages[order].astype(np.intp), values[order]


# Source: algorithms.md 4B, soft score.


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
    """Distinct (hub, document) pairs in order of (hub, signature): each hub's runs of one signature, and documents."""
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


FLOOR = 0.15
"""What a hub keeps that does not meet a facet."""

LEAST_OWN = 0.001  # algorithms.md 4B, rule 8.

SIMILARITY_POWER = 3
"""How much the most similar signatures outweigh others; flat between 2 and 3 on ORKG and the museum, less at 4."""

GIVEN_FACTOR = 0.8
"""What the similarity of a field counts whose value the question names: it rather asks for another one."""

KIND_WEIGHT = 0.2
"""What a field gains whose values are of a kind that the question asks for in plain words."""

MOST_SIGNATURES = 10_000
"""With more of them, a graph's predicates are free text, and comparing them all takes milliseconds."""


@dataclass(frozen=True, slots=True)
class FacetRule:
    """Parameters of hub facets; defaults as in algorithms.md 4B.

    Attributes:
        mentions: What counts as a mention.
        soft: Weights of the soft score.
        floor: What a hub keeps of its score per facet that it does not meet.
        same_node_bonus: What a path gains if all facets are met where its last triple begins.
        signature_similarity: Weight of the similarity of signatures to the rest of the question, 0 to 1, beside the
            question's words.
        soft_weight: Weight of the soft score beside the facets'.
    """

    mentions: MentionRule
    soft: SoftRule
    floor: float = FLOOR
    same_node_bonus: float = 0.3
    signature_similarity: float = 0.3
    soft_weight: float = 0.7


@dataclass(frozen=True, slots=True)
class PathScores:
    """Scores of a question.

    Attributes:
        paths: Shape (p,).
        hubs: Shape (h,): H, how well each hub meets the facets.
        met: Shape (h,) for each facet: how well each hub meets it.
        asked: Shape (s,): how much the question asks for each signature.
    """

    paths: Floats
    hubs: Floats
    met: Sequence[Floats]
    asked: Floats


class FacetRanking:
    """A version's hub paths, ready to be scored."""

    def __init__(
        self,
        units: Units,
        vectors: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
        hub_types: Collection[str],
        rule: FacetRule,
    ) -> None:
        """Of prepared paths."""
        self._units = units
        self._rule = rule
        self._soft = SoftScores(units, None if vectors is None else vectors[0], rule.soft)
        self._hub_vectors = None if vectors is None else vectors[1]
        self._types = frozenset(word.stem for name in hub_types for word in words_of(name))
        self._centroids = _centroids(units, vectors[0]) if vectors is not None and rule.signature_similarity else None
        self._firsts = np.searchsorted(units.document_signatures, np.arange(len(units.signatures)))
        words = SignatureWords(units.signatures, units.labels, self._types)
        self._finder = ConditionFinder(units, words, Polarity(units))

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Kind of each signature's values, shape (s,)."""
        return self._finder.kinds

    @property
    def compares_signatures(self) -> bool:
        """Whether scores gain from the vector of a question's rest."""
        return self._centroids is not None

    def read(self, question: str) -> ReadQuestion:
        """What a question asks for. Cost: see `find_mentions`."""
        units, rule = self._units, self._rule
        words = question_words(question)
        meanings = [units.labels.meanings(word, rule.mentions.family_factor) for word in words]
        mentions = find_mentions(units.labels, meanings, words, units.roles, rule.mentions)
        return ReadQuestion(words, self._finder.of(words, meanings, mentions), self._types)

    def score(
        self, question: ReadQuestion, vector: NDArray[np.float32] | None, rest: NDArray[np.float32] | None = None
    ) -> PathScores:
        """Scores of all paths for a question.

        Args:
            question: From `read`.
            vector: Of the question.
            rest: Of `question.rest`; None: signatures are compared by their words alone.

        Cost: O(documents * dimension + paths).
        """
        units, rule, conditions = self._units, self._rule, question.conditions
        soft = self._soft.of(question.words, vector)
        similar = self._soft.cosines(rest) if rest is not None and self._soft.compares_all else None
        beside = question.words_beside_hubs
        documents = self._soft.documents(beside, similar) if len(beside) < len(question.words) else soft.documents
        met = [self._met(facet) for facet in conditions.facets]
        hubs = self._hubs(met, soft, vector)
        asked = self._asked(question, rest, similar)
        own = asked[units.document_signatures] * conditions.polarity
        facets = [*conditions.facets, *extreme_facets(units, self.kinds, question, hubs, asked)]
        for facet in facets[len(met) :]:
            hubs = hubs * np.maximum(self._met(facet), self._rule.floor)
        add_matches(own, facets)
        scores: Floats = combined(
            (units.hub_starts, units.path_documents, units.path_parents),
            (hubs, own + LEAST_OWN, self._same_node(conditions.facets)),
            (soft.hubs * np.sqrt(of_maximum(hubs)), documents),
            rule.soft_weight,
        )
        return PathScores(scores, hubs, met, asked)

    def _asked(self, question: ReadQuestion, rest: NDArray[np.float32] | None, similar: Floats | None) -> Floats:
        """How much the question asks for each signature, by words, similarity and kind of value; shape (s,), 0 to 1.

        Source: algorithms.md 4B, rule 7.
        """
        conditions = question.conditions
        is_of_kind = self.kinds & int(asked_kinds(question.words)) > 0
        gains = KIND_WEIGHT * is_of_kind
        if rest is None or self._centroids is None:
            return np.minimum(conditions.shares + gains, 1.0)
        fields = np.maximum(cosines(self._centroids, rest), 0.0)
        if similar is not None:
            fields = fields + np.maximum(np.maximum.reduceat(similar, self._firsts), 0.0)
        given = sorted({signature for facet in conditions.facets for signature in facet.signatures} - {HUB})
        fields[given] *= GIVEN_FACTOR
        weight = self._rule.signature_similarity
        asked = (1.0 - weight) * conditions.shares + weight * of_maximum(fields) ** SIMILARITY_POWER
        return np.minimum(asked + gains, 1.0)

    def _met(self, facet: Facet) -> Floats:
        """How well each hub meets a facet."""
        units = self._units
        met = np.zeros(units.hub_count)
        for document, strength in facet.documents.items():
            hubs = units.path_hubs[units.document_paths.of(document)]
            met[hubs] = np.maximum(met[hubs], strength)
        if facet.hubs:
            np.maximum.at(met, list(facet.hubs), list(facet.hubs.values()))
        return met

    def _hubs(self, met: Sequence[Floats], soft: Soft, vector: NDArray[np.float32] | None) -> Floats:
        """H: how well each hub meets all facets. Source: algorithms.md 4B, rule 6."""
        units = self._units
        if met:
            return np.asarray(np.multiply.reduce([np.maximum(one, self._rule.floor) for one in met]))
        if soft.cosines is None or vector is None or self._hub_vectors is None or not len(self._hub_vectors):
            return np.ones(units.hub_count)
        paths = self._soft.best_of_hubs(soft.cosines)
        return np.maximum((paths + cosines(self._hub_vectors, vector)) / 2, 0.0)

    def _same_node(self, facets: Sequence[Facet]) -> Floats:
        """Factor by node that last triples leave. Source: algorithms.md 4B, rule 8."""
        units = self._units
        factor = np.ones(units.parent_count)
        valued = [facet for facet in facets if facet.documents]
        for facet in valued:
            documents = [number for number, strength in facet.documents.items() if strength > self._rule.floor]
            parents = np.unique(units.path_parents[units.document_paths.of_all(documents)])
            factor[parents] += self._rule.same_node_bonus / len(facets)
        return factor


def add_matches(own: Floats, facets: Sequence[Facet]) -> None:
    """Raises the scores of documents to the strengths with which they meet a facet."""
    for facet in facets:
        if facet.documents:
            np.maximum.at(own, list(facet.documents), list(facet.documents.values()))


def _centroids(units: Units, vectors: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Mean vector of the documents of each signature, of length 1; None if there are too many signatures."""
    count = len(units.signatures)
    if not 0 < count <= MOST_SIGNATURES or not len(vectors):
        return None
    documents = np.arange(len(units.document_signatures))
    ones = np.ones(len(documents), dtype=np.float32)
    texts, shape = units.document_texts, (count, len(vectors))
    sums = np.asarray(csr_array((ones, (units.document_signatures, texts)), shape=shape) @ vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def _combined(
    paths: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    facet: tuple[Floats, Floats, Floats],
    soft: tuple[Floats, Floats],
    soft_weight: float,
) -> Floats:
    """Facet and weighted soft score of each path, each divided by its maximum, summed."""
    starts, documents, parents = paths
    conditions, own, same = facet
    soft_hubs, soft_documents = soft
    top_facet, top_soft = 0.0, 0.0
    for hub in range(len(conditions)):
        best_facet, best_soft = 0.0, 0.0
        for path in range(starts[hub], starts[hub + 1]):
            document = documents[path]
            best_facet = max(best_facet, own[document] * same[parents[path]])
            best_soft = max(best_soft, soft_documents[document])
        top_facet = max(top_facet, best_facet * conditions[hub])
        top_soft = max(top_soft, best_soft * soft_hubs[hub])
    scores = np.empty(len(documents))
    for hub in range(len(conditions)):
        by_facet = conditions[hub] / top_facet if top_facet > 0 else 0.0
        by_soft = soft_weight * soft_hubs[hub] / top_soft if top_soft > 0 else 0.0
        for path in range(starts[hub], starts[hub + 1]):
            document = documents[path]
            scores[path] = own[document] * same[parents[path]] * by_facet + soft_documents[document] * by_soft
    return scores


combined: Any = njit(cache=True)(_combined)
"""Compiled `_combined`."""
