"""Clauses of a sentence: who or what a verb is said of, and what stands beside a span.

A shallow reading from the verb leftwards, no parser: it follows auxiliaries, relative pronouns, predicate nouns,
appositions and `and`, and gives up (None) on anything else. Each step moves left, at most `_MOST_STEPS` of them, so the
cost is bounded per verb. Source: reader.md 6.5.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from polyhop.schemas.text import fold
from polyhop.worker.reading.word_lists import Relation, clause_lists

_TOKEN = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_PARENTHESIS = re.compile(r"\([^()]*\)")
_MOST_STEPS = 8  # reader.md 6.5.
_MOST_WORDS = 10  # of a noun phrase; reader.md 6.5.
_FAR = 40  # words to the left; reader.md 6.5.
_KEPT_SENTENCES = 10_000  # chosen: of some 2,000 passages, as many as pages.py keeps
PRONOUNS = {"he": "he", "she": "she", "it": "it", "they": "they", "his": "he", "her": "she", "its": "it"}
"""What each pronoun is a form of."""
_PRONOUNS = frozenset(("he", "she", "it", "they"))
_DETERMINERS = frozenset(("a", "an", "the", "this", "these", "both", "his", "her", "its", "their"))
_RELATIVES = frozenset(("who", "which", "that"))
_CLOSED = frozenset(("whose", "where", "when", "while", "because", "although", "if", "than"))
_COPULAS = frozenset(("is", "was", "are", "were", "became", "remained"))
_JOINING = frozenset(("and", "but", "or"))
_FOLDED = str.maketrans("’", "'")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a sentence; `low` is folded and lower case, `gap` the text between the word before it and it."""

    text: str
    low: str
    start: int
    end: int
    gap: str

    @property
    def is_capitalised(self) -> bool:
        """Whether it is written with a capital."""
        return self.text[0].isupper()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase: numbers of its first and last word."""

    first: int
    last: int


@lru_cache(maxsize=_KEPT_SENTENCES)
def words_of(text: str) -> Sequence[Word]:
    """Words of a sentence outside its parentheses; offsets hold in the sentence."""
    plain = _PARENTHESIS.sub(lambda match: " " * len(match[0]), text)
    words = []
    end = 0
    for match in _TOKEN.finditer(plain):
        word = match[0]
        low = word.lower() if word.isascii() else fold(word).lower().translate(_FOLDED)
        words.append(Word(match[0], low, match.start(), match.end(), plain[end : match.start()]))
        end = match.end()
    return words


def is_auxiliary(word: Word) -> bool:
    """Whether a word may stand between a subject and its verb."""
    lists = clause_lists()
    return word.low in lists.auxiliaries or word.low in lists.adverbs or word.low.endswith("ly")


def is_passive(words: Sequence[Word], verb: int) -> bool:
    """Whether a form of `be` belongs to a verb."""
    at = verb - 1
    while at >= 0 and is_auxiliary(words[at]) and words[at + 1].gap.isspace():
        if words[at].low in ("was", "were", "is", "are", "been", "be", "being"):
            return True
        at -= 1
    return False


def subject_of(words: Sequence[Word], verb: int, steps: int = _MOST_STEPS) -> Phrase | None:
    """The noun phrase that a verb is said of, None where the words before it do not tell."""
    # Number of the word before a verb and its auxiliaries, -1 if the sentence begins with them.
    at = verb - 1
    while at >= 0 and is_auxiliary(words[at]) and not _has_stop(words[at + 1]):
        at -= 1
    if at < 0:
        # Subject of a participle that a sentence begins with: `it` in `Founded in 1861, it was`.
        reach = range(verb + 1, min(len(words), verb + _FAR))
        comma = next((n for n in reach if _has_stop(words[n]) and not words[n].low[0].isdigit()), 0)
        return object_after(words, comma) if comma else None
    if steps <= 0:
        return None
    before = words[at]
    if _has_stop(words[at + 1]):
        return _across_comma(words, at, has_auxiliary=at < verb - 1, steps=steps - 1)
    if before.low in _CLOSED:
        return None
    if before.low in _JOINING:
        return leading_subject(words, at)
    last = at - 1 if before.low in _RELATIVES else at
    return _resolved(words, noun_phrase(words, last), steps - 1)


def _has_stop(word: Word) -> bool:
    return any(sign in word.gap for sign in ",;:–—")


def _across_comma(words: Sequence[Word], last: int, *, has_auxiliary: bool, steps: int) -> Phrase | None:
    """Subject of a verb with a comma before it: a participle's noun, or the noun before an inserted apposition."""
    if any(sign in words[last + 1].gap for sign in ";:–—"):
        return None
    if not has_auxiliary:
        found = _resolved(words, noun_phrase(words, last), steps)
        if found is not None:
            return found
    opening = last
    while opening > 0 and last - opening < _FAR and not _has_stop(words[opening]):
        opening -= 1
    return _resolved(words, noun_phrase(words, opening - 1), steps) if opening > 0 else None


