"""Where names that others found stand in a text, and the keys they get (pure).

Finds no new name. Names are compared as the name finder compares them: folded lower-case words in a row, whatever
stands between; dates and numbers by their value. Source: algorithms.md 1.3, 2B.2.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from polyhop.schemas.names import name_tokens
from polyhop.schemas.text import fold
from polyhop.schemas.values import find_dates, find_numbers

_TOKEN = re.compile(r"[^\W_]+")

Span = tuple[int, int]
"""Offsets of the first character and after the last one."""


@lru_cache(maxsize=1 << 16)
def key_of(name: str) -> str:
    """The key of a name: `date:…` or `number:…` if it is one as a whole, else its words; "" if it has none.

    Source: algorithms.md 2B.2 (keys by the same normalisation).
    """
    bare = name.strip()
    dates = find_dates(bare)
    if dates:
        return dates[0].key if _is_whole(bare, dates[0].start, dates[0].end) else _words_key(bare)
    numbers = find_numbers(bare, dates)
    if numbers and _is_whole(bare, numbers[0].start, numbers[0].end):
        return numbers[0].key
    return _words_key(bare)


def is_value(key: str) -> bool:
    """Whether a key is a date or a number."""
    return key.startswith(("date:", "number:"))


def _is_whole(text: str, start: int, end: int) -> bool:
    return (start, end) == (0, len(text))


def _words_key(name: str) -> str:
    return " ".join(name_tokens(name))


class PlacedText:
    """A text in which names are looked up by key.

    Attributes:
        text: The text as given; all offsets refer to it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        folded, origins = _folded(text)
        self._words: list[str] = []
        self._spans: list[Span] = []
        self._starts: dict[str, list[int]] = {}
        for match in _TOKEN.finditer(folded):
            word = match[0].lower()
            self._starts.setdefault(word, []).append(len(self._words))
            self._words.append(word)
            start, last = match.start(), match.end() - 1
            self._spans.append((start, last + 1) if origins is None else (origins[start], origins[last] + 1))
        self._values: dict[str, list[Span]] | None = None

    def find(self, key: str) -> list[Span]:
        """Every place of a key, left to right, none overlapping another.

        Cost: O(places of its first word * its words).
        """
        if is_value(key):
            return self._value_places().get(key, [])
        words = key.split()
        found: list[Span] = []
        free = 0
        for place in self._starts.get(words[0], ()) if words else ():
            if place >= free and self._has(words, place):
                free = place + len(words)
                found.append((self._spans[place][0], self._spans[free - 1][1]))
        return found

    def _has(self, words: Sequence[str], place: int) -> bool:
        return self._words[place : place + len(words)] == words

    def _value_places(self) -> dict[str, list[Span]]:
        if self._values is None:
            self._values = {}
            dates = find_dates(self.text)
            for mention in [*dates, *find_numbers(self.text, dates)]:
                self._values.setdefault(mention.key, []).append((mention.start, mention.end))
        return self._values


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The folded text, and which character of the original each of its own comes from (None: the same)."""
    if text.isascii():
        return text, None
    pieces = [fold(character) for character in text]
    origins = [place for place, piece in enumerate(pieces) for _ in piece]
    return "".join(pieces), origins
