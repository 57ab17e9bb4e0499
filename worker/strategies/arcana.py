"""`graph-search` and `fusion`: Arcana's passages of entities near the question's, alone or fused with cosine.

Decided here: the lengths of the two lists that are fused do not depend on the limit, so that fewer passages are the
first of more. Source: algorithms.md 5.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import (
    BY_VECTOR,
    NOTHING_SEARCHED,
    Edge,
    Evidence,
    Fallback,
    Node,
    Path,
    QuestionNames,
    Seed,
)
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, QuestionName
from polyhop.schemas.settings import ENTITIES as SHORT_TEXTS
from polyhop.schemas.settings import cosine_threshold
from polyhop.warehouse.artefacts import ENTITIES, ENTITY_ENCODER, GRAPH, NAMES, RELATIONS, vectors_of
from polyhop.worker.ranking.chains import chain_line, hops_of
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion
from polyhop.worker.ranking.traversal import (
    NameSearch,
    expand,
    passages_by_hops,
    passages_mentioning,
    similar_entities,
)
from polyhop.worker.strategies.base import Found, Parameters, RankedStrategy, Ranking, strategy
from polyhop.worker.strategies.baselines import DenseStrategy
from polyhop.worker.strategies.entities import NameLookup, entity_search

Matcher = Literal["exact", "fuzzy", "embedding"]


@dataclass(frozen=True, slots=True)
class StartEntities:
    """Entities that a question starts from."""

    numbers: tuple[int, ...]  # Distinct, ascending.
    unmatched: tuple[str, ...]  # Names that no entity has, ascending.
    has_names: bool  # Whether the question had any name at all; with similarity it needs none.
    similarities: dict[int, float]  # Cosine by entity number, where similarity found them.


EXPLAINED = 10  # So many passages of the graph's list are explained.

_SHOWN = 30  # entities; chosen: as many as `qasa` returns by default
_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).

GRAPH_SEARCH, FUSION = "graph-search", "fusion"
FETCH_UNIT = 100  # `over_fetch` counts passages in these.


class GraphSearchParameters(Parameters):
    """Parameters of `graph-search`."""

    depth: int = Field(1, ge=0, le=10, description="Relations followed from the question's entities, default 1.")
    enough_passages: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Follow no further relations once entities of so many passages are reached, default: never stop.",
    )
    decay: float = Field(0.5, gt=0, le=1, description="Factor applied to an entity's score per hop, default 0.5.")
    matcher: Matcher = Field(
        "exact",
        description="The question's entities: by exact name (default), names that contain one of the question's "
        "(fuzzy), or similarity to the question (embedding; needs vectors of entities).",
    )
    entities: int = Field(
        20, ge=1, le=10_000, description="matcher=embedding: entities nearest to the question, default 20."
    )
    min_similarity: float = Field(
        0.3,
        ge=-1,
        le=1,
        description="matcher=embedding: smallest cosine that counts, in the local encoder's cosines, default 0.3.",
    )


class ArcanaFusionParameters(GraphSearchParameters):
    """Parameters of `fusion`."""

    rrf_k: float = Field(60.0, ge=0, le=10_000, description="Damping of the first ranks in the fusion, default 60.")
    over_fetch: int = Field(
        2, ge=1, le=100, description="Length of the two lists that are fused, in hundreds of passages, default 2."
    )
    vector_passages: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Length of the list by similarity, in passages, default as over_fetch says; Arcana's page: 10.",
    )
    graph_passages: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Length of the graph's list, in passages, default as over_fetch says; Arcana's page: all.",
    )
    parallel: bool = Field(
        default=False,
        description="Search by similarity while the graph is searched, default 0 (no); results are equal.",
    )


@strategy(
    "graph-search",
    "Arcana: passages of entities within a few relations of the question's, fewest relations first.",
    GraphSearchParameters,
    needs={"graph", "graph:relations"},
    needs_question_names=True,
)
class GraphSearchStrategy(RankedStrategy):
    """Passages of entities near the question's, with how these were reached."""

    name = GRAPH_SEARCH

    def __init__(self, reader: IndexReader, parameters: GraphSearchParameters, services: Services) -> None:
        super().__init__(reader)
        self._parameters = parameters
        self._length = EXPLAINED
        self._relations = reader.artefact(RELATIONS)
        self._reader, self._graph = reader, reader.artefact(GRAPH)
        self._mentions = self._graph.by_entity
        self._encode = services.encode
        if parameters.matcher != "embedding":
            self._finder, self._lookup = reader.artefact(NAMES), NameLookup(reader)
            self._search = NameSearch(self._graph.keys) if parameters.matcher == "fuzzy" else None
            return
        if "vectors:entity" not in reader.artefacts:
            raise ConfigurationError(
                f"matcher=embedding of strategy '{self.name}' needs 'vectors:entity', which index '{reader.name}' was "
                f"built without. Build it with: polyhop index --index {reader.name} --add-strategy naive-vector"
            )
        self._least_cosine = cosine_threshold(parameters.min_similarity, reader.artefact(ENTITY_ENCODER))
        self._vectors, self._nearest_to = np.asarray(reader.artefact(vectors_of("entity"))), entity_search(reader)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the entities that were reached."""
        p, most = self._parameters, max(limit, self._length)
        for question in questions:
            nearest = self._start_nearest(question, most)
            start = self._start(question)
            seeded = time.perf_counter()
            entities, hops = expand(self._relations, start.numbers, p.depth, self._is_enough)
            by_graph = passages_by_hops(self._mentions, entities, hops, p.decay, most)
            (numbers, scores), fallback = self._joined(nearest(), start, by_graph)
            evidence = replace(self._evidence(start, (entities, hops), by_graph[0]), fallback=fallback)
            shown = slice(max(limit, 0))
            yield Found((numbers[shown], scores[shown]), evidence, time.perf_counter() - seeded)

    def _is_enough(self, hops: NDArray[np.intp]) -> bool:
        """Returns whether the entities that are reached have enough passages."""
        enough = self._parameters.enough_passages
        return enough is not None and len(passages_mentioning(self._mentions, np.flatnonzero(hops >= 0))) >= enough

    def _start(self, question: Question) -> StartEntities:
        """The nearest entities, or those of the question's names, else of those that the index's own finder finds.

        Names that contain one of them count if asked (fuzzy); a name merged into an entity's stands for it.
        """
        if self._parameters.matcher == "embedding":
            vector = question.vector if question.entity_vector is None else question.entity_vector
            if vector is None:  # only this matcher needs one
                vector = self._encode([question.text], SHORT_TEXTS)[0]
            count = self._parameters.entities
            numbers, cosines = similar_entities(self._vectors, vector, count, self._least_cosine, self._nearest_to)
            similarities = dict(zip(numbers.tolist(), cosines.tolist(), strict=True))
            return StartEntities(tuple(sorted(similarities)), (), has_names=True, similarities=similarities)
        names = [name.key for name in question.names] or [m.key for m in self._finder.find(question.text)]
        found: set[int] = set()
        unmatched = []
        for name in sorted(set(names)):
            entities = {*self._lookup.find(QuestionName(name, name))[1]}
            entities.update(self._search.containing(name) if self._search else ())
            if not entities:
                unmatched.append(name)
            found |= entities
        return StartEntities(tuple(sorted(found)), tuple(unmatched), has_names=bool(names), similarities={})

    def _evidence(
        self, start: StartEntities, reached: tuple[NDArray[np.intp], NDArray[np.intp]], ranked: NDArray[np.intp]
    ) -> Evidence:
        """The evidence of one question.

        Returns:
            Names, seeds (the start entities), how many entities were reached, as nodes those that the top passages
            mention (by hops, then key, at most 30), and for each the path that leads to it from a start entity.
        """
        graph, (entities, hops) = self._graph, reached
        keys = graph.keys
        # Indices of the reached entities that these passages mention, by hops, then number; the first of them.
        rows = [graph.indices[graph.indptr[n] : graph.indptr[n + 1]] for n in ranked[:EXPLAINED].tolist()]
        mentioned = np.isin(entities, np.concatenate(rows)) if rows else np.zeros(len(entities), dtype=np.bool_)
        indices = np.flatnonzero(mentioned)
        shown = indices[np.argsort(hops[indices], kind="stable")][:_SHOWN]
        hop_of = dict(zip(entities[shown].tolist(), hops[shown].tolist(), strict=True))
        # To each the way from a start entity, over the smallest numbers.
        relations, ways = self._relations, []
        for number, count in hop_of.items():
            path = [number]
            for hop in range(count, 0, -1):
                row = relations.indices[relations.indptr[path[-1]] : relations.indptr[path[-1] + 1]]
                at = np.minimum(np.searchsorted(entities, row), len(entities) - 1)
                is_nearer = (entities[at] == row) & (hops[at] == hop - 1)
                path.append(int(row[is_nearer][0]))
            ways.append(tuple(reversed(path)))
        involved = sorted({*start.numbers, *(number for way in ways for number in way)})
        name_of = {n: e.name for n, e in zip(involved, self._reader.artefact(ENTITIES)(involved), strict=True)}
        paths = []
        for way in ways:
            path_keys, names = tuple(keys[n] for n in way), tuple(name_of[n] for n in way)
            steps = hops_of(relations, way)
            pairs = zip(pairwise(path_keys), steps, strict=True)
            edges = tuple(Edge(*pair, step.forward, step.backward) for pair, step in pairs)
            if edges:
                paths.append(Path(chain_line(names, steps), path_keys, names, edges))
        match = "vector" if start.similarities else ""
        similarity_of = {n: round(similarity, _DIGITS) for n, similarity in start.similarities.items()}
        starts = start.numbers
        return Evidence(
            names=QuestionNames(tuple(keys[n] for n in starts), start.unmatched),
            seeds=tuple(Seed("entity", keys[n], 1.0, name_of[n], match, similarity_of.get(n)) for n in starts),
            nodes=tuple(Node(keys[n], name_of[n], distance=hop) for n, hop in hop_of.items()),
            paths=tuple(paths),
            node_count=len(entities),
        )

    def _start_nearest(self, _question: Question, _count: int) -> Callable[[], Ranking | None]:
        """Starts a search by cosine, of strategies that have one; the result waits for its end."""
        return lambda: None

    def _joined(
        self, _nearest: Ranking | None, start: StartEntities, by_graph: Ranking
    ) -> tuple[Ranking, Fallback | None]:
        """The ranking, and the replacement of the graph."""
        return by_graph, None if start.numbers else NOTHING_SEARCHED


@strategy(
    "fusion",
    "Arcana: graph search and dense, fused by rank.",
    ArcanaFusionParameters,
    needs={"graph", "graph:relations", "vectors:passage"},
    needs_question_names=True,
)
class ArcanaFusionStrategy(GraphSearchStrategy):
    """The graph's list and passages by cosine, which are as many at least, in case they are all there is."""

    name = FUSION

    def __init__(self, reader: IndexReader, parameters: ArcanaFusionParameters, services: Services) -> None:
        super().__init__(reader, parameters, services)
        self._dense = DenseStrategy(reader)
        self._k = parameters.rrf_k
        length = parameters.over_fetch * FETCH_UNIT
        self._lengths = (parameters.vector_passages or length, parameters.graph_passages or length)
        self._length = max(self._lengths)
        self._background = ThreadPoolExecutor(1, FUSION) if parameters.parallel else None

    def _start_nearest(self, question: Question, count: int) -> Callable[[], Ranking | None]:
        if self._background is not None:
            return self._background.submit(self._dense.rank, question, count).result
        ranking = self._dense.rank(question, count)
        return lambda: ranking

    def _joined(
        self, nearest: Ranking | None, start: StartEntities, by_graph: Ranking
    ) -> tuple[Ranking, Fallback | None]:
        """Both lists by reciprocal rank, cosine first.

        A question without any name keeps the list by cosine; with names that no entity has, it is fused with an empty
        list, which is the same order. Source: algorithms.md 5.2 (fusion_search, search_with_graph).
        """
        by_vector = nearest or by_graph
        if not start.has_names:
            return by_vector, BY_VECTOR
        both = zip((by_vector[0], by_graph[0]), self._lengths, strict=True)
        fused = reciprocal_rank_fusion([numbers[:length].tolist() for numbers, length in both], self._k)
        numbers = np.array([number for number, _ in fused], dtype=np.intp)
        scores = np.array([score for _, score in fused], dtype=np.float64)
        return (numbers, scores), None if start.numbers else BY_VECTOR
