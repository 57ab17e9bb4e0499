"""Names in texts of other languages: titles in any form, runs of capitals, quotes."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.languages import AUTO, CODES, ENGLISH
from polyhop.schemas.names import NameFinder, title_keys
from polyhop.warehouse.names import LanguageNames

TITLES = [
    "Марвальск",
    "Иван Рутов",
    "الجسر الأزرق",
    "فلمار",
    "伊尔河",
    "《寂静的港湾》",
    "Ilse (Fluss)",
    "Porto Lume",
    "The Nile",
]


def names(code: str, text: str) -> list[str]:
    return [mention.key for mention in LanguageNames(TITLES, code).find(text)]


@pytest.mark.parametrize(
    ("code", "text", "found"),
    [
        ("ru", "Она родилась в Марвальске.", ["марвальск"]),
        ("ru", "Роман Ивана Рутова вышел.", ["роман ивана рутова", "иван рутов"]),
        ("ar", "يقع بالقرب من الجسر الأزرق في فلمار.", ["الجسر الازرق", "فلمار"]),
        ("zh", "马尔镇是伊尔河畔的小镇。", ["伊尔河"]),
        ("zh", "他写了《寂静的港湾》和《红房子》。", ["寂静的港湾", "红房子"]),
        ("fr", "Le roman « Le Port silencieux » est de Jean Routier.", ["le port silencieux", "port", "jean routier"]),
        ("es", "Nació en Puerto Lumbre.", ["nacio", "puerto lumbre"]),
    ],
)
def test_names_of_a_text(code: str, text: str, found: list[str]) -> None:
    assert names(code, text) == found


def test_german_nouns_are_no_names_by_their_capital_alone() -> None:
    text = "Die Stadt liegt an der Ilse. Anna Belling war Ingenieurin in Torvik und malte eine Brücke."
    assert names("de", text) == ["ilse", "anna belling", "torvik"]


def test_with_auto_each_text_is_read_in_its_language() -> None:
    finder = LanguageNames(TITLES, AUTO)
    english = "A boat sails down the Nile to Port Said every day."
    assert finder.find(english) == NameFinder(TITLES).find(english)
    assert [one.key for one in finder.find("马尔镇是伊尔河畔的一座小镇。")] == ["伊尔河"]


@given(text=st.text(max_size=80), code=st.sampled_from([*(code for code in CODES if code != ENGLISH), AUTO]))
def test_a_mention_is_a_piece_of_the_text(text: str, code: str) -> None:
    for mention in LanguageNames(TITLES, code).find(text):
        assert text[mention.start : mention.end] == mention.surface
        assert mention.key


@pytest.mark.parametrize("title", ["Марвальск", "فلمار", "伊尔河", "Porto Lume", "Иван Рутов"])
@pytest.mark.parametrize("code", ["ru", "ar", "zh", "de", AUTO])
def test_a_title_itself_is_found_under_its_key_in_any_language(title: str, code: str) -> None:
    found = pickle.loads(pickle.dumps(LanguageNames(TITLES, code))).find(title)
    assert title_keys(title)[0] in [mention.key for mention in found]


def test_titles_in_another_order_change_nothing() -> None:
    text = "Роман Ивана Рутова о городе Марвальске, 伊尔河畔."
    assert LanguageNames(TITLES, "ru").find(text) == LanguageNames(TITLES[::-1], "ru").find(text)
