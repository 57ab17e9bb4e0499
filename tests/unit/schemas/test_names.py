"""G-NER of algorithms.md 2B.1, edge cases, and laws of the name finder; dates and numbers."""

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas import names
from polyhop.schemas.graph import Mention
from polyhop.schemas.text import fold
from polyhop.schemas.values import find_dates, find_numbers

pytestmark = pytest.mark.slow

TITLES = ["The Beatles", "Paris (mythology)", "Springfield, Illinois", "Curie", "What If", "東京都", "New York"]


def keys(text: str, *titles: str) -> list[str]:
    return [mention.key for mention in names.NameFinder(titles).find(text)]


def test_golden_runs() -> None:
    expected = {
        "When was the president of the Republic of Texas's capital founded?": ["republic of texas"],
        "Marie Curie was born in Warsaw. Poland honours her.": ["marie curie", "warsaw", "poland"],
        "J. R. R. Tolkien wrote it in Oxford": ["j r r tolkien", "oxford"],
        "Simon & Garfunkel's song": ["simon garfunkel"],
        "Who directed The Wizard of Oz?": ["wizard of oz"],
        "Ludwig van Beethoven and Antoni Gaudí's Park": ["ludwig van beethoven", "antoni gaudi", "park"],
        "However, NASA and McDonald's met in June 1990": ["nasa", "mcdonald"],
        "St. Mary's Hall": ["st mary", "hall"],
        "King Louis XIV\nFrance": ["king louis xiv", "france"],
        "Jean-Luc Picard of the Enterprise": ["jean luc picard of the enterprise"],
    }
    assert {text: keys(text) for text in expected} == expected


@pytest.mark.parametrize(
    ("text", "titles", "expected"),
    [
        ("the beatles came from Liverpool", ["The Beatles"], ["the beatles", "liverpool"]),  # golden
        ("curie met Curie in Ur", ["Curie", "Ur"], ["curie", "ur"]),  # one word: capitalised, from three letters
        ("a blur of blue", ["Blur", "Blue"], []),
        ("Who is the WHO", ["WHO"], ["who"]),  # a function word: only in capitals
        ("what if he saw What If", ["What If"], ["what if"]),  # function words: a capital at the end
        ("in new york city hall", ["New York", "New York City", "City Hall"], ["new york city"]),  # the longest
        ("Marie Curie", ["Curie"], ["marie curie", "curie"]),  # inside a run
        ("new york", ["New York City Hall", "New York"], ["new york"]),  # longer than the rest of the text
        ("in 東京都 today", ["東京都"], ["東京都"]),  # words without case
    ],
)
def test_titles_are_found(text: str, titles: list[str], expected: list[str]) -> None:
    assert keys(text, *titles) == expected


def test_title_keys() -> None:
    expected = {
        "Paris (mythology)": ("paris mythology", "paris"),
        "Lambert (d. 938), Margrave of Ur": ("lambert d 938 margrave of ur", "lambert margrave of ur", "lambert"),
        "(500) Days of Summer": ("500 days of summer", "days of summer"),
        "1984": ("1984",),
        "東京（曖昧さ回避）": ("東京 曖昧さ回避", "東京"),
        "It": (),
        "IT": ("it",),
        "May": (),
        "X": (),
        "!!!": (),
    }
    assert {title: names.title_keys(title) for title in expected} == expected


def test_title_forms_keep_the_spelling() -> None:
    forms = [("gaudi film 1960", "Gaudí (film), 1960"), ("gaudi 1960", "Gaudí , 1960"), ("gaudi", "Gaudí")]
    assert names.title_forms("Gaudí (film), 1960") == forms


def test_edge_cases() -> None:
    expected = {
        "": [],
        "1984 -- !?": [],
        "the US and IT": ["us", "it"],
        "It told Us": [],
        "A Tale of Two Cities": ["tale of two cities"],
        "A. J. Foyt and T. S. Eliot": ["a j foyt", "t s eliot"],
        "the Bank of the world": ["bank"],
        "the Lion The Witch": ["lion the witch"],
        "After van Gogh": ["gogh"],
        "Gaudi\u0301s Park": ["gaudis park"],
        "O’Neill’s café": ["o neill"],
        "MCDONALD'S MENU": ["mcdonald", "menu"],
        "Лев Толстой": ["лев толстои"],
        "東京タワー": [],
        "🎉 Party🎉Time": ["party", "time"],
        "born in May, in June": [],
        "Apollo 11 Mission": ["apollo 11", "mission"],
        "D.C. United": ["d c united"],
        "World War I. It ended": ["world war i"],
        "in Warsaw . Poland": ["warsaw", "poland"],
        "Rome - Paris": ["rome", "paris"],
        "snake_Case_Name": ["case", "name"],
    }
    assert {text: keys(text) for text in expected} == expected


def test_run_and_title_at_one_place_both_count() -> None:
    assert names.NameFinder(["The Beatles"]).find("The Beatles") == [
        Mention("the beatles", "The Beatles", 0, 11),
        Mention("beatles", "Beatles", 4, 11),
    ]


@pytest.mark.parametrize(
    ("text", "surface"),
    [
        ("½ of Gaudí", "Gaudí"),
        ("ﬁne Gaudi\u0301 now", "Gaudi\u0301"),
        ("… … Ann Lee …", "Ann Lee"),
        ("\u0301 Ann", "Ann"),
        ("İstanbul", "İstanbul"),
    ],
)
def test_offsets_refer_to_the_original_where_folding_changes_lengths(text: str, surface: str) -> None:
    (mention,) = names.NameFinder([]).find(text)
    assert mention.surface == surface
    assert text[mention.start : mention.end] == surface


