"""`bridge` and `bridge-lexical`: seed, spread, fuse, cover; with and without an encoder. Source: algorithms.md 2B."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import PASSAGES_ONLY
from polyhop.schemas.languages import analyser_of
from polyhop.schemas.manifest import NEAR
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import (
    COSINE_SCALE,
    GRAPH,
    IS_LARGE,
    lexical_of,
    partitioned,
    vectors_of,
)
from polyhop.worker.ranking.bm25 import TermImpacts, containment, count_terms, score, score_of, top
from polyhop.worker.ranking.bridge import cover, relative, seed_passages, walk_part, walk_parts
from polyhop.worker.ranking.fusion import best, contenders
from polyhop.worker.ranking.pagerank import (
    THINNEST,
    Masses,
    WalkRule,
    WalkSeeds,
    entity_weights,
    mix,
    walk_of,
)
from polyhop.worker.ranking.similarity import cosine_error, exact_cosines, rough_cosines
from polyhop.worker.strategies.base import Found, Parameters, RankedStrategy, Ranking, question_vector, strategy
from polyhop.worker.strategies.entities import QuestionEntities, Start, entity_matcher

ANALYSER = "stems"
K1, B = 1.2, 0.75  # algorithms.md 2B.2.
ENTITY_PENALTY, ENTITY_WEIGHT = 0.5, 2.0  # a question entity starts with omega / df ** q; algorithms.md 2B.3.
REFERENCE_RANK = 10  # m: the walk's mass at this rank counts as 1; algorithms.md 2B.3.
ALSO_NEAR = 50
"""Candidates by BM25, and as many by the walk, beside the `NEAR` by vectors. Measured: with 50, 100 or 200 of either
`bridge` and `bridge-lexical` find as many of the exact ten of a million passages.
"""
POOL, CHOSEN = 30, 20  # passages among which the first are chosen for what they add, and how many; algorithms.md 2B.3.
HEAD_START = 0.003
"""Seconds for which nothing computes beside a search by LanceDB that has just begun: it needs Python's lock some thirty
times until it computes by itself, and waits each time while another thread holds it. Measured on a million passages:
`bridge` takes 2 to 4 ms less with .003 and .004, 1 less with .0015.
"""
IN_COSINES = ("seed_temperature", "lexical_weight", "graph_weight", "coverage_weight")
"""Parameters of `bridge` in units of the local encoder's cosine. Source: algorithms.md 2B.5."""


