"""Kinds of values: years, numbers, yes or no; those of fields, and those that a question's words ask for (pure).

Chooses no field. Source: algorithms.md 4B, kinds of values.
"""

from collections.abc import Sequence
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.facets.words import Word


class Kind(IntFlag):
    """What the values of a field are; a question can ask for several kinds."""

    OTHER = 0
    TIME = 1
    NUMBER = 2
    YES_NO = 4


LEAST_SHARE = 0.9
"""Of a field's distinct values that are of a kind; chosen: a few values of another form are common in real data."""

FIRST_YEAR, LAST_YEAR = 1000, 2100  # algorithms.md 4B, kinds of values.
_MONTHS_TEXT = """
january february march april may june july august september october november december jan feb mar apr jun jul aug sep
sept oct nov dec
"""
_MONTHS = frozenset(_MONTHS_TEXT.split())
_YES_NO = frozenset(["true", "false", "yes", "no"])

_TIME_TEXT = """
year years date dates newest oldest latest earliest recent recently newer older earlier later chronological
chronologically decade century
"""
_TIME = frozenset(_TIME_TEXT.split())
_MEASURED_TEXT = "much tall old long large big high wide heavy deep far fast"
_MEASURED = frozenset(_MEASURED_TEXT.split())
"""After `how`."""

_SIZES_TEXT = """
least fewer fewest larger largest smaller smallest bigger biggest higher highest lower lowest taller tallest longer
longest shorter shortest wider widest heavier heaviest
"""
_SIZES = frozenset(_SIZES_TEXT.split())
_AMOUNTS = frozenset(("most", "more"))
_FREQUENCIES_TEXT = "common commonly frequent frequently often popular widely used usual usually of likely"
FREQUENCIES = frozenset(_FREQUENCIES_TEXT.split())
"""After `most` and `more`: they count hubs, and compare no number that a hub has."""

_AUXILIARIES_TEXT = "is are was were do does did has have had can could will would should may might must"
AUXILIARIES = frozenset(_AUXILIARIES_TEXT.split())
_CHOICES_TEXT = "or same alike similar different differ more less"
_CHOICES = frozenset(_CHOICES_TEXT.split())
"""A question with one of them that begins like one for yes or no asks for what is compared."""


def asked_kinds(words: Sequence[Word]) -> Kind:
    """The kinds of values that a question asks for in plain words."""
    texts = [word.text.lower() for word in words]
    kinds = Kind.OTHER
    for word, text, following in zip(words, texts, [*texts[1:], ""], strict=False):
        if text in _TIME or (text == "when" and word.begins_clause):
            kinds |= Kind.TIME
        elif _asks_for_number(text, following):
            kinds |= Kind.NUMBER
        elif text in AUXILIARIES and word.begins_clause and not _CHOICES.intersection(texts):
            kinds |= Kind.YES_NO
    return kinds


def _asks_for_number(text: str, following: str) -> bool:
    """Whether a word asks for a number: a size, `how many`, `how large`, or an amount that is no frequency."""
    if text in _SIZES:
        return True
    if text == "how":
        return following in _MEASURED or following == "many"
    return text in _AMOUNTS and following not in FREQUENCIES


def kinds_of(units: Units, is_polar: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The kind of each signature's values, shape (s,).

    Args:
        units: The paths.
        is_polar: Shape (s,): signatures whose values say yes or no in words.

    Cost: O(distinct values + documents).
    """
    of_value = np.array([_kind(words) for words in units.value_words], dtype=np.int64)
    of_document = of_value[units.document_values]
    signatures, count = units.document_signatures, len(units.signatures)
    totals = np.bincount(signatures, minlength=count)
    kinds = np.where(is_polar, int(Kind.YES_NO), 0)
    for kind, are in ((Kind.TIME, Kind.TIME), (Kind.NUMBER, Kind.NUMBER | Kind.TIME), (Kind.YES_NO, Kind.YES_NO)):
        found = np.bincount(signatures[of_document & int(are) > 0], minlength=count)  # 1600 may be a length, too
        kinds[(found >= LEAST_SHARE * totals) & (kinds == 0)] = int(kind)
    return kinds


def _kind(words: Sequence[Word]) -> Kind:
    """The kind of one value."""
    texts = [word.text.lower() for word in words]
    if not texts:
        return Kind.OTHER
    if len(texts) == 1 and texts[0] in _YES_NO:
        return Kind.YES_NO
    is_number = [text.isascii() and text.isdigit() for text in texts]
    if _is_date(texts, is_number):
        return Kind.TIME
    return Kind.NUMBER if is_number[0] and len(texts) <= 3 else Kind.OTHER


def _is_date(texts: Sequence[str], is_number: Sequence[bool]) -> bool:
    """Whether words have a year among them and nothing but numbers and months besides."""
    has_year = any(
        one and len(text) == 4 and FIRST_YEAR <= int(text) <= LAST_YEAR
        for one, text in zip(is_number, texts, strict=True)
    )
    return has_year and all(one or text in _MONTHS for one, text in zip(is_number, texts, strict=True))
