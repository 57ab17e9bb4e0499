"""Dates of lives and of things, as a page's lead gives them: (year, month, day), 0 where it does not say.

Compares nothing. Source: design/reader.md 6.4 and its golden cases.
Decided here: years of three digits count inside a person's parenthesis only; a birth may also stand behind `born` or
`died` outside it, up to the next full stop; without a verb before it the first date of a lead is taken.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from schemas.graph import Mention
from schemas.values import find_dates
from worker.reading.word_lists import comparison_lists

Day = tuple[int, int, int]

_PARENTHESIS = re.compile(r"\(([^()]{0,240})\)")
_BORN = re.compile(r"\b(?:born|b\.)", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|d\.|killed)", re.IGNORECASE)
_RANGE = re.compile(r"\s*[–—-]\s*")
_OLD_YEAR = re.compile(r"(?<![\w.,])[1-9]\d{2}(?![\w,]|\.\d)")
_STOP = re.compile(r"(?<=[a-z0-9)]{2})\.\s+(?=[A-Z])")
_IS_A_YEAR = re.compile(r"\b(?:is|was|are|were)\s+(?:an?|the)\s+(?:[\w-]+\s+)?(?=[12]\d{3}\b)")
_FAR = 90


@dataclass(frozen=True, slots=True)
class Dated:
    """A date of a text with the place it stands at."""

    day: Day
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Life:
    """When somebody was born and died, None where the text does not say."""

    born: Dated | None = None
    died: Dated | None = None


def dated(mention: Mention, offset: int = 0) -> Dated:
    """A date as `find_dates` found it, moved by `offset`."""
    parts = [int(part) for part in mention.key.removeprefix("date:").split("-")]
    year, month, day = [*parts, 0, 0][:3]
    return Dated((year, month, day), offset + mention.start, offset + mention.end)


def life(lead: str) -> Life:
    """Birth and death as the first sentences of a person's page give them.

    Source: design/reader.md 6.4 (life span, death, birth), golden cases.
    """
    born = died = None
    for match in _PARENTHESIS.finditer(lead):
        born, died = _in_parenthesis(match[1], match.start(1))
        if born or died:
            break
    return Life(born or _behind(_BORN, lead), died or _behind(_DIED, lead))


def _in_parenthesis(text: str, offset: int) -> tuple[Dated | None, Dated | None]:
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


def _behind(word: re.Pattern[str], lead: str) -> Dated | None:
    """The first date behind a word, in the same sentence."""
    match = word.search(lead)
    if match is None:
        return None
    stop = _STOP.search(lead, match.end())
    end = min(match.end() + _FAR, stop.start() if stop else len(lead))
    found = find_dates(lead[match.end() : end])
    return dated(found[0], match.end()) if found else None


def when(lead: str) -> Dated | None:
    """The date of a thing: `is a 1988 film`, else behind founded or released, else the first one.

    Source: design/reader.md 6.4 (first/earlier/released/founded), golden cases.
    """
    dates = [dated(mention) for mention in find_dates(lead)]
    if not dates:
        return None
    year = _IS_A_YEAR.search(lead)
    if year:
        for one in dates:
            if one.start == year.end():
                return one
    verb = comparison_lists().founded.search(lead)
    while verb:
        stop = _STOP.search(lead, verb.end())
        reach = min(verb.end() + _FAR, stop.start() if stop else len(lead))
        behind = [one for one in dates if verb.end() <= one.start < reach]
        if behind:
            return behind[0]
        verb = comparison_lists().founded.search(lead, verb.end())
    return dates[0]


def order(first: Day, second: Day) -> int | None:
    """-1 if the first is earlier, 1 if it is later, None if what both say does not tell."""
    for one, other in zip(first, second, strict=True):
        if not one or not other:
            return None
        if one != other:
            return -1 if one < other else 1
    return None


def years_of(span: Life) -> float | None:
    """How long somebody lived, in years; months and days count where both are known."""
    if span.born is None or span.died is None:
        return None
    (y1, m1, d1), (y2, m2, d2) = span.born.day, span.died.day
    if not (m1 and m2):
        return float(y2 - y1)
    return y2 - y1 + (m2 - m1) / 12 + ((d2 - d1) / 372 if d1 and d2 else 0.0)


def written(day: Day) -> str:
    """A date as evidence shows it: `1946-01-20`, `1980-07`, `1981`."""
    year, month, number = day
    return f"{year}" + (f"-{month:02}" if month else "") + (f"-{number:02}" if number else "")
