"""Quantities that texts state: dates of lives and things, and measures (height, population…) of a page's subject.

A date is (year, month, day), 0 where the text does not say; which sentence states which date is found in attributes.py.
A measure counts only with its unit, beside the words that say what is measured, in a clause about the page's subject.
Source: reader.md 6.4 and its golden cases; lists/attributes.toml. Decided here: years of three digits count inside a
person's parenthesis only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from polyhop.schemas.graph import Mention
from polyhop.schemas.values import find_dates
from polyhop.worker.reading.clauses import Word, subject_of, words_of
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.subjects import is_about, is_subject
from polyhop.worker.reading.word_lists import Measure

Day = tuple[int, int, int]

_BORN = re.compile(r"\b(?:born|b\.)", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|d\.|killed)", re.IGNORECASE)
_RANGE = re.compile(r"\s*[–—-]\s*")
_OLD_YEAR = re.compile(r"(?<![\w.,])[1-9]\d{2}(?![\w,]|\.\d)")
_NUMBER = r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?: (hundred|thousand|million|billion))?"
_SCALES = {"": 1.0, "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_NEARLY = frozenset(("about", "around", "some", "nearly", "over", "approximately", "roughly", "almost", "up", "to"))
_REACH = 60  # characters before a number; chosen: the words of its measure stand in its clause
_VERBS = frozenset(("rises", "stands", "reaches", "covers", "measures", "employs", "employed", "has", "had"))
_OWN_PARTS = frozenset(("summit", "peak", "height", "length", "depth", "area", "population", "elevation", "altitude"))


@dataclass(frozen=True, slots=True)
class Dated:
    """A date of a text with the place it stands at."""

    day: Day
    start: int
    end: int


def dated(mention: Mention, offset: int = 0) -> Dated:
    """A date as `find_dates` found it, moved by `offset`."""
    parts = [int(part) for part in mention.key.removeprefix("date:").split("-")]
    year, month, day = [*parts, 0, 0][:3]
    return Dated((year, month, day), offset + mention.start, offset + mention.end)


def in_parenthesis(text: str, offset: int) -> tuple[Dated | None, Dated | None]:
    """Birth and death inside one parenthesis; a single date is a birth unless it says died or begins with a dash."""
    dates = [dated(mention, offset) for mention in find_dates(text)]
    if not dates:
        dates = [Dated((int(m[0]), 0, 0), offset + m.start(), offset + m.end()) for m in _OLD_YEAR.finditer(text)]
    if not dates:
        return None, None
    death = _DIED.search(text)
    if death and not _BORN.search(text):
        return (None, dates[-1]) if len(dates) == 1 else (dates[0], dates[-1])
    for first, second in pairwise(dates):
        between = text[first.end - offset : second.start - offset]
        if not between.strip() or _RANGE.search(between) or _DIED.search(between):
            return first, second
    return (None, dates[0]) if _RANGE.match(text) else (dates[0], None)


def order(first: Day, second: Day) -> int | None:
    """-1 if the first is earlier, 1 if it is later, None if what both say does not tell."""
    for one, other in zip(first, second, strict=True):
        if not one or not other:
            return None
        if one != other:
            return -1 if one < other else 1
    return None


def years_of(born: Day, died: Day) -> float:
    """How long somebody lived, in years; months and days count where both are known."""
    (y1, m1, d1), (y2, m2, d2) = born, died
    if not (m1 and m2):
        return float(y2 - y1)
    return y2 - y1 + (m2 - m1) / 12 + ((d2 - d1) / 372 if d1 and d2 else 0.0)


def written(day: Day) -> str:
    """A date as evidence shows it: `1946-01-20`, `1980-07`, `1981`."""
    year, month, number = day
    return f"{year}" + (f"-{month:02}" if month else "") + (f"-{number:02}" if number else "")


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure in its base unit, as the sentence writes it."""

    value: float
    text: str
    sentence: PageSentence


def stated_measure(page: Page | None, kind: Measure) -> Measured | None:
    """The first measure of a kind that a page states of its subject. Cost: O(characters of the page)."""
    for sentence in page.sentences if page is not None else ():
        for match in _numbers(kind).finditer(sentence.text):
            if page is not None and _is_said(page, sentence, match, kind):
                scale = _SCALES[(match[2] or "").lower()] * (kind.units[match[3]] if kind.units else 1.0)
                return Measured(float(match[1].replace(",", "")) * scale, match[0].strip(), sentence)
    return None


@cache
def _pattern(units: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    return re.compile(_NUMBER + (rf"[ \u00a0-]?({names})\b" if units else ""))


def _numbers(kind: Measure) -> re.Pattern[str]:
    return _pattern(tuple(kind.units))


def _is_said(page: Page, sentence: PageSentence, match: re.Match[str], kind: Measure) -> bool:
    before = sentence.text[max(0, match.start() - _REACH) : match.start()]
    if not kind.behind.match(sentence.text, match.end()) and not kind.before.search(before):
        return False
    words = words_of(sentence.text)
    number = next((n for n, word in enumerate(words) if word.end > match.start()), 0)
    while number > 0 and words[number - 1].low in _NEARLY:
        number -= 1
    if number > 0 and words[number - 1].low in ("of", "with"):
        return is_about(page, sentence)
    if number > 0 and words[number - 1].low in _VERBS:
        number -= 1
    return _is_its(page, sentence, words, number)


def _is_its(page: Page, sentence: PageSentence, words: Sequence[Word], number: int) -> bool:
    """Whether the clause of a number is about the page's subject, or about its summit and the like."""
    subject = subject_of(words, number)
    if subject is not None and words[subject.first].low in ("its", "the") and words[subject.last].low in _OWN_PARTS:
        return subject.last == subject.first + 1
    return is_subject(page, sentence, words, subject)
