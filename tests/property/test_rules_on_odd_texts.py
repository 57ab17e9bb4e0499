"""No rule fails on any text: capitals, filings, tables, OCR noise, other scripts, control characters.

Each rule gets texts put together from pieces that have broken rules elsewhere, and whole Unicode. What is checked
is that it ends, and that what it returns lies inside the text.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_index import MemoryIndex

from polyhop.schemas import text as normalisers
from polyhop.schemas.graph import Mention
from polyhop.schemas.names import FUNCTION_WORDS, NameFinder, name_tokens, split_sentences, title_forms
from polyhop.schemas.query import ContextPassage, Question, ReadingItem, Retrieval
from polyhop.schemas.records import Passage, SourceRecord
from polyhop.schemas.stems import plain_tokens, stem_tokens
from polyhop.schemas.types import HEADS, PLACES, TITLES_OF_PERSONS, mention_type, name_type, title_type
from polyhop.schemas.values import find_dates, find_numbers, values_in
from polyhop.tasks.extraction.rows import bundle_of
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stated import PlacedText, Stated, distribute, key_of, named, stated_page
from polyhop.tasks.passages.records import split_record
from polyhop.warehouse.artefacts import RegexNames
from polyhop.worker.questions.parts import RuleNaming
from polyhop.worker.reading.pages import own_page, pages_of
from polyhop.worker.reading.question import parse_question
from polyhop.worker.reading.reader import RuleReader
from polyhop.worker.reading.word_lists import nationalities, places_in

pytestmark = pytest.mark.rare

TYPES = {"PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK", None}
TITLES = ["The Beatles", "Springfield, Illinois", "Paris (mythology)", "What If", "Of Mice and Men", "中国", "A"]
FINDER = NameFinder(TITLES)

_COVER_PAGE = (
    *("FORM 10-K", "(Mark One)", "☒", "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d)", "SECURITIES AND EXCHANGE"),
    *("OF THE SECURITIES EXCHANGE ACT OF 1934", "For the fiscal year ended December 31, 2023", "001-36743"),
    *("OF", "OF THE", "THE", "AND", "Item 1A.", "Yes ☐ No ☒", "$1,234,567", "(in millions)", "N/A", "—", "§ 232.405"),
)
_NOISE = (
    *("Tlie cornpany", "l9B4", "rn", "0f", "OF.", "of", "|", "| a | b |", "\t", "....... 12", "_____", "1.", "(1"),
    *("(((", ")", '"', "“", "'s", "'", "-", "–", "&", ".", ". ", "?", "!", ",", "\n", "\n\n", " ", "€", "1,2,3"),
    *("1990", "may 19"),
    *("May 99, 1999", "31 February 2001", "0000", "twenty-", "2100", "19999", "born", "(born", "died", "1800–", "b."),
)
_SCRIPTS = (
    *("中国。", "東京、", "（北京）", "مرحبا", "؟", "Ελλάδα", "Россия", "ไทย", "हिन्दी", "ﬁ", "ß", "İ", "ı", "É"),
    *("e\u0301",),
    *("\u0301", "Ǆ", "½", "²", "٣", "𝔄", "🙂", "\u200b", "\u202e", "\u2028", "\ufeff", "\u00ad", "\u00a0", "\u0085"),
    *("\x1b[31m", "\x07", "\x01", "\x0b", "\r\n"),
)
_QUESTIONS = (
    *("What", "which", "Who", "whose", "When", "where", "how many", "how", "why", "Is", "Are", "was", "did", "or"),
    *("both", "between", "older", "earlier", "longer", "than", "before", "the same", "country", "nationality", "year"),
    *("name of", "the director of", "in which", "that", "is located in", "the author of", "of", "the", "film", "and"),
    *("Al (Be)", "Alpha of the"),
    *("more", "more people", "state", "died", "born", "Ada Lovelace", "The Beatles", "Springfield", "Paris", "?"),
)
_WORDS = sorted({*HEADS, *TITLES_OF_PERSONS, *FUNCTION_WORDS, *list(PLACES)[:20]})
_PIECES = st.sampled_from([*_COVER_PAGE, *_NOISE, *_SCRIPTS, *_QUESTIONS, *TITLES, *_WORDS])
_CASED = st.tuples(_PIECES, st.sampled_from([str, str.upper, str.title, str.lower, str.swapcase])).map(
    lambda pair: pair[1](pair[0])  # type: ignore[operator]
)
_JOINED = st.tuples(st.lists(_CASED, max_size=25), st.sampled_from([" ", "", "\n", ", ", "\t"])).map(
    lambda pair: pair[1].join(pair[0])
)
ANY_TEXT = st.one_of(_JOINED, _JOINED, st.text(max_size=80))
STORED = ANY_TEXT.filter(lambda text: "\0" not in text).map(lambda text: text.encode("utf-8", "ignore").decode())
"""Texts that a corpus may hold: readers refuse NUL and halves of characters."""
KEYS = st.lists(st.sampled_from(["of", "the", "act", "king", "university", "film", *_WORDS]), min_size=1, max_size=8)


def passage(title: str, text: str) -> Passage:
    return Passage("p", "p", "d", 0, title, text, 0, len(text))


def is_inside(mentions: Sequence[Mention], text: str) -> bool:
    return all(0 <= one.start < one.end <= len(text) for one in mentions)


@given(KEYS.map(" ".join))
@example("of the securities exchange act of")
@example("of of")
def test_any_words_have_a_type_or_none_with_a_confidence(key: str) -> None:
    kind, confidence = name_type(key)
    assert kind in TYPES
    assert 0 < confidence <= 1


@given(ANY_TEXT, st.integers(0, 60), st.integers(0, 60))
def test_names_values_and_sentences_lie_inside_the_text(text: str, first: int, second: int) -> None:
    start, end = sorted((min(first, len(text)), min(second, len(text))))
    assert mention_type("ada", text, start, end)[0] in TYPES
    for found in (FINDER.find(text), RegexNames().find(text), find_dates(text), find_numbers(text)):
        assert is_inside(found, text)
    spans = split_sentences(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before <= after for (_, before), (after, _) in pairwise(spans))


@pytest.mark.parametrize(
    "normalise",
    [normalisers.norm_ws, normalisers.norm_simple, normalisers.norm_answer, normalisers.fold],
    ids=lambda function: function.__name__,
)
@given(text=ANY_TEXT)
def test_a_normalised_text_is_a_text(normalise: Any, text: str) -> None:
    assert isinstance(normalise(text), str)


@given(ANY_TEXT)
def test_tokens_and_keys_hold_no_whitespace(text: str) -> None:
    for word in (*plain_tokens(text), *stem_tokens(text), *name_tokens(text)):
        assert word == word.strip() != ""
    assert all(key == " ".join(key.split()) != "" for key, _ in title_forms(text))
    assert isinstance(key_of(text), str)


@given(STORED, STORED)
@example("Cover", "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934")
@example("OF THE SECURITIES EXCHANGE ACT OF", "of the Act OF")
def test_extraction_by_rules_fails_on_no_passage(title: str, text: str) -> None:
    page = rules_page(passage(title, text), FINDER)
    assert all(row.type in {*TYPES, "DATE", "NUMBER"} for row in page.rows.values())
    bundle = bundle_of([page])
    for table in (bundle.mentions, bundle.relations, bundle.propositions):
        table.validate(full=True)


@given(STORED, STORED, st.lists(STORED, max_size=5))
def test_what_others_state_about_any_passage_is_placed(title: str, text: str, names: list[str]) -> None:
    stated = Stated([named(name) for name in names], [], [(text, [key_of(name) for name in names])])
    pieces = [passage(title, text), passage(title, text[::-1])]
    for piece, share in zip(pieces, distribute(stated, pieces), strict=True):
        page = stated_page(piece, share, "model")
        assert all(0 <= a < b <= len(piece.text) for row in page.rows.values() for a, b in row.spans)
    placed = PlacedText(text)
    assert all(0 <= a < b <= len(text) for name in names for a, b in placed.find(key_of(name)))


@given(STORED, st.integers(200, 400))
def test_pieces_of_a_record_are_parts_of_its_text(text: str, most: int) -> None:
    whole = text * (1 + 1000 // max(1, len(text)))
    record = SourceRecord("r", "T", whole, "s", 1)
    for piece in split_record(record, max_characters=most):
        assert whole[piece.start : piece.end] == piece.text
        assert 0 < len(piece.text) <= most


@given(ANY_TEXT, ANY_TEXT)
def test_a_page_about_anything_can_be_read(title: str, lead: str) -> None:
    assert title_type(title, "ada", lead)[0] in TYPES
    page = own_page(title, lead)
    assert page.is_person in {True, False}
    for place in (*places_in(lead), *nationalities(lead)):
        assert 0 <= place.start < place.end <= len(lead)
    for value in values_in(lead):
        assert 0 <= value.start < value.end <= len(lead)


@given(ANY_TEXT)
def test_any_question_can_be_taken_apart(text: str) -> None:
    parsed = parse_question(text, FINDER.find(text))
    assert is_inside(parsed.names, text)
    (naming,) = RuleNaming(FINDER).name([Question(text, "q")])
    assert all(name.key for name in naming.names)


@given(ANY_TEXT, st.lists(st.tuples(STORED, STORED), min_size=1, max_size=4))
@example("Is OF or Ada older?", [("OF", "OF (1 ) was born."), ("Ada", "Ada (born 1815) is a writer.")])
def test_any_question_about_any_passages_is_read(question: str, pages: list[tuple[str, str]]) -> None:
    rows = [(f"p{number}", title, text) for number, (title, text) in enumerate(pages)]
    reader = RuleReader(MemoryIndex(rows, artefacts=()))
    context = [ContextPassage(*row, rank, 1.0) for rank, row in enumerate(rows, start=1)]
    (reading,) = reader.read([ReadingItem(Question(question, "q"), Retrieval(()), context)])
    texts = {passage_id: text for passage_id, _, text in rows}
    assert all(texts[one.passage_id][one.start : one.end] == one.text for one in reading.sentences)
    assert len(pages_of(context)) == len(rows)
