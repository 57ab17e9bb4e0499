"""Finders of names: G-SPRIG-9 by SPRIG's regular expression, and what the optional spaCy adapter says and keeps."""

import sys
from types import SimpleNamespace

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Mention
from polyhop.warehouse.artefacts import RegexNames, SpacyNames


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigurationError, match="uv sync --extra spacy"):
        SpacyNames("en_core_web_sm")


def test_a_missing_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str) -> None:
        raise OSError(model)

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    with pytest.raises(ConfigurationError, match="spacy download no_model"):
        SpacyNames("no_model")


def test_keys_are_normalised_and_entities_without_letters_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    entities = [
        SimpleNamespace(text="O'Neill", start_char=0, end_char=7),
        SimpleNamespace(text="--", start_char=8, end_char=10),
    ]
    fake = SimpleNamespace(load=lambda model: lambda text: SimpleNamespace(ents=entities))
    monkeypatch.setitem(sys.modules, "spacy", fake)
    assert SpacyNames("any").find("O'Neill --") == [Mention("o neill", "O'Neill", 0, 7)]


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


def test_the_switch_drops_single_stop_words_only() -> None:
    found = RegexNames().find("When did The Band play?")
    assert found == [Mention("the band", "The Band", 9, 17)]


def test_keys_are_normalised_over_line_breaks() -> None:
    assert RegexNames().find("Ada\n Lovelace") == [Mention("ada lovelace", "Ada\n Lovelace", 0, 13)]
