"""Quantities: dates in order, life spans, how evidence shows a date (who states which: test_attributes.py)."""

import pytest

from polyhop.worker.reading.quantities import Day, order, written, years_of


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((1950, 5, 3), (1950, 5, 4), -1),
        ((1951, 0, 0), (1950, 5, 4), 1),
        ((1950, 0, 0), (1950, 5, 4), None),
        ((1950, 5, 4), (1950, 5, 4), None),
    ],
)
def test_dates_compare_only_as_far_as_both_say(first: Day, second: Day, expected: int | None) -> None:
    assert order(first, second) == expected


def test_a_life_is_as_long_as_its_days_say() -> None:
    assert years_of((1900, 6, 1), (1950, 6, 1)) == 50
    assert years_of((1900, 0, 0), (1950, 6, 1)) == 50
    assert years_of((1900, 5, 1), (1950, 7, 2)) > years_of((1900, 5, 1), (1950, 6, 30))


def test_dates_are_written_as_far_as_they_are_known() -> None:
    assert [written(day) for day in ((1946, 1, 20), (1980, 7, 0), (1981, 0, 0))] == ["1946-01-20", "1980-07", "1981"]
