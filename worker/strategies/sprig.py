"""SPRIG: `graph`, `graph-hybrid`, `graph-dense`, `graph-rrf`, `tfidf-graph`, `rrf-ppr`.

One class; they differ in the nodes of their graph and in the ranker that finds the first passages. Source:
algorithms.md 2.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import BM25_TOP1, ENTITIES_ONLY, PASSAGES_ONLY, UNIFORM, Evidence
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.languages import analyser_of
from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.text import norm_lower, norm_simple, without_last_parenthesis
from polyhop.warehouse.artefacts import GRAPH, IS_LARGE, NAMES, SURFACES, lexical_of
from polyhop.worker.ranking.fusion import weighted_fusion
from polyhop.worker.ranking.pagerank import (
    THINNEST,
    Masses,
    Mixing,
    WalkRule,
    WalkSeeds,
    Weighting,
    bipartite_transition,
    entity_weights,
    joined,
    kept_edges,
    mix,
    passage_weights,
    ppr_push,
    relabelled,
    term_graph,
    walk_of,
    without_short_names,
)
from polyhop.worker.strategies.base import Found, Parameters, RankedStrategy, Ranking, strategy
from polyhop.worker.strategies.baselines import (
    ApproximateStrategy,
    DenseStrategy,
    FusedStrategy,
    FusionParameters,
    LexicalStrategy,
    SearchParameters,
)
from polyhop.worker.strategies.entities import (
    Match,
    QuestionEntities,
    Start,
    entity_keys,
    entity_meanings,
    match_meanings,
)


def title_aliases(titles: Iterable[str], label: Callable[[str], str]) -> dict[str, str]:
    """Label of the one title that a label can mean.

    Returns:
        By alias: a title's own label, and that of the title without one trailing group in parentheses. What could be
        several titles' is left out.
    Source: algorithms.md 2.7 (EL).
    """
    meanings: dict[str, set[str]] = {}
    for title in set(titles):
        canonical = label(title)
        if not canonical:
            continue
        for alias in (canonical, label(without_last_parenthesis(title))):
            if alias:
                meanings.setdefault(alias, set()).add(canonical)
    return {alias: min(found) for alias, found in sorted(meanings.items()) if len(found) == 1}


Label = Callable[[str], str]  # A name or title as written to the label of its node.

_NORMS: Mapping[str, Label] = {"none": str, "simple": norm_simple, "lower": norm_lower}
_TERMS = "plain"
LEAST_CHARACTERS = 2  # of a node's name; algorithms.md 2.3.
EPS = 1e-4  # threshold of push; algorithms.md 2.8.


class NodeParameters(Parameters):
    """Nodes of the entity graph, and walked edges. Source: algorithms.md 2.3, 2.7, 7.5."""

    entity_norm: Literal["key", "none", "simple", "lower"] = Field(
        "key",
        description="What makes names equal: key (Polyhop's own, resolved names; default), or of the names as written "
        "none, simple (letters and digits) or lower (case and whitespace).",
    )
    title_aliases: bool = Field(
        default=False,
        description="EL: a name that exactly one title has without its (...) stands for that title, default 0 (no).",
    )
    hub_top_percent: float = Field(
        0.0, ge=0, le=100, description="PRUNE: share of the entities, those of largest df, left out in %, default 0."
    )
    edge_cap: int = Field(
        0, ge=0, description="PRUNE: passages of largest weight that an entity keeps, default 0 (all)."
    )


class TermParameters(Parameters):
    """Nodes of the term graph."""

    min_df: int = Field(3, ge=1, description="Least number of passages that contain a term, default 3.")
    max_df_ratio: float = Field(
        0.1, gt=0, le=1, description="Largest share of the passages that contain a term, default 0.1."
    )


@dataclass(frozen=True, slots=True)
class GraphNodes:
    """A graph to walk on, and how a question finds its nodes."""

    graph: BipartiteGraph  # Passages and nodes; df and weights are taken from all of it.
    kept: NDArray[np.bool_] | None  # Shape (nnz,), bool: edges that pruning left; None for all.
    match: Match  # Questions to nodes.
    label: Label  # A title as written to the label under which it would be a node.
    noun: Literal["entities", "terms"] = "entities"  # What the nodes are, for the evidence: entities or terms.


def entity_nodes(reader: IndexReader, parameters: NodeParameters) -> GraphNodes:
    """Entities of an open version as nodes. Source: algorithms.md 2.3, 2.7."""
    by_key = parameters.entity_norm == "key"
    source = reader.artefact(GRAPH if by_key else SURFACES)
    entity_of, meanings_of = entity_keys(reader), entity_meanings(reader)
    label = (lambda text: entity_of(" ".join(name_tokens(text)))) if by_key else _NORMS[parameters.entity_norm]
    aliases = title_aliases(reader.passage_titles, label) if parameters.title_aliases else {}
    # The graph under labels and aliases; the same object if neither renames anything.
    labels = source.keys if by_key else tuple(map(label, source.keys))
    labels = tuple(aliases.get(name, name) for name in labels) if aliases else labels
    graph = source if labels == source.keys else relabelled(source, labels)
    graph = without_short_names(graph, LEAST_CHARACTERS)
    kept = kept_edges(graph, parameters.hub_top_percent, parameters.edge_cap)
    has_edge = _has_edge(graph, kept)

    def match(text: str) -> QuestionEntities:
        found = reader.artefact(NAMES).find(text)
        meant = (name for m in found for name in (meanings_of(m.key) if by_key else (label(m.surface),)))
        return match_meanings(([aliases.get(name, name)] for name in meant), graph.number_of, has_edge)

    return GraphNodes(graph, kept, match, lambda title: aliases.get(label(title), label(title)))


def term_nodes(reader: IndexReader, parameters: TermParameters) -> GraphNodes:
    """Terms of an open version as nodes. Source: algorithms.md 2.4."""
    lexical = reader.artefact(lexical_of(_TERMS))
    tokens = analyser_of(_TERMS, lexical.language)
    graph = term_graph(lexical, parameters.min_df, parameters.max_df_ratio)
    has_edge = _has_edge(graph, None)

    def match(text: str) -> QuestionEntities:
        return match_meanings(([token] for token in tokens(text)), graph.number_of, has_edge)

    return GraphNodes(graph, None, match, lambda title: " ".join(tokens(title)), "terms")


def _has_edge(graph: BipartiteGraph, kept: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    left = graph.indices if kept is None else graph.indices[kept]
    return np.bincount(left, minlength=graph.entity_count) > 0


class WalkParameters(Parameters):
    """Walk, and weights of question entities. Source: algorithms.md 2.4-2.6."""

    grid: ClassVar[Mapping[str, str]] = {"restart": ".1,.15,.2", "max_iter": "5,10,20", "hub_penalty": "0,.5,1"}
    """SPRIG, tables A.1 and A.2 and figure A.4."""

    entity_penalty: float = Field(
        0.5, ge=0, le=10, description="q: a question entity has start weight df ** -q, default 0.5; 0 makes all equal."
    )
    hub_penalty: float = Field(
        0.5, ge=0, le=10, description="p: steps to an entity are scaled by df ** -p, default 0.5; 0 switches it off."
    )
    ppr: Literal["power", "push"] = Field(
        "power", description="How PageRank is computed: power (a fixed number of steps, default) or push."
    )
    restart: float = Field(0.15, gt=0, lt=1, description="Probability of returning to the seeds, default 0.15.")
    max_iter: int = Field(5, ge=0, le=10_000, description="Steps of power, default 5; odd numbers favour entity seeds.")


def make_walk(
    graph: BipartiteGraph, kept: NDArray[np.bool_] | None, parameters: WalkParameters, thinnest: float = 0.0
) -> Callable[[WalkSeeds], Masses]:
    """A walk on the edges that are kept (None: all), by power steps or by push: seeds to the masses of the passages.

    `thinnest` counts for power steps, see `walk_of`.
    """
    restart, penalty = parameters.restart, parameters.hub_penalty
    if parameters.ppr == "power":
        rule = WalkRule(restart, parameters.max_iter, return_dangling=True, hub_penalty=penalty, thinnest=thinnest)
        return walk_of(graph, rule, kept)
    parts = bipartite_transition(graph, hub_penalty=penalty, kept=kept)
    nodes = joined(parts)
    entity_count, passage_count = parts.to_entities.shape
    passages = np.arange(passage_count)

    def push(seeds: WalkSeeds) -> Masses:
        start = np.zeros(entity_count + passage_count)
        start[seeds.entities] = seeds.entity_weights
        start[entity_count + seeds.passages] = seeds.passage_weights
        return Masses(ppr_push(nodes, start, restart, EPS).scores[entity_count:], passages)

    return push


_NOTHING = np.empty(0)


class EntityWalkParameters(WalkParameters, NodeParameters):
    """A walk on the entity-passage graph."""


class GraphParameters(EntityWalkParameters):
    """Parameters of `graph`."""

    entity_fallback: Literal["uniform", "bm25_top1"] = Field(
        "uniform", description="Start when no question entity is known: all passages alike (default) or BM25's best."
    )


class SeededParameters(EntityWalkParameters):
    """Parameters of `graph-hybrid` and `graph-rrf`: how passages found first take part."""

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


class GraphDenseParameters(SeededParameters, SearchParameters):
    """Parameters of `graph-dense`."""

    seeds: int = Field(5, ge=1, le=10_000, description="k: passages found first that start the walk, default 5.")


class TfidfGraphParameters(WalkParameters, TermParameters):
    """Parameters of `tfidf-graph`."""

    entity_penalty: float = Field(
        0.0, ge=0, le=10, description="q: a question term starts with df ** -q, default 0: all are equal."
    )


class GraphStrategy(RankedStrategy):
    """A walk on a graph of passages and what they mention."""

    def __init__(
        self,
        reader: IndexReader,
        nodes: GraphNodes,
        parameters: WalkParameters,
        seeding: RankedStrategy | None = None,
        fallback: RankedStrategy | None = None,
    ) -> None:
        """On an open version; `seeding` finds passages that seed the walk too, as `SeededParameters` say."""
        super().__init__(reader)
        self._nodes = nodes
        self._entity_weights = entity_weights(np.maximum(nodes.graph.df, 1), parameters.entity_penalty)
        self._seeding = seeding
        self._seeded = parameters if isinstance(parameters, SeededParameters) else None
        self._fallback = fallback
        thinnest = THINNEST if reader.artefact(IS_LARGE) else 0.0
        self._walk = make_walk(nodes.graph, nodes.kept, parameters, thinnest)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; without passages there is nothing to walk on."""
        return super().retrieve(questions, limit=limit) if self._passage_ids else [Retrieval(()) for _ in questions]

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the seeds of their walks."""
        first = iter(self._seeding.rank_each(questions, self._seeded.seeds) if self._seeding and self._seeded else ())
        for question in questions:
            start = self.start(question, next(first, None))
            seeded = time.perf_counter()
            ranking = self._walk(start.seeds).best(limit)
            yield Found(ranking, self.evidence(start), time.perf_counter() - seeded)

    def start(self, question: Question, seeding: Ranking | None = None) -> Start:
        """Seeds or, where there are none at all, their replacement. Source: algorithms.md 2.5."""
        entities = self._nodes.match(question.text)
        weights, found, shares = self._entity_weights[entities.numbers], _NOTHING.astype(np.intp), _NOTHING
        if self._seeded is None or seeding is None:
            weights, _ = mix(weights, _NOTHING)
        else:
            found, shares = seeding[0], passage_weights(seeding[1], self._seeded.seed_weighting)
            weights, shares = mix(weights, shares, self._seeded.mix, self._seeded.entity_share)
        seeds = WalkSeeds(entities.numbers, weights, found, shares)
        if weights.any():
            return Start(entities, seeds, None if self._seeding is None or shares.any() else ENTITIES_ONLY)
        if shares.any():
            return Start(entities, seeds, PASSAGES_ONLY)
        if self._fallback is not None:
            numbers, _ = self._fallback.rank(question, 1)
            if len(numbers):
                return Start(entities, replace(seeds, passages=numbers, passage_weights=np.ones(1)), BM25_TOP1)
        count = self._nodes.graph.passage_count
        everywhere = replace(seeds, passages=np.arange(count), passage_weights=np.full(count, 1 / count))
        return Start(entities, everywhere, UNIFORM)

    def evidence(self, start: Start) -> Evidence:
        """Evidence on the start of the walk."""
        return start.evidence(self._passage_ids, self._nodes.graph.keys, self._nodes.noun)


@strategy(
    "graph",
    "SPRIG: personalised PageRank seeded by the question's entities.",
    GraphParameters,
    needs={"graph", "lexical:plain"},
)
def build_graph(reader: IndexReader, parameters: GraphParameters, _services: Services) -> GraphStrategy:
    """`graph`: question entities only."""
    fallback = LexicalStrategy(reader) if parameters.entity_fallback == "bm25_top1" else None
    return GraphStrategy(reader, entity_nodes(reader, parameters), parameters, fallback=fallback)


@strategy(
    "graph-hybrid",
    "SPRIG: personalised PageRank seeded by question entities and the BM25 top k.",
    SeededParameters,
    needs={"graph", "lexical:plain"},
)
def build_graph_hybrid(reader: IndexReader, parameters: SeededParameters, _services: Services) -> GraphStrategy:
    """`graph-hybrid`: question entities and BM25's first passages."""
    return GraphStrategy(reader, entity_nodes(reader, parameters), parameters, LexicalStrategy(reader))


