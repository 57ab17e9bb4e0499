"""`bm25`, `bm25-rm3`, `bm25-2step`, `dense`, `dense-ann`, `naive-vector`, `rrf`, `bm25-ce`, `rrf-ce`: the baselines.

Source: algorithms.md 2.9, 0.5, 1.7, 6.2.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import RANK_BY_SIMILARITY, RANK_BY_WORDS, RERANKED, Evidence, Node, Note, Seed
from polyhop.schemas.languages import STOP_WORDS, analyser_of
from polyhop.schemas.manifest import NEAR
from polyhop.schemas.ports import IndexReader, Reranker, Services, Strategy
from polyhop.schemas.query import Question, RankedPassage, Retrieval
from polyhop.schemas.text import passage_text
from polyhop.warehouse.artefacts import (
    ENTITIES,
    GRAPH,
    NEAREST_PASSAGES,
    lexical_of,
    vectors_of,
)
from polyhop.worker.ranking.bm25 import (
    TermImpacts,
    add_terms,
    count_terms,
    coverage_and_proximity,
    expansion_entities,
    interpolate,
    inverse_document_frequency,
    relevance_model,
    score,
    term_shares,
    too_common,
    top,
)
from polyhop.worker.ranking.fusion import best, best_positive, contenders, reciprocal_rank_fusion
from polyhop.worker.ranking.pagerank import edge_weights
from polyhop.worker.ranking.similarity import (
    cosine_error,
    exact_cosines,
    passages_of_entities,
)
from polyhop.worker.ranking.traversal import similar_entities
from polyhop.worker.strategies.base import (
    EXPLAINED,
    Found,
    LexicalParameters,
    Parameters,
    RankedStrategy,
    Ranking,
    RerankParameters,
    entity_line,
    entity_vector,
    question_vector,
    strategy,
)
from polyhop.worker.strategies.entities import entity_matcher, entity_search, passage_search

ANALYSER = "plain"


@strategy("bm25", "Passages by shared words (BM25).", LexicalParameters, needs={"lexical:plain"})
class LexicalStrategy(RankedStrategy):
    """BM25 over plain tokens; repeated question words count repeatedly. Passages without a shared word are left out."""

    def __init__(
        self, reader: IndexReader, parameters: LexicalParameters | None = None, _: Any = None, analyser: str = ANALYSER
    ) -> None:
        super().__init__(reader)
        parameters = parameters or LexicalParameters()
        lexical = reader.artefact(lexical_of(analyser))
        self._impacts = TermImpacts(lexical, parameters.k1, parameters.b)
        self._tokens = analyser_of(analyser, lexical.language)

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        return top(self._impacts, count_terms(self._tokens(question.text), self._impacts.terms), count)


class LexicalReranker:
    """The fallback: reads words only."""

    model = "lexical"

    def __init__(self, reader: IndexReader, proximity_weight: float) -> None:
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._terms = lexical.terms
        self._tokens = analyser_of(ANALYSER, lexical.language)
        self._idf = inverse_document_frequency(np.diff(lexical.indptr), len(lexical.lengths))
        self._proximity_weight = proximity_weight

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Shape (len(passages),), from 0 to 1 + the weight of proximity."""
        words = [token for token in self._tokens(question) if token in self._terms]
        idf = {token: float(self._idf[self._terms[token]]) for token in words}
        parts = [coverage_and_proximity(idf, self._tokens(passage)) for passage in passages]
        return np.array([coverage + self._proximity_weight * proximity for coverage, proximity in parts], np.float64)


