"""The optional spaCy adapter: what it says when something is missing, and what it keeps of spaCy's answer."""

import sys
from types import SimpleNamespace

import pytest

from schemas.errors import ConfigurationError
from schemas.graph import Mention
from warehouse.models.spacy_names import SpacyNames


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
