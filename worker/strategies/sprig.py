"""SPRIG: `graph`, `graph-hybrid`, `graph-dense`, `graph-rrf`; a walk from question entities and first passages.

One class; the four differ only in the ranker that finds the first passages. Source: algorithms.md 2.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.graph import BipartiteGraph
from schemas.ports import IndexReader
from schemas.query import Question, Retrieval
from worker.ranking.order import best
from worker.ranking.pagerank import walk_passages
from worker.ranking.push import ppr_push
from worker.ranking.seeds import Mixing, WalkSeeds, Weighting, entity_weights, mix, passage_weights
from worker.ranking.transitions import bipartite_transition, joined
from worker.strategies.dense import DenseRanker
from worker.strategies.entities import EntityMatcher
from worker.strategies.fused import FusionParameters, fused_ranker
from worker.strategies.lexical import LexicalRanker
from worker.strategies.ranked import Ranker
from worker.strategies.results import ranked_passages, retrieve_each
from worker.strategies.spec import LexicalParameters, Parameters
from worker.strategies.start import UNIFORM, Start

_NOTHING = np.empty(0)


class WalkParameters(Parameters):
    """How a walk goes, and how question entities weigh."""

    entity_penalty: float = Field(
        0.5, ge=0, le=10, description="q: a question entity starts with df ** -q, default 0.5; 0 makes all equal."
    )
    hub_penalty: float = Field(
        0.5, ge=0, le=10, description="p: steps to an entity are scaled by df ** -p, default 0.5; 0 switches it off."
    )
    ppr: Literal["power", "push"] = Field(
        "power", description="How PageRank is computed: power (a fixed number of steps, default) or push."
    )
    restart: float = Field(0.15, gt=0, lt=1, description="Probability of returning to the seeds, default 0.15.")
    max_iter: int = Field(5, ge=0, le=10_000, description="Steps of power, default 5; odd numbers favour entity seeds.")
    eps: float = Field(1e-4, gt=0, le=1, description="Threshold of push, default 0.0001; smaller is more exact.")


class GraphParameters(WalkParameters, LexicalParameters):
    """Parameters of `graph`."""

    entity_fallback: Literal["uniform", "bm25_top1"] = Field(
        "uniform",
        description="Start when no question entity is known: all passages alike (default) or BM25's best (k1, b).",
    )


class SeededParameters(WalkParameters):
    """How passages found first take part; base of the three that have them."""

    seeds: int = Field(10, ge=1, le=10_000, description="k: passages found first that start the walk, default 10.")
    seed_weighting: Weighting = Field(
        "rank", description="Weight of a seed passage: rank (1/rank, default), raw (its score) or softmax of scores."
    )
    mix: Mixing = Field(
        "mass",
        description="Entities against passages: mass (raw weights, default), fixed share, or adaptive by counts.",
    )
    entity_share: float = Field(0.5, ge=0, le=1, description="Share of the entities under mix = fixed, default 0.5.")


class GraphHybridParameters(SeededParameters, LexicalParameters):
    """Parameters of `graph-hybrid`."""


class GraphDenseParameters(SeededParameters):
    """Parameters of `graph-dense`."""

    seeds: int = Field(5, ge=1, le=10_000, description="k: passages found first that start the walk, default 5.")


class GraphRrfParameters(SeededParameters, FusionParameters):
    """Parameters of `graph-rrf`."""


Walk = Callable[[WalkSeeds], NDArray[np.float64]]
"""Seeds to the passages' mass, shape (n_passages,)."""


@dataclass(frozen=True, slots=True)
class PassageSeeding:
    """Who finds the first passages, and how they count."""

    ranker: Ranker
    count: int
    weighting: Weighting
    mixing: Mixing
    entity_share: float