class BridgeLexicalParameters(Parameters):
    """Parameters of `bridge-lexical`; see algorithms.md 2B.3 for how far each may move without harm."""

    grid: ClassVar[Mapping[str, str]] = {"graph_weight": ".2,.4,.6,.8", "restart": ".05,.1,.15"}
    """Around the defaults, beyond where algorithms.md 2B.3 found them flat."""

    seeds: int = Field(5, ge=1, le=10_000, description="k: passages that start the walk, default 5.")
    seed_temperature: float = Field(
        0.1, gt=0, le=100, description="tau: temperature of their weights; small favours the best, default 0.1."
    )
    restart: float = Field(0.1, gt=0, lt=1, description="alpha: probability of returning to the seeds, default 0.1.")
    title_boost: float = Field(
        5.0,
        gt=0,
        le=1000,
        description="beta: factor of steps to the passage that an entity is the title of, default 5.",
    )
    graph_weight: float = Field(0.4, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.4.")
    coverage_weight: float = Field(
        1.0, ge=0, le=1000, description="nu: weight of question words not yet covered, default 1; 0 keeps the order."
    )


class BridgeParameters(BridgeLexicalParameters):
    """Parameters of `bridge`."""

    grid: ClassVar[Mapping[str, str]] = {"graph_weight": ".1,.2,.35,.5", "lexical_weight": ".15,.3,.5"}  # Likewise.

    lexical_weight: float = Field(
        0.3, ge=0, le=1000, description="mu: weight of BM25 relative to the cosine when choosing seeds, default 0.3."
    )
    seed_temperature: float = Field(
        0.03, gt=0, le=100, description="tau: temperature of their weights; small favours the best, default 0.03."
    )
    graph_weight: float = Field(0.2, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.2.")


class RelativeScores:
    """Relative BM25 in a large version: of the passages asked for; `first` are the best `count` above 0, ascending."""

    def __init__(self, impacts: TermImpacts, counts: Mapping[int, float], count: int) -> None:
        near, scores = top(impacts, counts, count)
        self.first, self._impacts, self._counts = np.sort(near), impacts, counts
        self._largest = float(scores.max(initial=0.0)) or 1.0

    def __getitem__(self, passages: NDArray[np.intp]) -> NDArray[np.float64]:
        """Shares by passage number."""
        return score_of(self._impacts, self._counts, passages) / self._largest


Words = NDArray[np.float64] | RelativeScores  # Relative BM25 by passage number.


@dataclass(frozen=True, slots=True)
class Similarity:
    """Similarity of the passages, or candidates among them, to one question."""

    seeding: NDArray[np.float64]  # Shape (n,): what seeds are chosen by.
    fusing: NDArray[np.float64]  # Shape (n,): what the walk is added to.
    error: float  # The most by which the difference of two of them may be wrong.
    # Passage numbers to what they should be: for seeding and for fusing, shape (m,) each.
    exact: Callable[[NDArray[np.intp]], tuple[NDArray[np.float64], NDArray[np.float64]]]
    rows: NDArray[np.intp] | None = None  # Ascending numbers of the candidates, all exact; None: all passages.


@strategy(
    "bridge-lexical",
    "As bridge, with BM25 instead of vectors.",
    BridgeLexicalParameters,
    needs={"graph", "lexical:stems"},
)
class BridgeLexicalStrategy(RankedStrategy):
    """Seed, spread, fuse, cover. A passage's score is F; the order of the first ones also covers the question.

    Relative BM25 is the similarity here; what shares nothing with the question is not returned.
    """

    is_positive_only = True
    graph = GRAPH
    steps = 5  # T, half-steps of the walk; algorithms.md 2B.3.
    thinnest = THINNEST

    def __init__(self, reader: IndexReader, parameters: BridgeLexicalParameters, _services: Services) -> None:
        super().__init__(reader)
        self._parameters = parameters
        graph = reader.artefact(self.graph)
        self._keys = graph.keys
        self._match = entity_matcher(reader)
        self._entity_weights = ENTITY_WEIGHT * entity_weights(np.maximum(graph.df, 1), ENTITY_PENALTY)
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._impacts = TermImpacts(lexical, K1, B)
        self._is_large = reader.artefact(IS_LARGE)
        thinnest = self.thinnest if self._is_large else 0.0
        restart, boost = parameters.restart, parameters.title_boost
        rule = WalkRule(restart, self.steps, return_dangling=False, title_boost=boost, thinnest=thinnest)
        self._walk = walk_of(graph, rule)
        self._stems = analyser_of(ANALYSER, lexical.language)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the seeds of their walks."""
        stems = [sorted(count_terms(self._stems(question.text), self._impacts.terms)) for question in questions]
        matched: list[QuestionEntities] = []

        def words() -> Iterator[Words]:  # while LanceDB searches
            for question, some in zip(questions, stems, strict=True):
                matched.append(self._match(question.text))
                yield self._words(some, limit)

        similarities = self._similarities(questions, words(), limit)
        for some in stems:
            similarity, entities = next(similarities), matched.pop()
            start = self._start(entities, entities.numbers, entities.shares, similarity)
            seeded = time.perf_counter()
            masses = self._walk(start.seeds)
            spread = walk_parts(masses, walk_part, self._parameters.graph_weight, REFERENCE_RANK)
            ranking = self._ranking(similarity, spread, some, self._parameters.coverage_weight, limit)
            yield Found(ranking, start.evidence(self._passage_ids, self._keys), time.perf_counter() - seeded)

    def _words(self, stems: list[int], limit: int) -> Words:
        """Relative BM25; of a large version only of the passages asked for."""
        counts = dict.fromkeys(stems, 1)
        if self._is_large:
            return RelativeScores(self._impacts, counts, max(ALSO_NEAR, limit, self._parameters.seeds))
        return relative(score(self._impacts, counts))

    def _start(
        self, entities: QuestionEntities, numbers: NDArray[np.intp], shares: NDArray[np.float64], similarity: Similarity
    ) -> Start:
        """The seeds: these numbers among the question's entities, with their shares, and the most similar passages."""
        count = self._parameters.seeds
        if self.is_positive_only:
            count = min(count, int(np.count_nonzero(similarity.seeding > 0)))
        near = contenders(similarity.seeding, count, similarity.error)
        near = near if similarity.rows is None else similarity.rows[near]
        first, passages = seed_passages(similarity.exact(near)[0], count, self._parameters.seed_temperature)
        weights, passages = mix(self._entity_weights[numbers] * shares, passages)
        return Start(
            entities, WalkSeeds(numbers, weights, near[first], passages), None if len(numbers) else PASSAGES_ONLY
        )

    def _ranking(
        self, similarity: Similarity, beside: Masses, stems: list[int], coverage_weight: float, limit: int
    ) -> Ranking:
        """Re-ranks the pool by coverage; the rest stays in score order.

        Of a large version, candidates are what is most similar, and what most of the walk arrives at.
        """
        count = max(limit, POOL)
        if similarity.rows is None:
            near = contenders(similarity.fusing + beside.held, count, similarity.error)
            similar = similarity.exact(near)[1]
        else:
            near = np.union1d(similarity.rows, beside.most(max(count, ALSO_NEAR)))
            is_new, similar = ~np.isin(near, similarity.rows, assume_unique=True), np.empty(len(near))
            similar[~is_new], similar[is_new] = similarity.fusing, similarity.exact(near[is_new])[1]
        scores = beside.of(near) + similar
        first = best(scores, count)
        if self.is_positive_only:
            first = first[scores[first] > 0]
        pool = first[:POOL]
        contains = containment(self._impacts, stems, near[pool])
        order = cover(scores[pool], contains, self._impacts.idf[stems], coverage_weight, CHOSEN)
        shown = np.concatenate((pool[order], first[POOL:]))[: max(limit, 0)]
        return near[shown], scores[shown]

    def _similarities(
        self, questions: Sequence[Question], lexical: Iterator[Words], limit: int
    ) -> Iterator[Similarity]:
        """Similarities of questions by their relative BM25, in order, one after the other."""
        del questions, limit
        for words in lexical:
            rows = words.first if isinstance(words, RelativeScores) else None
            shares = words if isinstance(words, np.ndarray) else words[words.first]
            yield Similarity(shares, shares, 0.0, lambda rows, words=words: (words[rows], words[rows]), rows)  # type: ignore[misc]


@strategy(
    "bridge",
    "Cosine and BM25 seed a walk over shared entities; the top passages are re-ranked to cover the question's terms.",
    BridgeParameters,
    needs={"graph", "lexical:stems", "vectors:passage"},
    batches=True,
)
class BridgeStrategy(BridgeLexicalStrategy):
    """The same by cosine; what is in units of the cosine is scaled to those of the version's encoder."""

    is_positive_only = False
    thinnest = 1e-4  # chosen: benchmarks/README.md, "A million passages"; cosines make up for thin mass
    in_cosines: tuple[str, ...] = IN_COSINES
    _parameters: BridgeParameters

    def __init__(self, reader: IndexReader, parameters: BridgeParameters, services: Services) -> None:
        scale = reader.artefact(COSINE_SCALE)
        if scale != 1.0:  # never for the local encoder, in whose cosines the weights are given
            scaled = {name: getattr(parameters, name) * scale for name in self.in_cosines}
            parameters = parameters.model_copy(update=scaled)
        self._large = reader.artefact(partitioned("passage"))
        super().__init__(reader, parameters, services)
        self._matrix = np.asarray(reader.artefact(vectors_of("passage")))
        self._rows = self._matrix if self._large is None else self._large.vectors
        self._error = cosine_error(self._matrix.shape[1])

    def _searches(self, vectors: Iterable[NDArray[np.float32]], limit: int) -> list[Future[NDArray[np.intp]]]:
        """Starts nearest-neighbour searches in the background."""
        count = max(NEAR, limit, self._parameters.seeds)
        begun = [] if self._large is None else [self._large.search(vector, count) for vector in vectors]
        wait(begun, HEAD_START)
        return begun

    def _similarities(
        self, questions: Sequence[Question], lexical: Iterator[Words], limit: int
    ) -> Iterator[Similarity]:
        asked, weight = [question_vector(question) for question in questions], self._parameters.lexical_weight

        def exact(
            vector: NDArray[np.float32], words: Words, rows: NDArray[np.intp]
        ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            cosine = exact_cosines(self._rows, rows, vector)
            return cosine + weight * words[rows], cosine

        rough = rough_cosines(self._matrix, asked)
        for vector in asked:
            searches, words = self._searches([vector], limit), next(lexical)
            find = partial(exact, vector, words)
            if isinstance(words, np.ndarray):
                cosine = next(rough)
                yield Similarity(cosine + weight * words, cosine, self._error, find)
            else:
                first = find(words.first)  # while LanceDB searches
                others = np.unique(np.concatenate([search.result() for search in searches]))
                others = others[~np.isin(others, words.first)]
                rows = np.concatenate((words.first, others))
                order = np.argsort(rows)
                seeding, fusing = (np.concatenate(both)[order] for both in zip(first, find(others), strict=True))
                yield Similarity(seeding, fusing, 0.0, find, rows[order])
