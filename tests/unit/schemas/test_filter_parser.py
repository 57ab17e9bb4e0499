"""Filters as people write them, and what hostile ones are told."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.filters import (
    MAX_FILTER_CHARACTERS,
    MAX_FILTER_DEPTH,
    All,
    Comparison,
    Condition,
    Either,
    FilterError,
    IsNull,
    Not,
    parse_filter,
)


def compared(field: str, operator: str, *values: object) -> Comparison:
    return Comparison(field, operator, values, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("metadata.year >= 2020", compared("metadata.year", ">=", 2020.0)),
        ("metadata.year=-1.5e3", compared("metadata.year", "=", -1500.0)),
        ("id IN ('a', 'b')", compared("id", "=", "a", "b")),
        ("id NOT IN ('a')", Not(compared("id", "=", "a"))),
        ("title LIKE 'A%'", compared("title", "like", "A%")),
        ("title not like 'A%'", Not(compared("title", "like", "A%"))),
        ("source ~ 'news'", compared("source", "~", "news")),
        ("source !~ 'news'", Not(compared("source", "~", "news"))),
        ("metadata.a.b IS NULL", IsNull("metadata.a.b", 1)),
        ("metadata.a is not null", Not(IsNull("metadata.a", 1))),
        ("metadata.draft = TRUE", compared("metadata.draft", "=", True)),
        ("title = 'it''s'", compared("title", "=", "it's")),
        ('title = "say ""no"""', compared("title", "=", 'say "no"')),
        ("metadata.\"first name\" = 'x'", compared("metadata.first name", "=", "x")),
        ("metadata.größe <> 3", Not(compared("metadata.größe", "=", 3.0))),
        ("metadata.day = 2020-05-31", compared("metadata.day", "=", "2020-05-31")),
        ("metadata.day < 2020-05-31T12:00:00Z", compared("metadata.day", "<", "2020-05-31T12:00:00Z")),
        (
            "metadata.y BETWEEN 1 AND 2 AND id = 'a'",
            All(
                (All((compared("metadata.y", ">=", 1.0), compared("metadata.y", "<=", 2.0))), compared("id", "=", "a"))
            ),
        ),
    ],
)
def test_conditions_are_what_they_say(text: str, condition: Condition) -> None:
    assert parse_filter(text).condition == condition


def test_and_binds_closer_than_or_and_not_closer_than_both() -> None:
    a, b, c = (compared("id", "=", name) for name in "abc")
    assert parse_filter("id='a' OR NOT id='b' AND id='c'").condition == Either((a, All((Not(b), c))))
    assert parse_filter("(id='a' OR NOT id='b') AND id='c'").condition == All((Either((a, Not(b))), c))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("metadata.a = TRUE", "metadata.a = 1"),
        ("metadata.a IN (0, 1)", "metadata.a IN (FALSE, 1)"),
        ("title = 'a  b'", "title = 'a b'"),
        ("title = '1'", "title = 1"),
    ],
)
def test_filters_that_look_alike_and_say_something_else_are_other_keys(one: str, other: str) -> None:
    assert parse_filter(one) != parse_filter(other)
    assert len({parse_filter(one), parse_filter(other)}) == 2


def test_filters_that_say_the_same_are_the_same_key() -> None:
    assert hash(parse_filter("id='a' and  title = 'b'")) == hash(parse_filter("id = 'a' AND title='b'"))
    assert parse_filter("id='a' and  title = 'b'") == parse_filter("id = 'a' AND title='b'")
    assert parse_filter("id='a'") != parse_filter("id='b'")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "a field"),
        ("   ", 4, "not the end"),
        ("id", 3, "a comparison"),
        ("id =", 5, "not the end"),
        ("id = a", 6, "quote a text: 'a'"),
        ("id = 'a", 6, "never closed"),
        ("id = 'a' title", 10, "AND, OR or the end"),
        ("(id = 'a'", 10, "')'"),
        ("id = 'a')", 9, "AND, OR or the end"),
        ("id = NULL", 6, "IS NULL"),
        ("id IN ()", 8, "not ')'"),
        ("id IN 'a'", 7, "'('"),
        ("id LIKE 3", 9, "quoted text"),
        ("id BETWEEN 1", 13, "AND"),
        ("year = 3", 1, "metadata.year"),
        ("titel = 'a'", 1, "did you mean title?"),
        ("metadata = 'a'", 1, "metadata.NAME"),
        ("id = 'a'; DROP TABLE passages", 9, "';' cannot stand here"),
        ("id = 'a' -- rest", 10, "'-' cannot stand here"),
        ("id = 'a' UNION SELECT 1", 10, "AND, OR or the end"),
        ("1 = 1", 1, "a field"),
        ("id = 12abc", 6, "cannot stand here"),
        ("id = read_csv('/etc/passwd')", 6, "quote a text"),
        ("id = $1", 6, "'$' cannot stand here"),
        ("id = 'a' \x00", 10, "cannot stand here"),
    ],
)
def test_what_does_not_parse_is_told_where_and_why(text: str, column: int, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert caught.value.column == column
    assert said in str(caught.value)
    assert f"column {column}" in str(caught.value)


@pytest.mark.parametrize("opening", ["(", "NOT "])
def test_deep_nesting_is_refused_and_does_not_exhaust_the_stack(opening: str) -> None:
    with pytest.raises(FilterError, match="nested more than"):
        parse_filter(opening * (MAX_FILTER_DEPTH + 2) + "id = 'a'")
    with pytest.raises(FilterError, match="nested more than"):
        parse_filter(opening * 2_000)


def test_long_filters_are_refused() -> None:
    with pytest.raises(FilterError, match="characters long"):
        parse_filter("id = '" + "a" * MAX_FILTER_CHARACTERS + "'")


WORDS = [
    "id",
    "metadata.a",
    "NOT",
    "and",
    "or",
    "(",
    ")",
    "=",
    "<",
    "'a'",
    "3",
    "in",
    "is",
    "null",
    ",",
    '"',
    "é",
    "\0",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_text_parses_or_is_told_where_it_is_wrong(text: str) -> None:
    with suppress(FilterError):
        parse_filter(text)
        return
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert 1 <= caught.value.column <= len(text) + 1


@given(st.text(max_size=60))
def test_a_quoted_text_comes_back_as_it_was(text: str) -> None:
    quoted = text.replace("'", "''")
    assert parse_filter(f"title = '{quoted}'").condition == compared("title", "=", text)