class RerankedStrategy:
    """A strategy's first passages by a reranker's scores, equal ones as the strategy had them; the rest unchanged.

    A passage that was put in order carries the reranker's score, the others keep the strategy's.
    """

    def __init__(
        self, strategy: Strategy, reader: IndexReader, parameters: RerankParameters, reranker: Reranker | None
    ) -> None:
        self._strategy = strategy
        self._reader = reader
        self._depth = parameters.rerank_depth
        self._reranker: Reranker = reranker or LexicalReranker(reader, parameters.proximity_weight)
        self._judge = f"the cross-encoder {reranker.model}" if reranker else "shared words (no cross-encoder is set)"

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        found = self._strategy.retrieve(questions, limit=max(limit, self._depth))
        return [self._reranked(*each, limit) for each in zip(questions, found, strict=True)]

    def _reranked(self, question: Question, found: Retrieval, limit: int) -> Retrieval:
        begun = time.perf_counter()
        if not found.passages:
            return replace(found, triples=found.triples[: max(limit, 0)])
        head, tail = found.passages[: self._depth], found.passages[self._depth :]
        numbers = [self._reader.number_of_passage[passage.passage_id] for passage in head]
        texts = [passage_text(title, text) for _, title, text in self._reader.passages(numbers)]
        values = self._reranker.score(question.text, texts)
        first = [(head[index].passage_id, float(values[index])) for index in best(values, len(values)).tolist()]
        pairs = (first + [(passage.passage_id, passage.score) for passage in tail])[: max(limit, 0)]
        note = Note(RERANKED, f"the top {len(head)} passages, by {self._judge}")
        return replace(
            found,
            passages=tuple(RankedPassage(name, rank, score) for rank, (name, score) in enumerate(pairs, start=1)),
            triples=found.triples[: max(limit, 0)],
            evidence=replace(found.evidence, notes=(*found.evidence.notes, note)),
            seconds={**found.seconds, "traversal": found.seconds.get("traversal", 0.0) + time.perf_counter() - begun},
        )


class DenseAnnParameters(Parameters):
    """Parameters of `dense-ann`."""

    ef_search: int = Field(
        64,
        ge=1,
        le=100_000,
        description="Size of the HNSW candidate list (ef), default 64; larger is more accurate and slower.",
    )


class SearchParameters(DenseAnnParameters):
    """Search for the nearest passages, for strategies that start from them."""

    search: Literal["exact", "ann"] = Field(
        "exact", description="Nearest passages by exact search (default), or ann: an HNSW graph (built for dense-ann)."
    )


class NaiveVectorParameters(Parameters):
    """Parameters of `naive-vector`."""

    entities: int = Field(
        30, ge=1, le=10_000, description="Entities nearest to the question that are used, default 30."
    )


@strategy("dense", "Passages by cosine of their vectors.", Parameters, needs={"vectors:passage"}, batches=True)
class DenseStrategy(RankedStrategy):
    """Exact cosines with all passages: rough ones of a block of questions choose, as in decision 0023.

    In a large version (`search.exact_below`) LanceDB chooses among the passages.
    """

    def __init__(self, reader: IndexReader, _parameters: Any = None, _services: Services | None = None) -> None:
        super().__init__(reader)
        self._search = passage_search(reader)
        self._error = cosine_error(self._search.dimension)

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
        """The vectors are read once for all questions."""
        vectors = [question_vector(question) for question in questions]
        searches = self._search.start([[vector] for vector in vectors], max(NEAR, 2 * count))
        for vector in vectors:
            found = searches.near(_NONE)
            near = found.rows[contenders(found.cosines[0], count, self._error)]
            scores = exact_cosines(self._search.vectors, near, vector)
            first = best(scores, count)
            yield near[first], scores[first]


_NONE = np.zeros(0, np.intp)


