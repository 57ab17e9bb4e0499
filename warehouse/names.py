"""The configured name finder: rules, SPRIG's regular expression, or a spaCy model; the latter two are here.

The only place that decides which one; builder and reader both come here, so both find the same names. The rules are
schemas/names.py; spaCy is an optional dependency, and its models are not on PyPI.
Source: algorithms.md 2.3.
"""

import re
from collections.abc import Iterable
from typing import Any

from polyhop.schemas.errors import ConfigurationError, import_extra
from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import ENGLISH
from polyhop.schemas.names import STOP_WORDS, NameFinder
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.text import norm_simple

_CAPITALISED = re.compile(r"\b[A-Z][a-z]+(\s+[A-Z][a-z]+){0,3}\b")


def open_finder(ner: str, titles: Iterable[str], language: str = ENGLISH) -> NameFinding:
    """The name finder of `extraction.ner`.

    Args:
        ner: "rules", "regex", "spacy" or "spacy:MODEL".
        titles: Titles of the corpus, the gazetteer of the rules.
        language: `corpus.language`, of which the rules know the words; a spaCy model knows its own.
    """
    if ner == "regex":
        return RegexNames()
    if ner != "rules":
        return SpacyNames(ner.partition(":")[2] or SPACY_MODEL)
    if language == ENGLISH:
        return NameFinder(titles)
    from polyhop.schemas.language_names import LanguageNames

    return LanguageNames(titles, language)


SPACY_MODEL = "en_core_web_sm"


class SpacyNames:
    """Finds the entities of a spaCy model, as SPRIG's main runs have them; keys are `norm_simple` of their text."""

    def __init__(self, model: str = SPACY_MODEL) -> None:
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
    spacy = import_extra("Names by spaCy need", "spacy", "spacy")
    try:
        return spacy.load(model)
    except OSError as error:
        message = f"spaCy has no model '{model}'. Install it with: uv run python -m spacy download {model}"
        raise ConfigurationError(message) from error


class RegexNames:
    """Finds SPRIG's names, one to four capitalised ASCII words; keys are `norm_simple` of the match.

    Kept to reproduce the paper; it misses NASA, XIII, McDonald and every accent (the rules do not).

    Args:
        drop_stopwords: Leave out matches that are one stop word; False reproduces the paper.
    """

    def __init__(self, *, drop_stopwords: bool = True) -> None:
        self._dropped = STOP_WORDS if drop_stopwords else frozenset[str]()

    def find(self, text: str) -> list[Mention]:
        """Names in `text` from left to right, without overlap. Source: algorithms.md 2.3."""
        found = []
        for match in _CAPITALISED.finditer(text):
            key = norm_simple(match[0])
            if key not in self._dropped:
                found.append(Mention(key, match[0], match.start(), match.end()))
        return found
