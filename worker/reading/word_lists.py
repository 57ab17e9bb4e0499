"""The reader's word lists as sets, tables and compiled patterns, and the countries that a text names.

Source: reader.md 6.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from polyhop.schemas.text import fold

_FOLDER = Path(__file__).parent / "lists"


@dataclass(frozen=True, slots=True)
class Relation:
    """What a question asks for between two things, and what then stands right before the answer."""

    name: str
    question_words: frozenset[str]
    types: frozenset[str]
    text_before: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class QuestionLists:
    """lists/questions.toml."""

    auxiliaries: frozenset[str]
    place_heads: frozenset[str]
    number_heads: frozenset[str]
    date_heads: frozenset[str]
    nationality_heads: frozenset[str]
    measures: frozenset[str]
    head_verbs: frozenset[str]
    name_links: frozenset[str]
    relative_clause: re.Pattern[str]
    clause_end: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class NameLists:
    """lists/names.toml."""

    place_kinds: frozenset[str]
    place_links: frozenset[str]
    phrase_links: frozenset[str]


@dataclass(frozen=True, slots=True)
class Geography:
    """lists/geography.toml: `states`, `demonyms`, `parts` give the country; `places` finds any with a capital."""

    countries: frozenset[str]
    states: Mapping[str, str]
    demonyms: Mapping[str, str]
    parts: Mapping[str, str]
    places: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ClauseLists:
    """lists/clauses.toml."""

    auxiliaries: frozenset[str]
    adverbs: frozenset[str]
    prepositions: frozenset[str]
    verbs: frozenset[str]
    irregular: Mapping[str, tuple[str, ...]]


@cache
def question_lists() -> QuestionLists:
    """Words that take a question apart."""
    rows = _table("questions").items()
    made: dict[str, Any] = {name: re.compile(v) if isinstance(v, str) else frozenset(v) for name, v in rows}
    return QuestionLists(**made)


@cache
def name_lists() -> NameLists:
    """Words within and around names."""
    return NameLists(**{name: frozenset(words) for name, words in _table("names").items()})


@cache
def clause_lists() -> ClauseLists:
    """Words that tell a clause's parts."""
    raw = _table("clauses")
    irregular = {plain: tuple(forms) for plain, forms in raw.pop("irregular").items()}
    return ClauseLists(**{name: frozenset(words) for name, words in raw.items()}, irregular=irregular)


@cache
def geography() -> Geography:
    """Demonyms, countries and states, in lower case."""
    table = _table("geography")
    states = {state: country for country, names in table["states"].items() for state in names}
    known = sorted({*table["countries"], *states, *table["demonyms"]}, key=lambda name: (-len(name), name))
    places = re.compile(rf"(?<!\w)(?=[A-Z])(?i:{'|'.join(map(re.escape, known))})(?!\w)")
    return Geography(frozenset(table["countries"]), states, table["demonyms"], table["parts"], places)


@cache
def relations() -> tuple[Relation, ...]:
    """Relations in the order of their file."""
    found = []
    for entry in _table("relations")["relations"]:
        words, types = frozenset(entry["question_words"]), frozenset(entry["types"])
        found.append(Relation(entry["name"], words, types, re.compile(entry["text_before"], re.IGNORECASE)))
    return tuple(found)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


# Source: reader.md 6.4, lists/geography.toml. Decided here: where a lead says what somebody is (`an English writer`),
# places of birth and death do not count; England, Scotland and Wales share a country with the United Kingdom, not
# with each other.

_IS_A = re.compile(r"\b(?:is|was|were|are) (?:an?|the) ")
_NEAR = 40  # characters; chosen: room for a few adjectives (`was an acclaimed contemporary English writer`)


@dataclass(frozen=True, slots=True)
class Place:
    """A country that a text names at one place; `is_demonym` if by its people, `state` if by a part of it."""

    country: str
    state: str
    start: int
    end: int
    is_demonym: bool


def places_in(text: str) -> list[Place]:
    """Every country, demonym and state, left to right; only where written with a capital."""
    lists = geography()
    folded = fold(text)
    found = []
    for match in lists.places.finditer(folded if len(folded) == len(text) else text):
        name, is_demonym = match[0].lower(), match[0].lower() in lists.demonyms
        state = name if not is_demonym and name not in lists.countries else ""
        country = lists.demonyms[name] if is_demonym else lists.states[name] if state else name
        found.append(Place(country, state, *match.span(), is_demonym))
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
