"""The tables of a version in DuckDB: dates and names in them, versions compared, filters, opening, checksums."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import Retrying, stop_after_attempt, wait_fixed

from polyhop.schemas.errors import DamagedStoreError, FilterError, StatementRejectedError
from polyhop.schemas.manifest import TableRecord
from polyhop.schemas.records import interval_of, number_in, values_of
from polyhop.schemas.tables import METADATA_COLUMNS, METADATA_VALUES, TABLES
from polyhop.schemas.tables import RECORDS as RECORDS_TABLE
from polyhop.schemas.types import find_dates
from polyhop.warehouse import statements as slow
from polyhop.warehouse.artefacts import surface_graph
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.statements import noted, slow_noted, statement
from polyhop.warehouse.tables.connection import connect, create_statement, record_since, table_record
from polyhop.warehouse.tables.filters import MAX_FILTER_CHARACTERS, MAX_FILTER_DEPTH, allowed_passages
from polyhop.warehouse.tables.version_rows import compare_versions

Row = dict[str, Any]
EMPTY = {"string": "", "int64": 0, "bool": False, "double": 0.0}
SENTENCES: list[tuple[str, list[tuple[str, str | None]]]] = [
    ("Ada Roe (born 3 May 1815) is a poet.", [("1815-05-03", "birth")]),
    ("Ada Roe (3 May 1815 – 1852) was a poet.", [("1815-05-03", "birth"), ("1852", "death")]),
    ("Ada Roe (born 1815 in London; died 27 November 1852) wrote.", [("1815", "birth"), ("1852-11-27", "death")]),
    ("Ada Roe (died about December 1299) was a countess.", [("1299-12", "death")]),
    ("Ada I (reigned 1545–1554) was a queen.", [("1545", None), ("1554", None)]),
    ("She was born in Farnham, Surrey, in 1850. In 1871 she left.", [("1850", "birth"), ("1871", None)]),
    ("He was killed in 1941, while she was deported in 1943.", [("1941", "death"), ("1943", None)]),
    ("The bridge was opened in 1904 and rebuilt later.", [("1904", "opening")]),
    ("Shriro was founded by two brothers in 1906.", [("1906", "founding")]),
    ("Blue is a 1949 French comedy film.", [("1949", "release")]),
    ("I Died Twice is a 1955 American film.", [("1955", "release")]),
    ("Blue was released on May 2, 1999 in Rome.", [("1999-05-02", "release")]),
    ("The tower was completed in May 1889.", [("1889-05", "building")]),
    ("The probe was launched in 2004.", [("2004", "launch")]),
    ("He was born here; in 1999 he left.", [("1999", None)]),
]
RECORDS: Sequence[Mapping[str, object]] = (
    {"year": 1999, "lang": "en", "tags": ["a", "b"], "day": "2020-05-31", "draft": True, "zip": "02139"},
    {"year": 2020, "lang": "EN", "tags": ["b"], "day": "2020-06-01T00:30:00+02:00", "draft": False, "zip": "94105"},
    {"year": 2020.5, "lang": "café", "tags": [], "day": "2021-01-01", "zip": "x", "author": {"name": "Bob"}},
    {"mixed": "2020", "first name": "Ada"},
    {"mixed": 2020},
    {"mixed": True},
)
WORDS = ("id", "metadata.a", "NOT", "and", "or", "(", ")", "=", "<", "'a'", "3", "in", "is", "null", ",", '"', "é")
COLUMNS = "id BIGINT, name VARCHAR, share DOUBLE, words VARCHAR[], is_good BOOLEAN"
VALUES = st.tuples(
    st.none() | st.sampled_from(["", "a", "b"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.sampled_from([None, [], ["a"], ["a", None], ["", "a"]]),
    st.none() | st.booleans(),
)
tables = st.dictionaries(st.integers(0, 5), VALUES)
Rows = dict[int, Any]
LOG = logging.getLogger("polyhop.test")


def fill(connection: duckdb.DuckDBPyConnection, **filled: list[Row]) -> duckdb.DuckDBPyConnection:
    """All tables of a version with these rows; columns that a row does not name are empty."""
    for table in TABLES:
        connection.execute(create_statement(table))
        for row in filled.get(table.name, []):
            values = [row.get(c.name, None if c.nullable else EMPTY[str(c.type)]) for c in table.columns]
            connection.execute(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(values))})", values)
    return connection


def mention(passage: str, entity: str, surface: str, tf: int, spans: str, *, is_title: bool = False) -> Row:
    row = {"level": "passage", "extractor": "rules", "unit_id": passage, "entity_id": entity, "surface": surface}
    return {**row, "tf": tf, "is_title": is_title, "spans_json": spans}


@pytest.fixture(scope="module")
def dates() -> duckdb.DuckDBPyConnection:
    """A passage per sentence, which mentions its dates and one entity that is none."""
    passages, mentions, keys = [], [], set()
    for text, _ in SENTENCES:
        passages.append({"passage_id": text, "title": "T", "text": text})
        mentions.append(mention(text, "rain", "", 1, "[[0, 2]]"))
        for date in find_dates(text):
            keys.add(date.key)
            mentions.append(mention(text, date.key, "", 1, json.dumps([[date.start, date.end]])))
    entities = [{"entity_id": key, "key": key, "is_date": key != "rain"} for key in ("rain", *keys)]
    opened = fill(duckdb.connect(), passages=passages, entities=entities, mentions=mentions)
    opened.execute(statement("views", "dates"))
    return opened


@pytest.mark.parametrize(("text", "expected"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_a_date_has_the_role_of_its_sentence(dates: duckdb.DuckDBPyConnection, text: str, expected: list[Any]) -> None:
    columns = "value, role, year, precision, stated, start_offset, end_offset"
    query = f"SELECT {columns} FROM dates WHERE passage_id = ? ORDER BY start_offset"
    rows = dates.execute(query, [text]).fetchall()
    assert [row[:2] for row in rows] == expected
    for value, _, year, precision, stated, start, end in rows:
        assert (year, precision) == (int(value[:4]), {4: "year", 7: "month", 10: "day"}[len(value)])
        assert text[start:end] in stated in text
        assert value[:4] in text[start:end]


def surfaces_in(texts: dict[str, str], entities: dict[str, bool], *mentions: Row) -> list[Row]:
    """Count and place in the title of each name, passage by passage, of entities (id: is it named)."""
    connection = fill(
        duckdb.connect(),
        passages=[{"passage_id": passage, "text": text} for passage, text in texts.items()],
        entities=[{"entity_id": entity, "is_named": is_named} for entity, is_named in entities.items()],
        mentions=list(mentions),
    )
    graph = surface_graph(connection.execute(statement("read", "surfaces")).fetchnumpy(), len(texts))
    assert list(graph.keys) == sorted(graph.keys)
    rows: list[Row] = [{} for _ in texts]
    for row, entity, tf, is_title in zip(graph.rows, graph.indices, graph.tf, graph.is_title, strict=True):
        rows[row][graph.keys[entity]] = (float(tf), bool(is_title))
    return rows


def test_every_place_counts_under_its_own_spelling() -> None:
    """p1: title, then two places spelled differently; p2: 𝄞 is one character; p3 mentions nothing."""
    found = surfaces_in(
        {"p2": "𝄞 Ada met ADA.", "p1": "Lovelace, or Ada King, was here.", "p3": ""},
        {"ada": True, "year": False},
        mention("p1", "ada", "Ada Lovelace", 3, "[[0,8],[13,21]]", is_title=True),
        mention("p2", "ada", "Ada", 2, "[[2,5],[10,13]]"),
        mention("p2", "year", "1815", 1, "[[0,1]]"),
    )
    assert found == [
        {"Ada King": (1, True), "Ada Lovelace": (1, True), "Lovelace": (1, True)},
        {"ADA": (1, False), "Ada": (1, False)},
        {},
    ]


def test_mentions_without_a_place_count_under_the_row_s_spelling_and_entities_written_alike_are_one() -> None:
    """A title that the text never repeats; an imported name that is not in the text; a lone place that is a title."""
    first, second, third = surfaces_in(
        {"p1": "It is old.", "p2": "rome is old.", "p3": "Paris and Paris."},
        dict.fromkeys(("rome", "tiber", "city", "hero"), True),
        mention("p1", "rome", "Rome", 1, "[]", is_title=True),
        mention("p1", "tiber", "Tiber", 4, "[]"),
        mention("p2", "rome", "ROME", 1, "[[0,4]]", is_title=True),
        mention("p2", "tiber", "Tiber", 1, "[]"),
        mention("p3", "city", "Paris", 1, "[[0,5]]"),
        mention("p3", "hero", "Paris", 1, "[[10,15]]", is_title=True),
    )
    assert first == {"Rome": (1, True), "Tiber": (4, False)}
    assert (second, third) == ({"Tiber": (1, False), "rome": (1, True)}, {"Paris": (2, True)})


def version(folder: Path, entities: Sequence[str], home: str, passage: str, aliases: Sequence[str]) -> VersionFolder:
    """A version with entities by key, of which Curie lived in one and has some aliases."""
    made = VersionFolder(folder)
    made.arrays.mkdir(parents=True)
    ends = {"source_id": "id of curie", "target_id": f"id of {home}"}
    with duckdb.connect(str(made.tables)) as connection:
        fill(
            connection,
            entities=[{"entity_id": f"id of {key}", "key": key, "name": key.title()} for key in entities],
            aliases=[{"alias_key": key, "kind": "er", "entity_id": "id of curie"} for key in aliases],
            relations=[{"relation_id": home, "relation": "lived in", **ends}],
            passages=[{"passage_id": passage, "record_id": passage, "content_hash": "1"}],
        )
    return made


def test_versions_are_compared_in_both_directions(tmp_path: Path) -> None:
    versions = tmp_path / "indexes" / "curies" / "versions"
    few = version(versions / "few", ["curie", "paris"], "paris", "p", aliases=["mme curie", "curie"])
    many = version(versions / "many", ["curie", "mme curie", "oslo"], "oslo", "q", aliases=[])
    back = compare_versions(many, few, 10)["entities"]
    assert back.counts == {"added": 1, "removed": 1, "merged": 1, "split": 0, "renamed": 0, "retyped": 0}
    assert back.first == [
        {"kind": "added", "name": "Paris", "other": None},
        {"kind": "merged", "name": "Mme Curie", "other": "Curie"},
        {"kind": "removed", "name": "Oslo", "other": None},
    ]
    found = compare_versions(few, many, 10)
    assert found["entities"].counts == {"added": 1, "removed": 1, "merged": 0, "split": 1, "renamed": 0, "retyped": 0}
    assert {"kind": "split", "name": "Mme Curie", "other": "Curie"} in found["entities"].first
    assert found["relations"].first == [
        {"kind": "added", "source": "Curie", "relation": "lived in", "target": "Oslo"},
        {"kind": "removed", "source": "Curie", "relation": "lived in", "target": "Paris"},
    ]
    assert found["records"].counts == {"added": 0, "changed": 0, "deleted": 0, "renamed": 1}
    assert [(row["record_id"], row["from_id"]) for row in found["records"].first] == [("q", "p")]
    none_listed = compare_versions(few, many, 0)["entities"]
    assert (none_listed.counts, none_listed.first) == (found["entities"].counts, [])


@pytest.fixture(scope="module")
def filtered() -> Iterator[duckdb.DuckDBPyConnection]:
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
def allowed(filtered: duckdb.DuckDBPyConnection) -> Callable[[str], list[int]]:
    return cache(lambda text: allowed_passages(filtered, text).tolist())


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("metadata.year != 2020", [0, 2]),
        ("NOT metadata.year = 2020", [0, 2]),
        ("metadata.year IN (1999, 2020.5)", [0, 2]),
        ("metadata.year > 2000 OR metadata.mixed = '2020'", [1, 2, 3]),
        ("metadata.lang ~ 'EN'", [0, 1]),
        ("metadata.lang = 'cafe\u0301'", [2]),
        ("metadata.tags != 'a'", [1]),
        ("metadata.tags IS NULL", [2, 3, 4, 5]),
        ("metadata.day = '2020-05'", [0, 1]),  # 00:30 in +02:00 is still May in UTC
        ("metadata.day <= 2020", [0, 1]),
        ("metadata.day = '2020-05-31T22:30'", [1]),
        ("metadata.draft != TRUE", [1]),
        ("metadata.zip = '02139'", [0]),
        ("metadata.author.name = 'Bob'", [2]),
        ("metadata.mixed = 2020", [3, 4]),
        ("metadata.year ~ '99'", [0]),
        ("metadata.year=-1.5e3 or id=='r0'", [0]),
        ("title LIKE 'It_s %'", [0, 1, 2, 3, 4, 5]),
        ("title LIKE '_.* %' OR title like 'it%'", []),
        ("metadata.zip NOT LIKE '9%5'", [0, 2]),
        ("metadata.\"first name\" = 'Ada'", [3]),
        ("Metadata.year BETWEEN 1999 AND 2020 AND id <> 'r1'", [0]),
        ("(id = 'r0' OR NOT id = 'r1') AND id = 'r2'", [2]),
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
        ("metadata.lang = 3", 1, "holds text; quote the value: '3'"),
        ("metadata.day = 'May'", 1, "holds dates; write one as"),
        ("date.birth > 1900", 1, "this version has no dates"),
        ("metadata.draft > FALSE", 1, "write = TRUE or = FALSE"),
        ("", 1, "syntax error"),
        ("id = a", 6, "quote a text: 'a'"),
        ("title = 'é' AND id = 'a' title", 26, 'syntax error at or near "title"'),
        ("title = 'é' AND id = NULL", 22, "IS NULL"),
        ("id IN ()", 7, "a filter compares fields by"),
        ("id LIKE 3", 1, "quoted text"),
        ("metadata.day = 2020-05-31", 23, "date in single quotes"),
        ("year = 3", 1, "metadata.year"),
        ("titel = 'a'", 1, "did you mean title?"),
        ("metadata = 'a'", 1, "metadata.NAME"),
        ("1 = 1", 1, "a field (id"),
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
def test_a_bad_filter_says_where_and_why(
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
        "NOT " * 2_000 + "id = 'a'",
        "- " * 4_000 + "1 = id",
        "[" * 9_000,
        "{'a':" * 1_900,
        "CASE WHEN " * 900,
        "x -> " * 1_900,
        "id = '" + "a" * MAX_FILTER_CHARACTERS + "'",
    ],
    ids=lambda text: text[:6],
)
def test_what_would_take_long_or_much_stack_is_refused_at_once(allowed: Callable[[str], list[int]], text: str) -> None:
    begun = process_time()
    with pytest.raises(FilterError):
        allowed(text)
    assert process_time() - begun < 5


def test_a_thousand_conditions_and_a_thousand_values_are_taken(allowed: Callable[[str], list[int]]) -> None:
    ids = ", ".join(f"'r{number}'" for number in range(3, 1_000))
    assert (allowed(f"id IN ({ids})"), allowed(" OR ".join(["id='r0'"] * 700))) == ([3, 4, 5], [0])


@given(text=st.lists(st.sampled_from([*WORDS, "\0", "select", ";", "--", "/*", "~"])).map(" ".join) | st.text())
def test_any_text_is_a_filter_or_is_told_where_it_is_wrong(allowed: Callable[[str], list[int]], text: str) -> None:
    columns = [1]
    try:
        allowed(text)
    except FilterError as error:
        columns.append(error.column)
    assert set(columns) <= {*range(1, len(text) + 2)}


def test_filters_end_in_time(filtered: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    with filtered.cursor() as other:
        other.execute("CREATE TEMP TABLE records AS FROM main.records")
        other.execute("UPDATE temp.records SET title = repeat('ab', 10000)")
        begun = process_time()
        assert allowed_passages(other, f"title LIKE '{'%a_' * 100}a'").tolist() == []
        assert process_time() - begun < 5
        with pytest.raises(FilterError, match="at most 100 %"):
            allowed_passages(other, f"title LIKE '{'%a_' * 101}a'")
        more = "r.* REPLACE (r.record_id || i AS record_id, 'ab' AS title)"
        other.execute(f"INSERT INTO temp.records SELECT {more} FROM temp.records AS r, range(400000) AS _(i)")
        monkeypatch.setattr("polyhop.warehouse.tables.filters.MAX_FILTER_SECONDS", 0.05)
        with pytest.raises(FilterError, match=r"takes more than 0\.05 s"):
            allowed_passages(other, f"title LIKE '{'%a_' * 100}a'")


def test_what_only_looks_like_a_number_or_a_date_is_none() -> None:
    numbers = ["007", "1.", ".5", "+3", "1e999", "NaN", "inf", "1_000", "٣", "", " 1", "0x10"]
    dates = ["2020-13", "2020-02-30", "0000-01-01", "2020-1-1", "20200101", "2020-05-31T25:00"]
    assert [text for text in numbers if number_in(text) is not None] == []
    assert [text for text in dates if interval_of(text) is not None] == []


def made(path: Path, rows: int = 1) -> Path:
    with connect(path, read_only=False) as connection:
        connection.execute(f"CREATE TABLE numbers AS SELECT range AS number, random() AS key FROM range({rows})")
    return path


def test_what_a_block_wrote_is_a_file_alone_and_two_of_one_name_are_read_inside_one_another(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path, other = made(tmp_path / "index.duckdb", rows=3), made(tmp_path / "other" / "index.duckdb", rows=4)
    assert list(other.parent.iterdir()) == [other]
    with connect(path, read_only=True) as one, connect(other, read_only=True) as two:
        counts = [block.execute("SELECT count(*) FROM numbers").fetchone() for block in (one, two)]
    assert counts == [(3,), (4,)]


def test_what_a_block_attached_and_made_besides_its_file_is_gone_for_the_next(tmp_path: Path) -> None:
    path, other = made(tmp_path / "index.duckdb"), made(tmp_path / "other.duckdb", rows=5)
    for _ in range(2):
        with connect(path, read_only=True) as connection:
            connection.execute(f"ATTACH '{other}' AS before (READ_ONLY)")
            connection.execute("CREATE TEMP TABLE short AS SELECT 1 AS number")
            assert connection.execute("SELECT count(*) FROM before.numbers").fetchone() == (5,)


def test_after_an_error_the_file_is_free_and_the_next_block_works(tmp_path: Path) -> None:
    path = made(tmp_path / "index.duckdb")
    with pytest.raises(StatementRejectedError, match="no_such_table"), connect(path, read_only=False) as connection:
        connection.execute("FROM no_such_table")
    with pytest.raises(StatementRejectedError, match="read-only"), connect(path, read_only=True) as connection:
        connection.execute("DROP TABLE numbers")
    (tmp_path / "broken.duckdb").write_bytes(b"nothing that DuckDB wrote" * 1000)
    with pytest.raises(DamagedStoreError), connect(tmp_path / "broken.duckdb", read_only=True):
        pass
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP TABLE numbers")


LIMITED = """
import resource, sys
from pathlib import Path
from polyhop.warehouse.tables.connection import connect
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20,) * 2)
with connect(Path("own.duckdb"), read_only=False, memory_mb=int(sys.argv[1])) as connection:
    connection.execute("CREATE TEMP TABLE sorted AS SELECT hash(range) AS key FROM range(10_000_000) ORDER BY key")
    assert Path("own.duckdb.tmp").is_dir()
