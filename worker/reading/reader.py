"""The reader without a model: an answer computed from values, else sentences and the candidate that fits best.

Source: reader.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from polyhop.schemas.evidence import Note
from polyhop.schemas.languages import AUTO, ENGLISH, detected
from polyhop.schemas.ports import Encode, IndexReader, Reader
from polyhop.schemas.query import Citation, ComparedValue, Question, ReaderResult, ReadingItem
from polyhop.warehouse.artefacts import LANGUAGE, NAMES, lexical_of, vectors_of
from polyhop.worker.reading.candidates import PHRASE, Situation, choose, evidence, features_of, find_candidates
from polyhop.worker.reading.comparisons import compute
from polyhop.worker.reading.pages import CorpusPages, ParsedPassage, Similarity, StemWeights, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question, stems_of

ANALYSER = "stems"
MIN_CONFIDENCE = 0.5
"""A short answer below it is a guess, and the sentences are the answer. Source: reader.md, Confidence and silence."""
NOTHING = 0.1  # A sentence that says less of the question's words (by idf) is not shown: nothing was found.
_WORTHLESS = 0.03  # The sentence of a guess below it is not shown; chosen: right in 1 of 20.

NOT_ENGLISH = ReaderResult("", notes=(Note("Reader", "the rules read English only; a model reads other languages"),))
"""In an index of another language, and with `auto` for a question that is not English."""

_KEPT_QUESTIONS = 64  # Questions that stay parsed: HubLink reads a question once for each hub.


class RuleReader:
    """Reads short answers by rules and linear features.

    The other questions of the batch change nothing. A short answer comes with its kind
    ("computed" or "extracted"), its confidence and sentences. Below `min_confidence` it is a guess: the sentences,
    those that say most of the question together, are the answer. A question without a content word has none.

    Args:
        index: The open version: idf, vectors and the corpus's own pages of names.
        encode: Encodes sentences as its vectors were; None: words are counted instead.
        min_confidence: Short answers below it are guesses.

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
        idf = StemWeights(index.artefact(lexical_of(ANALYSER)) if has_stems else None)
        self._similar = Similarity(index, encode, idf)
        self._language = index.artefact(LANGUAGE)
        # a function of the index, not a method: a cache that leads back to its reader would hold the index when closed
        self._parsed = lru_cache(maxsize=_KEPT_QUESTIONS)(partial(_parsed, index))

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        """One result per item, in order; reads sentences of passages, no notes."""
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> ReaderResult:
        question = item.question
        if not (self._language == ENGLISH or (self._language == AUTO and detected(question.text) == ENGLISH)):
            return NOT_ENGLISH
        pages = pages_of(item.context)
        parsed = self._parsed(question.text)
        if not pages or not parsed.main_stems:
            return ReaderResult("")
        cosines = self._cosines(question, pages)
        computed = compute(parsed, pages, self._similar)
        if computed is not None and computed.answer:
            from_values = tuple(dict.fromkeys(one.sentence for one in computed.values if one.sentence is not None))
            confidence = computed.confidence
            reading = ReaderResult(computed.answer, confidence, from_values, "computed", confidence=confidence)
            return replace(self._shown(reading), rule=computed.rule, values=computed.values)
        best_three = self._similar.best_sentences(question, pages)
        sentences = [one.page.cite(one.sentence) for one in best_three if one.share >= NOTHING]
        pair = [one.page.cite(one.sentence) for one in best_three[:2] if one.share >= NOTHING]
        if computed is not None:
            stated = [value.sentence for value in computed.values if value.sentence is not None]
            shown = tuple(dict.fromkeys((*stated, *pair)))
            return ReaderResult("", sentences=shown, rule=computed.rule, values=computed.values)
        candidates = [candidate for page in pages for candidate in find_candidates(parsed, page)]
        self._corpus.prepare(candidate.key for candidate in candidates if candidate.span.kind != PHRASE)
        situation = Situation(parsed, pages, cosines, self._similar.idf, self._corpus)
        rows = features_of(situation, candidates)
        best = choose(candidates, rows, evidence(situation, candidates, rows))
        if best is None:
            return ReaderResult("", sentences=tuple(sentences))
        own = best.candidate.page.cite(best.candidate.sentence)
        confidence = round(best.confidence(is_shown=own in pair, is_one_step=situation.asked.is_one_step), 6)
        after = (*sentences, own) if confidence >= _WORTHLESS else tuple(sentences)
        shown = tuple(dict.fromkeys((own, *pair) if confidence >= self.min_confidence else after))
        return self._shown(
            ReaderResult(best.candidate.span.answer, best.score, shown, "extracted", confidence=confidence)
        )

    def _shown(self, reading: ReaderResult) -> ReaderResult:
        """A reading whose short answer is a guess if it is not certain enough: then the sentences are the answer."""
        if reading.confidence >= self.min_confidence:
            return reading
        return replace(reading, answer="", guess=reading.answer)

    def _cosines(self, question: Question, pages: Sequence[ParsedPassage]) -> list[float]:
        """Similarity of question and each passage; without vectors, the share of its words that the passage holds."""
        number_of = self._index.number_of_passage
        numbers = [number_of.get(page.passage.passage_id) for page in pages]
        if question.vector is None or "vectors:passage" not in self._index.artefacts or None in numbers:
            return [self._similar.share(stems_of(question.text), page.content.stems) for page in pages]
        held = self._index.artefact(vectors_of("passage"))
        vectors = np.asarray(held[[number for number in numbers if number is not None]])
        return [float(value) for value in vectors.astype(np.float64) @ question.vector.astype(np.float64)]


def _parsed(index: IndexReader, question: str) -> ParsedQuestion:
    return parse_question(question, index.artefact(NAMES).find(question))


_LEAST_OF_FACETS = 0.02  # below it the passages are read instead; chosen


class FacetReader:
    """Reads what `hub-facets` retrieved, without a model. Source: algorithms.md 4B, answers.

    Args:
        key: Of the short answer among an evidence's data.
        fallback: Reads the passages of questions to which facets give no answer.
    """

    batches = False

    def __init__(self, key: str, fallback: Reader) -> None:
        self._key = key
        self._fallback = fallback
        self._min_confidence = fallback.min_confidence if isinstance(fallback, RuleReader) else MIN_CONFIDENCE

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        """One result per item, in order; its `values` and `citations` name hubs."""
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> ReaderResult:
        found: dict[str, Any] | None = item.retrieval.evidence.data.get(self._key)
        if found is None or found["confidence"] < _LEAST_OF_FACETS:
            (reading,) = self._fallback.read([item])
            return reading
        # all hops of every path, each triple once
        stated = dict.fromkeys(f"({', '.join(hop)})" for one in found["triples"] for hop in one["hops"])
        count = found["hub_count"]
        text = f"{found['kind']}, from {count} {'hub' if count == 1 else 'hubs'}: {'; '.join(stated)}"
        answer = "; ".join(found["texts"])  # names have commas
        hubs = enumerate(found["hubs"], start=1)
        return ReaderResult(
            answer if found["confidence"] >= self._min_confidence else "",
            guess=answer,
            score=found["confidence"],
            kind="computed",
            citations=tuple(Citation("", hub_id=hub["id"], name=hub["name"], number=number) for number, hub in hubs),
            confidence=found["confidence"],
            rule=f"facets: {found['kind']}",
            values=tuple(dict.fromkeys(ComparedValue(one["hub"], one["object"]) for one in found["triples"])),
            notes=(Note("Answer", text),),
        )
