"""The reader without a model: rules for comparisons and yes-no questions, else the candidate that fits best.

Source: reader.md.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from polyhop.schemas.evidence import Note
from polyhop.schemas.languages import AUTO, ENGLISH, detected
from polyhop.schemas.ports import Encode, IndexReader
from polyhop.schemas.query import Question, Reading, ReadingItem, Sentence
from polyhop.warehouse.artefacts import LANGUAGE, NAMES, lexical_of, vectors_of
from polyhop.worker.reading.candidates import Situation, features_of, find_candidates, keys_of, question_share
from polyhop.worker.reading.comparisons import Computed, compute
from polyhop.worker.reading.evidence import choose, factors_of
from polyhop.worker.reading.pages import CorpusPages, Page, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question
from polyhop.worker.reading.sentences import Similarity, StemWeights

ANALYSER = "stems"
MIN_CONFIDENCE = 0.02
"""Extracted answers below it are not given: a single hop without its name or its predicate stays under .017."""


NOT_ENGLISH = Reading("", notes=(Note("Reader", "the rules read English only; a model reads other languages"),))
"""In an index of another language, and with `auto` for a question that is not English."""

_KEPT_QUESTIONS = 64
"""Questions that stay parsed: HubLink reads a question once for each hub."""


class RuleReader:
    """Reads short answers by rules and thirteen linear features.

    Each question is read by itself: the others in the batch change nothing. An answer comes with its kind
    ("computed" or "extracted"), its confidence, and the sentences it came from; without one, and to a question
    without a content word, the answer is "".

    Args:
        index: The open version: idf, vectors and the corpus's own pages of names.
        min_confidence: Answers below it are not given.

    Source: reader.md. Cost: O(characters of the context) per question.
    """

    batches = False

    def __init__(
        self, index: IndexReader, encode: Encode | None = None, *, min_confidence: float = MIN_CONFIDENCE
    ) -> None:
        self._index = index
        self.min_confidence = min_confidence
        self._corpus = CorpusPages(index)
        has_stems = f"lexical:{ANALYSER}" in index.artefacts
        self._idf = StemWeights(index.artefact(lexical_of(ANALYSER)) if has_stems else None)
        self._similar = Similarity(index, encode, self._idf)
        self._language = index.artefact(LANGUAGE)
        # a function of the index, not a method: a cache that leads back to its reader would hold the index when closed
        self._parsed = lru_cache(maxsize=_KEPT_QUESTIONS)(partial(_parsed, index))

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; reads sentences of passages, no notes."""
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> Reading:
        question = item.question
        if not (self._language == ENGLISH or (self._language == AUTO and detected(question.text) == ENGLISH)):
            return NOT_ENGLISH
        pages = pages_of(item.context)
        parsed = self._parsed(question.text)
        if not pages or not parsed.main_stems:
            return Reading("")
        cosines = self._cosines(question, parsed, pages)
        computed = compute(parsed, pages, self._similar)
        if computed is not None:
            return self._computed(computed)
        candidates = [candidate for page in pages for candidate in find_candidates(parsed, page)]
        self._corpus.prepare(keys_of(candidates))
        situation = Situation(parsed, pages, cosines, self._idf, self._corpus)
        rows = features_of(situation, candidates)
        best = choose(candidates, rows, factors_of(situation, candidates, rows))
        if best is None:
            return Reading("")
        if round(best.confidence, 6) < self.min_confidence:
            return Reading("", confidence=round(best.confidence, 6))
        candidate = best.candidate
        sentence = candidate.sentence
        cited = Sentence(candidate.page.passage.passage_id, sentence.text, sentence.start, sentence.end)
        return Reading(candidate.answer, best.score, (cited,), "extracted", confidence=round(best.confidence, 6))

    def _computed(self, computed: Computed) -> Reading:
        if not computed.answer or computed.confidence < self.min_confidence:
            return Reading("", confidence=computed.confidence, rule=computed.rule, values=computed.values)
        sentences = tuple(dict.fromkeys(value.sentence for value in computed.values if value.sentence is not None))
        return Reading(
            computed.answer,
            score=computed.confidence,
            sentences=sentences,
            kind="computed",
            confidence=computed.confidence,
            rule=computed.rule,
            values=computed.values,
        )

    def _cosines(self, question: Question, parsed: ParsedQuestion, pages: Sequence[Page]) -> list[float]:
        """Similarity of question and each passage; without vectors, the share of its words that the passage holds."""
        number_of = self._index.number_of_passage
        numbers = [number_of.get(page.passage.passage_id) for page in pages]
        if question.vector is None or "vectors:passage" not in self._index.artefacts or None in numbers:
            return [question_share(parsed, page, self._idf) for page in pages]
        held = self._index.artefact(vectors_of("passage"))
        vectors = np.asarray(held[[number for number in numbers if number is not None]])
        return [float(value) for value in vectors.astype(np.float64) @ question.vector.astype(np.float64)]


def _parsed(index: IndexReader, question: str) -> ParsedQuestion:
    return parse_question(question, index.artefact(NAMES).find(question))
