"""Where long records are cut, and the laws that every cut keeps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.corpus import Passage, SourceRecord
from polyhop.schemas.ids import document_id, record_id
from polyhop.tasks.passages.split import split_record


def record(text: str, *, id_: str = "r", title: str = "T") -> SourceRecord:
    return SourceRecord(id_, title, text, "corpus.jsonl", 1)


def texts(text: str, max_characters: int) -> list[str]:
    return [passage.text for passage in split_record(record(text), max_characters=max_characters)]


def test_a_text_that_fits_is_the_passage_as_it_is() -> None:
    (passage,) = split_record(record(" One two. \n", title="Ada  LOVELACE"), max_characters=11)
    assert passage == Passage("r", "r", document_id("ada lovelace"), 0, "Ada  LOVELACE", " One two. \n", 0, 11)


def test_pieces_are_numbered_and_know_their_offsets() -> None:
    pieces = split_record(record("One two.\n\nThree four."), max_characters=11)
    document = document_id("t")
    assert pieces == [
        Passage("r#0", "r", document, 0, "T", "One two.", 0, 8),
        Passage("r#1", "r", document, 1, "T", "Three four.", 10, 21),
    ]


def test_an_empty_line_is_preferred_to_the_end_of_a_sentence() -> None:
    assert texts("Aaa bbb ccc.\n\nDdd. Eee fff ggg.", 20) == ["Aaa bbb ccc.", "Ddd. Eee fff ggg."]


def test_an_empty_line_in_the_first_half_is_not() -> None:
    assert texts("Aa.\n\nBbb bbb bbb. Ccc ccc ccc.", 20) == ["Aa.\n\nBbb bbb bbb.", "Ccc ccc ccc."]


def test_a_sentence_end_in_the_first_half_is_better_than_the_middle_of_a_sentence() -> None:
    assert texts("Aa aa. Bbb bbb bbb bbb bbb", 20) == ["Aa aa.", "Bbb bbb bbb bbb bbb"]


def test_an_abbreviation_at_the_border_does_not_end_a_sentence() -> None:
    assert texts("One two. Then came Dr. Who again.", 22) == ["One two.", "Then came Dr. Who", "again."]


def test_without_sentences_the_last_blank_cuts() -> None:
    assert texts("aaa bbb ccc ddd", 7) == ["aaa bbb", "ccc ddd"]


def test_without_blanks_the_limit_cuts() -> None:
    assert texts("abcdefgh", 3) == ["abc", "def", "gh"]


def test_a_text_that_only_blanks_make_too_long_keeps_its_id() -> None:
    (passage,) = split_record(record("   word   "), max_characters=5)
    assert (passage.passage_id, passage.text, passage.start, passage.end) == ("r", "word", 3, 7)


@pytest.mark.parametrize("text", ["", "  ", " " * 50])
def test_a_blank_text_has_no_passage(text: str) -> None:
    assert texts(text, 10) == []


def test_a_record_without_id_is_named_by_title_and_text() -> None:
    (passage,) = split_record(record("One.", id_=""), max_characters=10)
    assert passage.passage_id == passage.record_id == record_id("T", "One.")


def test_a_record_without_title_is_a_document_of_its_own() -> None:
    first, second = (split_record(record("x", id_=i, title=" "), max_characters=9)[0].document_id for i in ("A", "b"))
    assert (first, second) == (document_id("a"), document_id("b"))


READABLE = st.text(alphabet="ab .!?\n\tA。é\u3000", max_size=300)


@given(text=st.one_of(READABLE, st.text(max_size=200)), max_characters=st.integers(1, 60))
def test_pieces_are_exact_short_distinct_and_hold_every_word(text: str, max_characters: int) -> None:
    pieces = split_record(record(text), max_characters=max_characters)
    assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
    assert all(0 < len(piece.text) <= max_characters for piece in pieces)
    assert all(before.end <= after.start for before, after in pairwise(pieces))
    assert len({piece.passage_id for piece in pieces}) == len(pieces)
    assert {piece.record_id for piece in pieces} <= {"r"}
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())


@pytest.mark.timeout(300)  # quadratic takes hours
@pytest.mark.parametrize(
    ("unit", "length"),
    [("x", 50_000_000), (" ", 50_000_000), ("a. ", 3_000_000), ("\n \n", 3_000_000), ("中。", 1_000_000)],
)
def test_a_long_text_without_pause_or_of_nothing_but_pauses_is_split_in_time(unit: str, length: int) -> None:
    text = "y" + unit * (length // len(unit)) + "z"
    pieces = split_record(record(text), max_characters=2_000)
    assert (pieces[0].text[0], pieces[-1].text[-1]) == ("y", "z")
