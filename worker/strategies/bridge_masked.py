"""`bridge-masked`: bridge with a second look at the question, encoded once more without its rare names.

What is asked and about whom pull apart, so that passages of the second hop, which lack the names, come closer. The walk
also uses parts of titles as edges; BM25 counts as far as it earns trust. Source: bridge-masked.md 1, 3.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import PASSAGES_ONLY, Evidence, Note
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.schemas.stems import analyser_of
from polyhop.warehouse.artefacts import CHUNK_GRAPH, NAMES, lexical_of
from polyhop.worker.ranking.bm25 import DEPTH, Trust, agreement, completeness, containment, count_terms, score
from polyhop.worker.ranking.bridge import (
    common_count,
    cover,
    flat_walk_part,
    is_unnested,
    masked_text,
    names_share,
    relative,
    seed_passages,
)
from polyhop.worker.ranking.fusion import best, contenders
from polyhop.worker.ranking.pagerank import WalkSeeds, mix
from polyhop.worker.ranking.similarity import cosine_error, exact_cosines, rough_cosines
from polyhop.worker.strategies.base import (
    Found,
    Ranking,
    question_vector,
    strategy,
)
from polyhop.worker.strategies.bridge import (
    ANALYSER,
    CHOSEN,
    IN_COSINES,
    POOL,
    REFERENCE_RANK,
    BridgeParameters,
    BridgeStrategy,
)
from polyhop.worker.strategies.entities import QuestionEntities, Start, entity_meanings, match_meanings

COMMON_SHARE = 0.01  # L / N: names in more of the passages (and in more than 5) are not masked; bridge-masked.md 4.
LEAST_GRAPH_SHARE = 0.2  # c_min, of graph_weight: left to questions without rare names; bridge-masked.md 4.

# Source: bridge-masked.md 1, 3 step 0.


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question as it is read before anything is ranked.

    Attributes:
        seeds: Shape (m,): those of them that start the walk, ascending.
        masked: Its words without its rare names; "" if there is no such question.
        names_share: c.
    """

    entities: QuestionEntities
    seeds: NDArray[np.intp]
    shares: NDArray[np.float64]
    masked: str
    names_share: float


class MaskedQuestions:
    """Reads questions of one version."""

    def __init__(self, reader: IndexReader) -> None:
        graph = reader.artefact(CHUNK_GRAPH)
        self._find = reader.artefact(NAMES).find
        self._meanings_of = entity_meanings(reader)
        self._number_of, self._df = graph.number_of, graph.df
        self._common = common_count(graph.passage_count, COMMON_SHARE)
        self._stems = analyser_of(ANALYSER, reader.artefact(lexical_of(ANALYSER)).language)

    def read(self, text: str) -> MaskedQuestion:
        """Names and mask of a question. Source: bridge-masked.md 1, 3 steps 0a and 0b."""
        mentions = self._find(text)
        meanings = [self._meanings_of(mention.key) for mention in mentions]
        entities = match_meanings(meanings, self._number_of, self._df)
        spans = [
            (mention.start, mention.end)
            for mention, keys in zip(mentions, meanings, strict=True)
            if any(map(self._is_rare, keys))
        ]
        masked = masked_text(text, spans) if spans else ""
        first = is_unnested(entities.matched)
        seeds, share = entities.numbers[first], names_share(self._df[entities.numbers[first]], self._common)
        return MaskedQuestion(entities, seeds, entities.shares[first], masked if self._stems(masked) else "", share)

    def _is_rare(self, key: str) -> bool:
        number = self._number_of.get(key)
        return number is not None and 0 < self._df[number] <= self._common


IN_MASKED_COSINES = (*IN_COSINES, "lexical_share")
"""Parameters in units of the local encoder's cosine. Source: bridge-masked.md 8, algorithms.md 2B.5."""

_BLEND_ROUNDINGS = 4
"""Roundings of a blended vector's components, as so many further dimensions in `cosine_error`."""