class GraphStrategy:
    """A walk on the entity-passage graph."""

    def __init__(
        self,
        name: str,
        reader: IndexReader,
        parameters: WalkParameters,
        *,
        seeding: PassageSeeding | None = None,
        fallback: Ranker | None = None,
    ) -> None:
        self.name = name
        self._passage_ids = reader.passage_ids
        self._graph = reader.graph
        self._matcher = EntityMatcher(reader)
        self._entity_weights = entity_weights(np.maximum(self._graph.df, 1), parameters.entity_penalty)
        self._seeding = seeding
        self._fallback = fallback
        self._walk = _WALKS[parameters.ppr](self._graph, parameters)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `schemas.ports.Strategy`."""
        if self._graph.passage_count == 0:
            return [Retrieval(()) for _ in questions]
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        start = self._start(question)
        seeded = time.perf_counter()
        mass = self._walk(start.seeds)
        numbers = best(mass, limit)
        ranked = ranked_passages(self._passage_ids, (numbers, mass[numbers]))
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        return Retrieval(ranked, start.evidence(self._passage_ids, self._graph.keys), seconds)

    def _start(self, question: Question) -> Start:
        """Seeds or, where there are none at all, their replacement. Source: algorithms.md 2.5."""
        entities = self._matcher.match(question.text)
        seeds = self._seeds(question, entities.numbers)
        if seeds.entity_weights.any() or seeds.passage_weights.any():
            return Start(entities, seeds, self._missing(seeds))
        if self._fallback is not None:
            numbers, _ = self._fallback.rank(question, 1)
            if len(numbers):
                return Start(entities, replace(seeds, passages=numbers, passage_weights=np.ones(1)), "bm25_top1")
        count = self._graph.passage_count
        everywhere = replace(seeds, passages=np.arange(count), passage_weights=np.full(count, 1 / count))
        return Start(entities, everywhere, UNIFORM)

    def _seeds(self, question: Question, entities: NDArray[np.intp]) -> WalkSeeds:
        """Question entities and seed passages, mixed."""
        weights = self._entity_weights[entities]
        seeding = self._seeding
        if seeding is None:
            return WalkSeeds(entities, mix(weights, _NOTHING)[0], _NOTHING.astype(np.intp), _NOTHING)
        passages, scores = seeding.ranker.rank(question, seeding.count)
        mixed = mix(weights, passage_weights(scores, seeding.weighting), seeding.mixing, seeding.entity_share)
        return WalkSeeds(entities, mixed[0], passages, mixed[1])

    def _missing(self, seeds: WalkSeeds) -> str:
        if not seeds.entity_weights.any():
            return "passages_only"
        return "none" if self._seeding is None or seeds.passage_weights.any() else "entities_only"


def _power_walk(graph: BipartiteGraph, parameters: WalkParameters) -> Walk:
    matrices = bipartite_transition(graph, hub_penalty=parameters.hub_penalty)
    restart, steps = parameters.restart, parameters.max_iter
    return lambda seeds: walk_passages(matrices, seeds, restart, steps, return_dangling=True)


def _push_walk(graph: BipartiteGraph, parameters: WalkParameters) -> Walk:
    nodes = joined(bipartite_transition(graph, hub_penalty=parameters.hub_penalty))
    restart, eps = parameters.restart, parameters.eps

    def walk(seeds: WalkSeeds) -> NDArray[np.float64]:
        start = np.zeros(graph.entity_count + graph.passage_count)
        start[seeds.entities] = seeds.entity_weights
        start[graph.entity_count + seeds.passages] = seeds.passage_weights
        return ppr_push(nodes, start, restart, eps).scores[graph.entity_count :]

    return walk


_WALKS: dict[str, Callable[[BipartiteGraph, WalkParameters], Walk]] = {"power": _power_walk, "push": _push_walk}


def build_graph(reader: IndexReader, parameters: GraphParameters) -> GraphStrategy:
    """`graph`: question entities only."""
    fallback = LexicalRanker(reader, parameters) if parameters.entity_fallback == "bm25_top1" else None
    return GraphStrategy("graph", reader, parameters, fallback=fallback)


def build_graph_hybrid(reader: IndexReader, parameters: GraphHybridParameters) -> GraphStrategy:
    """`graph-hybrid`: question entities and BM25's first passages."""
    seeding = _seeding(LexicalRanker(reader, parameters), parameters)
    return GraphStrategy("graph-hybrid", reader, parameters, seeding=seeding)


def build_graph_dense(reader: IndexReader, parameters: GraphDenseParameters) -> GraphStrategy:
    """`graph-dense`: question entities and the nearest passages."""
    seeding = _seeding(DenseRanker(reader, "graph-dense"), parameters)
    return GraphStrategy("graph-dense", reader, parameters, seeding=seeding)


def build_graph_rrf(reader: IndexReader, parameters: GraphRrfParameters) -> GraphStrategy:
    """`graph-rrf`: question entities and the first passages of the fused rankings."""
    seeding = _seeding(fused_ranker(reader, parameters, "graph-rrf"), parameters)
    return GraphStrategy("graph-rrf", reader, parameters, seeding=seeding)


def _seeding(ranker: Ranker, parameters: SeededParameters) -> PassageSeeding:
    return PassageSeeding(ranker, parameters.seeds, parameters.seed_weighting, parameters.mix, parameters.entity_share)
