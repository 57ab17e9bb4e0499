"""Dates and numbers of a text, under keys that do not depend on how they are written.

They are literals, unlike names, never nodes of the passage-entity graph. Source: algorithms.md 0.8 (F-NER), 2B.1.
Decided here: years are 1000 to 2100; numbers of more than 18 digits, `one` and ordinals are left out.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from polyhop.schemas.graph import Mention

_MONTH_STARTS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_MONTH_NAME = re.compile(_MONTH, re.IGNORECASE)
_DAY = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = re.compile(r"(?<![\w.,$£€])(?:1[0-9]{3}|20[0-9]{2}|2100)(?!\w|[.,][0-9])")
_DAY_MONTH = re.compile(rf"\b(?:{_DAY} {{1,2}}(?:of )?)?{_MONTH},? {{1,2}}$")
_MONTH_DAY = re.compile(rf"\b{_MONTH} {{1,2}}{_DAY}(?:,| ,)? {{0,2}}$")
_BEFORE_YEAR = 24  # characters: the longest day and month that the patterns take, `22nd  of September.,  `, has 22

_NUMBER = re.compile(r"(?<![\w.,])[0-9][0-9,]*(?:\.[0-9]+)?(?!\w)")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+")
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE = re.compile(r"[ -](hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_UNITS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen")
_TEENS = ("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {"one": 1}
_VALUES.update({word: value for value, word in enumerate((*_UNITS, *_TEENS), 2)})
_VALUES.update({word: 10 * value for value, word in enumerate(_TENS, 2)})
_NUMBER_WORD = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ](one|{'|'.join(_UNITS[:8])}))?|({'|'.join((*_UNITS, *_TEENS))}))\b", re.IGNORECASE
)
_MOST_DIGITS = 18  # characters; chosen: longer ones are identifiers more often than quantities


def find_dates(text: str) -> list[Mention]:
    """Years and dates: `1999`, `May 1999`, `2 May 1999`, `May 2, 1999`; keys `date:1999`, `date:1999-05-02`.

    Source: algorithms.md 0.8 (F-NER). Cost: O(characters).
    """
    found = []
    free = 0
    for match in _YEAR.finditer(text):
        low = max(free, match.start() - _BEFORE_YEAR)
        offset, rest = _month_and_day(text[low : match.start()])
        start = match.start() if offset is None else low + offset
        free = match.end()
        found.append(Mention(f"date:{match[0]}{rest}", text[start:free], start, free))
    return found


def _month_and_day(before: str) -> tuple[int | None, str]:
    """Offset of the month or day in front of a year, and `-MM` or `-MM-DD`."""
    match = _MONTH_DAY.search(before)
    if match and 1 <= int(match[2]) <= 31:
        return match.start(), f"-{month_number(match[1]):02}-{int(match[2]):02}"
    match = _DAY_MONTH.search(before)
    if match is None:
        return None, ""
    month = f"-{month_number(match[2]):02}"
    if match[1] and 1 <= int(match[1]) <= 31:
        return match.start(), f"{month}-{int(match[1]):02}"
    return match.start(2), month


def month_number(name: str) -> int:
    """1 to 12 for a month's name or its short form, else 0."""
    return _MONTH_STARTS.index(name[:3].lower()) + 1 if _MONTH_NAME.fullmatch(name) else 0


def find_numbers(text: str, dates: list[Mention] | None = None) -> list[Mention]:
    """Numbers in digits or words outside dates: `1,200`, `3.5 million`, `twenty-two`; keys `number:1200`.

    Source: algorithms.md 0.8 (F-NER). Cost: O(characters).
    """
    taken = iter(find_dates(text) if dates is None else dates)
    date = next(taken, None)
    found = []
    for match in _NUMBER.finditer(text):
        while date is not None and date.end <= match.start():
            date = next(taken, None)
        if date is None or match.end() <= date.start:
            surface = match[0].rstrip(",")
            whole, dot, fraction = surface.partition(".")
            if len(surface) <= _MOST_DIGITS and _GROUPED.fullmatch(whole):
                value = Decimal(whole.replace(",", "") + dot + fraction)
                found.append(_scaled(text, match.start(), match.start() + len(surface), value))
    for match in _NUMBER_WORD.finditer(text):
        value = Decimal(sum(_VALUES[word.lower()] for word in match.groups() if word))
        found.append(_scaled(text, *match.span(), value))
    return sorted(found, key=lambda mention: mention.start)


