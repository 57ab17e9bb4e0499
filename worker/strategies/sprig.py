"""SPRIG: `graph`, `graph-hybrid`, `graph-dense`, `graph-rrf`, `tfidf-graph`; a walk from names and first passages.

One class; they differ in the nodes of their graph and in the ranker that finds the first passages.
Source: algorithms.md 2.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import BM25_TOP1, ENTITIES_ONLY, PASSAGES_ONLY, UNIFORM, Evidence, Fallback
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.worker.ranking.order import best
from polyhop.worker.ranking.pagerank import Mixing, WalkSeeds, Weighting, entity_weights, mix, passage_weights
from polyhop.worker.strategies.base import (
    LexicalParameters,
    Ranker,
    Ranking,
    has_word,
    ranked_passages,
    rankings,
    strategy,
    walked_retrievals,
)
from polyhop.worker.strategies.dense import SearchParameters, nearest_ranker
from polyhop.worker.strategies.entities import Start
from polyhop.worker.strategies.fused import FusionParameters, fused_ranker
from polyhop.worker.strategies.lexical import LexicalRanker
from polyhop.worker.strategies.nodes import GraphNodes, NodeParameters, TermParameters, entity_nodes, term_nodes
from polyhop.worker.strategies.walks import WalkParameters, make_walk

_NOTHING = np.empty(0)


class EntityWalkParameters(WalkParameters, NodeParameters):
    """A walk on the entity-passage graph."""


class GraphParameters(EntityWalkParameters, LexicalParameters):
    """Parameters of `graph`."""

    entity_fallback: Literal["uniform", "bm25_top1"] = Field(
        "uniform",
        description="Start when no question entity is known: all passages alike (default) or BM25's best (k1, b).",
    )


class SeededParameters(EntityWalkParameters):
    """How passages found first take part; base of the three that have them."""

    grid: ClassVar[Mapping[str, str]] = {
        "seeds": "3,5,10",
        "seed_weighting": "rank,raw,softmax",
        "restart": ".1,.15,.2",
    }
    """SPRIG, tables A.1 and A.2 and figure A.3; 5 steps, the default, are the best ones of both tables."""

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


class GraphDenseParameters(SeededParameters, SearchParameters):
    """Parameters of `graph-dense`."""

    seeds: int = Field(5, ge=1, le=10_000, description="k: passages found first that start the walk, default 5.")


class GraphRrfParameters(SeededParameters, FusionParameters):
    """Parameters of `graph-rrf`."""


class TfidfGraphParameters(WalkParameters, TermParameters):
    """Parameters of `tfidf-graph`."""

    entity_penalty: float = Field(
        0.0, ge=0, le=10, description="q: a question term starts with df ** -q, default 0: all are equal."
    )


@dataclass(frozen=True, slots=True)
class PassageSeeding:
    """Who finds the first passages, and how they count."""

    ranker: Ranker
    count: int
    weighting: Weighting
    mixing: Mixing
    entity_share: float


class GraphStrategy:
    """A walk on a graph of passages and what they mention."""

    def __init__(
        self,
        name: str,
        reader: IndexReader,
        nodes: GraphNodes,
        parameters: WalkParameters,
        *,
        seeding: PassageSeeding | None = None,
        fallback: Ranker | None = None,
    ) -> None:
        self.name = name
        self._passage_ids = reader.passage_ids
        self._nodes = nodes
        self._entity_weights = entity_weights(np.maximum(nodes.graph.df, 1), parameters.entity_penalty)
        self._seeding = seeding
        self._fallback = fallback
        self._walk = make_walk(nodes.graph, nodes.kept, parameters)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        if self._nodes.graph.passage_count == 0:
            return [Retrieval(()) for _ in questions]
        begun = time.perf_counter()
        asked = [question for question in questions if has_word(question)]
        found = []
        for question, seeding in zip(asked, self._seed_rankings(asked), strict=True):
            start = self.start(question, seeding)
            seeded = time.perf_counter()
            mass = self.walk(start)
            numbers = best(mass, limit)
            ranked = ranked_passages(self._passage_ids, (numbers, mass[numbers]))
            found.append((ranked, self.evidence(start), time.perf_counter() - seeded))
        return walked_retrievals(questions, found, time.perf_counter() - begun)

    def _seed_rankings(self, questions: Sequence[Question]) -> Iterator[Ranking | None]:
        if self._seeding is None:
            return iter([None] * len(questions))
        return rankings(self._seeding.ranker, questions, self._seeding.count)

    def start(self, question: Question, seeding: Ranking | None = None) -> Start:
        """Seeds or, where there are none at all, their replacement. Source: algorithms.md 2.5.

        Args:
            question: The question.
            seeding: The seed passages' ranking, where the strategy starts from passages.
        """
        entities = self._nodes.matcher.match(question.text)
        seeds = self._seeds(entities.numbers, seeding)
        if seeds.entity_weights.any() or seeds.passage_weights.any():
            return Start(entities, seeds, self._missing(seeds))
        if self._fallback is not None:
            numbers, _ = self._fallback.rank(question, 1)
            if len(numbers):
                return Start(entities, replace(seeds, passages=numbers, passage_weights=np.ones(1)), BM25_TOP1)
        count = self._nodes.graph.passage_count
        everywhere = replace(seeds, passages=np.arange(count), passage_weights=np.full(count, 1 / count))
        return Start(entities, everywhere, UNIFORM)

    def walk(self, start: Start) -> NDArray[np.float64]:
        """The passages' mass, shape (n_passages,)."""
        return self._walk(start.seeds)

    def evidence(self, start: Start) -> Evidence:
        """Where the walk started."""
        return start.evidence(self._passage_ids, self._nodes.graph.keys, self._nodes.noun)

    def _seeds(self, entities: NDArray[np.intp], found: Ranking | None) -> WalkSeeds:
        """Question entities and seed passages, mixed."""
        weights = self._entity_weights[entities]
        seeding = self._seeding
        if seeding is None or found is None:
            return WalkSeeds(entities, mix(weights, _NOTHING)[0], _NOTHING.astype(np.intp), _NOTHING)
        passages, scores = found
        mixed = mix(weights, passage_weights(scores, seeding.weighting), seeding.mixing, seeding.entity_share)
        return WalkSeeds(entities, mixed[0], passages, mixed[1])

    def _missing(self, seeds: WalkSeeds) -> Fallback | None:
        if not seeds.entity_weights.any():
            return PASSAGES_ONLY
        return None if self._seeding is None or seeds.passage_weights.any() else ENTITIES_ONLY


