"""Yes-no questions: what two pages share, which of two values is larger, or whether a page says what is asked.

Each rule returns an answer with what it compared ("" and what is missing), or None where it is not asked. Nothing is
answered `no` because nothing was found: a `no` needs two values that differ, or a definition that excludes what is
asked. Source: reader.md 6.4.
"""

import re
from collections.abc import Callable, Sequence
from functools import reduce

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.query import ComparedValue, Sentence
from polyhop.worker.reading.clauses import words_of
from polyhop.worker.reading.comparisons import MISSING, Computed, by_dates, compares, larger_wins, measure
from polyhop.worker.reading.pages import (
    Page,
    PageSentence,
    forms_of,
    groups_of,
    is_of_kind,
    is_of_other_kind,
    is_on_topic,
)
from polyhop.worker.reading.quantities import (
    Option,
    Stated,
    date_kinds,
    option_of,
    plain_words,
    shared_role_of,
    stated_date,
    written,
)
from polyhop.worker.reading.question import ParsedQuestion, stem_of
from polyhop.worker.reading.word_lists import (
    DateAttribute,
    Place,
    clause_lists,
    date_attributes,
    geography,
    nationalities,
    places_in,
    shared_countries,
)

_FILLERS = frozenset(("both", "all", "a", "an", "the", "also", "either", "too", "and"))
_NOT = re.compile(r"\b(?:not|never|no|nor|neither|without|instead|failed|refused)\b|n['’]t\b", re.IGNORECASE)
_DEFINED = re.compile(r"\b(?:is|was|are|were) (?:an?|the|one of the)\b[^.;]{0,80}")
_MOST_KIND_WORDS = 4  # chosen: longer predicates say what things do or have, not which kind they are


