"""Yes-no questions: what two pages share, or whether both say what the question says.

Each rule returns an answer with what it compared, or None where it is not asked. Source: design/reader.md 6.4.
Decided here: `the same year` compares dates; nothing in common is a `no` only where both pages name something.
"""

import re
from collections.abc import Sequence
from functools import reduce

from schemas.names import STOP_WORDS, name_tokens
from schemas.query import ComparedValue, Sentence
from worker.reading.comparisons import Computed, Idf, by_birth, by_date, by_death, larger_wins
from worker.reading.countries import Place, nationalities, places_in, shared_countries
from worker.reading.dates import Dated, life, when, written
from worker.reading.options import Option, option_of, plain_words, role_of, shared_role_of
from worker.reading.pages import Page
from worker.reading.parsing import ParsedQuestion, stem_of
from worker.reading.word_lists import comparison_lists, geography

_SAME = re.compile(r"\b(?:same|shares?|common)\b", re.IGNORECASE)
_COUNTRY = re.compile(r"\b(?:nationalit(?:y|ies)|country|countries|nation|citizenship)\b", re.IGNORECASE)
_STATE = re.compile(r"\bstate\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:year|date|day|time|decade|century)\b", re.IGNORECASE)
_THAN = re.compile(r"\b(?:than|before|after)\b", re.IGNORECASE)
_ENOUGH = 0.5
_SPANS = {"year": 1, "decade": 10, "century": 100}


def answer_yes_no(question: ParsedQuestion, pages: Sequence[Page], idf: Idf) -> Computed:
    """Yes or no, with what the pages have in common or lack. Source: design/reader.md 6.4."""
    options = options_of(question, pages)
    if not options:
        return Computed("no", "no page", ())
    rules = (by_order, by_same_time, by_country, by_state, by_shared_name)
    for rule in rules:
        found = rule(question, options)
        if found is not None:
            return found
    return by_predicate(question, options, idf)


def options_of(question: ParsedQuestion, pages: Sequence[Page]) -> list[Option]:
    """Names of the question with a page to look at, left to right."""
    role = shared_role_of(question)
    found = [option_of(question, name, pages, role) for name in question.names]
    return [option for option in found if option.page is not None]