@strategy(
    "dense-ann",
    "As dense, searched approximately by an HNSW graph.",
    DenseAnnParameters,
    needs={"vectors:passage", "ann:passage"},
)
class ApproximateStrategy(RankedStrategy):
    """The nearest passages that an HNSW graph finds, ordered by their exact cosines."""

    def __init__(self, reader: IndexReader, parameters: DenseAnnParameters, _services: Services | None = None) -> None:
        super().__init__(reader)
        self._nearest = reader.artefact(NEAREST_PASSAGES)
        self._vectors = np.asarray(reader.artefact(vectors_of("passage")))
        self._ef_search = parameters.ef_search

    def rank(self, question: Question, count: int) -> Ranking:
        """At most `count` passages, in descending order of score."""
        vector = question_vector(question)
        found = np.unique(np.asarray(self._nearest(vector, count, self._ef_search), dtype=np.intp))
        # Row by row: a product with a matrix of another height may differ in the last bit.
        scores = np.sum(self._vectors[found].astype(np.float64) * vector, axis=1)
        order = best(scores, count)
        return found[order], scores[order]


@strategy(
    "naive-vector",
    "Passages that mention the entities nearest to the question.",
    NaiveVectorParameters,
    needs={"graph", "vectors:entity"},
    writes_context=True,
)
class NearEntitiesStrategy(RankedStrategy):
    """Passages that mention the entities nearest to the question, which are its evidence."""

    def __init__(self, reader: IndexReader, parameters: NaiveVectorParameters, _services: Services) -> None:
        super().__init__(reader)
        graph = reader.artefact(GRAPH)
        self._keys = graph.keys
        self._vectors = np.asarray(reader.artefact(vectors_of("entity")))
        self._entities = parameters.entities
        # Their descriptions are all that a model reads in the paper; a version may have no texts of them.
        self._texts = reader.artefact(ENTITIES) if ENTITIES.name in reader.artefacts else None
        self._mentions = graph.by_entity
        self._search = entity_search(reader)

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the entities, and their descriptions as context."""
        for question in questions:
            near, scores = similar_entities(self._vectors, entity_vector(question), self._entities, -1, self._search)
            seeded = time.perf_counter()
            ranking = passages_of_entities(self._mentions, near, scores, limit)
            pairs = zip(near.tolist(), scores.tolist(), strict=True)
            nodes = tuple(Node(self._keys[n], self._keys[n], round(score, 6)) for n, score in pairs)
            context = "\n".join(map(entity_line, self._texts(near.tolist()))) if self._texts else ""
            evidence = Evidence(nodes=nodes, measure="similarity", node_count=len(nodes), context=context)
            yield Found(ranking, evidence, time.perf_counter() - seeded)


class RelevanceModelParameters(LexicalParameters):
    """Parameters of `bm25-rm3`."""

    fb_docs: int = Field(10, ge=1, le=10_000, description="Feedback passages of the relevance model, default 10.")
    fb_terms: int = Field(10, ge=1, le=10_000, description="Terms of the relevance model that are kept, default 10.")
    original_weight: float = Field(
        0.5, ge=0, le=1, description="lambda: share of the question's own words, default 0.5; 1 is bm25."
    )
    drop_stopwords: bool = Field(
        default=False, description="Leave stop words out of the relevance model, 0 or 1, default 0."
    )


class TwoStepParameters(LexicalParameters):
    """Parameters of `bm25-2step`."""

    fb_docs: int = Field(5, ge=1, le=10_000, description="Passages of the first step, default 5.")
    fb_entities: int = Field(5, ge=1, le=10_000, description="Entities of them that are added, default 5.")
    max_df_ratio: float = Field(
        0.1, ge=0, le=1, description="Entities in a larger share of all passages are not added, default 0.1."
    )
    entity_word_weight: float = Field(
        0.5, ge=0, le=1000, description="Weight of an added entity's word, a question's word being 1, default 0.5."
    )


class FeedbackStrategy(RankedStrategy):
    """BM25, expansion, BM25; the second ranking is the result."""

    def __init__(self, reader: IndexReader, parameters: RelevanceModelParameters | TwoStepParameters) -> None:
        super().__init__(reader)
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._terms = list(lexical.terms)
        self._impacts = TermImpacts(lexical, parameters.k1, parameters.b)
        self._tokens = analyser_of(ANALYSER, lexical.language)
        self._fb_docs = parameters.fb_docs

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with what the first one suggested."""
        for question in questions:
            counts = count_terms(self._tokens(question.text), self._impacts.terms)
            scores = score(self._impacts, counts)
            first = best_positive(scores, self._fb_docs)
            first_scores = scores[first]
            seeded = time.perf_counter()
            weights, added = self._expand(question, counts, (first, first_scores))
            scores = score(self._impacts, weights)
            numbers = best_positive(scores, limit)
            weighed = zip(first.tolist(), first_scores.tolist(), strict=True)
            seeds = tuple(Seed("passage", self._passage_ids[number], round(weight, 6)) for number, weight in weighed)
            note = replace(added, label=f"{added.label} suggested by the top {len(first)} passages")
            evidence = Evidence(seeds=seeds, notes=(note,))
            yield Found((numbers, scores[numbers]), evidence, time.perf_counter() - seeded)

    def _expand(
        self, question: Question, counts: Mapping[int, int], first: Ranking
    ) -> tuple[Mapping[int, float], Note]:
        """Terms of the question and those that the first passages suggest, with their weights."""
        raise NotImplementedError