def by_definition(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """Whether the definitions of all options say that they are of a kind; None if the question asks for no kind."""
    kind = _kind_asked(question)
    known = [option for option in options if option.page is not None]
    if kind is None or not known or len(known) < len(options):
        return None
    verdicts, values = [], []
    for option in known:
        if option.page is None:
            continue
        verdicts.append(_is_kind(option.page, kind, is_one_of_several=len(known) > 1))
        values.append(ComparedValue(option.name, _definition(option.page), option.page.cite(None)))
    if all(verdicts):
        return Computed("yes", "definition", tuple(values))
    if any(verdict is False for verdict in verdicts):
        return Computed("no", "definition", tuple(values))
    return None


def _kind_asked(question: ParsedQuestion) -> tuple[str, ...] | None:
    """The words after the names of `Are A and B both Italian film directors?`, None if that says more than a kind."""
    if not question.names or question.words[0] not in ("is", "are", "was", "were"):
        return None
    things = [name for name in question.names if name.key not in geography().demonyms]
    if not things:
        return None
    text = question.text[things[-1].end :]
    words = tuple(word for word in name_tokens(text) if word not in _FILLERS)
    lists = clause_lists()
    if not 0 < len(words) <= _MOST_KIND_WORDS or not (lists.prepositions | lists.auxiliaries | STOP_WORDS).isdisjoint(
        words
    ):
        return None
    is_verb = words[-1].endswith(("ed", "ing")) or words[-1] in lists.verbs
    return None if is_verb else words


def _is_kind(page: Page, words: Sequence[str], *, is_one_of_several: bool) -> bool | None:
    """Whether a page's definition says all of a kind, excludes it, or (None) leaves it open."""
    demonyms = [word for word in words if word in geography().demonyms]
    nouns = [word for word in words if word not in geography().demonyms]
    if demonyms:
        countries = {place.country for place in nationalities(page.lead) if place.is_demonym}
        if not countries:
            return None
        if not all(shared_countries({geography().demonyms[demonym]}, countries) for demonym in demonyms):
            return False
    return _is_of_nouns(page, nouns, is_one_of_several=is_one_of_several) if nouns else True


def _is_of_nouns(page: Page, nouns: Sequence[str], *, is_one_of_several: bool) -> bool | None:
    """Whether a page's definition says all nouns of a kind, excludes them, or (None) leaves it open."""
    if is_of_kind(page.kinds, nouns[-1]):
        stems = {stem_of(word) for word in page.kinds}
        return True if all(stem_of(word) in stems for word in nouns[:-1]) else None
    if is_of_other_kind(page.kinds, nouns[-1]):
        return False
    return False if is_one_of_several and _is_other_person(page, nouns[-1]) else None


def _is_other_person(page: Page, kind: str) -> bool:
    """Whether a definition names what a person was, and it is something else than what is asked."""
    return "person" in groups_of(page.kinds) and "person" in groups_of({kind})


def _definition(page: Page) -> str:
    match = _DEFINED.search(page.lead)
    return " ".join(match[0].split()) if match else MISSING


def by_statement(question: ParsedQuestion, options: Sequence[Option]) -> Computed:
    """Yes if a sentence about the first option with a page says all that the question says, else ""."""
    missing = tuple(ComparedValue(option.name, MISSING) for option in options[:1])
    option = next((one for one in options if one.page is not None), None)
    if option is None or option.page is None or (len(options) > 1 and options[0].page is None):
        return Computed("", "statement", missing)
    named = [name for name in question.names if name.surface != option.asked]
    # The words that a sentence has to say: not those of names, nor those that led to the option's page.
    lists = clause_lists()
    empty = {word for name in question.names for word in name_tokens(name.surface)}
    empty |= STOP_WORDS | lists.adverbs | lists.auxiliaries
    if option.via is not None:
        empty.update(name_tokens(option.via.passage.title))
        empty.update(word for word in question.words if word.endswith(("or", "er", "ist", "ect")))
    content = [word for word in question.words if word not in empty]
    for sentence in option.page.sentences:
        if is_on_topic(option.page, sentence) and _says(question, option.page, sentence, content, named):
            shown = ComparedValue(option.name, " ".join(sentence.text.split()), option.page.cite(sentence))
            return Computed("yes", "statement", (shown,))
    return Computed("", "statement", missing)


def _says(
    question: ParsedQuestion, page: Page, sentence: PageSentence, content: Sequence[str], named: Sequence[Mention]
) -> bool:
    """Whether a sentence has all words of the question, its names after the same prepositions, and no negation."""
    if _NOT.search(sentence.text) or not (content or named):
        return False
    stems = {*sentence.places, *(stem_of(word) for word in page.kinds)}
    if not all(forms_of(word) & stems for word in content):
        return False
    return all(_is_named_alike(question.text, sentence.text, name) for name in named)


def _is_named_alike(asked: str, text: str, name: Mention) -> bool:
    """Whether a sentence has a name of the question, after the same preposition if the question has one."""
    before = words_of(asked[: name.start])
    link = next((word.low for word in reversed(before) if word.low != "the"), "")
    if link not in clause_lists().prepositions:
        return re.search(rf"(?<!\w){re.escape(name.surface)}(?!\w)", text) is not None
    return (
        re.search(rf"\b{re.escape(link)} (?:the )?(?:[\w-]+ ){{0,3}}{re.escape(name.surface)}(?!\w)", text) is not None
    )


_SAME = re.compile(r"\b(?:same|shares?|common)\b", re.IGNORECASE)
_COUNTRY = re.compile(r"\b(?:nationalit(?:y|ies)|country|countries|nation|citizenship)\b", re.IGNORECASE)
_STATE = re.compile(r"\bstate\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:year|date|day|time|decade|century)\b", re.IGNORECASE)
_THAN = re.compile(r"\b(?:than|before|after)\b", re.IGNORECASE)
_SPANS = {"year": 1, "decade": 10, "century": 100}
_PAIR = 2  # things of `are A and B both`


def answer_yes_no(question: ParsedQuestion, pages: Sequence[Page]) -> Computed:
    """Yes or no with its values, "" with those that were found if no rule decides. Source: reader.md 6.4."""
    options = options_of(question, pages)
    found = by_order(question, options, pages) or by_same_time(question, options, pages)
    for rule in (by_country, by_state, by_shared_name, by_definition):
        found = found or rule(question, options)
    return found or by_statement(question, options)


def options_of(question: ParsedQuestion, pages: Sequence[Page]) -> list[Option]:
    """Names of the question, left to right, with their pages as far as there are some."""
    role = shared_role_of(question)
    names = [name for name in question.names if name.key not in geography().demonyms]
    return [option_of(question, name, pages, role) for name in names]


def by_order(question: ParsedQuestion, options: Sequence[Option], pages: Sequence[Page]) -> Computed | None:
    """`Is A older than B?`, `Was A born before B died?`; None unless the question compares two names."""
    if len(options) != _PAIR or not _THAN.search(question.text) or _SAME.search(question.text):
        return None
    pair = (options[0], options[1])
    kinds = _kinds_in_order(question)
    if len(kinds) == _PAIR:
        found = by_dates(pair, (kinds[0], kinds[1]), pages)
    else:
        measured = measure(question, pair, pages) if compares(question) else None
        if measured is None:
            return None
        found = measured
    is_larger = larger_wins(question) or "after" in plain_words(question)
    answer = "" if not found.sign else "yes" if (found.sign > 0) == is_larger else "no"
    return Computed(answer, found.rule, found.values)


def _kinds_in_order(question: ParsedQuestion) -> list[DateAttribute]:
    """The kinds of dates that the words of a question name, in their order; `born` and `birth` are one."""
    found: list[DateAttribute] = []
    plain = plain_words(question)
    for word in question.words:
        kind = next((one for one in date_attributes().values() if word in one.asked and word in plain), None)
        if kind is not None and kind not in found:
            found.append(kind)
    return found


def by_same_time(question: ParsedQuestion, options: Sequence[Option], pages: Sequence[Page]) -> Computed | None:
    """`born in the same year`; "" unless that date is stated of all options."""
    unit = _YEAR.search(question.text)
    if len(options) < _PAIR or unit is None or not _SAME.search(question.text):
        return None
    kinds = date_kinds(question)
    if len(kinds) != 1:
        return Computed("", "", ())
    options = _asked_options(options)
    found = [stated_date(option.name, option.page, pages, kinds[0]) for option in options]
    values = tuple(_value(option, one) for option, one in zip(options, found, strict=True))
    dates = [one.date for one in found if one is not None]
    if len(dates) < max(_PAIR, len(options)):
        return Computed("", kinds[0].name, values)
    span = _SPANS.get(unit[0].lower())
    keys = {one.day[0] // span if span else one.day for one in dates}
    return Computed("yes" if len(keys) == 1 else "no", kinds[0].name, values)


def _asked_options(options: Sequence[Option]) -> Sequence[Option]:
    """The options with pages if there are two of them, else all."""
    known = [option for option in options if option.page is not None]
    return known if len(known) >= _PAIR else options


def _value(option: Option, stated: Stated | None) -> ComparedValue:
    if stated is None:
        return ComparedValue(option.name, MISSING)
    return ComparedValue(option.name, written(stated.date.day), stated.page.cite(stated.sentence))


def by_country(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`the same nationality`, `born in the same country`; "" unless every page names a country."""
    if len(options) < _PAIR or not _SAME.search(question.text) or not _COUNTRY.search(question.text):
        return None
    is_birth = not date_attributes()["birth"].asked.isdisjoint(plain_words(question))
    return _by_places(_asked_options(options), _born_in if is_birth else nationalities, country_of_place)


def _born_in(lead: str) -> list[Place]:
    """Countries after `born`; demonyms are none of birth."""
    start = re.search(r"\bborn\b", lead)
    if start is None:
        return []
    end = lead.find(". ", start.end())
    reach = lead[: end if end >= 0 else len(lead)]
    return [place for place in places_in(reach) if place.start > start.end() and not place.is_demonym]


def country_of_place(place: Place) -> str:
    """The country of a place."""
    return place.country


def by_state(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`in the same state`; "" unless every page names one."""
    if len(options) < _PAIR or not _SAME.search(question.text) or not _STATE.search(question.text):
        return None

    def states(lead: str) -> list[Place]:
        return [place for place in places_in(lead) if place.state]

    return _by_places(_asked_options(options), states, lambda place: place.state)


def _by_places(options: Sequence[Option], find: Callable[[str], list[Place]], key: Callable[[Place], str]) -> Computed:
    """Whether all pages name one place, with the one that each names; "" unless every page names one."""
    found = [find(option.page.lead) if option.page else [] for option in options]
    sets = [{key(place) for place in places} for places in found]
    shared = reduce(shared_countries, sets)
    shown = [next((place for place in places if key(place) in shared), next(iter(places), None)) for places in found]
    values = tuple(_place_value(option, place, key) for option, place in zip(options, shown, strict=True))
    if not all(found) or len(found) < _PAIR:
        return Computed("", "country", values)
    known = [place for place in shown if place is not None]
    rule = _rule_of(known, is_of_country=key is country_of_place)
    return Computed("yes" if shared else "no", rule, values)


def _rule_of(places: Sequence[Place], *, is_of_country: bool) -> str:
    """What answers rest on: demonyms, countries, or the names of states."""
    if all(place.is_demonym for place in places):
        return "demonym"
    return "shared name" if not is_of_country and all(place.state for place in places) else "country"


def _place_value(option: Option, place: Place | None, key: Callable[[Place], str]) -> ComparedValue:
    if place is None:
        return ComparedValue(option.name, MISSING)
    return ComparedValue(option.name, key(place), _cite(option, place.start))


def by_shared_name(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """`the same X` of any other kind: yes if the first two sentences of all pages share a name, else ""."""
    if len(options) < _PAIR or not _SAME.search(question.text):
        return None
    options = _asked_options(options)
    own = {word for name in question.names for word in name_tokens(name.surface)}
    found = [_lead_names(option.page, own) if option.page else {} for option in options]
    shared = sorted(set.intersection(*(set(names) for names in found)))
    if not shared:
        return Computed("", "shared name", tuple(ComparedValue(option.name, MISSING) for option in options))
    values = tuple(
        ComparedValue(option.name, shared[0], _cite(option, names[shared[0]]))
        for option, names in zip(options, found, strict=True)
    )
    return Computed("yes", "shared name", values)


def _lead_names(page: Page, own: set[str]) -> dict[str, int]:
    """Offset in the lead of each name of the first sentences, without the question's own words."""
    names: dict[str, int] = {}
    for sentence in page.lead_sentences:
        for mention in sentence.names:
            if not own.issuperset(mention.key.split()):
                names.setdefault(mention.key, sentence.start - page.lead_start + mention.start)
    return names


def _cite(option: Option, offset: int) -> Sentence | None:
    page = option.page
    return page.cite(page.sentence_at(page.lead_start + offset)) if page else None
