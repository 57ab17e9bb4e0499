"""Typed candidates: which spans each type gets, and which spans it must leave out."""

from collections.abc import Callable

import pytest

from polyhop.worker.reading.candidates import MOST_CANDIDATES, find_candidates
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.question import ParsedQuestion

Parse = Callable[..., ParsedQuestion]
Pages = Callable[..., list[Page]]
OPENED = "It opened on 3 May 1950, closed in June 1960, then on 4 July, and burnt in 1999."


@pytest.mark.parametrize(
    ("question", "text", "answers"),
    [
        ("When did it open?", OPENED, ["3 May 1950", "June 1960", "4 July", "1999"]),
        ("In what year did it open?", OPENED, ["1950", "1960", "1999"]),
        (
            "How many?",
            "In May 1950 it had 1,200 seats, 3.5 million cars, 40 % and two cats, 1999.",
            ["1999", "1,200", "3.5 million", "40 %", "two"],
        ),
        ("How high?", "It is the 3rd, 120 metres high, for $5 billion, once.", ["120 metres", "$5 billion"]),
        ("Who was it?", "There Prime Minister Ann Roe met Ben Poe in May 1950.", ["Prime Minister Ann Roe", "Ben Poe"]),
        ("Where was it?", "It was in Salem, Massachusetts.", ["Salem", "Massachusetts"]),
        ("In which country was it?", "A German in Bonn.", ["German", "Bonn", "Germany"]),
        ("What nationality is it?", "The French and German towns.", ["French", "German", "French", "German"]),
        ("Which song was it?", "She sang “blue moon” there.", ["blue moon"]),
        ("What was it?", "Ann sang “blue moon” of the old wooden town.", ["Ann", "blue moon", "old wooden town"]),
    ],
)
def test_a_type_gets_its_spans(parsed: Parse, pages: Pages, question: str, text: str, answers: list[str]) -> None:
    found = find_candidates(parsed(question), pages(("T", text))[0])
    assert [candidate.answer for candidate in found] == answers


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When did it open?", "It opened early, with 12 people."),
        ("In what year was it?", "It was on 3 May, item 12345."),
        ("How many?", "It was in May 1950 or on 3 May 1951, said Ann."),
        ("Who was it?", "it was nobody in may, of 1950."),
        ("Who was Ann Roe?", "Ann Roe was Roe."),
        ("What was it?", "12, 13. 14!"),
        ("What nationality is it?", "The old and new towns."),
        ("When did it open in 1950?", "It opened in 1950."),
    ],
)
def test_nothing_is_offered_that_is_of_no_type_or_in_the_question(
    parsed: Parse, pages: Pages, question: str, text: str
) -> None:
    assert find_candidates(parsed(question), pages(("T", text))[0]) == []


def test_offsets_point_at_the_answer(parsed: Parse, pages: Pages) -> None:
    page = pages(("T", "A first line\nThere Prime Minister Ann Roe met Éva Doe."))[0]
    for one in find_candidates(parsed("Who was it?"), page):
        assert page.content.text[one.sentence.start + one.start : one.sentence.start + one.end] == one.answer


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Who is the father of Rory Kennedy?", ["Bob Kennedy"]),
        ("What is the full name of Rory Kennedy?", ["Rory Elizabeth Kennedy", "Bob Kennedy"]),
        ("Who is the father of Ann Roe?", ["Rory Elizabeth Kennedy", "Bob Kennedy"]),
    ],
)
def test_the_full_name_of_whom_the_question_names_is_no_answer(
    parsed: Parse, pages: Pages, question: str, answers: list[str]
) -> None:
    page = pages(("Rory Kennedy", "Rory Elizabeth Kennedy, with Bob Kennedy."))[0]
    found = find_candidates(parsed(question, "Rory Kennedy", "Ann Roe"), page)
    assert [candidate.answer for candidate in found if candidate.kind == "N"] == answers


def test_a_list_of_names_is_cut(parsed: Parse, pages: Pages) -> None:
    page = pages(("T", ", ".join(f"Ann{chr(97 + n % 26)}{chr(97 + n // 26)} Roe" for n in range(200))))[0]
    assert len(find_candidates(parsed("Who was it?"), page)) == MOST_CANDIDATES
