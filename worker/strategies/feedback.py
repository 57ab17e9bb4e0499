"""`bm25-rm3` and `bm25-2step`: BM25 twice, the second time with what the first passages add to the question.

One class; the two differ only in what is added. Source: algorithms.md 2.9.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from pydantic import Field

from polyhop.schemas.evidence import Evidence, Note, Seed
from polyhop.schemas.names import STOP_WORDS
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.stems import analyser_of
from polyhop.warehouse.artefacts import GRAPH, lexical_of
from polyhop.worker.ranking.bm25 import count_terms, impacts, score
from polyhop.worker.ranking.feedback import (
    add_terms,
    expansion_entities,
    interpolate,
    relevance_model,
    term_shares,
    too_common,
)
from polyhop.worker.ranking.order import best_positive
from polyhop.worker.ranking.pagerank import edge_weights
from polyhop.worker.strategies.base import LexicalParameters, Ranking, ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.entities import EntityMatcher
from polyhop.worker.strategies.lexical import ANALYSER


class RelevanceModelParameters(LexicalParameters):
    """Parameters of `bm25-rm3`."""

    fb_docs: int = Field(10, ge=1, le=10_000, description="Passages that the question learns from, default 10.")
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


class Expansion(Protocol):
    """Adds to a question what its first passages suggest."""

    def expand(self, question: Question, counts: Mapping[int, int], first: Ranking) -> tuple[Mapping[int, float], Note]:
        """Weight by term number, ascending, and what was added."""
        ...


class FeedbackStrategy:
    """BM25, expansion, BM25; the second ranking is the result."""

    def __init__(
        self, name: str, reader: IndexReader, parameters: LexicalParameters, expansion: Expansion, fb_docs: int
    ) -> None:
        self.name = name
        self._passage_ids = reader.passage_ids
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._impacts = impacts(lexical, parameters.k1, parameters.b)
        self._tokens = analyser_of(ANALYSER, lexical.language)
        self._expansion = expansion
        self._fb_docs = fb_docs

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        counts = count_terms(self._tokens(question.text), self._impacts.terms)
        scores = score(self._impacts, counts)
        first = best_positive(scores, self._fb_docs)
        first_scores = scores[first]
        seeded = time.perf_counter()
        weights, added = self._expansion.expand(question, counts, (first, first_scores))
        scores = score(self._impacts, weights)
        numbers = best_positive(scores, limit)
        ranked = ranked_passages(self._passage_ids, (numbers, scores[numbers]))
        seconds = {"seed": seeded - begun, "traversal": time.perf_counter() - seeded}
        weighed = zip(first.tolist(), first_scores.tolist(), strict=True)
        seeds = tuple(Seed("passage", self._passage_ids[number], round(weight, 6)) for number, weight in weighed)
        label = f"{added.label} suggested by the top {len(first)} passages"
        return Retrieval(ranked, Evidence(seeds=seeds, notes=(replace(added, label=label),)), seconds)


class RelevanceTerms:
    """RM3: the words that are likely in the first passages."""

    def __init__(self, reader: IndexReader, parameters: RelevanceModelParameters) -> None:
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._shares = term_shares(lexical)
        self._terms = list(lexical.terms)
        self._tokens = analyser_of(ANALYSER, lexical.language)
        self._parameters = parameters
        self._dropped = np.array([term in STOP_WORDS for term in self._terms]) if parameters.drop_stopwords else None

    def expand(self, question: Question, counts: Mapping[int, int], first: Ranking) -> tuple[Mapping[int, float], Note]:
        """The question's words and the relevance model's, mixed."""
        terms, weights = relevance_model(self._shares, *first, self._parameters.fb_terms, self._dropped)
        length = len(self._tokens(question.text))
        mixed = interpolate(counts, length, terms, weights, self._parameters.original_weight)
        return mixed, Note("Terms", items=_rounded([self._terms[term] for term in terms.tolist()], weights.tolist()))


class RelevanceEntities:
    """BM25-2step: the words of the entities that weigh most in the first passages and are not in the question."""

    def __init__(self, reader: IndexReader, parameters: TwoStepParameters) -> None:
        from scipy import sparse

        graph = reader.artefact(GRAPH)
        shape = (graph.passage_count, graph.entity_count)
        self._weights = sparse.csr_array((edge_weights(graph), graph.indices, graph.indptr), shape=shape)
        self._too_common = too_common(graph, parameters.max_df_ratio)
        self._keys = graph.keys
        self._matcher = EntityMatcher(reader)
        lexical = reader.artefact(lexical_of(ANALYSER))
        self._terms, self._tokens = lexical.terms, analyser_of(ANALYSER, lexical.language)
        self._parameters = parameters

    def expand(self, question: Question, counts: Mapping[int, int], first: Ranking) -> tuple[Mapping[int, float], Note]:
        """The question's words and those of the added entities."""
        excluded = self._too_common.copy()
        excluded[self._matcher.match(question.text).numbers] = True
        entities, sums = expansion_entities(self._weights, first[0], excluded, self._parameters.fb_entities)
        keys = [self._keys[entity] for entity in entities.tolist()]
        added = count_terms((token for key in keys for token in self._tokens(key)), self._terms)
        weights = add_terms(counts, added, self._parameters.entity_word_weight)
        return weights, Note("Entities", items=_rounded(keys, sums.tolist()))


@strategy(
    "bm25-rm3",
    "BM25 with words that the top passages suggest (RM3).",
    RelevanceModelParameters,
    needs={"lexical:plain"},
)
def build_bm25_rm3(reader: IndexReader, parameters: RelevanceModelParameters, _services: Services) -> FeedbackStrategy:
    """`bm25-rm3` on an open version."""
    terms = RelevanceTerms(reader, parameters)
    return FeedbackStrategy("bm25-rm3", reader, parameters, terms, parameters.fb_docs)


@strategy(
    "bm25-2step",
    "BM25 with the entities of its own top passages.",
    TwoStepParameters,
    needs={"graph", "lexical:plain"},
)
def build_bm25_2step(reader: IndexReader, parameters: TwoStepParameters, _services: Services) -> FeedbackStrategy:
    """`bm25-2step` on an open version."""
    entities = RelevanceEntities(reader, parameters)
    return FeedbackStrategy("bm25-2step", reader, parameters, entities, parameters.fb_docs)


def _rounded(names: Sequence[str], weights: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """Names with their weights, rounded for reading."""
    return tuple((name, round(weight, 6)) for name, weight in zip(names, weights, strict=True))