@strategy(
    "bm25-rm3",
    "BM25 with words that the top passages suggest (RM3).",
    RelevanceModelParameters,
    needs={"lexical:plain"},
)
class RelevanceModelStrategy(FeedbackStrategy):
    """The question's words mixed with those that are likely in the first passages."""

    def __init__(self, reader: IndexReader, parameters: RelevanceModelParameters, _services: Services) -> None:
        super().__init__(reader, parameters)
        self._parameters = parameters
        self._shares = term_shares(reader.artefact(lexical_of(ANALYSER)))
        self._dropped = np.array([term in STOP_WORDS for term in self._terms]) if parameters.drop_stopwords else None

    def _expand(
        self, question: Question, counts: Mapping[int, int], first: Ranking
    ) -> tuple[Mapping[int, float], Note]:
        terms, weights = relevance_model(self._shares, *first, self._parameters.fb_terms, self._dropped)
        length = len(self._tokens(question.text))
        mixed = interpolate(counts, length, terms, weights, self._parameters.original_weight)
        return mixed, Note("Terms", items=_rounded([self._terms[term] for term in terms.tolist()], weights.tolist()))


@strategy(
    "bm25-2step",
    "BM25 expanded with the entities of its top passages.",
    TwoStepParameters,
    needs={"graph", "lexical:plain"},
)
class TwoStepStrategy(FeedbackStrategy):
    """The question's words and those of the entities that weigh most in the first passages and are not in it."""

    def __init__(self, reader: IndexReader, parameters: TwoStepParameters, _services: Services) -> None:
        from scipy import sparse

        super().__init__(reader, parameters)
        self._parameters = parameters
        graph = reader.artefact(GRAPH)
        shape = (graph.passage_count, graph.entity_count)
        self._weights = sparse.csr_array((edge_weights(graph), graph.indices, graph.indptr), shape=shape)
        self._too_common = too_common(graph, parameters.max_df_ratio)
        self._keys = graph.keys
        self._match = entity_matcher(reader)

    def _expand(
        self, question: Question, counts: Mapping[int, int], first: Ranking
    ) -> tuple[Mapping[int, float], Note]:
        excluded = self._too_common.copy()
        excluded[self._match(question.text).numbers] = True
        entities, sums = expansion_entities(self._weights, first[0], excluded, self._parameters.fb_entities)
        keys = [self._keys[entity] for entity in entities.tolist()]
        added = count_terms((token for key in keys for token in self._tokens(key)), self._impacts.terms)
        weights = add_terms(counts, added, self._parameters.entity_word_weight)
        return weights, Note("Entities", items=_rounded(keys, sums.tolist()))