@strategy(
    "graph",
    "SPRIG: personalised PageRank seeded by the question's entities.",
    GraphParameters,
    needs={"graph", "lexical:plain"},
)
def build_graph(reader: IndexReader, parameters: GraphParameters, _services: Services) -> GraphStrategy:
    """`graph`: question entities only."""
    fallback = LexicalRanker(reader, parameters) if parameters.entity_fallback == "bm25_top1" else None
    return GraphStrategy("graph", reader, entity_nodes(reader, parameters), parameters, fallback=fallback)


@strategy(
    "graph-hybrid",
    "SPRIG: personalised PageRank seeded by question entities and the BM25 top k.",
    GraphHybridParameters,
    needs={"graph", "lexical:plain"},
)
def build_graph_hybrid(reader: IndexReader, parameters: GraphHybridParameters, _services: Services) -> GraphStrategy:
    """`graph-hybrid`: question entities and BM25's first passages."""
    seeding = _seeding(LexicalRanker(reader, parameters), parameters)
    return GraphStrategy("graph-hybrid", reader, entity_nodes(reader, parameters), parameters, seeding=seeding)


@strategy(
    "graph-dense",
    "SPRIG: personalised PageRank seeded by question entities and the nearest passages.",
    GraphDenseParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
    batches=True,
)
def build_graph_dense(reader: IndexReader, parameters: GraphDenseParameters, _services: Services) -> GraphStrategy:
    """`graph-dense`: question entities and the nearest passages."""
    seeding = _seeding(nearest_ranker(reader, "graph-dense", parameters), parameters)
    return GraphStrategy("graph-dense", reader, entity_nodes(reader, parameters), parameters, seeding=seeding)


@strategy(
    "graph-rrf",
    "SPRIG: personalised PageRank seeded by question entities and the top k of rrf.",
    GraphRrfParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
    batches=True,
)
def build_graph_rrf(reader: IndexReader, parameters: GraphRrfParameters, _services: Services) -> GraphStrategy:
    """`graph-rrf`: question entities and the first passages of the fused rankings."""
    seeding = _seeding(fused_ranker(reader, parameters, "graph-rrf"), parameters)
    return GraphStrategy("graph-rrf", reader, entity_nodes(reader, parameters), parameters, seeding=seeding)


@strategy(
    "tfidf-graph",
    "SPRIG: personalised PageRank over terms, seeded by the question's terms.",
    TfidfGraphParameters,
    needs={"lexical:plain"},
)
def build_tfidf_graph(reader: IndexReader, parameters: TfidfGraphParameters, _services: Services) -> GraphStrategy:
    """`tfidf-graph`: question terms on the graph of passages and terms."""
    return GraphStrategy("tfidf-graph", reader, term_nodes(reader, parameters), parameters)


def _seeding(ranker: Ranker, parameters: SeededParameters) -> PassageSeeding:
    return PassageSeeding(ranker, parameters.seeds, parameters.seed_weighting, parameters.mix, parameters.entity_share)