@strategy(
    "graph-dense",
    "SPRIG: personalised PageRank seeded by question entities and the nearest passages.",
    GraphDenseParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
    batches=True,
)
def build_graph_dense(reader: IndexReader, parameters: GraphDenseParameters, _services: Services) -> GraphStrategy:
    """`graph-dense`: question entities and the nearest passages."""
    nearest = ApproximateStrategy if parameters.search == "ann" else DenseStrategy
    seeding = nearest(reader, parameters)  # first, so that an index without its artefact says so
    return GraphStrategy(reader, entity_nodes(reader, parameters), parameters, seeding)


@strategy(
    "graph-rrf",
    "SPRIG: personalised PageRank seeded by question entities and the top k of rrf.",
    SeededParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
    batches=True,
)
def build_graph_rrf(reader: IndexReader, parameters: SeededParameters, _services: Services) -> GraphStrategy:
    """`graph-rrf`: question entities and the first passages of the fused rankings."""
    return GraphStrategy(reader, entity_nodes(reader, parameters), parameters, FusedStrategy(reader))


@strategy(
    "tfidf-graph",
    "SPRIG: personalised PageRank over terms, seeded by the question's terms.",
    TfidfGraphParameters,
    needs={"lexical:plain"},
)
def build_tfidf_graph(reader: IndexReader, parameters: TfidfGraphParameters, _services: Services) -> GraphStrategy:
    """`tfidf-graph`: question terms on the graph of passages and terms."""
    return GraphStrategy(reader, term_nodes(reader, parameters), parameters)