class BridgeMaskedParameters(BridgeParameters):
    """Parameters of `bridge-masked`; see bridge-masked.md 4 for how far each may move without harm."""

    grid: ClassVar[Mapping[str, str]] = {"graph_weight": ".1,.2,.35,.5", "mask_weight": "0,.5,.7,.8"}
    """Around the defaults, beyond where bridge-masked.md 4 found them flat."""

    graph_weight: float = Field(
        0.35, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.35."
    )
    mask_weight: float = Field(
        0.7,
        ge=0,
        le=1,
        description="w: share of the masked question in the similarity, default 0.7; 0: the question alone.",
    )
    lexical_share: float = Field(
        0.3,
        ge=0,
        le=1000,
        description="phi: weight of BM25 in the score, where the question is about no rare name, default 0.3.",
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with all that its ranking is made of.

    Attributes:
        stems: Its distinct stems in the vocabulary, ascending.
        masked_vector: Shape (d,): that of the masked question, None if there is none.
        rough: Shape (n_passages,): cosines, good for choosing only.
        rough_fused: Shape (n_passages,): s, their mixture with those of the masked question, likewise.
        lexical: Shape (n_passages,): lex, BM25 relative to its maximum.
        trust: How far BM25 is trusted.
    """

    read: MaskedQuestion
    stems: list[int]
    vector: NDArray[np.float32]
    masked_vector: NDArray[np.float32] | None
    rough: NDArray[np.float64]
    rough_fused: NDArray[np.float64]
    lexical: NDArray[np.float64]
    trust: Trust


@strategy(
    "bridge-masked",
    "As bridge, with a second encoding of the question without its rare names, and BM25 only where it earns trust.",
    BridgeMaskedParameters,
    needs={"graph", "graph:title-chunks", "lexical:stems", "vectors:passage"},
    batches=True,
)
class BridgeMaskedStrategy(BridgeStrategy):
    """Read, seed, spread, fuse, cover. A passage's score is F; the order of the first ones also covers the question."""

    graph = CHUNK_GRAPH
    steps = 7  # T; bridge-masked.md 4.
    in_cosines = IN_MASKED_COSINES
    _parameters: BridgeMaskedParameters

    def __init__(self, reader: IndexReader, parameters: BridgeMaskedParameters, services: Services) -> None:
        super().__init__(reader, parameters, services)
        self._services = services
        self._questions = MaskedQuestions(reader)
        self._error = cosine_error(self._vectors.shape[1] + _BLEND_ROUNDINGS)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the seeds of their walks, and what was read in the question."""
        for one in self._asked(questions):
            # Where the walk begins. Source: bridge-masked.md 3 step 1.
            parameters = self._parameters
            weight = parameters.lexical_weight * one.trust.in_seeds
            near = contenders(one.rough + weight * one.lexical, parameters.seeds, self._error)
            exact = exact_cosines(self._vectors, near, one.vector) + weight * one.lexical[near]
            first, passages = seed_passages(exact, parameters.seeds, parameters.seed_temperature)
            seeds = one.read.seeds
            weights, passages = mix(self._entity_weights[seeds] * one.read.shares, passages)
            walk = WalkSeeds(seeds, weights, near[first], passages)
            start = Start(one.read.entities, walk, None if len(seeds) else PASSAGES_ONLY)
            seeded = time.perf_counter()
            ranking = self._ranking_of(one, self._walk.passages(start.seeds), limit)
            evidence = _noted(start.evidence(self._passage_ids, self._keys), one)
            yield Found(ranking, evidence, time.perf_counter() - seeded)

    def _asked(self, questions: Sequence[Question]) -> Iterator[_Asked]:
        """The questions one after the other, so that arrays by passage are held for one of them."""
        read = [self._questions.read(question.text) for question in questions]
        vectors = [question_vector(question) for question in questions]
        masked = self._masked_vectors(read)
        share = np.float32(self._parameters.mask_weight)
        wanted: list[NDArray[np.float32]] = []
        for vector, other in zip(vectors, masked, strict=True):
            wanted += [vector] if other is None else [vector, (1 - share) * vector + share * other]
        rough = rough_cosines(self._vectors, wanted)
        for question, reading, vector, other in zip(questions, read, vectors, masked, strict=True):
            own = next(rough)
            fused = own if other is None else next(rough)
            stems = sorted(count_terms(self._stems(question.text), self._impacts.terms))
            scores = score(self._impacts, dict.fromkeys(stems, 1))
            trust = self._trust(vector, own, scores, stems)
            yield _Asked(reading, stems, vector, other, own, fused, relative(scores), trust)

    def _masked_vectors(self, read: Sequence[MaskedQuestion]) -> list[NDArray[np.float32] | None]:
        """Vectors of the masked questions, which come again with other names: cached."""
        texts = [text for text in dict.fromkeys(one.masked for one in read) if text]
        if self._parameters.mask_weight == 0 or not texts:
            return [None for _ in read]
        vector_of = dict(zip(texts, self._services.encode(texts, is_repeated=True), strict=True))
        return [vector_of[one.masked] if one.masked else None for one in read]

    def _trust(
        self, vector: NDArray[np.float32], rough: NDArray[np.float64], scores: NDArray[np.float64], stems: list[int]
    ) -> Trust:
        """How far BM25 is trusted. Source: bridge-masked.md 3 steps 0c and 0d."""
        near = contenders(rough, DEPTH, self._error)
        by_cosine = near[best(exact_cosines(self._vectors, near, vector), DEPTH)]
        by_words = best(scores, DEPTH)
        by_words = by_words[scores[by_words] > 0]
        if not len(by_words):
            return Trust(0.0, 0)
        contains = containment(self._impacts, stems, by_words[:1])[0]
        return Trust(completeness(contains, self._impacts.idf[stems]), agreement(by_cosine, by_words))

    def _ranking_of(self, one: _Asked, mass: NDArray[np.float64], limit: int) -> Ranking:
        """The first by cover, the rest by score. Source: bridge-masked.md 3 steps 3 and 4."""
        parameters, share = self._parameters, one.read.names_share
        graph_weight = parameters.graph_weight * max(share, LEAST_GRAPH_SHARE)
        beside = flat_walk_part(mass, graph_weight, REFERENCE_RANK)
        lexical_weight = parameters.lexical_share * (1 - share) * one.trust.in_fusion
        if lexical_weight > 0:
            beside += lexical_weight * one.lexical
        count = max(limit, POOL)
        near = contenders(one.rough_fused + beside, count, self._error)
        scores = self._fused(one, near) + beside[near]
        first = best(scores, count)
        pool = first[:POOL]
        contains = containment(self._impacts, one.stems, near[pool])
        weight = parameters.coverage_weight * one.trust.in_seeds
        order = cover(scores[pool], contains, self._impacts.idf[one.stems], weight, CHOSEN)
        shown = np.concatenate((pool[order], first[POOL:]))[: max(limit, 0)]
        return near[shown], scores[shown]

    def _fused(self, one: _Asked, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Similarities s of a few passages, each by itself in float64."""
        cosine = exact_cosines(self._vectors, rows, one.vector)
        if one.masked_vector is None:
            return cosine
        share = self._parameters.mask_weight
        return (1 - share) * cosine + share * exact_cosines(self._vectors, rows, one.masked_vector)


def _noted(evidence: Evidence, one: _Asked) -> Evidence:
    """The evidence with what was read in the question and how far BM25 was trusted, rounded for reading."""
    parts = {
        "names share (c)": one.read.names_share,
        "completeness (kappa)": one.trust.completeness,
        "agreement (o)": float(one.trust.agreement),
        "trust (r)": one.trust.in_seeds,
    }
    items = tuple((label, round(value, 6)) for label, value in parts.items())
    masked = "none" if one.masked_vector is None else one.read.masked
    return replace(evidence, notes=(Note("Masked question", masked), Note("Trust in words", items=items)))
