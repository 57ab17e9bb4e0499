"""`bridge` and `bridge-lexical`: seed, spread, fuse, cover; with and without an encoder. Source: algorithms.md 2B."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import GRAPH as BY_GRAPH
from polyhop.schemas.evidence import PASSAGES_ONLY, SIMILARITY, WORDS
from polyhop.schemas.languages import analyser_of
from polyhop.schemas.manifest import NEAR
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question
from polyhop.warehouse.artefacts import COSINE_SCALE, GRAPH, IS_LARGE, lexical_of
from polyhop.worker.ranking.bm25 import TermImpacts, containment, count_terms, score
from polyhop.worker.ranking.bridge import (
    RelativeScores,
    TopRelativeScores,
    common_count,
    cover,
    name_evidence,
    names_share,
    seed_passages,
    walk_part,
    walk_parts,
)
from polyhop.worker.ranking.fusion import best, contenders
from polyhop.worker.ranking.pagerank import THINNEST, Masses, WalkRule, WalkSeeds, entity_weights, mix, walk_of
from polyhop.worker.ranking.similarity import Near, NoSearches, Searches, cosine_error, exact_cosines
from polyhop.worker.strategies.base import (
    EXPLAINED,
    Found,
    Parameters,
    RankedStrategy,
    Ranking,
    question_vector,
    strategy,
)
from polyhop.worker.strategies.entities import QuestionEntities, Start, entity_matcher, passage_search

ANALYSER = "stems"
K1, B = 1.2, 0.75  # algorithms.md 2B.2.
ENTITY_PENALTY, ENTITY_WEIGHT = 0.5, 2.0  # a question entity starts with omega / df ** q; algorithms.md 2B.3.
COMMON_SHARE = 0.01  # L / N: names in more of the passages (and in more than 5) count for less; bridge-masked.md 4.
LEAST_GRAPH_SHARE = 0.3  # c_min, of graph_weight: left to questions without rare names; algorithms.md 2B.3.
LEAST_COVERAGE_SHARE = 0.5  # nu_min, of coverage_weight, likewise.
REFERENCE_RANK = 10  # m: the walk's mass at this rank counts as 1; algorithms.md 2B.3.
ALSO_NEAR = 50
"""Candidates by BM25, and as many by the walk, beside the `NEAR` by vectors. Measured: with 50, 100 or 200 of either
`bridge` and `bridge-lexical` find as many of the exact ten of a million passages.
"""
POOL, CHOSEN = 30, 20  # passages among which the first are chosen for what they add, and how many; algorithms.md 2B.3.
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
        0.3,
        ge=0,
        le=1000,
        description="mu: weight of BM25 relative to the cosine among seeds, and in the score the less the question is "
        "about rare names, default 0.3.",
    )
    seed_temperature: float = Field(
        0.03, gt=0, le=100, description="tau: temperature of their weights; small favours the best, default 0.03."
    )
    graph_weight: float = Field(0.2, ge=0, le=1000, description="lambda: weight of the walk in the score, default 0.2.")


class ExactScores(NamedTuple):
    """Exact similarities of k passages, shape (k,) each."""

    seeding: NDArray[np.float64]  # What seeds are chosen by.
    fusing: NDArray[np.float64]  # What the walk is added to.
    lexical: NDArray[np.float64]  # BM25's part of `fusing`.


ScoreParts = Mapping[str, Mapping[str, float]]  # Shares of scores by passage id and part.


@dataclass(frozen=True, slots=True)
class Candidates:
    """Passages that may rank for a question, and how similar they are to it."""

    rows: NDArray[np.intp]  # Shape (m,): passage numbers, ascending.
    seeding: NDArray[np.float64]  # Shape (m,): what seeds are chosen by.
    fusing: NDArray[np.float64]  # Shape (m,): what the walk is added to.
    exact: Callable[[NDArray[np.intp]], ExactScores]  # Of passage numbers.


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
    _error = 0.0  # the most by which the difference of two similarities of candidates may be wrong

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
        p, searches = self._parameters, self._searches(questions, limit)
        for question in questions:
            stems = sorted(count_terms(self._stems(question.text), self._impacts.terms))
            words = self._words(stems, limit)
            entities = self._match(question.text)
            weights, share = self._weigh_names(entities)
            candidates = self._candidates(question, searches.near(words.rows), words, share)
            start = self._start(entities, entities.numbers, weights, candidates)
            seeded = time.perf_counter()
            graph_weight = p.graph_weight * max(share, LEAST_GRAPH_SHARE)
            spread = walk_parts(self._walk(start.seeds), walk_part, graph_weight, REFERENCE_RANK)
            coverage_weight = p.coverage_weight * max(share, LEAST_COVERAGE_SHARE)
            ranking, parts = self._ranking(candidates, spread, stems, coverage_weight, limit)
            evidence = replace(start.evidence(self._passage_ids, self._keys), score_parts=parts)
            yield Found(ranking, evidence, time.perf_counter() - seeded)

    def _searches(self, questions: Sequence[Question], limit: int) -> Searches:
        """Starts searches by the questions' vectors: here none."""
        return NoSearches()

    def _words(self, stems: list[int], limit: int) -> RelativeScores | TopRelativeScores:
        """Relative BM25; of a large version without a sum over every posting."""
        counts = dict.fromkeys(stems, 1)
        if self._is_large:
            return TopRelativeScores(self._impacts, counts, max(ALSO_NEAR, limit, self._parameters.seeds))
        return RelativeScores(score(self._impacts, counts))

    def _weigh_names(self, entities: QuestionEntities) -> tuple[NDArray[np.float64], float]:
        """The weight of each of the question's entities, and how far it is about rare names (c): here always 1."""
        return entities.shares, 1.0

    def _candidates(
        self, question: Question, near: Near, words: RelativeScores | TopRelativeScores, share: float
    ) -> Candidates:
        """Candidates by words."""
        shares = words[near.rows]
        return Candidates(near.rows, shares, shares, lambda rows: ExactScores(*[words[rows]] * 3))

    def _start(
        self, entities: QuestionEntities, numbers: NDArray[np.intp], shares: NDArray[np.float64], found: Candidates
    ) -> Start:
        """The seeds: these numbers among the question's entities, with their shares, and the most similar passages."""
        count = self._parameters.seeds
        if self.is_positive_only:
            count = min(count, int(np.count_nonzero(found.seeding > 0)))
        near = found.rows[contenders(found.seeding, count, self._error)]
        first, passages = seed_passages(found.exact(near).seeding, count, self._parameters.seed_temperature)
        weights, passages = mix(self._entity_weights[numbers] * shares, passages)
        fallback = None if len(numbers) else PASSAGES_ONLY
        return Start(entities, WalkSeeds(numbers, weights, near[first], passages), fallback)

    def _ranking(
        self, found: Candidates, added: Masses, stems: list[int], coverage_weight: float, limit: int
    ) -> tuple[Ranking, ScoreParts]:
        """Re-ranks the pool by coverage; the rest stays in score order. Returns the parts of the first scores, too.

        The score is the similarity plus what is `added` to it; passages that get much of that are candidates, too.
        """
        count = max(limit, POOL)
        similar = found.rows[contenders(found.fusing + added.of(found.rows), count, self._error)]
        near = np.union1d(similar, added.most(max(count, ALSO_NEAR)))
        exact, walk = found.exact(near), added.of(near)
        scores = walk + exact.fusing
        first = best(scores, count)
        if self.is_positive_only:
            first = first[scores[first] > 0]
        pool = first[:POOL]
        contains = containment(self._impacts, stems, near[pool])
        order = cover(scores[pool], contains, self._impacts.idf[stems], coverage_weight, CHOSEN)
        shown = np.concatenate((pool[order], first[POOL:]))[: max(limit, 0)]
        explained = shown[:EXPLAINED]
        columns = {SIMILARITY: exact.fusing - exact.lexical, WORDS: exact.lexical, BY_GRAPH: walk}
        rounded = zip(*(column[explained].round(6).tolist() for column in columns.values()), strict=True)
        parts = [dict(zip(columns, shares, strict=True)) for shares in rounded]
        ids = [self._passage_ids[row] for row in near[explained]]
        return (near[shown], scores[shown]), dict(zip(ids, parts, strict=True))