def by_order(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`Is A older than B?`; silent unless two options have the dates and the question compares them."""
    if len(options) != 2 or not _THAN.search(question.text) or _SAME.search(question.text):
        return None
    words, lists = plain_words(question), comparison_lists()
    first, second = options
    if words & lists.death_words:
        found = by_death(first, second)
    elif words & (lists.birth_words | lists.start_words):
        found = by_birth(first, second) or by_date(first, second)
    else:
        return None
    if found is None:
        return None
    is_larger = larger_wins(question) or "after" in words
    return Computed("yes" if (found.sign > 0) == is_larger else "no", found.rule, found.values)


def by_same_time(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`in the same year`; silent unless all options have that date."""
    unit = _YEAR.search(question.text)
    if len(options) < 2 or unit is None or not _SAME.search(question.text):
        return None
    words = plain_words(question)
    found = [_date_asked(option, words) for option in options]
    if any(one is None for one in found):
        return None
    dates = [one for one in found if one is not None]
    span = _SPANS.get(unit[0].lower())
    keys = {one.day[0] // span if span else one.day for one in dates}
    values = tuple(
        ComparedValue(option.name, written(one.day), _cite(option, one.start))
        for option, one in zip(options, dates, strict=True)
    )
    return Computed("yes" if len(keys) == 1 else "no", "date", values)


def by_country(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`the same nationality`, `from the same country`; silent unless every page names a country."""
    if len(options) < 2 or not _SAME.search(question.text) or not _COUNTRY.search(question.text):
        return None
    found = [nationalities(option.page.lead) for option in options if option.page]
    if not all(found):
        return None
    shared = reduce(shared_countries, ({place.country for place in places} for places in found))
    shown = [_first(places, shared) for places in found]
    rule = "demonym" if all(place.is_demonym for place in shown) else "country"
    values = tuple(
        ComparedValue(option.name, place.country, _cite(option, place.start))
        for option, place in zip(options, shown, strict=True)
    )
    return Computed("yes" if shared else "no", rule, values)


def by_state(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`in the same state`; silent unless every page names one."""
    if len(options) < 2 or not _SAME.search(question.text) or not _STATE.search(question.text):
        return None
    found = [[place for place in places_in(option.page.lead) if place.state] for option in options if option.page]
    if not all(found):
        return None
    shared = set.intersection(*({place.state for place in places} for places in found))
    shown = [next((place for place in places if place.state in shared), places[0]) for places in found]
    values = tuple(
        ComparedValue(option.name, place.state, _cite(option, place.start))
        for option, place in zip(options, shown, strict=True)
    )
    return Computed("yes" if shared else "no", "shared name", values)


def by_shared_name(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`the same X` of any other kind: a name that the first two sentences of all pages share."""
    if len(options) < 2 or not _SAME.search(question.text):
        return None
    own = {word for name in question.names for word in name_tokens(name.surface)}
    found = [_lead_names(option.page, own) for option in options if option.page]
    shared = sorted(set.intersection(*(set(names) for names in found)))
    first = shared[0] if shared else ""
    values = tuple(
        ComparedValue(option.name, first, _cite(option, names.get(first, 0)))
        for option, names in zip(options, found, strict=True)
    )
    return Computed("yes" if shared else "no", "shared name", values)


def by_predicate(question: ParsedQuestion, options: Sequence[Option], idf: Idf) -> Computed:
    """Whether the leads of all pages (a single page as a whole) say what the question says, and fit its demonym."""
    names = {word for option in options for word in name_tokens(option.asked)}
    roles = {role_of(question, name) for name in question.names}
    stems = sorted(
        {
            stem
            for word in question.words
            if word not in names | STOP_WORDS | roles | geography().demonyms.keys() and (stem := stem_of(word))
        }
    )
    asked = {place.country for place in places_in(_outside(question, options)) if place.is_demonym}
    total = sum(idf(stem) for stem in stems)
    verdicts, values = [], []
    for option in options:
        if option.page is None:
            continue
        held = option.page.lead_stems if len(options) > 1 else option.page.stems
        covered = sum(idf(stem) for stem in stems if stem in held) / total if total else 1.0
        fits = not asked or any(place.country in asked for place in places_in(option.page.lead))
        verdicts.append(covered >= _ENOUGH and fits)
        values.append(ComparedValue(option.name, f"{covered:.2f}", option.page.cite(None)))
    return Computed("yes" if all(verdicts) else "no", "predicate", tuple(values))


def _date_asked(option: Option, words: frozenset[str]) -> Dated | None:
    if option.page is None:
        return None
    lists = comparison_lists()
    if words & lists.death_words:
        return life(option.page.lead).died
    if words & lists.birth_words:
        return life(option.page.lead).born
    return when(option.page.lead)


def _first(places: Sequence[Place], shared: set[str]) -> Place:
    return next((place for place in places if place.country in shared), places[0])


def _lead_names(page: Page, own: set[str]) -> dict[str, int]:
    """Offset in the lead of each name of the first sentences, without the question's own words."""
    names: dict[str, int] = {}
    for sentence in page.lead_sentences:
        for mention in sentence.names:
            if not own.issuperset(mention.key.split()):
                names.setdefault(mention.key, sentence.start - page.lead_start + mention.start)
    return names


def _outside(question: ParsedQuestion, options: Sequence[Option]) -> str:
    """The question without the names of its options."""
    text = question.text
    for option in options:
        text = text.replace(option.asked, " ")
    return text


def _cite(option: Option, offset: int) -> Sentence | None:
    page = option.page
    return page.cite(page.sentence_at(page.lead_start + offset)) if page else None
