"""Finders of names: G-SPRIG-9 by SPRIG's regular expression, and what the optional spaCy adapter says and keeps."""

import sys
from types import SimpleNamespace

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Mention
from polyhop.warehouse.names import RegexNames, SpacyNames


def load_none(model: str) -> None:
    raise OSError(model)


@pytest.mark.parametrize(
    ("spacy", "what"),
    [(None, "uv sync --extra spacy"), (SimpleNamespace(load=load_none), "spacy download no_model")],
    ids=["package", "model"],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, spacy: object, what: str) -> None:
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    with pytest.raises(ConfigurationError, match=what):
        SpacyNames("no_model")


def test_entities_of_spacy_without_letters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"O'Neill": (0, 7), "--": (8, 10)}
    found = [SimpleNamespace(text=text, start_char=start, end_char=end) for text, (start, end) in ends.items()]
    spacy = SimpleNamespace(load=lambda model: lambda text: SimpleNamespace(ents=found))
    monkeypatch.setitem(sys.modules, "spacy", spacy)
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


def test_single_stop_words_are_dropped_and_keys_are_normalised_over_line_breaks() -> None:
    assert RegexNames().find("When did The Band play?") == [Mention("the band", "The Band", 9, 17)]
    assert RegexNames().find("Ada\n Lovelace") == [Mention("ada lovelace", "Ada\n Lovelace", 0, 13)]
