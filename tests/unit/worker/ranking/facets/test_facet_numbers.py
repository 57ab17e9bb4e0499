"""Ranges of numbers in questions: algorithms.md 4B, rule 5."""

from math import inf, nextafter

import pytest

from polyhop.worker.ranking.facets.conditions import number_ranges
from polyhop.worker.ranking.facets.labels import words_of


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("made before 1600", [("1600", -inf, 1600)]),
        ("known until the 1600 fire", [("1600", -inf, 1601)]),
        ("after the year 1990", [("1990", 1991, inf)]),
        ("more than 20 rooms", [("20", 21, inf)]),
        ("at least 20, at most 30", [("20", 20, inf), ("30", -inf, 31)]),
        ("earlier than 1800 and since 1700", [("1800", -inf, 1800), ("1700", 1700, inf)]),
        ("between the years 1972 and 1969", [("1972 and 1969", 1969, 1973)]),
        ("from 3 to 5 after 7", [("3 to 5", 3, 6), ("7", 8, inf)]),
        ("before 1990 or 2000", [("1990", -inf, 1990)]),
        ("after 14 June 2021", [("14 June 2021", 2021 + 169 / 372, inf)]),
        ("until 2021-06-14", [("2021 06 14", -inf, 2021 + 169 / 372)]),
        ("since June 2021", [("June 2021", 2021 + 155 / 372, inf)]),
        ("longer than 2 weeks", [("2 weeks", nextafter(14, inf), inf)]),
        ("less than 1 day", [("1 day", -inf, 1)]),
    ],
)
def test_a_range_is_a_number_and_what_opens_it(question: str, expected: list[tuple[str, float, float]]) -> None:
    words = words_of(question)
    found = [
        (" ".join(word.text for word in words[one.start : one.end]), one.low, one.high) for one in number_ranges(words)
    ]
    assert [text for text, _, _ in found] == [text for text, _, _ in expected]
    bounds = [bound for _, low, high in expected for bound in (low, high)]
    assert [bound for _, low, high in found for bound in (low, high)] == pytest.approx(bounds, abs=0, rel=1e-15)


@pytest.mark.parametrize(
    "question", ["in 1990", "older than 40", "before the great fire of London in 1666", "before x1990", ""]
)
def test_other_numbers_open_no_range(question: str) -> None:
    assert number_ranges(words_of(question)) == []
