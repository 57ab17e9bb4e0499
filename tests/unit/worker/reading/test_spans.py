"""Windows of passages, and the answer that scripted logits of a span model give. Source: reader.md."""

import re
from collections.abc import Sequence
from math import exp

import numpy as np
import pytest
from memory_index import ReadingIndex, Titled

from polyhop.schemas.names import NameFinder
from polyhop.schemas.ports import SpanLogits, Window
from polyhop.worker.reading.pages import Similarity, StemWeights, on_subject, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question
from polyhop.worker.reading.reader import confidence_of
from polyhop.worker.reading.spans import REACHED_WINDOWS, WINDOWS, PassagePart, Span, SpanAnswer, parts_of, read_spans

NOTHING = -40.0
OBSERVATORY = ("Royal Observatory", "Flamsteed House was designed by Christopher Wren. It is old.")
WREN = ("Christopher Wren", "He was an architect. He was born in East Knoyle.")
NAMES = ("Royal Observatory", "Christopher Wren", "Flamsteed House", "Project Osprey", "Project Saffron")


class Scripted:
    """Gives the stated score to each stated span of a window, half to its first and half to its last word."""

    def __init__(self, absent: float = NOTHING, **scores: float) -> None:
        self._absent = absent
        self._scores = {words.replace("_", " "): score for words, score in scores.items()}
        self.windows: list[Window] = []

    def logits(self, windows: Sequence[Window]) -> list[SpanLogits]:
        self.windows += windows
        return [self._of(window.text) for window in windows]

    def _of(self, text: str) -> SpanLogits:
        offsets = [match.span() for match in re.finditer(r"\S+", text)]
        starts, ends = (np.full(len(offsets), NOTHING) for _ in range(2))
        for words, score in self._scores.items():
            at = text.find(words)
            if at >= 0:
                starts[next(n for n, (begin, _) in enumerate(offsets) if begin == at)] = score / 2
                ends[next(n for n, (_, end) in enumerate(offsets) if end >= at + len(words))] = score / 2
        return SpanLogits(offsets, starts, ends, self._absent)


def parts(question: str, *passages: Titled) -> list[PassagePart]:
    similar = Similarity(ReadingIndex(passages), None, StemWeights(None))
    return parts_of(parsed(question), pages_of(ReadingIndex(passages).context()), similar)


def parsed(question: str) -> ParsedQuestion:
    return parse_question(question, NameFinder(NAMES).find(question))


def read(model: Scripted, question: str, *passages: Titled) -> SpanAnswer | None:
    index = ReadingIndex(passages)
    asked, pages = parsed(question), pages_of(index.context())
    return read_spans(asked, pages, on_subject(pages, asked.names), Similarity(index, None, StemWeights(None)), model)


def best(model: Scripted, question: str, *passages: Titled) -> Span:
    found = read(model, question, *passages)
    assert found is not None
    return found.best


def test_equal_answers_add_up_and_share_the_probability_with_not_here() -> None:
    model = Scripted(absent=1.0, Ann_Roe=2.0, Bo=2.5)
    found = read(model, "Who came?", ("A", "Then Ann Roe came."), ("B", "Then Bo came."), ("C", "So Ann Roe came."))
    assert found is not None
    assert found.best.answer == "Ann Roe"
    assert found.share == pytest.approx(2 * exp(2) / (2 * exp(2) + exp(2.5) + exp(1)), rel=1e-6)
    assert found.best.margin == pytest.approx(1.0)


def test_of_equal_spans_the_better_ranked_passage_answers_and_its_sentence_is_cited() -> None:
    found = best(Scripted(Ann_Roe=2.0), "Who came?", ("A", "It rained. Ann Roe came."), ("B", "Ann Roe came."))
    assert (found.part.page.rank, found.sentence.text) == (0, "Ann Roe came.")


@pytest.mark.parametrize(
    ("question", "repeated", "answer"),
    [
        ("What is the capital of Poland?", "It is the capital of Poland", "Bo"),  # three words in a row
        ("Who was Ann Roe?", "Ann Roe", "Bo"),  # a part of the question
        ("Who is older, Ann Roe or Ed Low?", "Ann Roe", "Ann Roe"),  # options may be repeated
    ],
)
def test_a_span_that_repeats_the_question_is_no_answer(question: str, repeated: str, answer: str) -> None:
    model = Scripted(**{repeated.replace(" ", "_"): 9.0, "Bo": 5.0})
    assert best(model, question, ("A", f"{repeated}."), ("B", "Then Bo came.")).answer == answer


def test_a_question_between_options_is_answered_by_one_of_them_in_its_own_words() -> None:
    model = Scripted(Bo=9.0, Christopher_Wren_the_Elder=5.0, Flamsteed=4.0)
    text = ("A", "Then Bo came. So did Christopher Wren the Elder. Flamsteed stayed.")
    assert best(model, "Who is older, Christopher Wren or Flamsteed House?", text).answer == "Christopher Wren"
    assert best(model, "Who came?", text).answer == "Bo"
    assert read(Scripted(Bo=9.0), "Who is older, Christopher Wren or Flamsteed House?", ("A", "Then Bo came.")) is None


