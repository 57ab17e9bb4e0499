"""Superlatives: the first or last of the things that a question describes without naming them."""

from collections.abc import Callable

import pytest

from polyhop.schemas.query import Reading
from polyhop.worker.reading.comparisons import candidates_of
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.question import ParsedQuestion

Ask = Callable[..., Reading]
Parse = Callable[..., ParsedQuestion]
Pages = Callable[..., list[Page]]

ANN = ("Ann Roe", "Ann Roe (born 4 May 1960) is a Welsh film director.")
RED = ("The Red Lake", "The Red Lake is a 1994 drama film directed by Ann Roe.")
BLUE = ("Blue Hills", "Blue Hills is a 2003 comedy film directed by Ann Roe. It was shot in Wales.")
GREEN = ("Green Fields", "Green Fields is a film directed by Ann Roe. It was released in 2011.")
DARK = ("Dark Roads", "Dark Roads is a 2015 film directed by Peter Zink.")
UNDATED = ("Grey Moor", "Grey Moor is a film directed by Ann Roe.")
FILMS = (ANN, RED, BLUE, GREEN, DARK)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the most recent film directed by Ann Roe?", "Green Fields"),
        ("What is the latest film by Ann Roe?", "Green Fields"),
        ("Which film directed by Ann Roe was released first?", "The Red Lake"),
        ("What is the earliest film of Ann Roe?", "The Red Lake"),
        ("Which film by Ann Roe came out last?", "Green Fields"),
    ],
)
def test_the_first_or_last_of_what_the_question_describes_is_computed(ask: Ask, question: str, answer: str) -> None:
    reading = ask(question, *FILMS)
    assert (reading.answer, reading.kind, reading.rule) == (answer, "computed", "release")
    assert reading.confidence == pytest.approx(0.48)
    assert sorted(value.value for value in reading.values) == ["1994", "2003", "2011"]
    assert {sentence.passage_id for sentence in reading.sentences} == {"p001", "p002", "p003"}


@pytest.mark.parametrize(
    ("question", "titles"),
    [
        ("What is the most recent film directed by Ann Roe?", ["The Red Lake", "Blue Hills", "Green Fields"]),
        ("What was the first comedy film by Ann Roe?", ["Blue Hills"]),
        ("What is the latest film by Peter Zink?", ["Dark Roads"]),
        ("What film was directed by Ann Roe?", []),
        ("What is the most recent film?", []),
        ("Who made the most recent film by Ann Roe?", []),
        ("When did the latest film by Ann Roe come out?", []),
        ("What is the latest bridge by Ann Roe?", []),
    ],
)
def test_candidates_are_what_the_question_says(parsed: Parse, pages: Pages, question: str, titles: list[str]) -> None:
    found = candidates_of(parsed(question, "Ann Roe", "Peter Zink"), pages(*FILMS))
    assert [option.name for option in found] == titles


@pytest.mark.parametrize("passages", [(RED,), (RED, UNDATED), (RED, DARK)])
def test_without_two_dated_candidates_nothing_is_computed(ask: Ask, passages: tuple[tuple[str, str], ...]) -> None:
    assert ask("What is the most recent film directed by Ann Roe?", *passages).kind != "computed"
