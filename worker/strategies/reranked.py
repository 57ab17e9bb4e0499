"""The first passages of any strategy, put in another order by who reads question and passage.

A cross-encoder reads them if one is configured (models.rerank), else a token-free fallback; the evidence says which.
Owns no formula (ranking/coverage_rerank.py does) and opens no model. Source: algorithms.md 2.9.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import RERANKED, Note
from polyhop.schemas.ports import IndexReader, NameSearching, Reranker, Strategy, TextComparing
from polyhop.schemas.query import Question, RankedPassage, Retrieval
from polyhop.schemas.stems import analyser_of
from polyhop.schemas.text import passage_text
from polyhop.warehouse.artefacts import lexical_of
from polyhop.worker.ranking.bm25 import inverse_document_frequency
from polyhop.worker.ranking.coverage_rerank import coverage_and_proximity
from polyhop.worker.ranking.order import best
from polyhop.worker.strategies.lexical import ANALYSER
from polyhop.worker.strategies.rerank_parameters import RerankParameters


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
        self.name = strategy.name
        self._strategy = strategy
        self._reader = reader
        self._depth = parameters.rerank_depth
        self._reranker: Reranker = reranker or LexicalReranker(reader, parameters.proximity_weight)
        self._judge = f"the cross-encoder {reranker.model}" if reranker else "shared words (no cross-encoder is set)"

    def searched_hints(self, question: Question) -> Sequence[str]:
        """Those of the strategy, if it searches by any; see `polyhop.schemas.ports.NameSearching`."""
        return self._strategy.searched_hints(question) if isinstance(self._strategy, NameSearching) else ()

    def further_texts(self, question: Question) -> Sequence[str]:
        """Those of the strategy, if it compares with any; see `polyhop.schemas.ports.TextComparing`."""
        return self._strategy.further_texts(question) if isinstance(self._strategy, TextComparing) else ()

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        found = self._strategy.retrieve(questions, limit=max(limit, self._depth))
        return [self._reranked(*each, limit) for each in zip(questions, found, strict=True)]

    def _reranked(self, question: Question, found: Retrieval, limit: int) -> Retrieval:
        begun = time.perf_counter()
        if not found.passages:
            return replace(found, triples=found.triples[: max(limit, 0)])
        head, tail = found.passages[: self._depth], found.passages[self._depth :]
        values = self._read(question.text, head)
        first = [(head[place].passage_id, float(values[place])) for place in best(values, len(values)).tolist()]
        pairs = (first + [(passage.passage_id, passage.score) for passage in tail])[: max(limit, 0)]
        note = Note(RERANKED, f"the top {len(head)} passages, by {self._judge}")
        return replace(
            found,
            passages=tuple(RankedPassage(name, rank, score) for rank, (name, score) in enumerate(pairs, start=1)),
            triples=found.triples[: max(limit, 0)],
            evidence=replace(found.evidence, notes=(*found.evidence.notes, note)),
            seconds={**found.seconds, "traversal": found.seconds.get("traversal", 0.0) + time.perf_counter() - begun},
        )

    def _read(self, question: str, head: Sequence[RankedPassage]) -> NDArray[np.float64]:
        numbers = [self._reader.number_of_passage[passage.passage_id] for passage in head]
        texts = [passage_text(title, text) for _, title, text in self._reader.passages(numbers)]
        return self._reranker.score(question, texts)
