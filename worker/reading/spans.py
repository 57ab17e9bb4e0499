"""The extractive reader: a question-answering model marks the answer in a passage.

Runs no model itself (a SpanModel is given). Source: Devlin et al. 2019, section 4.3 (SQuAD 2.0): a span is the answer
where its score is above that of "no answer" by a margin.
"""

import math
from collections.abc import Sequence

from polyhop.schemas.query import ContextPassage, ModelUse, Question, Reading, ReadingItem, Sentence
from polyhop.schemas.sentences import split_sentences
from polyhop.schemas.spans import MarkedSpan, SpanModel
from polyhop.worker.reading.model import READ_PASSAGES


class SpanReader:
    """Reads the span that stands out most of a question's first passages.

    Confidence is the logistic function of its margin over "no answer": .5 where both are equally likely.

    Args:
        model: Marks spans.
        passages: The first so many passages of a context are read.
        min_confidence: Answers below it are not given.
    """

    batches = False

    def __init__(self, model: SpanModel, *, passages: int = READ_PASSAGES, min_confidence: float = 0.0) -> None:
        self._model = model
        self._passages = passages
        self._min_confidence = min_confidence

    def read(self, items: Sequence[ReadingItem]) -> list[Reading]:
        """One Reading per item, in order; its kind is "span", or "none" where no passage answers the question."""
        return [self._read(item.question, item.context[: self._passages]) for item in items]

    def _read(self, question: Question, passages: Sequence[ContextPassage]) -> Reading:
        use = ModelUse(self._model.model, "", "")
        if not passages:
            return Reading("", use=use)
        spans = self._model.mark(question.text, [passage.text for passage in passages])
        best = max(range(len(spans)), key=lambda place: (_margin(spans[place]), -place))
        span, passage = spans[best], passages[best]
        confidence = round(_logistic(_margin(span)), 6)
        if span.end <= span.start or _margin(span) <= 0 or confidence < self._min_confidence:
            return Reading("", confidence=confidence, use=use)
        return Reading(
            passage.text[span.start : span.end],
            score=_margin(span),
            sentences=(_sentence(passage, span),),
            kind="span",
            confidence=confidence,
            use=use,
        )


def _margin(span: MarkedSpan) -> float:
    return span.score - span.no_answer if span.end > span.start else -math.inf


def _logistic(margin: float) -> float:
    """1 / (1 + e^-margin), without an overflow."""
    power = math.exp(-abs(margin))
    return (1.0 if margin > 0 else power) / (1 + power)


def _sentence(passage: ContextPassage, span: MarkedSpan) -> Sentence:
    """The sentences that the span lies in, as one."""
    inside = [(start, end) for start, end in split_sentences(passage.text) if start < span.end and end > span.start]
    start, end = (min(inside)[0], max(inside)[1]) if inside else (span.start, span.end)
    return Sentence(passage.passage_id, passage.text[start:end], start, end)
