"""The reader without a language model: an answer computed from values, else a span of the passages.

Source: reader.md.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import exp
from typing import Any

from polyhop.schemas.evidence import Note
from polyhop.schemas.languages import AUTO, ENGLISH, detected
from polyhop.schemas.ports import Encode, IndexReader, Reader, SpanModel
from polyhop.schemas.query import Citation, ComparedValue, Question, ReaderResult, ReadingItem, Sentence
from polyhop.warehouse.artefacts import LANGUAGE, NAMES, lexical_of
from polyhop.worker.reading.comparisons import compute
from polyhop.worker.reading.pages import ParsedPassage, PassageSentence, Similarity, StemWeights, on_subject, pages_of
from polyhop.worker.reading.question import YES_NO, ParsedQuestion, parse_question, stems_of
from polyhop.worker.reading.spans import SpanAnswer, read_spans

ANALYSER = "stems"
MIN_CONFIDENCE = 0.5
"""A short answer below it is a guess, and the sentences are the answer. Source: reader.md, Confidence."""
NOTHING = 0.1  # A sentence that says less of the question's words (by idf) is not shown: nothing was found.
_MOST_SENTENCES = 3  # shown; chosen: people read three

NOT_ENGLISH = ReaderResult(
    "", notes=(Note("Reader", "answers are read in English only; a model reads other languages"),)
)
"""In an index of another language, and with `auto` for a question that is not English."""

_KEPT_QUESTIONS = 64  # Questions that stay parsed: HubLink reads a question once for each hub.


class LocalReader:
    """Reads short answers without a language model: computed from values, else spans of the passages.

    The other questions of the batch change nothing. A short answer comes with its kind ("computed" or "extracted"),
    its confidence and sentences. Below `min_confidence` it is a guess, and the sentences are the answer.

    Args:
        index: The open version: idf and names of the corpus.
        encode: Encodes sentences as its vectors were; None: words are counted instead.
        model: Scores spans; None: sentences are the answer.
        min_confidence: Short answers below it are guesses.

    Source: reader.md. Cost: one call of the model, linear in the characters of at most five windows.
    """

    batches = False

    def __init__(
        self,
        index: IndexReader,
        encode: Encode | None = None,
        model: SpanModel | None = None,
        *,
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        self.min_confidence = min_confidence
        self._model = model
        has_stems = f"lexical:{ANALYSER}" in index.artefacts
        self._idf = StemWeights(index.artefact(lexical_of(ANALYSER)) if has_stems else None)
        self._similar = Similarity(index, encode, self._idf)
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
        if not pages or not stems_of(question.text):
            return ReaderResult("")
        computed = compute(parsed, pages, self._similar)
        if computed is not None and computed.answer:
            from_values = tuple(dict.fromkeys(one.sentence for one in computed.values if one.sentence is not None))
            confidence = computed.confidence
            reading = ReaderResult(computed.answer, confidence, from_values, "computed", confidence=confidence)
            return replace(self._shown(reading), rule=computed.rule, values=computed.values)
        near, found = on_subject(pages, parsed.names), None
        if self._model is not None:
            found = read_spans(parsed, pages, near, self._similar, self._model)
        reading = ReaderResult("")
        if found is not None and parsed.expected != YES_NO:
            best, confidence = found.best, round(confidence_of(found), 6)
            reading = ReaderResult(best.answer, best.score, (), "extracted", confidence=confidence)
            if computed is None and confidence >= self.min_confidence:
                leading = () if best.part.source is None else (best.part.source[0].cite(best.part.source[1]),)
                return replace(reading, sentences=(*leading, best.part.page.cite(best.sentence)))
        relevant = self._relevant(question, pages, near, found)
        reading = replace(reading, answer="", guess=reading.answer, sentences=tuple(relevant))
        if computed is None:
            return reading
        stated = [value.sentence for value in computed.values if value.sentence is not None]
        shown = tuple(dict.fromkeys((*stated, *relevant)))[:_MOST_SENTENCES]
        return replace(reading, sentences=shown, rule=computed.rule, values=computed.values)

    def _relevant(
        self, question: Question, pages: Sequence[ParsedPassage], near: Collection[int], found: SpanAnswer | None
    ) -> list[Sentence]:
        """The sentences to show without a short answer: that of the best span, then those that say most together.

        A sentence that says less than `NOTHING` of the question's words is left out; those that are not `near` the
        subject come last.
        """
        stems = stems_of(question.text)
        ranked = [(one.page, one.sentence) for one in self._similar.best_sentences(question, pages)]
        if found is not None:
            ranked.insert(0, (found.best.part.page, found.best.sentence))
        ranked.sort(key=lambda one: one[0].rank not in near)
        shown = [page.cite(sentence) for page, sentence in ranked if self._share(stems, page, sentence) >= NOTHING]
        return list(dict.fromkeys(shown))[:_MOST_SENTENCES]

    def _share(self, stems: Collection[str], page: ParsedPassage, sentence: PassageSentence) -> float:
        return self._similar.share(stems, page.title_stems.union(sentence.word_indices))

    def _shown(self, reading: ReaderResult) -> ReaderResult:
        """A reading whose short answer is a guess if it is not certain enough: then the sentences are the answer."""
        if reading.confidence >= self.min_confidence:
            return reading
        return replace(reading, answer="", guess=reading.answer)


_BIAS, _SLOPES = -1.18, (0.02, 0.18)
"""Logistic regression on `SpanAnswer.features`, fitted by weights/training/reader_confidence.py."""


def confidence_of(found: SpanAnswer) -> float:
    """Estimated probability that an answer is right. Source: reader.md, Confidence."""
    return 1 / (1 + exp(-(_BIAS + sum(slope * value for slope, value in zip(_SLOPES, found.features, strict=True)))))


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
        self._min_confidence = fallback.min_confidence if isinstance(fallback, LocalReader) else MIN_CONFIDENCE

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
