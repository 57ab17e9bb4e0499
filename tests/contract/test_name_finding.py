"""What every finder of names does: those of `extraction.ner` and those of other languages."""

import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from polyhop.schemas.languages import AUTO
from polyhop.schemas.ports import NameFinding
from polyhop.warehouse.names import open_finder

TITLES = ("River Thames", "Paris (mythology)", "Émile Zola", "Łódź", "東京", "Marie Curie")
TEXTS = (
    "",
    "  \n\t ",
    "Did Marie Curie, ÉMILE ZOLA or Paris (mythology) see the River Thames?",
    "marie curie met Marie Curie; Marie Curie left.",
    "Ada\n Lovelace wrote “The Analytical Engine” in 東京.",
    "Where was O'Neill of the U.S. born? NASA's McDonald: XIII, Jean-Luc.",
    "İstanbul, Straße, ﬁne Ω, e\u0301mile zola",
    "\ud800 Paris \x00 London \u202e",
    "nothing, nowhere",
)
OPENED = {
    "rules": ("rules", "en"),
    "German": ("rules", "de"),
    "Japanese": ("rules", "ja"),
    "any language": ("rules", AUTO),
    "regex": ("regex", "en"),
    "spacy": ("spacy", "en"),
}


def capitals(text: str) -> SimpleNamespace:
    """In place of a spaCy model: every word that begins with a capital letter is an entity."""
    words = (word for word in re.finditer(r"\S+", text) if word[0][0].isupper())
    return SimpleNamespace(
        ents=[SimpleNamespace(text=word[0], start_char=word.start(), end_char=word.end()) for word in words]
    )


@pytest.fixture(scope="module", params=OPENED)
def finder(request: pytest.FixtureRequest) -> Iterator[NameFinding]:
    ner, language = OPENED[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "spacy", SimpleNamespace(load=lambda model: capitals))
        yield open_finder(ner, TITLES, language)


@pytest.mark.parametrize("text", TEXTS)
def test_names_are_in_the_order_of_the_text_with_offsets_and_keys_and_each_is_said_once(
    finder: NameFinding, text: str
) -> None:
    mentions = finder.find(text)
    for mention in mentions:
        assert text[mention.start : mention.end] == mention.surface != ""
        assert mention.key.strip()
    found = [(mention.start, mention.end, mention.key) for mention in mentions]
    assert found == sorted(set(found))


def test_names_are_found_at_all_and_again(finder: NameFinding) -> None:
    """Texts between must not matter: builder and worker ask in different orders."""
    first = [finder.find(text) for text in TEXTS]
    assert [finder.find(text) for text in TEXTS[::-1]] == first[::-1]
    assert first[:2] == [[], []]  # no word, no name
    assert any(first)