def _rounded(names: Sequence[str], weights: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """Names with their weights, rounded for reading."""
    return tuple((name, round(weight, 6)) for name, weight in zip(names, weights, strict=True))


class FusionParameters(LexicalParameters):
    """Parameters of `rrf`; where its ranking is a part of another strategy, it has the defaults."""

    grid: ClassVar[Mapping[str, str]] = {"rrf_k": "10,20,60,100", "depth": "50,100,200"}  # Chosen around the defaults.

    depth: int = Field(100, ge=1, le=10_000, description="Depth of each of the two rankings, default 100.")
    rrf_k: float = Field(60.0, ge=0, le=10_000, description="Damping of the first ranks in the fusion, default 60.")


@strategy(
    "rrf", "BM25 and dense, fused by rank.", FusionParameters, needs={"lexical:plain", "vectors:passage"}, batches=True
)
class FusedStrategy(RankedStrategy):
    """BM25 and cosine fused by rank; never more passages than the two lists hold."""

    def __init__(
        self, reader: IndexReader, parameters: FusionParameters | None = None, _services: Services | None = None
    ) -> None:
        super().__init__(reader)
        parameters = parameters or FusionParameters()
        self._strategies = (LexicalStrategy(reader, parameters), DenseStrategy(reader))  # in the order of ties
        self._depth = parameters.depth
        self._k = parameters.rrf_k

    def rank_each(self, questions: Sequence[Question], count: int) -> Iterator[Ranking]:
        """As `rank`, for each question in order."""
        return (found.ranking for found in self.find_each(questions, count))

    def find_each(self, questions: Sequence[Question], limit: int) -> Iterator[Found]:
        """Rankings with the share of each list in the scores of the first passages."""
        for found in zip(*(one.rank_each(questions, self._depth) for one in self._strategies), strict=True):
            lists = [numbers.tolist() for numbers, _ in found]
            fused = reciprocal_rank_fusion(lists, self._k)[: max(limit, 0)]
            numbers = np.array([number for number, _ in fused], dtype=np.intp)
            shares = {
                name: {number: round(1 / (self._k + rank), 6) for rank, number in enumerate(ranked, start=1)}
                for name, ranked in zip((RANK_BY_WORDS, RANK_BY_SIMILARITY), lists, strict=True)
            }
            parts = {
                self._passage_ids[number]: {name: share[number] for name, share in shares.items() if number in share}
                for number, _ in fused[:EXPLAINED]
            }
            ranking = numbers, np.array([score for _, score in fused], dtype=np.float64)
            yield Found(ranking, Evidence(score_parts=parts))


class LexicalRerankParameters(RerankParameters, LexicalParameters):
    """Parameters of `bm25-ce`."""


class FusedRerankParameters(RerankParameters):
    """Parameters of `rrf-ce`."""

    rerank_depth: int = Field(
        20, ge=0, le=10_000, description="Top passages that are re-ranked, default 20; the rest follow."
    )


@strategy(
    "bm25-ce",
    "The top of BM25, re-ranked by a cross-encoder (or its lexical fallback).",
    LexicalRerankParameters,
    needs={"lexical:plain"},
)
def build_bm25_ce(reader: IndexReader, parameters: LexicalRerankParameters, services: Services) -> RerankedStrategy:
    """`bm25-ce` on an open version."""
    return RerankedStrategy(LexicalStrategy(reader, parameters), reader, parameters, services.reranker())


@strategy(
    "rrf-ce",
    "The top of rrf, re-ranked by a cross-encoder (or its lexical fallback).",
    FusedRerankParameters,
    needs={"lexical:plain", "vectors:passage"},
)
def build_rrf_ce(reader: IndexReader, parameters: FusedRerankParameters, services: Services) -> RerankedStrategy:
    """`rrf-ce` on an open version."""
    return RerankedStrategy(FusedStrategy(reader), reader, parameters, services.reranker())
