"""Answers that a model marks: the span that stands out most, its confidence, its sentence, and silence."""

from collections.abc import Sequence

import pytest

from polyhop.schemas.query import ContextPassage, MarkedSpan, Question, Reading, ReadingItem, Retrieval
from polyhop.worker.reading.models import SpanReader

FIRST = "Ada came to London. She was born there, in Marylebone. It rained."
SECOND = "Rome lies on the Tiber."


class Marks:
    """Marks a word per text, with a margin over "no answer"."""

    model = "models/scripted"

    def __init__(self, marks: dict[str, tuple[str, float]]) -> None:
        self._marks = marks

    def mark(self, question: str, texts: Sequence[str]) -> list[MarkedSpan]:
        found = []
        for text in texts:
            word, margin = self._marks.get(text, ("", 0.0))
            start = text.find(word)
            found.append(MarkedSpan(start, start + len(word), 1.0 + margin, 1.0))
        return found


def read(marks: dict[str, tuple[str, float]], *texts: str, passages: int = 5, least: float = 0.0) -> Reading:
    context = [ContextPassage(f"p{n}", "", text, n, 1.0) for n, text in enumerate(texts, start=1)]
    reader = SpanReader(Marks(marks), passages=passages, min_confidence=least)
    return reader.read([ReadingItem(Question("Where was Ada born?"), Retrieval(()), context)])[0]


def test_the_largest_margin_is_the_answer_with_its_sentence_and_model() -> None:
    reading = read({FIRST: ("Marylebone", 2.0), SECOND: ("Rome", 1.0)}, SECOND, FIRST)
    assert (reading.answer, reading.kind) == ("Marylebone", "span")
    assert reading.confidence == pytest.approx(0.880797, abs=1e-6)
    (sentence,) = reading.sentences
    assert (sentence.passage_id, sentence.text) == ("p2", "She was born there, in Marylebone.")
    assert FIRST[sentence.start : sentence.end] == sentence.text
    assert reading.use is not None
    assert (reading.use.model, reading.use.prompt, reading.use.spent.calls) == ("models/scripted", "", 0)


def test_equal_margins_are_decided_by_rank() -> None:
    assert read({FIRST: ("London", 1.0), SECOND: ("Rome", 1.0)}, SECOND, FIRST).answer == "Rome"


def test_no_answer_wins_unless_a_span_is_likelier() -> None:
    for margin in (0.0, -3.0, -1000.0):
        reading = read({FIRST: ("London", margin)}, FIRST)
        assert (reading.answer, reading.kind) == ("", "none")
        assert 0 <= reading.confidence <= 0.5
    assert read({}, FIRST).answer == ""
    assert read({}).answer == ""


def test_less_certain_answers_stay_silent_and_say_how_certain_they_would_be() -> None:
    reading = read({FIRST: ("London", 1.0)}, FIRST, least=0.8)
    assert (reading.answer, round(reading.confidence, 3)) == ("", 0.731)


def test_passages_beyond_the_setting_are_not_read() -> None:
    assert read({FIRST: ("London", 9.0)}, SECOND, FIRST, passages=1).answer == ""


def test_a_span_over_two_sentences_cites_both() -> None:
    reading = read({FIRST: ("London. She was born", 1.0)}, FIRST)
    assert reading.sentences[0].text == "Ada came to London. She was born there, in Marylebone."
