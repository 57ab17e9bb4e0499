"""What every finder of names does: those of `extraction.ner`, those of other languages, and what tests use instead."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from fakes import classes_with, loaded

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
FAKES = (
    "unit/worker/strategies/test_arcana.py Words",
    "unit/worker/strategies/test_sprig.py Words",
)


def capitals(text: str) -> SimpleNamespace:
    """In place of a spaCy model: every word that begins with a capital letter is an entity."""
    words = loaded(FAKES[0].split()[0]).Words().find(text)
    return SimpleNamespace(
        ents=[SimpleNamespace(text=word.surface, start_char=word.start, end_char=word.end) for word in words]
    )


@pytest.fixture(scope="module", params=[*OPENED, *FAKES])
def finder(request: pytest.FixtureRequest) -> Iterator[NameFinding]:
    if request.param in FAKES:
        path, _, name = request.param.partition(" ")
        yield getattr(loaded(path), name)()
        return
    ner, language = OPENED[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "spacy", SimpleNamespace(load=lambda model: capitals))
        yield open_finder(ner, TITLES, language)


def test_every_finder_of_the_tests_is_here() -> None:
    assert classes_with("find", "text") == set(FAKES)


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
