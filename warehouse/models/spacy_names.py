"""Names by a spaCy model, as SPRIG's main runs have them.

Installs nothing: spaCy is an optional dependency and its models are not on PyPI. Source: algorithms.md 2.3.
"""

from importlib import import_module
from typing import Any

from schemas.errors import ConfigurationError
from schemas.graph import Mention
from schemas.text import norm_simple


class SpacyNames:
    """Finds the entities of a spaCy model; keys are `norm_simple` of their text.

    Args:
        model: Name or path of an installed model.

    Raises:
        ConfigurationError: If spaCy or the model is not installed.
    """

    def __init__(self, model: str = "en_core_web_sm") -> None:
        self._pipeline = _load(model)

    def find(self, text: str) -> list[Mention]:
        """Entities of every label, in order of place."""
        found = []
        for entity in self._pipeline(text).ents:
            key = norm_simple(entity.text)
            if key:
                found.append(Mention(key, entity.text, entity.start_char, entity.end_char))
        return found


def _load(model: str) -> Any:
    try:
        spacy = import_module("spacy")
    except ImportError as error:
        message = "Names by spaCy need the package spacy. Install it with: uv sync --extra spacy"
        raise ConfigurationError(message) from error
    try:
        return spacy.load(model)
    except OSError as error:
        message = f"spaCy has no model '{model}'. Install it with: uv run python -m spacy download {model}"
        raise ConfigurationError(message) from error
