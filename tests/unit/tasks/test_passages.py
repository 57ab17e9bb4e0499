"""Where long records are cut, and passages and bad records as tables."""

import json
import re
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas import records
from polyhop.schemas.tables import QUARANTINE
from polyhop.schemas.text import content_hash, document_id, record_id
from polyhop.tasks.passages.records import (
    PASSAGE_PARTS,
    count_words,
    metadata_json,
    passages_table,
    quarantine_table,
    split_record,
)


def record(text: str, *, id_: str = "r", title: str = "T") -> records.SourceRecord:
    return records.SourceRecord(id_, title, text, "corpus.jsonl", 1)


def texts(text: str, max_characters: int) -> list[str]:
    return [passage.text for passage in split_record(record(text), max_characters=max_characters)]


def test_a_text_that_fits_is_the_passage_as_it_is() -> None:
    (passage,) = split_record(record(" One two. \n", title="Ada  LOVELACE"), max_characters=11)
    assert passage == records.Passage("r", "r", document_id("ada lovelace"), 0, "Ada  LOVELACE", " One two. \n", 0, 11)


def test_pieces_are_numbered_and_know_their_offsets() -> None:
    pieces = split_record(record("One two.\n\nThree four."), max_characters=11)
    document = document_id("t")
    assert pieces == [
        records.Passage("r#0", "r", document, 0, "T", "One two.", 0, 8),
        records.Passage("r#1", "r", document, 1, "T", "Three four.", 10, 21),
    ]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("Aaa bbb ccc.\n\nDdd. Eee fff ggg.", 20, ["Aaa bbb ccc.", "Ddd. Eee fff ggg."]),
        ("Aa.\n\nBbb bbb bbb. Ccc ccc ccc.", 20, ["Aa.\n\nBbb bbb bbb.", "Ccc ccc ccc."]),  # but not in the first half
        ("Aa aa. Bbb bbb bbb bbb bbb", 20, ["Aa aa.", "Bbb bbb bbb bbb bbb"]),
        ("One two. Then came Dr. Who again.", 22, ["One two.", "Then came Dr. Who", "again."]),  # no sentence's end
        ("aaa bbb ccc ddd", 7, ["aaa bbb", "ccc ddd"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("", 10, []),
        ("  ", 10, []),
        (" " * 50, 10, []),
    ],
)
def test_empty_lines_sentences_and_blanks_are_cut_in_this_order(text: str, limit: int, expected: list[str]) -> None:
    assert texts(text, limit) == expected


def test_a_text_that_only_blanks_make_too_long_keeps_its_id() -> None:
    (passage,) = split_record(record("   word   "), max_characters=5)
    assert (passage.passage_id, passage.text, passage.start, passage.end) == ("r", "word", 3, 7)


def test_a_record_without_id_is_named_by_title_and_text_and_one_without_title_is_a_document() -> None:
    (passage,) = split_record(record("One.", id_=""), max_characters=10)
    assert passage.passage_id == passage.record_id == record_id("T", "One.")
    first, second = (split_record(record("x", id_=i, title=" "), max_characters=9)[0].document_id for i in ("A", "b"))
    assert (first, second) == (document_id("a"), document_id("b"))


READABLE = st.text(alphabet="ab .!?\n\tA。é\u3000", max_size=300)


