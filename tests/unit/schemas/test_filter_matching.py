"""Which records a filter allows: types, missing values, lists, dates."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.filters import FieldValues, FilterError, RecordFields, allowed_passages, like, parse_filter
from polyhop.schemas.records import interval_of, number_in, values_of

RECORDS: Sequence[Mapping[str, object]] = (
    {"year": 1999, "lang": "en", "tags": ["a", "b"], "day": "2020-05-31", "draft": True, "zip": "02139"},
    {"year": 2020, "lang": "EN", "tags": ["b"], "day": "2020-06-01T00:30:00+02:00", "draft": False, "zip": "94105"},
    {"year": 2020.5, "lang": "café", "tags": [], "day": "2021-01-01", "zip": "x", "author": {"name": "Bob"}},
    {"mixed": "2020"},
    {"mixed": 2020},
    {"mixed": True},
)
TYPES = {
    "metadata.year": "number",
    "metadata.lang": "text",
    "metadata.tags": "text",
    "metadata.day": "date",
    "metadata.draft": "flag",
    "metadata.zip": "text",
    "metadata.author.name": "text",
    "metadata.mixed": "mixed",
    "id": "text",
}


def values(field: str) -> FieldValues:
    found = [
        (number, value)
        for number, record in enumerate(RECORDS)
        for name, value in values_of({"id": f"r{number}"} if field == "id" else record)
        if name == field.removeprefix("metadata.")
    ]
    return FieldValues(
        np.array([number for number, _ in found], dtype=np.int64),
        [value.value for _, value in found],
        [value.kind for _, value in found],
        np.array([np.nan if value.number is None else value.number for _, value in found], dtype=np.float64),
        np.array([value.moment for _, value in found], dtype="datetime64[us]"),
    )


FIELDS = RecordFields(len(RECORDS), np.arange(len(RECORDS)), TYPES, values)


def allowed(text: str) -> list[int]:
    given: list[int] = allowed_passages(parse_filter(text), FIELDS).tolist()
    return given


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("metadata.year >= 2020", [1, 2]),
        ("metadata.year < 2020", [0]),
        ("metadata.year != 2020", [0, 2]),
        ("NOT metadata.year = 2020", [0, 2]),
        ("metadata.year IN (1999, 2020.5)", [0, 2]),
        ("metadata.year IS NULL", [3, 4, 5]),
        ("metadata.year IS NOT NULL", [0, 1, 2]),
        ("metadata.year > 2000 OR metadata.mixed = '2020'", [1, 2, 3]),
        ("metadata.lang = 'en'", [0]),
        ("metadata.lang ~ 'EN'", [0, 1]),
        ("metadata.lang = 'cafe\u0301'", [2]),
        ("metadata.tags = 'b'", [0, 1]),
        ("metadata.tags != 'a'", [1]),
        ("metadata.tags = 'a' AND metadata.tags = 'b'", [0]),
        ("metadata.tags IS NULL", [2, 3, 4, 5]),
        ("metadata.day = '2020-05'", [0, 1]),  # 00:30 in +02:00 is still May in UTC
        ("metadata.day > '2020-05-30'", [0, 1, 2]),
        ("metadata.day > '2020-05'", [2]),
        ("metadata.day <= 2020", [0, 1]),
        ("metadata.day = '2020-05-31T22:30'", [1]),
        ("metadata.day >= '2021'", [2]),
        ("metadata.draft = TRUE", [0]),
        ("metadata.draft != TRUE", [1]),
        ("metadata.zip = '02139'", [0]),
        ("metadata.zip LIKE '9%5'", [1]),
        ("metadata.author.name = 'Bob'", [2]),
        ("metadata.mixed = '2020'", [3]),
        ("metadata.mixed = 2020", [3, 4]),
        ("metadata.mixed = TRUE", [5]),
        ("metadata.year ~ '99'", [0]),
        ("id IN ('r5', 'r0', 'nobody')", [0, 5]),
    ],
)
def test_a_filter_allows(text: str, records: list[int]) -> None:
    assert allowed(text) == records


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metadata.yeah = 1", "did you mean metadata.year?"),
        ("metadata.qqqqq = 1", "there are metadata.author.name, metadata.day"),
        ("metadata.year = '2020'", "holds numbers; write 2020 without quotes"),
        ("metadata.year = TRUE", "compare it with a number"),
        ("metadata.lang = 3", "holds text; quote the value: '3'"),
        ("metadata.day = 'May'", "holds dates; write one as"),
        ("metadata.day = 2020.5", "holds dates; write one as"),
        ("date.birth > 1900", "this version has no dates"),
        ("metadata.draft > FALSE", "write = TRUE or = FALSE"),
        ("metadata.draft = 'true'", "write = TRUE or = FALSE"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(FilterError, match="column 1") as caught:
        allowed(text)
    assert said in str(caught.value)


LEAVES = st.sampled_from(["metadata.year >= 2020", "metadata.tags = 'b'", "metadata.draft = TRUE", "id = 'r3'"])


@given(LEAVES, LEAVES)
def test_missing_values_follow_the_logic_of_sql(a: str, b: str) -> None:
    known = {text: set(allowed(text)) | set(allowed(f"NOT {text}")) for text in (a, b)}
    assert set(allowed(f"{a} AND {b}")) == set(allowed(a)) & set(allowed(b))
    assert set(allowed(f"{a} OR {b}")) == set(allowed(a)) | set(allowed(b))
    assert set(allowed(f"NOT ({a} OR {b})")) == set(allowed(f"NOT {a} AND NOT {b}"))
    assert set(allowed(f"NOT ({a} AND {b})")) <= known[a] | known[b]
    assert not set(allowed(a)) & set(allowed(f"NOT {a}"))


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=8))
def test_like_agrees_with_a_plain_definition(pattern: str, text: str) -> None:
    def fits(left: str, right: str) -> bool:
        if not left:
            return not right
        if left[0] == "%":
            return fits(left[1:], right) or (bool(right) and fits(left, right[1:]))
        return bool(right) and left[0] in {"_", right[0]} and fits(left[1:], right[1:])

    assert like(pattern)(text) == fits(pattern, text)


def test_a_pattern_of_many_wildcards_takes_no_more_than_one_pass() -> None:
    assert not like("%a" * 1_000 + "b")("a" * 20_000)


@pytest.mark.parametrize("text", ["007", "1.", ".5", "+3", "1e999", "NaN", "inf", "1_000", "٣", "", " 1", "0x10"])
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    assert number_in(text) is None


@pytest.mark.parametrize("text", ["2020-13", "2020-02-30", "0000-01-01", "2020-1-1", "20200101", "2020-05-31T25:00"])
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert interval_of(text) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_any_metadata_has_values_of_three_kinds(value: object) -> None:
    plain = json.loads(json.dumps({"field": value}))
    assert {found.kind for _, found in values_of(plain)} <= {"number", "flag", "text"}
