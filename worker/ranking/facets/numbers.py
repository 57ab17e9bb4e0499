"""Ranges of numbers that a question names: between two numbers, before or after one (pure).

Chooses no field (conditions.py does). Source: algorithms.md 4B, rule 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.worker.ranking.facets.words import Word

PAIRS = {"and": "between", "to": "from"}
"""What stands before two numbers that are a range, by the word between them."""

REACH = 4
"""Words before a number among which that is looked for: between the years 2019 and 2021."""

OPENING = 3
"""Words before a number that may open a range with one end: after the year 1990, more than about 20."""

ABOVE, BELOW = "above", "below"
_COMPARED = {
    ABOVE: ("more", "greater", "larger", "bigger", "higher", "taller", "longer", "wider", "heavier", "later", "newer"),
    BELOW: ("less", "fewer", "smaller", "lower", "shorter", "narrower", "lighter", "earlier"),
}
COMPARED = {word: side for side, words in _COMPARED.items() for word in words}
"""Comparatives with `than`. `older` and `younger` are none: a year and an age turn them opposite ways."""

OPENERS = {"after": ABOVE, "since": ABOVE, "above": ABOVE, "over": ABOVE, "exceeding": ABOVE, "before": BELOW,
           "until": BELOW, "till": BELOW, "below": BELOW, "under": BELOW}  # fmt: skip
TIMES = frozenset(("after", "since", "before", "until", "till", "later", "newer", "earlier"))
"""Openers of a range of times rather than of amounts: fields of years go first, for others the fields of amounts."""
INCLUSIVE = frozenset(("since", "until", "till"))
LEAST_MOST = {"least": ABOVE, "most": BELOW}
"""After `at`."""

MOST_DIGITS = 15  # exact in float64; algorithms.md 4B, ranges.


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers that a question admits.

    Attributes:
        start: Its first word: the number, or what opens the range if stop words alone stand between.
        end: After the last word.
        low: The least number that is admitted.
        high: The largest.
        is_time: Whether it opens like a range of times; None: it may be one of times or of amounts.
    """

    start: int
    end: int
    low: float
    high: float
    is_time: bool | None = None


def number_ranges(words: Sequence[Word]) -> list[NumberRange]:
    """Ranges in order of their places, without overlap; whole numbers in digits only."""
    found: list[NumberRange] = []
    place = 0
    while place < len(words):
        one = _pair(words, place) or _open_range(words, place) if _is_number(words[place]) else None
        if one is not None:
            found.append(one)
        place = one.end if one is not None else place + 1
    return found


def _pair(words: Sequence[Word], place: int) -> NumberRange | None:
    """`between a and b`, `from a to b`, in any order of a and b."""
    if place + 2 >= len(words) or not _is_number(words[place + 2]):
        return None
    opening = PAIRS.get(words[place + 1].text.lower())
    if opening not in {word.text.lower() for word in words[max(0, place - REACH) : place]}:
        return None
    low, high = sorted((float(words[place].text), float(words[place + 2].text)))
    return NumberRange(place, place + 3, low, high)


def _open_range(words: Sequence[Word], place: int) -> NumberRange | None:
    """`before a`, `more than a`, `at least a`: the nearest opener within reach counts."""
    number = float(words[place].text)
    for opener in range(place - 1, max(-1, place - 1 - OPENING), -1):
        word, before = words[opener].text.lower(), words[opener - 1].text.lower() if opener else ""
        if word == "than" and before in COMPARED:
            side, start, step = COMPARED[before], opener - 1, 1
        elif word in LEAST_MOST and before == "at":
            side, start, step = LEAST_MOST[word], opener - 1, 0
        elif word in OPENERS:
            side, start, step = OPENERS[word], opener, 0 if word in INCLUSIVE else 1
        elif _is_number(words[opener]):
            return None
        else:
            continue
        is_near = all(between.is_stop for between in words[opener + 1 : place])
        low, high = (number + step, math.inf) if side == ABOVE else (-math.inf, number - step)  # whole numbers
        return NumberRange(start if is_near else place, place + 1, low, high, words[start].text.lower() in TIMES)
    return None


def _is_number(word: Word) -> bool:
    return word.text.isascii() and word.text.isdigit() and len(word.text) <= MOST_DIGITS
