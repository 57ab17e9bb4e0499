"""Dates and numbers: examples by hand, and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import Mention
from polyhop.schemas.values import find_dates, find_numbers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("born 24 October 1650,", [("date:1650-10-24", "24 October 1650")]),
        (
            "on May 2, 1999 and 2nd of May 1999",
            [("date:1999-05-02", "May 2, 1999"), ("date:1999-05-02", "2nd of May 1999")],
        ),
        ("in June 1990", [("date:1990-06", "June 1990")]),
        ("in Sept. 1984", [("date:1984-09", "Sept. 1984")]),
        ("1939–1945", [("date:1939", "1939"), ("date:1945", "1945")]),
        ("32 May 1990", [("date:1990-05", "May 1990")]),
        ("May 0, 1990", [("date:1990", "1990")]),
        ("the 1990s, 1990m, 0999, 2101, $1500, 1,990 and 1990.5", []),
        ("may 1990", [("date:1990", "1990")]),
    ],
)
def test_dates(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(mention.key, mention.surface) for mention in find_dates(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,200 men, 3.50 m", [("number:1200", "1,200"), ("number:3.5", "3.50")]),
        (
            "3.5 million or twenty-two thousand",
            [("number:3500000", "3.5 million"), ("number:22000", "twenty-two thousand")],
        ),
        ("Apollo 11 and 007", [("number:11", "11"), ("number:7", "007")]),
        ("Fifty, twelve; one of none", [("number:50", "Fifty"), ("number:12", "twelve")]),
        ("on 2 May 1999 he had 3 in 2001", [("number:3", "3")]),
        ("4,5,6 and 5th and x9 and " + "9" * 19, []),
        ("10 hundred", [("number:1000", "10 hundred")]),
    ],
)
def test_numbers(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(mention.key, mention.surface) for mention in find_numbers(text)] == expected


@given(
    st.lists(st.sampled_from([*"0123456789,. -", "May ", "1990", " two", "-five", " million", "٣", "é"])).map("".join)
)
def test_offsets_are_in_the_text_and_numbers_are_outside_dates(text: str) -> None:
    dates = find_dates(text)
    numbers = find_numbers(text, dates)
    assert numbers == find_numbers(text)
    for mention in (*dates, *numbers):
        assert mention == Mention(mention.key, text[mention.start : mention.end], mention.start, mention.end)
        assert mention.surface
    assert all(n.end <= d.start or d.end <= n.start for n in numbers for d in dates)


@pytest.mark.timeout(300)  # quadratic takes hours
@pytest.mark.parametrize(
    ("piece", "dates", "numbers"),
    [
        ("1,", 0, 0),
        ("1", 0, 0),
        ("1 ", 0, 500_000),
        ("1990 ", 200_000, 0),
        ("May 1 ", 0, 166_666),
        ("twenty ", 0, 142_857),
        (" ", 0, 0),
    ],
)
def test_a_million_characters_are_no_trouble(piece: str, dates: int, numbers: int) -> None:
    text = piece * (1_000_000 // len(piece))
    assert len(find_dates(text)) == dates
    assert len(find_numbers(text)) == numbers
