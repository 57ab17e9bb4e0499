"""The text normalisers and the accent fold: four different functions that must not be mixed.

Finds no names and cuts no sentences (names.py, sentences.py do).
Source: algorithms.md 0.2, 2B.1, 6.1.
"""

import re
import string
import unicodedata

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


def norm_ws(text: str) -> str:
    """NFC, lower case, every run of whitespace one space, stripped. Source: algorithms.md 0.2 (QASA keys)."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


norm_lower = norm_ws
"""SPRIG's "lower" (2Wiki setting) is the same rule under its own name."""


def norm_simple(text: str) -> str:
    """Lower case, every run of other than letters and digits one space. Source: algorithms.md 0.2 (SPRIG "simple")."""
    return _NOT_ALPHANUMERIC.sub(" ", text.lower()).strip()


def norm_answer(text: str) -> str:
    """SQuAD's normalisation: lower case, ASCII punctuation deleted, articles dropped. Source: algorithms.md 6.1."""
    without_punctuation = text.lower().translate(_DROP_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def fold(text: str) -> str:
    """Accents dropped (NFKD without combining marks), curly apostrophes straightened; case is kept.

    Source: algorithms.md 2B.1.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES))
    return _NOT_ASCII.sub(_without_combining, decomposed)


def _without_combining(match: re.Match[str]) -> str:
    return "".join([c for c in match.group() if not unicodedata.combining(c)])


def without_last_parenthesis(title: str) -> str:
    """`title` without the `(...)` that it ends with, if it does. Source: algorithms.md 2.7 (EL).

    Cost: O(characters); a pattern for it would start again at every whitespace.
    """
    bare = title.rstrip()
    opening = bare.rfind("(")
    if opening < 0 or bare.find(")", opening) != len(bare) - 1:
        return title
    return bare[:opening].rstrip()


def passage_text(title: str, text: str) -> str:
    """What is embedded and searched of a passage: its title and its text on lines of their own.

    Source: algorithms.md 2B.2.
    """
    return f"{title}\n{text}" if title else text