class RrfPprParameters(GraphParameters):
    """Parameters of `rrf-ppr`."""

    rrf_share: float = Field(
        0.5, ge=0, le=1, description="lambda: weight of the fused ranking, the rest is the walk's, default 0.5."
    )


@strategy(
    "rrf-ppr",
    "SPRIG: scores of rrf and of a walk from the question's entities, added.",
    RrfPprParameters,
    needs={"graph", "lexical:plain", "vectors:passage"},
)
class RrfPprStrategy(GraphStrategy):
    """Two rankings of `depth` passages each, their scores stretched to 0 … 1 and added. Source: algorithms.md 2.9."""

    def __init__(self, reader: IndexReader, parameters: RrfPprParameters, _services: Services) -> None:
        fallback = LexicalStrategy(reader) if parameters.entity_fallback == "bm25_top1" else None
        super().__init__(reader, entity_nodes(reader, parameters), parameters, fallback=fallback)
        fusion = FusionParameters()
        self._fused, self._depth = FusedStrategy(reader, fusion), fusion.depth
        self._weights = (parameters.rrf_share, 1 - parameters.rrf_share)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the seeds of their walks."""
        for question in questions:
            fused = self._fused.rank(question, self._depth)
            start = self.start(question)
            seeded = time.perf_counter()
            walked = self._walk(start.seeds).best(self._depth)
            numbers, scores = weighted_fusion((fused, walked), self._weights)
            shown = slice(max(limit, 0))
            yield Found((numbers[shown], scores[shown]), self.evidence(start), time.perf_counter() - seeded)