assert not Path("own.duckdb.tmp").exists()
with connect(Path("other.duckdb"), read_only=False) as connection:
    print(connection.execute("SELECT current_setting('temp_directory'), current_setting('memory_limit')").fetchone())
"""


@pytest.mark.rare
def test_what_exceeds_its_memory_is_on_disk_for_its_block_under_a_hard_limit(tmp_path: Path) -> None:
    for memory_mb, said in (
        ("100", "other.duckdb.tmp', '953.6 MiB')"),
        ("1000", "more memory than memory_mb allows"),
    ):
        command = [sys.executable, "-c", LIMITED, memory_mb]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said in done.stdout + done.stderr


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS old")
        yield connection


def make(connection: duckdb.DuckDBPyConnection, table: str, rows: Rows, columns: str = COLUMNS) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
    for key, row in rows.items():
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", [key, *row])


@given(before=tables, after=tables)
def test_a_later_record_is_that_from_scratch(connection: duckdb.DuckDBPyConnection, before: Rows, after: Rows) -> None:
    """Also where DuckDB's own hash does not tell two values apart: 0.0 and -0.0, no list and an empty one."""
    make(connection, "old.things", before)
    make(connection, "things", after)
    make(connection, "whole", before)
    found = record_since(connection, "things", "old", table_record(connection, "whole"))
    assert found == table_record(connection, "things")