@pytest.mark.slow
@given(text=st.one_of(READABLE, st.text(max_size=200)), max_characters=st.integers(1, 60))
def test_pieces_are_exact_short_distinct_and_hold_every_word(text: str, max_characters: int) -> None:
    pieces = split_record(record(text), max_characters=max_characters)
    assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
    assert all(0 < len(piece.text) <= max_characters for piece in pieces)
    assert all(before.end <= after.start for before, after in pairwise(pieces))
    assert len({piece.passage_id for piece in pieces}) == len(pieces)
    assert {piece.record_id for piece in pieces} <= {"r"}
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.timeout(300)  # quadratic takes hours
@pytest.mark.parametrize(
    ("unit", "length"),
    [("x", 50_000_000), (" ", 50_000_000), ("a. ", 3_000_000), ("\n \n", 3_000_000), ("中。", 1_000_000)],
)
def test_a_long_text_without_pause_or_of_nothing_but_pauses_is_split_in_time(unit: str, length: int) -> None:
    text = "y" + unit * (length // len(unit)) + "z"
    pieces = split_record(record(text), max_characters=2_000)
    assert (pieces[0].text[0], pieces[-1].text[-1]) == ("y", "z")


BELOW = {
    "Title": "Alpha is long. " * 3,
    "Beta": "Beta is long. " * 3,
    "Gamma": "Short.",
    "Delta": "Delta is long. " * 3,
}


def document() -> records.SourceRecord:
    """A record whose headings are Title, Beta, Gamma and Delta; Gamma has next to nothing below it."""
    text, sections = "", []
    for heading, below in BELOW.items():
        sections.append(records.Section(len(text), ("T",) if heading == "Title" else ("T", heading)))
        text += f"{heading}\n\n{below.strip()}\n\n"
    return records.SourceRecord("r", "T", text, "a.md", 0, {}, tuple(sections))


@pytest.mark.parametrize(
    ("most", "least", "overlap", "expected"),
    [
        (200, 20, 0, ["Title", "Beta", "Gamma"]),
        (200, 0, 0, [*BELOW]),
        (60, 1_000, 0, [*BELOW]),  # short sections are not joined to more than a passage
        (60, 0, 2, [*BELOW]),  # nothing above a heading is repeated below it
    ],
)
def test_headings_cut_unless_too_little_is_before(most: int, least: int, overlap: int, expected: list[str]) -> None:
    found = split_record(document(), max_characters=most, min_section_characters=least, overlap_sentences=overlap)
    assert [passage.text.split("\n")[0] for passage in found] == expected
    assert [passage.passage_id for passage in found] == [f"r#{number}" for number in range(len(expected))]


def test_a_heading_stays_with_what_stands_below_it() -> None:
    text = "One\n\nTwo\n\nBody."
    sections = (records.Section(0, ("One",)), records.Section(5, ("One", "Two")))
    (passage,) = split_record(records.SourceRecord("r", "T", text, "a", 0, {}, sections), max_characters=99)
    assert (passage.passage_id, passage.text) == ("r", text)
    assert records.location_of(sections, text, passage.start, passage.end) == records.Location(headings=("One", "Two"))


def test_slides_sheets_and_chapters_are_never_joined_pages_are() -> None:
    text = "a b\n\nc d"
    for name, first, second in (("slide", 1, 2), ("sheet", "x", "y"), ("chapter", "x", "y")):
        parts = (records.Section(0, **{name: first}), records.Section(5, **{name: second}))  # type: ignore[arg-type]
        found = split_record(records.SourceRecord("r", "T", text, "a", 0, {}, parts), max_characters=99)
        assert [passage.text for passage in found] == ["a b", "c d"]
    pages = (records.Section(0, page=1), records.Section(5, page=2))
    (passage,) = split_record(records.SourceRecord("r", "T", text, "a", 0, {}, pages), max_characters=99)
    assert records.location_of(pages, text, passage.start, passage.end) == records.Location(first_page=1, last_page=2)


def test_a_location_in_words() -> None:
    locations = {
        "": records.Location(),
        "page 3, A > B": records.Location(first_page=3, last_page=3, headings=("A", "B")),
        "pages 3-5": records.Location(first_page=3, last_page=5),
        "slide 2, A": records.Location(slide=2, headings=("A",)),
        "sheet S": records.Location(sheet="S"),
        "One": records.Location(chapter="One", headings=("One",)),
    }
    assert [location.words() for location in locations.values()] == list(locations)


def test_a_piece_repeats_the_last_sentences_of_the_one_before() -> None:
    text = "Aa bb cc. Dd ee ff. Gg hh ii. Jj kk ll. Mm nn oo."
    found = split_record(record(text), max_characters=30, overlap_sentences=1)
    assert [passage.text for passage in found] == ["Aa bb cc. Dd ee ff. Gg hh ii.", "Gg hh ii. Jj kk ll. Mm nn oo."]
    assert all(text[passage.start : passage.end] == passage.text for passage in found)


def test_what_is_repeated_is_at_most_half_a_passage() -> None:
    long = "A" * 18 + ". B" * 2
    assert split_record(record(f"{long}. Cc dd."), max_characters=24, overlap_sentences=3)[-1].text != long


headings = st.lists(st.sampled_from("AB"), max_size=2).map(tuple)
LEAST = st.integers(0, 50)
pages, slides = st.none() | st.integers(1, 3), st.none() | st.integers(1, 2)
marks = st.tuples(st.integers(0, 120), headings, pages, slides, st.sampled_from(["", "s"]))


@pytest.mark.slow
@given(st.text("aB. \n", max_size=120), st.lists(marks, max_size=6), st.integers(1, 40), st.integers(0, 3), LEAST)
def test_cuts_at_sections_lose_no_word_and_cross_no_slide(
    text: str, found: list[tuple[Any, ...]], most: int, overlap: int, least: int
) -> None:
    sections = tuple(records.Section(*one) for one in sorted(found, key=itemgetter(0)) if one[0] < len(text))
    source = records.SourceRecord("r", "T", text, "a", 0, {}, sections)
    pieces = split_record(source, max_characters=most, overlap_sentences=overlap, min_section_characters=least)
    covered = {place for p in pieces for place in range(p.start, p.end)}
    assert all(text[place].isspace() or place in covered for place in range(len(text)))
    assert all(text[p.start : p.end] == p.text and p.text.strip() for p in pieces)
    assert all(len(p.text) <= most for p in pieces) or len(pieces) == 1
    assert all(b.start > a.start and b.end > a.end for a, b in pairwise(pieces))
    for piece in pieces:
        inside = [s for s, after in pairwise([*sections, records.Section(len(text))]) if after.start > piece.start]
        held = {s.container for s in inside if s.start < piece.end and text[max(s.start, piece.start) :].strip()}
        assert len(held) <= 1 or any(a.start == b.start for a, b in pairwise(sections)) or sections[0].start > 0
    assert records.sections_of(records.sections_json(sections)) == sections


LONG = records.SourceRecord("r", "Ada", "One two.\n\nThree four.", "c.jsonl", 3, {"b": 1, "a": "é"})
SHORT = records.SourceRecord("s", "", "Five.", "c.jsonl", 4)
NOWHERE = dict.fromkeys(("first_page", "last_page", "slide", "sheet", "chapter", "headings", "first_row", "last_row"))


def test_passages_with_the_record_they_were_cut_from() -> None:
    pieces = [(passage, record) for record in (LONG, SHORT) for passage in split_record(record, max_characters=11)]
    table = passages_table(pieces, "letters")
    common = {"source": "c.jsonl", "origin": "letters", "location": None}
    metadata = '{"a": "é", "b": 1}'
    of_long = {**common, "record_id": "r", "document_id": document_id("ada"), "title": "Ada", "line": 3}
    of_long |= {"record_hash": content_hash("Ada", LONG.text), "metadata_json": metadata}
    of_short = {**common, "record_id": "s", "document_id": document_id("s"), "title": "", "line": 4}
    of_short |= {"record_hash": content_hash("", "Five."), "metadata_json": "{}"}

    def piece(text: str, title: str, start: int, end: int, words: int) -> dict[str, object]:
        place = {"start_offset": start, "end_offset": end, "token_count": words}
        return {"text": text, "content_hash": content_hash(title, text), **place}

    assert table.schema == PASSAGE_PARTS.arrow
    assert table.to_pylist() == [
        {"passage_id": "r#0", **of_long, **piece("One two.", "Ada", 0, 8, 3)},
        {"passage_id": "r#1", **of_long, **piece("Three four.", "Ada", 10, 21, 3)},
        {"passage_id": "s", **of_short, **piece("Five.", "", 0, 5, 1)},
    ]


def test_where_passages_stand_in_their_file_comes_with_them() -> None:
    sections = (records.Section(0, ("A",), page=1), records.Section(5, ("A", "B"), page=2))
    record = records.SourceRecord("r", "Ada", "A one\nB two", "c.pdf", 0, {}, sections)
    (piece,) = split_record(record, max_characters=100)
    (row,) = passages_table([(piece, record)]).to_pylist()
    assert row["location"] == {**NOWHERE, "first_page": 1, "last_page": 2, "headings": ["A"]}


def test_bad_records() -> None:
    table = quarantine_table([records.BadRecord("c.jsonl", 2, "not JSON", "{")])
    assert table.schema == QUARANTINE.arrow
    assert table.to_pylist() == [{"source": "c.jsonl", "line": 2, "reason": "not JSON", "excerpt": "{"}]
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
