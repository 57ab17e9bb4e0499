"""The reader's word lists as they are used: sets, tables and compiled patterns.

Decides nothing; what each list is for stands in the files themselves (lists/*.toml). Read when first asked for.
Source: design/reader.md, reader_lists.json.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
    person_heads: frozenset[str]
    place_heads: frozenset[str]
    number_heads: frozenset[str]
    work_heads: frozenset[str]
    date_heads: frozenset[str]
    nationality_heads: frozenset[str]
    measures: frozenset[str]
    places_of_study: frozenset[str]
    places_of_stay: frozenset[str]
    head_verbs: frozenset[str]
    name_links: frozenset[str]
    relative_clause: re.Pattern[str]
    clause_end: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class NameLists:
    """lists/names.toml."""

    organisation_word: re.Pattern[str]
    place_word: re.Pattern[str]
    role_prefix: re.Pattern[str]
    place_definitions: frozenset[str]
    place_kinds: frozenset[str]
    place_links: frozenset[str]
    phrase_links: frozenset[str]
    units: tuple[str, ...]
    scales: tuple[str, ...]
    number_words: tuple[str, ...]
    ordinal_words: frozenset[str]


@dataclass(frozen=True, slots=True)
class ComparisonLists:
    """lists/comparisons.toml; `roles` has the text before a person by each word for what that person did."""

    larger: frozenset[str]
    smaller: frozenset[str]
    amounts: frozenset[str]
    birth_words: frozenset[str]
    death_words: frozenset[str]
    start_words: frozenset[str]
    founded: re.Pattern[str]
    roles: Mapping[str, re.Pattern[str]]


@dataclass(frozen=True, slots=True)
class Geography:
    """lists/geography.toml: `states`, `demonyms`, `parts` give the country; `places` finds any with a capital."""

    countries: frozenset[str]
    states: Mapping[str, str]
    demonyms: Mapping[str, str]
    parts: Mapping[str, str]
    places: re.Pattern[str]


@cache
def question_lists() -> QuestionLists:
    """Words that take a question apart."""
    table: dict[str, Any] = {name: frozenset(words) for name, words in _table("questions").items()}
    patterns = _table("questions")
    for name in ("relative_clause", "clause_end"):
        table[name] = re.compile(patterns[name])
    return QuestionLists(**table)


@cache
def name_lists() -> NameLists:
    """Words within and around names."""
    raw = _table("names")
    table: dict[str, Any] = {name: frozenset(words) for name, words in raw.items()}
    for name in ("place_word", "organisation_word"):
        table[name] = re.compile(raw[name], re.IGNORECASE)
    table["role_prefix"] = re.compile(raw["role_prefix"])
    for name in ("units", "scales", "number_words"):
        table[name] = tuple(raw[name])
    return NameLists(**table)


@cache
def comparison_lists() -> ComparisonLists:
    """Words that compare."""
    table = _table("comparisons")
    roles = {
        word: re.compile(pattern, re.IGNORECASE)
        for words, pattern in table.pop("roles").items()
        for word in words.split("|")
    }
    founded = re.compile(table.pop("founded"), re.IGNORECASE)
    return ComparisonLists(**{name: frozenset(words) for name, words in table.items()}, founded=founded, roles=roles)


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
    return tuple(
        Relation(
            entry["name"],
            frozenset(entry["question_words"]),
            frozenset(entry["types"]),
            re.compile(entry["text_before"], re.IGNORECASE),
        )
        for entry in _table("relations")["relations"]
    )


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Words that say what a question's word says."""
    return {word: tuple(others) for word, others in _table("synonyms")["synonyms"].items()}


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
