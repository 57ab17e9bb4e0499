"""What the text beside a span says, whatever is asked: found once for each span of a passage that stays known.

Weighs nothing (features.py, scoring.py and evidence.py do). Source: reader.md 6.3 (pat, place, person), 6.6 (type).
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from polyhop.worker.reading.word_lists import Relation

_PATTERN_CHARACTERS = 90  # characters before a span; chosen: as far as a date may be from its verb (reader.md 6.4).
_WORD_BEFORE = re.compile(r"([\w.]+)\s+(?:the\s+)?$")
_NOUN_BEFORE = re.compile(r"([\w'’]+)\s+(?:of\s+)?(?:the\s+)?$")
_NOUN_AFTER = re.compile(r"^,?\s+(?:is |was )?(?:an? |the )?(?:[a-z-]+ ){0,2}?([a-z]+)\b")
_PASSIVE = re.compile(r"(\w+ed) by(?: (?:the|an?))?(?: [\w-]+){0,4}$")
_PART_BEFORE = re.compile(r"[A-Z][\w'’-]+,? (?:in|of) (?:the )?$")


class Surroundings:
    """The text of a sentence before and after the span from `start` to `end`."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self._end = end
        self._said: dict[str, bool] = {}
        self._words: tuple[int, int] | None = None

    @property
    def before(self) -> str:
        """The sentence up to the span."""
        return self._text[: self._start]

    def last(self, count: int) -> str:
        """At most so many characters right before the span."""
        return self._text[max(0, self._start - count) : self._start]

    def word_range(self, words: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Index of the first and the last word of the span among the words of its sentence."""
        if self._words is None:
            first = bisect_left(words, (self._start, 0))
            self._words = first, max(first, bisect_left(words, (self._end, 0)) - 1)
        return self._words

    def says(self, relation: Relation) -> bool:
        """Whether the text before the span says a relation."""
        known = self._said.get(relation.name)
        if known is None:
            known = self._said[relation.name] = relation.text_before.search(self._pattern_text) is not None
        return known

    @cached_property
    def passive_verb(self) -> str:
        """The participle of `commissioned by the …` before the span in lower case, "" without one."""
        match = _PASSIVE.search(self._pattern_text) if "ed by" in self._pattern_text else None
        return match[1].lower() if match else ""

    @cached_property
    def word_before(self) -> str:
        """The word before the span and its article in lower case, "" without one."""
        match = _WORD_BEFORE.search(self.last(24))
        return match[1].lower() if match else ""

    @cached_property
    def noun_before(self) -> str:
        """The word before the span, `of` and article in lower case, "" without one."""
        match = _NOUN_BEFORE.search(self.last(40))
        return match[1].lower() if match else ""

    @cached_property
    def noun_after(self) -> str:
        """The word after the span and what links it (`, a small town`), "" without one."""
        match = _NOUN_AFTER.match(self._text[self._end : self._end + 60])
        return match[1] if match else ""

    @cached_property
    def is_wider(self) -> bool:
        """Whether the span is what another name lies in (`at Missolonghi in Greece`)."""
        before = self.last(40)
        return before.endswith(("in ", "of ", "the ")) and _PART_BEFORE.search(before) is not None

    @cached_property
    def _pattern_text(self) -> str:
        return self.last(_PATTERN_CHARACTERS).rstrip()