def _scaled(text: str, start: int, end: int, value: Decimal) -> Mention:
    scale = _SCALE.match(text, end)
    if scale:
        value *= _SCALES[scale[1].lower()]
        end = scale.end()
    plain = f"{value:f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return Mention(f"number:{plain}", text[start:end], start, end)


_YEAR_DAYS = 365.25  # of the Julian calendar: a leap day every fourth year
SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0,
           "month": _YEAR_DAYS / 12 * 86400, "year": _YEAR_DAYS * 86400}  # fmt: skip
_FACTORS = {
    "length": {"mm": 0.001, "millimetre": 0.001, "cm": 0.01, "centimetre": 0.01, "m": 1.0, "metre": 1.0, "km": 1000.0,
               "kilometre": 1000.0, "inch": 0.0254, "foot": 0.3048, "ft": 0.3048, "yard": 0.9144, "mile": 1609.344,
               "mi": 1609.344},
    "area": {"km²": 1e6, "km2": 1e6, "sq km": 1e6, "square kilometre": 1e6, "m²": 1.0, "square metre": 1.0,
             "hectare": 1e4, "ha": 1e4, "acre": 4046.86, "square mile": 2.59e6, "sq mi": 2.59e6},
    "mass": {"mg": 1e-6, "milligram": 1e-6, "g": 0.001, "gram": 0.001, "kg": 1.0, "kilogram": 1.0, "tonne": 1000.0},
    "time": SECONDS,
    "temperature": {"°c": 1.0},
    "share": {"%": 1.0, "percent": 1.0},
    "money": {"euro": 1.0, "pound": 1.0, "dollar": 1.0},
}  # fmt: skip
"""Units by dimension, in one base unit each; a pound is money, and money is not converted."""
DIMENSIONS = frozenset(("", *_FACTORS))  # Of numbers: "" has no unit. Dates have the dimension "date".
_DIMENSION_OF = {unit: (name, factor) for name, units in _FACTORS.items() for unit, factor in units.items()}
_UNIT = re.compile(
    rf"[ \u00a0-]?({'|'.join(sorted(map(re.escape, _DIMENSION_OF), key=len, reverse=True))})(?:e?s)?(?![\w²])",
    re.IGNORECASE,
)
_ONE = re.compile(r"\ban? (?=(?:metre|kilometre|mile|hour|minute|day|week|month|year|tonne)\b)")


@dataclass(frozen=True, slots=True)
class Value:
    """A date or a number of a text: `size` is (year, month, day) with 0 for what is not said, or (number,)."""

    dimension: str
    size: tuple[float, ...]
    start: int
    end: int


@lru_cache(maxsize=10_000)
def values_in(text: str) -> tuple[Value, ...]:
    """Dates, then numbers with their unit converted, each left to right. Cost: O(characters)."""
    american = text.replace("meter", "metre").replace("feet", "foot")
    dates = [one for one in find_dates(text) if "-" in one.key or not _UNIT.match(american, one.end)]
    found = []
    for one in dates:
        year, month, day = [*(float(part) for part in one.key.removeprefix("date:").split("-")), 0.0, 0.0][:3]
        found.append(Value("date", (year, month, day), one.start, one.end))
    numbers = [(float(one.key.removeprefix("number:")), one.start, one.end) for one in find_numbers(text, dates)]
    numbers += [(1.0, match.start(), match.end() - 1) for match in _ONE.finditer(american)]
    for number, start, end in sorted(numbers, key=lambda one: one[1]):
        unit = _UNIT.match(american, end)
        if unit is not None:
            dimension, factor = _DIMENSION_OF[unit[1].lower()]
            found.append(Value(dimension, (number * factor,), start, unit.end()))
        elif text[max(0, start - 1) : start] in ("$", "£", "€"):
            found.append(Value("money", (number,), start - 1, end))
        else:
            found.append(Value("", (number,), start, end))
    return tuple(found)


def order(first: tuple[float, ...], second: tuple[float, ...]) -> int:
    """-1 if the first size is less, 1 if it is more, 0 if what both say does not tell (dates: up to what one lacks)."""
    for one, other in zip(first, second, strict=True):
        if len(first) > 1 and not (one and other):
            return 0
        if one != other:
            return -1 if one < other else 1
    return 0
