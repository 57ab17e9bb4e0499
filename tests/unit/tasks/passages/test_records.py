"""Passages and bad records as tables."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.records import BadRecord, Section, SourceRecord
from polyhop.schemas.tables import QUARANTINE
from polyhop.schemas.text import content_hash, document_id
from polyhop.tasks.passages.records import (
    PASSAGE_PARTS,
    count_words,
    metadata_json,
    passages_table,
    quarantine_table,
    split_record,
)

LONG = SourceRecord("r", "Ada", "One two.\n\nThree four.", "c.jsonl", 3, {"b": 1, "a": "é"})
SHORT = SourceRecord("s", "", "Five.", "c.jsonl", 4)
NOWHERE = dict.fromkeys(("first_page", "last_page", "slide", "sheet", "chapter", "headings", "first_row", "last_row"))


def test_passages_with_the_record_they_were_cut_from() -> None:
    pieces = [(passage, record) for record in (LONG, SHORT) for passage in split_record(record, max_characters=11)]
    table = passages_table(pieces, "letters")
    of_long = {
        "record_id": "r",
        "document_id": document_id("ada"),
        "title": "Ada",
        "token_count": 3,
        "record_hash": content_hash("Ada", "One two.\n\nThree four."),
        "source": "c.jsonl",
        "line": 3,
        "origin": "letters",
        "metadata_json": '{"a": "é", "b": 1}',
        "location": None,
    }
    first = {"text": "One two.", "start_offset": 0, "end_offset": 8, "content_hash": content_hash("Ada", "One two.")}
    second = {"text": "Three four.", "start_offset": 10, "end_offset": 21}
    assert table.schema == PASSAGE_PARTS.arrow
    assert table.to_pylist() == [
        {"passage_id": "r#0", **of_long, **first},
        {"passage_id": "r#1", **of_long, **second, "content_hash": content_hash("Ada", "Three four.")},
        {
            "passage_id": "s",
            "record_id": "s",
            "document_id": document_id("s"),
            "title": "",
            "text": "Five.",
            "start_offset": 0,
            "end_offset": 5,
            "token_count": 1,
            "content_hash": content_hash("", "Five."),
            "record_hash": content_hash("", "Five."),
            "source": "c.jsonl",
            "line": 4,
            "origin": "letters",
            "metadata_json": "{}",
            "location": None,
        },
    ]


def test_where_passages_stand_in_their_file_comes_with_them() -> None:
    sections = (Section(0, ("A",), page=1), Section(5, ("A", "B"), page=2))
    record = SourceRecord("r", "Ada", "A one\nB two", "c.pdf", 0, {}, sections)
    (piece,) = split_record(record, max_characters=100)
    (row,) = passages_table([(piece, record)]).to_pylist()
    assert row["location"] == {**NOWHERE, "first_page": 1, "last_page": 2, "headings": ["A"]}


def test_bad_records() -> None:
    table = quarantine_table([BadRecord("c.jsonl", 2, "not JSON", "{")])
    assert table.schema == QUARANTINE.arrow
    assert table.to_pylist() == [{"source": "c.jsonl", "line": 2, "reason": "not JSON", "excerpt": "{"}]


def test_no_rows_are_a_table_too() -> None:
    assert (passages_table([]).num_rows, quarantine_table([]).num_rows) == (0, 0)


def test_metadata_with_half_a_character_can_be_stored_and_read_back() -> None:
    metadata = {"emoji": "a\ud83d", "é": ["ü"]}
    stored = metadata_json(metadata)
    assert stored.encode("utf-8")
    assert json.loads(stored) == metadata


@pytest.mark.parametrize(
    ("title", "text", "count"), [("", "", 0), ("Ada L.", "One — two, 3rd don't", 7), ("", "中文 字", 2)]
)
def test_words_are_runs_of_letters_and_digits(title: str, text: str, count: int) -> None:
    assert count_words(title, text) == count


@given(st.text(st.characters(max_codepoint=0x7F)) | st.text())
def test_words_of_any_text_are_those_that_the_pattern_finds(text: str) -> None:
    assert count_words("", text) == len(re.findall(r"\w+", text))