@pytest.mark.parametrize(
    ("before", "rows"),
    [("id BIGINT, title VARCHAR, n BIGINT", 1), ("id BIGINT, name VARCHAR, n BIGINT", 2)],
    ids=["other columns", "rows that the record does not count"],
)
def test_a_table_of_another_form_is_read_whole(connection: duckdb.DuckDBPyConnection, before: str, rows: int) -> None:
    make(connection, "old.things", {1: ("a", 2)}, before)
    make(connection, "things", {1: ("a", 2)}, "id BIGINT, name VARCHAR, n BIGINT")
    for record in (TableRecord(rows=rows, checksum="1"), None):
        assert record_since(connection, "things", "old", record) == table_record(connection, "things")


@pytest.mark.parametrize(("seconds", "error"), [(1.25, None), (30.0, TimeoutError()), (1.0, None)])
def test_a_slow_statement_is_logged_on_one_line_and_cut_whether_it_fails_or_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, seconds: float, error: Exception | None
) -> None:
    ticks = [10.0, 10.0 + seconds]
    monkeypatch.setattr(slow, "perf_counter", lambda: ticks.pop(0))
    with (
        caplog.at_level(logging.INFO, "polyhop.test"),
        pytest.raises(type(error)) if error else nullcontext(),
        slow_noted(LOG, "duckdb", "SELECT\n   id\nFROM passages " + "x" * 200),
    ):
        if error:
            raise error
    expected = {"store": "duckdb", "statement": "SELECT id FROM passages " + "x" * 56, "seconds": seconds}
    assert [vars(record)["fields"] for record in caplog.records] == [expected] * (seconds > 1)