def noun_phrase(words: Sequence[Word], last: int) -> Phrase | None:
    """The noun phrase that ends with a word, None if that is none (a date, a preposition, a verb)."""
    if last < 0 or _ends_phrase(words[last]) or words[last].low[0].isdigit():
        return None
    if words[last].low in _PRONOUNS:
        return Phrase(last, last)
    # Number of the first word of the noun phrase that ends with a word.
    first = last
    while first > 0 and last - first < _MOST_WORDS:
        if words[first].low in _DETERMINERS or not _is_joined(words[first]):
            break
        before = words[first - 1]
        if _ends_phrase(before) or before.low in _PRONOUNS:
            break
        first -= 1
    begins = words[first].low in _DETERMINERS or any(word.is_capitalised for word in words[first : last + 1])
    return Phrase(first, last) if begins else None


def _is_joined(word: Word) -> bool:
    return word.gap.strip(" .-\"'“”‘’") == ""


def _ends_phrase(word: Word) -> bool:
    """Whether no noun phrase extends to the left over a word."""
    lists = clause_lists()
    if word.low in lists.prepositions or word.low in _RELATIVES | _CLOSED:
        return True
    is_other = word.low in lists.auxiliaries or word.low in _JOINING | _COPULAS or word.low in lists.verbs
    return is_other and not word.is_capitalised


def _resolved(words: Sequence[Word], phrase: Phrase | None, steps: int) -> Phrase | None:
    """What a phrase stands for: the noun that it belongs to, the subject of `was a …`, the noun it is set beside."""
    if phrase is None or steps <= 0:
        return None
    if phrase.first == 0:
        return phrase
    if _has_stop(words[phrase.first]):
        beside = _resolved(words, noun_phrase(words, phrase.first - 1), steps - 1)
        is_pronoun = words[phrase.first].low in _PRONOUNS
        return phrase if beside is None or is_pronoun else beside
    before = words[phrase.first - 1]
    if before.low in clause_lists().prepositions:
        # The noun before both, or both if they open a sentence as a name.
        if phrase.first == 1 and before.is_capitalised:
            following = phrase.last + 1
            is_set_off = following == len(words) or _has_stop(words[following])
            return None if is_set_off else Phrase(0, phrase.last)
        return _resolved(words, noun_phrase(words, phrase.first - 2), steps - 1) if before.low != "as" else None
    return subject_of(words, phrase.first, steps - 1) if before.low in _COPULAS else phrase


def leading_subject(words: Sequence[Word], stop: int | None = None) -> Phrase | None:
    """The noun phrase that a sentence begins with, after `In 1889,` and the like."""
    end = len(words) if stop is None else stop
    lists = clause_lists()
    first = next((number for number in range(end) if words[number].low not in lists.adverbs), end)
    if first < end and words[first].low in lists.prepositions:
        reach = range(first + 1, min(end, first + _FAR))
        first = next((n for n in reach if _has_stop(words[n]) or words[n].low in _PRONOUNS), end)
    return object_after(words, first, end)


def object_after(words: Sequence[Word], first: int, end: int | None = None) -> Phrase | None:
    """The noun phrase that begins with a word: a pronoun, a name, or a determiner with its noun."""
    end = len(words) if end is None else end
    if first >= end:
        return None
    if words[first].low in _PRONOUNS or words[first].low in ("him", "them"):
        return Phrase(first, first)
    if words[first].low not in _DETERMINERS and not words[first].is_capitalised:
        return None
    last = first
    for number in range(first + 1, min(end, first + _MOST_WORDS)):
        word = words[number]
        is_name_over = words[last].is_capitalised and not word.is_capitalised and words[first].low not in _DETERMINERS
        if is_name_over or not _is_joined(word) or _ends_phrase(word) or is_auxiliary(word):
            break
        last = number
    return Phrase(first, last)


# Source: reader.md 6.3 (pat, place, person), 6.6 (type).

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
