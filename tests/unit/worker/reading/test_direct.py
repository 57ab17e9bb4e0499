"""Questions for one date or measure of one thing, and questions that ask for more and must not be answered so."""

from collections.abc import Callable

import pytest

from polyhop.schemas.query import Reading

Ask = Callable[..., Reading]

FLORA = ("Alpine Flora", "The Alpine Flora is a handbook in three volumes by Marta Hollweg, published in 1908.")
MARTA = ("Marta Hollweg", "Marta Hollweg (14 February 1871 – 2 June 1949) was a botanist. She was born in Thun.")
LAKE = ("Lake Veren", "Lake Veren is a lake in Karland. It covers 212 square kilometres and is 94 metres deep.")
TOWN = (
    "Middelby",
    "Middelby has 61,200 inhabitants. The cathedral of Middelby was completed in 1412. Its school opened in 1695.",
)
RULE = (
    "Noise Ordinance",
    "The Noise Ordinance limits noise. The ordinance was adopted by the council on 12 June 2014.",
)
WORKS = ("Hask", "Hask is a town. The University of Hask was founded in 1695. The glassworks of Hask closed in 1974.")
ALL = (FLORA, MARTA, LAKE, TOWN, RULE, WORKS)


@pytest.mark.parametrize(
    ("question", "answer", "rule"),
    [
        ("When was Marta Hollweg born?", "14 February 1871", "birth"),
        ("In which year was Marta Hollweg born?", "1871", "birth"),
        ("When did the botanist Marta Hollweg die?", "2 June 1949", "death"),
        ("When did the author of the Alpine Flora die?", "2 June 1949", "death"),
        ("In what year was the Alpine Flora published?", "1908", "release"),
        ("How deep is Lake Veren?", "94 metres", "measure"),
        ("How many inhabitants has Middelby?", "61,200", "measure"),
        ("When was the cathedral of Middelby completed?", "1412", "building"),
        ("When was the Noise Ordinance adopted?", "12 June 2014", "event"),
        ("When was the University of Hask founded?", "1695", "founding"),
        ("When did the glassworks of Hask close?", "1974", "event"),
    ],
)
def test_one_value_of_one_thing_is_computed(ask: Ask, question: str, answer: str, rule: str) -> None:
    reading = ask(question, *ALL)
    assert (reading.answer, reading.kind, reading.rule) == (answer, "computed", rule)
    assert reading.confidence >= 0.7
    assert [answer in sentence.text for sentence in reading.sentences] == [True]


@pytest.mark.parametrize(
    "question",
    [
        "When was the father of Marta Hollweg born?",
        "When was the publisher of the Alpine Flora founded?",
        "When was Marta Hollweg elected?",
        "When was the daughter of the author of the Alpine Flora born?",
        "How deep is the harbour of Lake Veren?",
        "How many inhabitants has the largest island of Lake Veren?",
        "How long does the ferry across Lake Veren take?",
        "When was the mayor of Middelby born?",
        "When was the university of the town where Marta Hollweg died founded?",
        "When did Marta Hollweg and the Alpine Flora die?",
        "When was the school of Hask founded?",
        "When was Lake Veren discovered?",
    ],
)
def test_a_question_that_says_more_is_not_answered_by_one_value(ask: Ask, question: str) -> None:
    assert ask(question, *ALL).kind != "computed"
