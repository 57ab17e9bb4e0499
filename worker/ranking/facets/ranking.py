"""Hub facets: hub paths by the conditions that their hubs meet and by how well they fit the question (pure).

Source: algorithms.md 4B, rules 6 to 8 and final score.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyhop.worker.ranking.facets.conditions import HUB, ConditionFinder, Facet
from polyhop.worker.ranking.facets.extremes import extreme_facets
from polyhop.worker.ranking.facets.kinds import asked_kinds
from polyhop.worker.ranking.facets.mentions import MentionRule, find_mentions
from polyhop.worker.ranking.facets.polarity import Polarity
from polyhop.worker.ranking.facets.read_question import ReadQuestion
from polyhop.worker.ranking.facets.signature_words import SignatureWords
from polyhop.worker.ranking.facets.soft import Soft, SoftRule, SoftScores, of_maximum
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import question_words, words_of
from polyhop.worker.ranking.similarity import cosines

Floats = NDArray[np.float64]

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
        """Of prepared paths.

        Args:
            units: The paths.
            vectors: Of the documents' texts, and of each hub's label (shape (h, d)); None without an encoder.
            hub_types: Names of the hubs' types: their words tell no signature from others.
            rule: Parameters.
        """
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