def test_every_pause_is_a_record_without_the_error_s_details(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []
    tries = {"stop": stop_after_attempt(3), "wait": wait_fixed(0.12345), "sleep": slept.append, "reraise": True}
    retrying = Retrying(**tries, before_sleep=noted(LOG, "a call of the model x"))  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO, LOG.name), pytest.raises(ValueError, match="sk-secret"):
        retrying(Mock(side_effect=ValueError("sk-secret")))
    fields = [{"attempt": number, "pause": 0.123, "error": "ValueError"} for number in (1, 2)]
    assert [vars(record)["fields"] for record in caplog.records] == fields
    assert {record.getMessage() for record in caplog.records} == {"retrying a call of the model x"}
    assert "sk-secret" not in caplog.text
    assert len(slept) == 2


@pytest.mark.parametrize(("costs", "total"), [((0.25, 0.5), 0.75), ((0.25, None), None), ((None, None), None)])
def test_the_cost_of_a_step_is_unknown_if_one_unit_has_no_price(costs: tuple[float, ...], total: float | None) -> None:
    with duckdb.connect() as connection:
        kinds = "step VARCHAR, model VARCHAR, state VARCHAR, attempts INT, prompt_tokens INT, completion_tokens INT"
        connection.execute(f"CREATE TABLE extraction_ledger ({kinds}, cost_usd DOUBLE, error VARCHAR)")
        for cost in costs:
            connection.execute("INSERT INTO extraction_ledger VALUES ('kg', 'm', 'done', 1, 1, 1, ?, '')", [cost])
        found = connection.execute(statement("pages", "ledger"), {"limit": 9})
        names = [column[0] for column in found.description or ()]
        assert dict(zip(names, found.fetchall()[0], strict=True))["cost_usd"] == total
