"""Countries that a text names, by name, demonym or state.

Source: reader.md 6.4, lists/geography.toml.
Decided here: where a lead says what somebody is (`an English writer`), places of birth and death do not count; England,
Scotland and Wales share a country with the United Kingdom, not with each other.
"""

import re
from dataclasses import dataclass

from polyhop.schemas.text import fold
from polyhop.worker.reading.word_lists import geography

_IS_A = re.compile(r"\b(?:is|was|were|are) (?:an?|the) ")
_NEAR = 40  # characters; chosen: room for a few adjectives (`was an acclaimed contemporary English writer`)


@dataclass(frozen=True, slots=True)
class Place:
    """A country that a text names at one place; `is_demonym` if by its people, `state` if by a part of it."""

    country: str
    state: str
    start: int
    end: int
    is_demonym: bool = False


def places_in(text: str) -> list[Place]:
    """Every country, demonym and state, left to right; only where written with a capital."""
    lists = geography()
    folded = fold(text)
    if len(folded) != len(text):
        folded = text
    found = []
    for match in lists.places.finditer(folded):
        name = match[0].lower()
        if name in lists.demonyms:
            found.append(Place(lists.demonyms[name], "", match.start(), match.end(), is_demonym=True))
        elif name in lists.countries:
            found.append(Place(name, "", match.start(), match.end()))
        else:
            found.append(Place(lists.states[name], name, match.start(), match.end()))
    return found


def nationalities(lead: str) -> list[Place]:
    """What a lead says somebody is (`was an English writer`); every place it names if it does not say so."""
    found = places_in(lead)
    for verb in _IS_A.finditer(lead):
        said = [place for place in found if place.is_demonym and 0 <= place.start - verb.end() <= _NEAR]
        if said:
            return said
    return found


def shared_countries(first: set[str], second: set[str]) -> set[str]:
    """Countries in both; the United Kingdom is also shared with a part of it."""
    parts = geography().parts
    wider = [{parts[country] for country in countries if country in parts} for countries in (first, second)]
    return (first & second) | (first & wider[1]) | (second & wider[0])
