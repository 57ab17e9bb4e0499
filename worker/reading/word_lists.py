"""The reader's word lists (lists/*.toml), and the countries that a text names. Source: reader.md."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from polyhop.schemas.text import fold

_FOLDER = Path(__file__).parent / "lists"


@cache
def words(name: str) -> frozenset[str]:
    """A list of lists/words.toml as a set."""
    return frozenset(_table("words")["lists"][name].split())


@dataclass(frozen=True, slots=True)
class Geography:
    """lists/geography.toml: `states`, `demonyms`, `parts` give the country; `names` finds any with a capital."""

    countries: frozenset[str]
    states: Mapping[str, str]
    demonyms: Mapping[str, str]
    parts: Mapping[str, str]
    names: re.Pattern[str]


@cache
def geography() -> Geography:
    """Demonyms, countries and states, in lower case."""
    table = _table("geography")
    countries = frozenset(_items(table["countries"]))
    states = {state: country for country, names in table["states"].items() for state in _items(names)}
    demonyms, parts = (dict(pair.split(": ") for pair in _items(table[name])) for name in ("demonyms", "parts"))
    known = sorted({*countries, *states, *demonyms}, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<!\w)(?=[A-Z])(?i:{'|'.join(map(re.escape, known))})(?!\w)")
    return Geography(countries, states, demonyms, parts, pattern)


def _items(text: str) -> list[str]:
    return " ".join(text.split()).split(", ")


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


# Source: reader.md, Computed answers; lists/geography.toml. Decided here: where a lead says what somebody is (`an
# English writer`), countries of birth and death do not count; England, Scotland and Wales share a country with the
# United Kingdom, not with each other.

_IS_A = re.compile(r"\b(?:is|was|were|are) (?:an?|the) ")
_NEAR = 40  # characters; chosen: room for a few adjectives (`was an acclaimed contemporary English writer`)


@dataclass(frozen=True, slots=True)
class CountryMention:
    """Mention of a country in a text; `is_demonym` if by its people, `state` if by a part of it."""

    country: str
    state: str
    start: int
    end: int
    is_demonym: bool


def country_mentions(text: str) -> list[CountryMention]:
    """Every country, demonym and state, left to right; only where written with a capital."""
    lists = geography()
    folded = fold(text)
    found = []
    for match in lists.names.finditer(folded if len(folded) == len(text) else text):
        name, is_demonym = match[0].lower(), match[0].lower() in lists.demonyms
        state = name if not is_demonym and name not in lists.countries else ""
        country = lists.demonyms[name] if is_demonym else lists.states[name] if state else name
        found.append(CountryMention(country, state, *match.span(), is_demonym))
    return found


def nationalities(lead: str) -> list[CountryMention]:
    """Nationalities that a lead states of its subject (`was an English writer`); else all its countries."""
    found = country_mentions(lead)
    for verb in _IS_A.finditer(lead):
        said = [country for country in found if country.is_demonym and 0 <= country.start - verb.end() <= _NEAR]
        if said:
            return said
    return found


def shared_countries(first: set[str], second: set[str]) -> set[str]:
    """Countries in both; the United Kingdom is also shared with a part of it."""
    parts = geography().parts
    wider = [{parts[country] for country in countries if country in parts} for countries in (first, second)]
    return (first & second) | (first & wider[1]) | (second & wider[0])
