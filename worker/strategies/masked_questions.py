"""What `bridge-masked` reads in a question before anything is ranked: its names, and its words without the rare ones.

Encodes nothing and ranks nothing (bridge_masked.py does). Source: bridge-masked.md 1, 3 step 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import Question
from polyhop.schemas.stems import analyser_of
from polyhop.warehouse.artefacts import CHUNK_GRAPH, NAMES, lexical_of
from polyhop.worker.ranking.masking import common_count, is_unnested, masked_text, names_share
from polyhop.worker.strategies.bridge import ANALYSER
from polyhop.worker.strategies.entities import NodeMatcher, QuestionEntities, entity_meanings

KEPT_QUESTIONS = 256
"""Chosen: some batches of a worker."""


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question as it is read before anything is ranked.

    Attributes:
        entities: Its names.
        seeds: Shape (m,): those of them that start the walk, ascending.
        shares: Shape (m,): as of `entities`.
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

    def __init__(self, reader: IndexReader, common_share: float) -> None:
        graph = reader.artefact(CHUNK_GRAPH)
        self._find = reader.artefact(NAMES).find
        self._meanings_of = entity_meanings(reader)
        self._number_of, self._df = graph.number_of, graph.df
        self._matcher = NodeMatcher(lambda _: (), graph.number_of, graph.df)
        self._common = common_count(graph.passage_count, common_share)
        self._stems = analyser_of(ANALYSER, reader.artefact(lexical_of(ANALYSER)).language)
        self._read: dict[str, MaskedQuestion] = {}

    def read(self, question: Question) -> MaskedQuestion:
        """Names and mask of a question. Source: bridge-masked.md 1, 3 steps 0a and 0b.

        The last ones are kept: a question is read before its texts are encoded, and again when it is ranked.
        """
        known = self._read.get(question.text)
        if known is None:
            known = self._of(question.text)
            if len(self._read) >= KEPT_QUESTIONS:
                self._read.clear()
            self._read[question.text] = known
        return known

    def _of(self, text: str) -> MaskedQuestion:
        mentions = self._find(text)
        meanings = [self._meanings_of(mention.key) for mention in mentions]
        entities = self._matcher.match_meanings(meanings)
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