def test_order_of_titles_does_not_matter_and_a_pickled_finder_is_the_same() -> None:
    text = "the beatles met New York's Curie in Springfield, Illinois; What If Paris"
    first = names.NameFinder(TITLES).find(text)
    assert names.NameFinder(reversed(TITLES)).find(text) == first
    assert pickle.loads(pickle.dumps(names.NameFinder(TITLES))).find(text) == first


def test_a_run_ends_after_the_most_words() -> None:
    found = names.NameFinder([]).find(" ".join(["Word"] * (names.MAX_NAME_TOKENS + 1)))
    assert [len(mention.key.split()) for mention in found] == [names.MAX_NAME_TOKENS, 1]


# Pieces that meet every branch; characters that fold to several words (`½`) are left out: their parts have no place.
WORDS = ("the ", " The ", "Of ", "of ", "'s ", "van ", "US ", "New York", " Curie", "What If")
PIECES = st.sampled_from([*"aAéÉßİıαΣς.,'’&-\n\t 1٣ﬁⅫ…", "\u0301", *WORDS])
STORED = names.StoredTitleKeys(names.TitleKeys(TITLES).arrays())
TEXTS = st.lists(PIECES, max_size=40).map("".join)


@given(TEXTS)
def test_every_mention_is_its_key_in_the_text(text: str) -> None:
    for mention in names.NameFinder(TITLES).find(text):
        assert 0 <= mention.start < mention.end <= len(text)
        assert mention.surface == text[mention.start : mention.end]
        assert " ".join(names.name_tokens(mention.surface)) == mention.key
    assert keys(fold(text), *TITLES) == keys(text, *TITLES)
    assert names.NameFinder((), STORED).find(text) == names.NameFinder(TITLES).find(text)


@given(st.text(max_size=60))
def test_any_text_gives_mentions_in_strict_order_inside_it(text: str) -> None:
    found = names.NameFinder(TITLES).find(text)
    places = [(mention.start, mention.end, mention.key) for mention in found]
    assert all(before < after for before, after in pairwise(places))
    assert all(0 <= mention.start < mention.end <= len(text) for mention in found)
    assert names.NameFinder(TITLES).find(text) == found


@given(st.text(max_size=40))
def test_a_key_of_a_title_is_made_of_its_words(title: str) -> None:
    words = " ".join(names.name_tokens(title)).split()
    for key in names.title_keys(title):
        assert len(key) > 1
        assert set(key.split()) <= set(words)


@pytest.mark.shared_data
def test_most_names_that_a_model_found_are_found(shared_data: Path) -> None:
    corpus, extracted = (
        [json.loads(line) for line in (shared_data / "musique100" / name).read_text(encoding="utf-8").splitlines()]
        for name in ("corpus.jsonl", "openie.jsonl")
    )
    finder = names.NameFinder(record["title"] for record in corpus)
    found = {
        record["id"]: {one.key for one in finder.find(f"{record['title']}\n{record['text']}")}
        | set(names.title_keys(record["title"]))
        for record in corpus
    }
    named = [(record["id"], name) for record in extracted for name in record["entities"] if name[:1].isupper()]
    assert sum(" ".join(names.name_tokens(name)) in found[id_] for id_, name in named) / len(named) > 0.82


def test_dates() -> None:
    expected = {
        "24 October 1650, May 2, 1999": [("date:1650-10-24", "24 October 1650"), ("date:1999-05-02", "May 2, 1999")],
        "on 2nd of May 1999": [("date:1999-05-02", "2nd of May 1999")],
        "in Sept. 1984": [("date:1984-09", "Sept. 1984")],
        "1939–1945": [("date:1939", "1939"), ("date:1945", "1945")],
        "32 May 1990": [("date:1990-05", "May 1990")],
        "May 0, 1990": [("date:1990", "1990")],
        "the 1990s, 1990m, 0999, 2101, $1500, 1,990 and 1990.5": [],
        "may 1990": [("date:1990", "1990")],
    }
    assert {text: [(mention.key, mention.surface) for mention in find_dates(text)] for text in expected} == expected


def test_numbers() -> None:
    expected = {
        "1,200 men, 3.50 m": [("number:1200", "1,200"), ("number:3.5", "3.50")],
        "twenty-two thousand": [("number:22000", "twenty-two thousand")],
        "or 3.5 million": [("number:3500000", "3.5 million")],
        "Apollo 11 and 007": [("number:11", "11"), ("number:7", "007")],
        "Fifty, twelve; one of none": [("number:50", "Fifty"), ("number:12", "twelve")],
        "on 2 May 1999 he had 3 in 2001": [("number:3", "3")],
        "4,5,6 and 5th and x9 and " + "9" * 19: [],
        "10 hundred": [("number:1000", "10 hundred")],
    }
    assert {text: [(mention.key, mention.surface) for mention in find_numbers(text)] for text in expected} == expected


@given(
    st.lists(st.sampled_from([*"0123456789,. -", "May ", "1990", " two", "-five", " million", "٣", "é"])).map("".join)
)
def test_offsets_are_in_the_text_and_numbers_are_outside_dates(text: str) -> None:
    dates, numbers = find_dates(text), find_numbers(text)
    assert numbers == find_numbers(text, dates)
    assert all(one.surface == text[one.start : one.end] != "" for one in (*dates, *numbers))
    assert all(n.end <= d.start or d.end <= n.start for n in numbers for d in dates)
