"""The view `dates`: what a passage says happened on each date, from its words alone."""

import json

import duckdb
import pytest

from polyhop.schemas.values import find_dates
from polyhop.warehouse.statements import statement

SENTENCES = [
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
    ("In 1999 it rained.", [("1999", None)]),
    ("No date.", []),
]


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    """Tables with just the columns that the view reads, a passage per sentence."""
    opened = duckdb.connect()
    opened.execute("CREATE TABLE passages (passage_id VARCHAR, title VARCHAR, text VARCHAR)")
    opened.execute("CREATE TABLE entities (entity_id VARCHAR, key VARCHAR, is_date BOOLEAN)")
    opened.execute("CREATE TABLE mentions (level VARCHAR, unit_id VARCHAR, entity_id VARCHAR, spans_json VARCHAR)")
    opened.execute("INSERT INTO entities VALUES ('rain', 'rain', FALSE)")
    keys = set()
    for number, (text, _) in enumerate(SENTENCES):
        opened.execute("INSERT INTO passages VALUES (?, 'T', ?)", [f"p{number:02}", text])
        opened.execute("INSERT INTO mentions VALUES ('passage', ?, 'rain', '[[0, 2]]')", [f"p{number:02}"])
        for date in find_dates(text):
            keys.add(date.key)
            spans = json.dumps([[date.start, date.end]])
            opened.execute("INSERT INTO mentions VALUES ('passage', ?, ?, ?)", [f"p{number:02}", date.key, spans])
    for key in keys:
        opened.execute("INSERT INTO entities VALUES (?, ?, TRUE)", [key, key])
    opened.execute(statement("views", "dates"))
    return opened


@pytest.mark.parametrize("number", range(len(SENTENCES)), ids=[text for text, _ in SENTENCES])
def test_a_date_has_the_role_that_its_sentence_gives_it(connection: duckdb.DuckDBPyConnection, number: int) -> None:
    text, expected = SENTENCES[number]
    rows = connection.execute(
        "SELECT value, role, year, precision, stated, start_offset, end_offset FROM dates WHERE passage_id = ? "
        "ORDER BY start_offset",
        [f"p{number:02}"],
    ).fetchall()
    assert [row[:2] for row in rows] == expected
    for value, _, year, precision, stated, start, end in rows:
        assert (year, precision) == (int(value[:4]), {4: "year", 7: "month", 10: "day"}[len(value)])
        assert text[start:end] in stated
        assert stated in text
        assert value[:4] in text[start:end]
