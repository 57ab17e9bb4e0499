"""Which records a filter allows: types, missing values, lists, dates; and what wrong and hostile ones are told."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from time import process_time

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.errors import FilterError
from polyhop.schemas.records import interval_of, number_in, values_of
from polyhop.schemas.tables import METADATA_COLUMNS, METADATA_VALUES
from polyhop.schemas.tables import RECORDS as RECORDS_TABLE
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import create_statement
from polyhop.warehouse.tables.filters import MAX_FILTER_CHARACTERS, MAX_FILTER_DEPTH, allowed_passages

RECORDS: Sequence[Mapping[str, object]] = (
    {"year": 1999, "lang": "en", "tags": ["a", "b"], "day": "2020-05-31", "draft": True, "zip": "02139"},
    {"year": 2020, "lang": "EN", "tags": ["b"], "day": "2020-06-01T00:30:00+02:00", "draft": False, "zip": "94105"},
    {"year": 2020.5, "lang": "café", "tags": [], "day": "2021-01-01", "zip": "x", "author": {"name": "Bob"}},
    {"mixed": "2020", "first name": "Ada"},
    {"mixed": 2020},
    {"mixed": True},
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        for table in (RECORDS_TABLE, METADATA_VALUES, METADATA_COLUMNS):
            connection.execute(create_statement(table))
        connection.execute("CREATE TABLE passages (passage_id VARCHAR, record_id VARCHAR)")
        connection.execute("CREATE TABLE entities (entity_id VARCHAR)")
        for number, record in enumerate(RECORDS):
            row = (f"r{number}", f"r{number}", f"It's {number}", "corpus.jsonl", "{}")
            connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
            connection.execute("INSERT INTO passages VALUES (?, ?)", row[:2])
            for ordinal, (name, value) in enumerate(values_of(record)):
                found = (row[0], name, ordinal, value.kind, value.value, value.number, value.moment)
                connection.execute("INSERT INTO metadata_values VALUES (?, ?, ?, ?, ?, ?, ?)", found)
        connection.execute(statement("records", "fill_columns"))
        yield connection


@pytest.fixture(scope="module")
def allowed(connection: duckdb.DuckDBPyConnection) -> Callable[[str], list[int]]:
    return cache(lambda text: allowed_passages(connection, text).tolist())


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("metadata.year >= 2020", [1, 2]),
        ("metadata.year != 2020", [0, 2]),
        ("NOT metadata.year = 2020", [0, 2]),
        ("metadata.year IN (1999, 2020.5)", [0, 2]),
        ("metadata.year IS NULL", [3, 4, 5]),
        ("metadata.year > 2000 OR metadata.mixed = '2020'", [1, 2, 3]),
        ("metadata.lang ~ 'EN'", [0, 1]),
        ("metadata.lang = 'cafe\u0301'", [2]),
        ("metadata.tags = 'b'", [0, 1]),
        ("metadata.tags != 'a'", [1]),
        ("metadata.tags IS NULL", [2, 3, 4, 5]),
        ("metadata.day = '2020-05'", [0, 1]),  # 00:30 in +02:00 is still May in UTC
        ("metadata.day > '2020-05'", [2]),
        ("metadata.day <= 2020", [0, 1]),
        ("metadata.day = '2020-05-31T22:30'", [1]),
        ("metadata.draft != TRUE", [1]),
        ("metadata.zip = '02139'", [0]),
        ("metadata.author.name = 'Bob'", [2]),
        ("metadata.mixed = '2020'", [3]),
        ("metadata.mixed = 2020", [3, 4]),
        ("metadata.year ~ '99'", [0]),
        ("metadata.year=-1.5e3 or id=='r0'", [0]),
        ("title LIKE 'It_s %'", [0, 1, 2, 3, 4, 5]),
        ("title LIKE '_.* %' OR title like 'it%'", []),
        ("metadata.zip NOT LIKE '9%5'", [0, 2]),
        ("metadata.\"first name\" = 'Ada'", [3]),
        ("Metadata.year BETWEEN 1999 AND 2020 AND id <> 'r1'", [0]),
        ("id = 'r0' OR NOT id = 'r1' AND id = 'r2'", [0, 2]),
        ("(id = 'r0' OR NOT id = 'r1') AND id = 'r2'", [2]),
        ("id NOT IN ('r0', 'r1', 'r2', 'r3', 'r4')", [5]),
        ("id = 'r0' -- and nothing else", [0]),
    ],
)
def test_a_filter_allows(allowed: Callable[[str], list[int]], text: str, records: list[int]) -> None:
    assert allowed(text) == records


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("metadata.yeah = 1", 1, "did you mean metadata.year?"),
        ("metadata.qqqqq = 1", 1, "there are metadata.author.name, metadata.day"),
        ("metadata.year = '2020'", 1, "holds numbers; write 2020 without quotes"),
        ("metadata.year = TRUE", 1, "compare it with a number"),
        ("metadata.lang = 3", 1, "holds text; quote the value: '3'"),
        ("metadata.day = 'May'", 1, "holds dates; write one as"),
        ("date.birth > 1900", 1, "this version has no dates"),
        ("metadata.draft > FALSE", 1, "write = TRUE or = FALSE"),
        ("", 1, "syntax error"),
        ("id", 1, "a filter compares fields by"),
        ("id =", 4, "syntax error"),
        ("id = a", 6, "quote a text: 'a'"),
        ("id = 'a", 6, "unterminated"),
        ("id = 'a' title", 10, 'syntax error at or near "title"'),
        ("id = 'a')", 9, "syntax error"),
        ("title = 'é' AND id = 'a' title", 26, 'syntax error at or near "title"'),
        ("title = 'é' AND id = NULL", 22, "IS NULL"),
        ("id IN ()", 7, "a filter compares fields by"),
        ("id LIKE 3", 1, "quoted text"),
        ("metadata.day = 2020-05-31", 23, "date in single quotes"),
        ("year = 3", 1, "metadata.year"),
        ("titel = 'a'", 1, "did you mean title?"),
        ("metadata = 'a'", 1, "metadata.NAME"),
        ("1 = 1", 1, "a field (id"),
        ("TRUE", 1, "a filter compares fields by"),
        ("id = $1", 6, "a number"),
        ("id = 'a'; DROP TABLE passages", 1, "Only SELECT"),
        ("id = 'a'; SELECT 1", 1, "a filter compares"),
        ("id = 'a' UNION SELECT 1", 1, "a filter compares"),
        ("id = 'a' GROUP BY id", 1, "a filter compares"),
        ("id = 'a' HAVING id = 'a'", 1, "a filter compares"),
        ("id = 'a' ORDER BY read_csv('/etc/passwd')", 1, "a filter compares"),
        ("id = 'a' LIMIT 1", 1, "a filter compares"),
        ("id = 'a' QUALIFY id = 'a'", 1, "a filter compares"),
        ("id = 'a' USING SAMPLE 1", 1, "a filter compares"),
        ("id = read_csv('/etc/passwd')", 6, "a number"),
        ("id = getenv('HOME')", 6, "a number"),
        ("id = (SELECT text FROM passages)", 6, "a number"),
        ("id IN (SELECT text FROM passages)", 7, "a filter compares"),
        ("EXISTS (SELECT 1 FROM read_text('/etc/passwd'))", 1, "a filter compares"),
        ("id = 'a' || getenv('HOME')", 6, "a number"),
        ("id = 'a' COLLATE nocase", 6, "a number"),
        ("id::INT = 3", 3, "a field"),
        ("regexp_matches(title, 'a', 'c')", 1, "a filter compares"),
        ("CASE WHEN id = 'a' THEN TRUE END", 1, "a filter compares"),
        ("id LIKE 'a' ESCAPE 'b'", 4, "a filter compares"),
        ("id = 'a' \0", 10, "syntax error"),
        ("id = '\ud800'", 1, "UTF-8"),
    ],
)
def test_what_is_no_condition_or_cannot_be_compared_is_told_where_and_why(
    allowed: Callable[[str], list[int]], text: str, column: int, said: str
) -> None:
    with pytest.raises(FilterError, match=f"column {column}: ") as caught:
        allowed(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_FILTER_DEPTH + 1) + "id = 'a'",
        "(" * 9_000,
        "NOT " * 2_000 + "id = 'a'",
        "NOT " * 600 + "id = 'a'",
        "- " * 4_000 + "1 = id",
        "[" * 9_000,
        "{'a':" * 1_900,
        "CASE WHEN " * 900,
        "x -> " * 1_900,
        "id = '" + "a" * MAX_FILTER_CHARACTERS + "'",
    ],
    ids=lambda text: text[:6],
)
def test_what_would_take_long_or_much_of_the_stack_is_refused_at_once(
    allowed: Callable[[str], list[int]], text: str
) -> None:
    begun = process_time()
    with pytest.raises(FilterError):
        allowed(text)
    assert process_time() - begun < 5


def test_a_thousand_conditions_and_a_thousand_values_are_taken(allowed: Callable[[str], list[int]]) -> None:
    ids = ", ".join(f"'r{number}'" for number in range(3, 1_000))
    assert allowed(f"id IN ({ids})") == [3, 4, 5]
    assert allowed(" OR ".join(["id='r0'"] * 700)) == [0]


WORDS = ("id", "metadata.a", "NOT", "and", "or", "(", ")", "=", "<", "'a'", "3", "in", "is", "null", ",", '"', "é")


@given(text=st.lists(st.sampled_from([*WORDS, "\0", "select", ";", "--", "/*", "~"])).map(" ".join) | st.text())
def test_any_text_is_a_filter_or_is_told_where_it_is_wrong(allowed: Callable[[str], list[int]], text: str) -> None:
    columns = [1]
    try:
        allowed(text)
    except FilterError as error:
        columns.append(error.column)
    assert set(columns) <= {*range(1, len(text) + 2)}


LEAVES = st.sampled_from(["metadata.year >= 2020", "metadata.tags = 'b'", "metadata.draft = TRUE", "id = 'r3'"])


@given(a=LEAVES, b=LEAVES)
def test_missing_values_follow_the_logic_of_sql(allowed: Callable[[str], list[int]], a: str, b: str) -> None:
    known = {text: set(allowed(text)) | set(allowed(f"NOT {text}")) for text in (a, b)}
    assert set(allowed(f"{a} AND {b}")) == set(allowed(a)) & set(allowed(b))
    assert set(allowed(f"{a} OR {b}")) == set(allowed(a)) | set(allowed(b))
    assert set(allowed(f"NOT ({a} OR {b})")) == set(allowed(f"NOT {a} AND NOT {b}"))
    assert set(allowed(f"NOT ({a} AND {b})")) <= known[a] | known[b]
    assert not set(allowed(a)) & set(allowed(f"NOT {a}"))


def test_patterns_take_no_more_than_some_passes_and_filters_no_more_than_their_time(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.cursor() as other:
        other.execute("CREATE TEMP TABLE records AS FROM main.records")
        other.execute("UPDATE temp.records SET title = repeat('ab', 10000)")
        begun = process_time()
        assert allowed_passages(other, f"title LIKE '{'%a_' * 100}a'").tolist() == []
        assert process_time() - begun < 5
        with pytest.raises(FilterError, match="at most 100 %"):
            allowed_passages(other, f"title LIKE '{'%a_' * 101}a'")
        other.execute(
            "INSERT INTO temp.records SELECT r.* REPLACE (r.record_id || i AS record_id, 'ab' AS title) "
            "FROM temp.records AS r, range(50000) AS _(i)"
        )
        monkeypatch.setattr("polyhop.warehouse.tables.filters.MAX_FILTER_SECONDS", 0.05)
        with pytest.raises(FilterError, match=r"takes more than 0\.05 s"):
            allowed_passages(other, f"title LIKE '{'%a_' * 100}a'")


def test_what_only_looks_like_a_number_or_a_date_is_none() -> None:
    numbers = ["007", "1.", ".5", "+3", "1e999", "NaN", "inf", "1_000", "٣", "", " 1", "0x10"]
    dates = ["2020-13", "2020-02-30", "0000-01-01", "2020-1-1", "20200101", "2020-05-31T25:00"]
    assert [text for text in numbers if number_in(text) is not None] == []
    assert [text for text in dates if interval_of(text) is not None] == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=10,
    )
)
def test_any_metadata_has_values_of_three_kinds(value: object) -> None:
    plain = json.loads(json.dumps({"field": value}))
    assert {found.kind for _, found in values_of(plain)} <= {"number", "flag", "text"}
