"""What every finder of names does, and two of them alone: SPRIG's regular expression (G-SPRIG-9) and spaCy."""

import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import AUTO
from polyhop.schemas.ports import NameFinding
from polyhop.warehouse.names import RegexNames, SpacyNames, open_finder

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
    words = [word for word in re.finditer(r"\S+", text) if word[0][0].isupper()]
    return SimpleNamespace(ents=[SimpleNamespace(text=w[0], start_char=w.start(), end_char=w.end()) for w in words])


@pytest.fixture(scope="module", params=OPENED)
def finder(request: pytest.FixtureRequest) -> Iterator[NameFinding]:
    ner, language = OPENED[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "spacy", SimpleNamespace(load=lambda model: capitals))
        yield open_finder(ner, TITLES, language)


@pytest.mark.parametrize("text", TEXTS)
def test_names_are_said_once_in_the_order_of_the_text_with_offsets_and_keys(finder: NameFinding, text: str) -> None:
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


@pytest.mark.parametrize(
    ("spacy", "what"),
    [(None, "uv sync --extra spacy"), (SimpleNamespace(load=Mock(side_effect=OSError)), "spacy download no_model")],
    ids=["package", "model"],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, spacy: object, what: str) -> None:
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    with pytest.raises(ConfigurationError, match=what):
        SpacyNames("no_model")


def test_entities_of_spacy_without_letters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SimpleNamespace(text=text, start_char=0, end_char=len(text)) for text in ("O'Neill", "--")]
    spacy = SimpleNamespace(load=lambda model: lambda text: SimpleNamespace(ents=found))
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    assert SpacyNames("any").find("O'Neill") == [Mention("o neill", "O'Neill", 0, 7)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When was Ada Lovelace born in London?", ["When", "Ada Lovelace", "London"]),
        ("The New York Times Book Review section", ["The New York Times", "Book Review"]),
        ("NASA launched Apollo 11", ["Apollo"]),
        ("Louis XIII of France", ["Louis", "France"]),
        ("McDonald visited Rio de Janeiro", ["Rio", "Janeiro"]),
        ("Jean-Luc Picard", ["Jean", "Luc Picard"]),
        ("", []),
    ],
)
def test_golden_raw_matches(text: str, expected: list[str]) -> None:
    assert [mention.surface for mention in RegexNames(drop_stopwords=False).find(text)] == expected


def test_single_stop_words_are_dropped_and_keys_are_normalised_over_line_breaks() -> None:
    assert RegexNames().find("When did The Band play?") == [Mention("the band", "The Band", 9, 17)]
    assert RegexNames().find("Ada\n Lovelace") == [Mention("ada lovelace", "Ada\n Lovelace", 0, 13)]
