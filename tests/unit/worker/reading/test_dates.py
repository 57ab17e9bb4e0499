"""Dates of lives and things: the golden cases of reader.md, formats of the wild, silence."""

import pytest

from worker.reading.dates import Day, life, order, when, written, years_of


def days(lead: str) -> tuple[Day | None, Day | None]:
    span = life(lead)
    return span.born.day if span.born else None, span.died.day if span.died else None


@pytest.mark.parametrize(
    ("lead", "born", "died"),
    [
        ("David Lynch (born January 20, 1946 in Missoula, Montana) is an American filmmaker.", (1946, 1, 20), None),
        ("Ann Roe (12 June 1516 – 3 May 1560) was an English writer.", (1516, 6, 12), (1560, 5, 3)),
        ("Jo Bloggs (died 1204) was a Norman knight.", None, (1204, 0, 0)),
        ("Henry King( January 24, 1886 June 29, 1982) was an actor.", (1886, 1, 24), (1982, 6, 29)),
        ("Ann Roe (1060 – 1114) was a countess.", (1060, 0, 0), (1114, 0, 0)),
        ("Guy (died 929) was a margrave.", None, (929, 0, 0)),
        ("Bo (born 1917 in Rome – 9 May 1994) was a man.", (1917, 0, 0), (1994, 5, 9)),
        ("Eve Doe was a writer born in Dijon in 1832. She died in Paris in 1923.", (1832, 0, 0), (1923, 0, 0)),
        ("Eve Doe (the elder) (1832–1923) was a writer.", (1832, 0, 0), (1923, 0, 0)),
        ("Eve Doe was a writer. The prize came in 1999.", None, None),
        ("Eve Doe was born in Rome. The prize came in 1999.", None, None),
        ("", None, None),
    ],
)
def test_a_lead_gives_birth_and_death_or_neither(lead: str, born: Day | None, died: Day | None) -> None:
    assert days(lead) == (born, died)


@pytest.mark.parametrize(
    ("lead", "day"),
    [
        ("Up is a 1988 Indian Malayalam film directed by K. Madhu.", (1988, 0, 0)),
        ("Guitar World is a monthly music magazine published since July 1980.", (1980, 7, 0)),
        ("The band was founded in Leeds in 1981.", (1981, 0, 0)),
        ("Opened by a king of 1700, the school was founded in 1816.", (1700, 0, 0)),
        ("After the war of 1945 came the firm, established on 3 May 1950.", (1950, 5, 3)),
        ("It was released. In 1999 it rained, and in 2001 it was published in May 2002.", (2002, 5, 0)),
        ("A name of 1999.", (1999, 0, 0)),
    ],
)
def test_a_thing_has_the_date_of_its_definition_or_beginning(lead: str, day: Day) -> None:
    found = when(lead)
    assert found is not None
    assert found.day == day


def test_a_thing_without_a_date_has_none() -> None:
    assert when("The band comes from Leeds.") is None


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
    assert years_of(life("A (1 June 1900 – 1 June 1950) was.")) == 50
    assert years_of(life("A (1900 – 1 June 1950) was.")) == 50
    longer, shorter = (
        years_of(life("A (1 May 1900 – 2 July 1950) was.")),
        years_of(life("A (1 May 1900 – 30 June 1950) was.")),
    )
    assert longer is not None
    assert shorter is not None
    assert longer > shorter
    assert years_of(life("A (born 1900) is.")) is None


def test_dates_are_written_as_far_as_they_are_known() -> None:
    assert [written(day) for day in ((1946, 1, 20), (1980, 7, 0), (1981, 0, 0))] == ["1946-01-20", "1980-07", "1981"]