@pytest.mark.parametrize(
    ("text", "span", "answer"),
    [
        ("She met “Ann Roe”, then.", "“Ann_Roe”,", "Ann Roe"),
        ("It was Sammy Davis Jr.", "Sammy_Davis_Jr.", "Sammy Davis Jr."),
        ("It was Ann Roe.", "Ann_Roe.", "Ann Roe"),
    ],
)
def test_signs_around_an_answer_go_and_the_stop_of_an_abbreviation_stays(text: str, span: str, answer: str) -> None:
    assert best(Scripted(**{span: 3.0}), "Who was it?", ("A", text)).answer == answer


def test_a_passage_about_another_project_loses() -> None:
    saffron = ("Project Saffron", "It is led by Olga Brandt.")
    osprey = ("Project Osprey", "It is led by Ines Falkner.")
    question = "Who leads Project Osprey?"
    model = Scripted(Olga_Brandt=5.0, Ines_Falkner=4.0)
    assert best(model, question, saffron, osprey).answer == "Ines Falkner"
    assert best(model, "Who leads it?", saffron, osprey).answer == "Olga Brandt"


def test_without_sentences_or_spans_there_is_no_answer() -> None:
    assert read(Scripted(), "Who came?", ("A", "")) is None
    assert read(Scripted(), "Who came?", ("A", "Who came?")) is None


def test_the_sentence_that_leads_to_a_page_is_read_with_it() -> None:
    question = "Where was the architect of Flamsteed House born?"
    first, second = parts(question, OBSERVATORY, WREN)
    assert (first.bridge, first.source) == ("", None)
    assert second.bridge == "Royal Observatory: Flamsteed House was designed by Christopher Wren."
    assert [part.bridge for part in parts("Where was Christopher Wren born?", OBSERVATORY, WREN)] == ["", ""]


LIFE = " ".join(f"In {1650 + number} he drew plans of churches, halls and libraries." for number in range(20))


def test_a_passage_that_a_sentence_leads_to_is_read_longer_than_others() -> None:
    observatory, wren = (OBSERVATORY[0], f"{OBSERVATORY[1]} {LIFE}"), (WREN[0], f"{WREN[1]} {LIFE}")
    first, second = parts("Where was the designer of Flamsteed House born?", observatory, wren)
    assert len(first.text) <= WINDOWS[0]
    assert WINDOWS[1] < len(second.text) <= REACHED_WINDOWS[0]


def test_a_passage_that_a_sentence_leads_to_is_read_from_its_start() -> None:
    wren = (WREN[0], f"{WREN[1]} {LIFE} At last he lived in a house.")
    _, second = parts("Where did the designer of Flamsteed House die?", OBSERVATORY, wren)
    assert second.text.startswith(WREN[1])


@pytest.mark.parametrize(
    ("sentence", "text", "question"),
    [
        (
            "The house is by Wren.",
            "The architect of Flamsteed House was born in East Knoyle in Wiltshire.",
            "Where in Wiltshire was the architect of Flamsteed House born?",
        ),
        (
            "Flamsteed House is by Wren.",
            "He was an architect. He was born in East Knoyle.",
            "Where was the architect of Flamsteed House born?",
        ),
    ],
    ids=["more", "as much"],
)
def test_a_passage_that_says_as_much_as_the_sentence_that_leads_to_it_is_read_as_others(
    sentence: str, text: str, question: str
) -> None:
    _, second = parts(question, ("Observatory", sentence), ("Wren", f"{text} {LIFE}"))
    assert second.bridge == f"Observatory: {sentence}"
    assert len(second.text) <= WINDOWS[1]


def test_better_ranked_passages_are_read_in_longer_parts_and_the_fifth_is_not() -> None:
    sentences = [f"Sentence {number} is about towns and rivers." for number in range(40)]
    sentences[20] = "The tower of Elmton opened in 1850."
    passages = [(f"P{number}", " ".join(sentences)) for number in range(6)]
    found = parts("When did the tower of Elmton open?", *passages)
    lengths = [len(part.text) for part in found]
    assert len(found) == len(WINDOWS) == 4
    assert lengths == sorted(lengths, reverse=True)
    assert all(most - 60 < length <= most for length, most in zip(lengths, WINDOWS, strict=True))
    assert all("The tower of Elmton" in part.text for part in found)
    assert all(part.page.content.text[part.start :].startswith(part.text) for part in found)


def test_confidence_grows_with_the_margin() -> None:
    (part,) = parts("Who came?", ("A", "Ann Roe came."))
    spans = [Span("Ann Roe", part, part.sentences[0], 5.0, margin) for margin in (-10.0, 0.0, 5.6, 20.0)]
    stated = [confidence_of(SpanAnswer(span, 0.9)) for span in spans]
    assert stated == sorted(stated)
    assert stated == pytest.approx([0.05, 0.24, 0.46, 0.92], abs=0.01)
