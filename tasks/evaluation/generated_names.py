"""Names of a generated world: every kind and number has one, no two have the same, however large the world.

Knows no facts (generator.py draws them). Words are three letters, pairs of letters, three letters, so that different
pieces never give the same word.
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a generated page is about."""

    PERSON = "person"
    TOWN = "town"
    ORGANISATION = "organisation"
    WORK = "work"
    RIVER = "river"


class Thing(NamedTuple):
    """Something with a page of its own; of each kind, number 0 is the most famous."""

    kind: Kind
    number: int


_SYLLABLES = (
    "Bal Bor Bra Cal Cor Dal Dor Dra Fal Fen Gal Gar Gor Hal Har Jor Kal Kel Kor Lan Lor Mar Mel Mor Nar Nor Pel Por "
    "Ral Ren Ros Sal Sel Sor Tal Tar Tor Tre Val Var Vel Vor Wal Wen Wil Yar Zan Zel"
)
_GIVEN_NAMES = (
    "Adela Albert Anton Beatrix Bruno Carla Cedric Clara Conrad Daphne Dorian Edgar Elsa Emil Esther Felix Flora "
    "Georg Greta Harald Hedwig Hugo Ida Ingrid Ivan Jakob Judith Julius Karin Klaus Lea Leon Linus Lydia Magnus Marta "
    "Moritz Nadia Nils Olga Oscar Paula Petra Ralf Regina Roland Ruth Sonja Stefan Tilda Ulrich Vera Viktor Wanda"
)
_NOUNS = (
    "Anchor Bridge Candle Clock Crown Garden Harbour Hunter Lantern Letter Mirror Orchard Painter Queen Shadow "
    "Shepherd Silence Storm Tower Voyage Widow Winter"
)
_BODIES = "Academy Company Foundation Institute Laboratory Library Museum Press Society Theatre"
_STARTS, _GIVEN, _OBJECTS, _INSTITUTIONS = (words.split() for words in (_SYLLABLES, _GIVEN_NAMES, _NOUNS, _BODIES))
_MIDDLES = ("ad", "an", "el", "en", "im", "is", "or", "ul")
_TOWN_ENDS = ("bur", "dal", "ham", "ley", "mer", "ton", "wic")
_SURNAME_ENDS = ("ard", "ell", "ers", "ick", "man", "ott", "son")
_RIVER_ENDS = ("ane", "ebe", "eld", "ise", "une")
_ORGANISATION_ENDS = ("cor", "dyn", "lux", "tek", "ium")
_WORK_ENDS = ("ara", "ith", "oth", "yne")


def name_of(thing: Thing) -> str:
    """The name, which is also the title of its page."""
    number = thing.number
    match thing.kind:
        case Kind.PERSON:
            first, last = _mixed(number, len(_GIVEN))
            return f"{_GIVEN[first]} {_word(last, _SURNAME_ENDS)}"
        case Kind.TOWN:
            return _word(number, _TOWN_ENDS)
        case Kind.ORGANISATION:
            last, first = _mixed(number, len(_INSTITUTIONS))
            return f"{_word(first, _ORGANISATION_ENDS)} {_INSTITUTIONS[last]}"
        case Kind.WORK:
            first, last = _mixed(number, len(_OBJECTS))
            return f"The {_OBJECTS[first]} of {_word(last, _WORK_ENDS)}"
        case Kind.RIVER:
            return f"River {_word(number, _RIVER_ENDS)}"


def article_of(thing: Thing) -> str:
    """The name as it stands in a sentence."""
    return f"the {name_of(thing)}" if thing.kind in {Kind.ORGANISATION, Kind.RIVER} else name_of(thing)


def _mixed(number: int, size: int) -> tuple[int, int]:
    """A number as two, distinct for distinct ones, so that neighbours differ in both and namesakes are common."""
    rest, first = divmod(number, size)
    return first, rest + 3 * first


def _word(number: int, ends: tuple[str, ...]) -> str:
    """The word of that number: start, as few middles as needed, end."""
    rest, start = divmod(number, len(_STARTS))
    rest, end = divmod(rest, len(ends))
    middle = ""
    while rest > 0:
        rest, place = divmod(rest - 1, len(_MIDDLES))
        middle += _MIDDLES[place]
    return _STARTS[start] + middle + ends[end]