@strategy(
    "bridge",
    "Cosine and BM25 seed a walk over shared entities; the top passages are re-ranked to cover the question's terms.",
    BridgeParameters,
    needs={"graph", "lexical:stems", "vectors:passage"},
    batches=True,
)
class BridgeStrategy(BridgeLexicalStrategy):
    """The same by cosine; what is in units of the cosine is scaled to those of the version's encoder.

    The less a question is about rare names, the less the walk counts, and the more BM25 does.
    """

    is_positive_only = False
    thinnest = 1e-4  # chosen: benchmarks/README.md, "A million passages"; cosines make up for thin mass
    in_cosines: tuple[str, ...] = IN_COSINES
    _parameters: BridgeParameters

    def __init__(self, reader: IndexReader, parameters: BridgeParameters, services: Services) -> None:
        scale = reader.artefact(COSINE_SCALE)
        if scale != 1.0:  # never for the local encoder, in whose cosines the weights are given
            scaled = {name: getattr(parameters, name) * scale for name in self.in_cosines}
            parameters = parameters.model_copy(update=scaled)
        self._vectors = passage_search(reader)  # first, since a large version then opens LanceDB in the background
        self._error = cosine_error(self._vectors.dimension)
        super().__init__(reader, parameters, services)
        graph = reader.artefact(self.graph)
        self._df, self._common = graph.df, common_count(graph.passage_count, COMMON_SHARE)

    def _searches(self, questions: Sequence[Question], limit: int) -> Searches:
        """Starts the searches of passages near to the questions' vectors."""
        vectors = [[question_vector(question)] for question in questions]
        return self._vectors.start(vectors, max(NEAR, limit, self._parameters.seeds))

    def _weigh_names(self, entities: QuestionEntities) -> tuple[NDArray[np.float64], float]:
        """As above, by the evidence that they are names and by how many passages mention them."""
        df = self._df[entities.numbers]
        evidence = name_evidence(df, np.array([self._word_df(key) for key in entities.matched], dtype=np.int64))
        return entities.shares * evidence, names_share(df, self._common, evidence)

    def _word_df(self, key: str) -> int:
        """Passages with the only word of a name; 0 for a name of several words, or of none that BM25 has."""
        stems = self._stems(key)
        term = self._impacts.terms.get(stems[0]) if len(stems) == 1 else None
        return 0 if term is None else len(self._impacts.postings(term))

    def _candidates(
        self, question: Question, near: Near, words: RelativeScores | TopRelativeScores, share: float
    ) -> Candidates:
        """Candidates by cosine; BM25 counts among the seeds, and in the score as far as no rare name is asked for."""
        weight, vector = self._parameters.lexical_weight, question_vector(question)

        def exact(rows: NDArray[np.intp]) -> ExactScores:
            cosine, lexical = exact_cosines(self._vectors.vectors, rows, vector), weight * words[rows]
            return ExactScores(cosine + lexical, cosine + (1 - share) * lexical, (1 - share) * lexical)

        (cosine,) = near.cosines
        lexical = weight * words[near.rows]
        return Candidates(near.rows, cosine + lexical, cosine + (1 - share) * lexical, exact)
