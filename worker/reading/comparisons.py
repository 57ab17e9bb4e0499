"""Comparison questions: which of two has the larger or smaller value, with the values and where they stand.

Each rule gets two pages and returns both values, or None where the pages do not tell. Source: design/reader.md 6.4.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.names import STOP_WORDS, name_tokens
from schemas.query import ComparedValue
from schemas.values import find_numbers
from worker.reading.countries import places_in
from worker.reading.dates import Dated, Life, life, order, when, written, years_of
from worker.reading.options import Option, choice, option_of, plain_words, shared_role_of
from worker.reading.pages import Page
from worker.reading.parsing import ParsedQuestion, stem_of
from worker.reading.word_lists import comparison_lists

CONFIDENCES: Mapping[str, float] = {
    "life span": 0.85, "death": 0.85, "birth": 0.85, "date": 0.80, "country": 0.80, "demonym": 0.75, "number": 0.70,
    "shared name": 0.60, "predicate": 0.40, "cover": 0.40, "no page": 0.40,
}  # fmt: skip
"""How often each rule is right. Source: design/reader.md, Confidence and silence."""

_LONG = re.compile(
    r"\b(?:lived?|lives|living) (?:the )?(?:long|short)|\b(?:long|short)er (?:life|lived)", re.IGNORECASE
)
_AMOUNT_OF = re.compile(r"\b(?:more|most|fewer|fewest|less|least)\s+([a-z]\w+)", re.IGNORECASE)
_NEAR_NOUN = 2
_DEMONYM_WEIGHT, _COSINE_WEIGHT = 0.5, 0.1


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer that a rule computed, with what it compared."""

    answer: str
    rule: str
    values: tuple[ComparedValue, ...]

    @property
    def confidence(self) -> float:
        """How often the rule is right."""
        return CONFIDENCES[self.rule]


@dataclass(frozen=True, slots=True)
class _Measured:
    """One value of each option; `sign` is -1 if the first is smaller, 1 if it is larger."""

    rule: str
    sign: int
    values: tuple[ComparedValue, ...]


Idf = Callable[[str], float]
Cosine = Callable[[Page], float]


def compare(question: ParsedQuestion, pages: Sequence[Page], idf: Idf, cosine: Cosine) -> Computed | None:
    """The option that wins a comparison, None if the question lets choose between no two names with pages.

    Source: design/reader.md 6.4. Cost: O(characters of both leads).
    """
    names = choice(question)
    if names is None:
        return None
    role = shared_role_of(question)
    first, second = (option_of(question, name, pages, role) for name in names)
    measured = measure(question, first, second)
    if measured is not None:
        winner = first if (measured.sign > 0) == larger_wins(question) else second
        return Computed(winner.name, measured.rule, measured.values)
    return _by_cover(question, (first, second), idf, cosine)


def measure(question: ParsedQuestion, first: Option, second: Option) -> _Measured | None:
    """What both options have of the value that a question asks for, by the first rule that finds both."""
    if first.page is None or second.page is None or first.page is second.page:
        return None
    words = plain_words(question)
    lists = comparison_lists()
    if _LONG.search(question.text):
        return by_life_span(first, second)
    if words & lists.death_words:
        return by_death(first, second)
    if words & lists.amounts and (found := by_number(question, first, second)) is not None:
        return found
    if words & lists.birth_words:
        return by_birth(first, second) or by_date(first, second)
    if words & lists.start_words:
        return by_birth(first, second) or by_date(first, second)
    return None


def larger_wins(question: ParsedQuestion) -> bool:
    """Whether the option with the larger value is asked for."""
    words = plain_words(question)
    if re.search(r"\bshort(?:er|est)\b", question.text):
        return False
    return not words.isdisjoint(comparison_lists().larger)


def by_life_span(first: Option, second: Option) -> _Measured | None:
    """Who lived longer; silent unless both births and both deaths are known."""
    spans = [_life(option) for option in (first, second)]
    lengths = [years_of(span) for span in spans]
    if lengths[0] is None or lengths[1] is None or lengths[0] == lengths[1]:
        return None
    shown = [f"{written(s.born.day)} to {written(s.died.day)}" for s in spans if s.born and s.died]
    values = tuple(
        _value(option, text, span.born) for option, text, span in zip((first, second), shown, spans, strict=True)
    )
    return _Measured("life span", -1 if lengths[0] < lengths[1] else 1, values)


def by_death(first: Option, second: Option) -> _Measured | None:
    """Who died earlier; silent unless both deaths are known and differ."""
    return _by_day("death", (first, second), [_life(option).died for option in (first, second)])


def by_birth(first: Option, second: Option) -> _Measured | None:
    """Who was born earlier; silent unless both pages are persons' with a date of birth."""
    return _by_day("birth", (first, second), [_birth(option) for option in (first, second)])


def by_date(first: Option, second: Option) -> _Measured | None:
    """What began or came out earlier; silent where a page gives no date."""
    return _by_day(
        "date", (first, second), [when(option.page.lead) if option.page else None for option in (first, second)]
    )


def by_number(question: ParsedQuestion, first: Option, second: Option) -> _Measured | None:
    """Which has more of something; silent unless both pages count it."""
    noun = _AMOUNT_OF.search(question.text)
    if noun is None:
        return None
    found = [_count(option, stem_of(noun[1])) for option in (first, second)]
    if found[0] is None or found[1] is None or found[0][0] == found[1][0]:
        return None
    values = tuple(
        ComparedValue(option.name, text, option.page.cite(option.page.sentence_at(place)) if option.page else None)
        for option, (_, text, place) in zip((first, second), (found[0], found[1]), strict=True)
    )
    return _Measured("number", -1 if found[0][0] < found[1][0] else 1, values)


def _life(option: Option) -> Life:
    return life(option.page.lead) if option.page else Life()


def _birth(option: Option) -> Dated | None:
    """A date of birth: in a person's lead only, that is with `born`, a life in parentheses or a death."""
    span = _life(option)
    if option.page is None or span.born is None:
        return None
    lead = option.page.lead
    is_life = span.died is not None or re.search(r"\bborn\b|\(\s*b\.", lead) is not None
    return span.born if is_life and not re.search(r"^[^.(]*\([^()]*\b(?:film|album|song)\b", lead) else None


def _by_day(rule: str, options: tuple[Option, Option], found: Sequence[Dated | None]) -> _Measured | None:
    first, second = found
    if first is None or second is None:
        return None
    sign = order(first.day, second.day)
    if sign is None:
        return None
    values = tuple(_value(option, written(one.day), one) for option, one in zip(options, (first, second), strict=True))
    return _Measured(rule, sign, values)


def _value(option: Option, text: str, place: Dated | None) -> ComparedValue:
    page = option.page
    if page is None:
        return ComparedValue(option.name, text, None)
    offset = page.lead_start + (place.start if place else 0)
    return ComparedValue(option.name, text, page.cite(page.sentence_at(offset)))


def _count(option: Option, stem: str) -> tuple[float, str, int] | None:
    """The number within two words before a noun, its writing and its offset."""
    if option.page is None or not stem:
        return None
    for sentence in option.page.sentences:
        numbers = find_numbers(sentence.text)
        for place in sentence.places.get(stem, ()):
            low = sentence.words[max(0, place - _NEAR_NOUN)][0]
            high = sentence.words[place][0]
            near = [one for one in numbers if low <= one.start < high or low < one.end <= high]
            if near:
                value = float(near[-1].key.removeprefix("number:"))
                return value, near[-1].surface, sentence.start + near[-1].start
    return None


def _by_cover(question: ParsedQuestion, options: tuple[Option, Option], idf: Idf, cosine: Cosine) -> Computed | None:
    """The option whose page covers more of the question's other words; silent without a page."""
    if options[0].page is None and options[1].page is None:
        return None
    names = {word for option in options for word in name_tokens(option.name)}
    others = sorted({stem for word in question.words if word not in names | STOP_WORDS and (stem := stem_of(word))})
    asked = {place.country for place in places_in(question.text) if place.is_demonym}
    scores = [_cover(option.page, others, asked, idf, cosine) for option in options]
    winner = options[0] if round(scores[0], 9) >= round(scores[1], 9) else options[1]
    values = tuple(
        ComparedValue(option.name, f"{score:.3f}", option.page.cite(None) if option.page else None)
        for option, score in zip(options, scores, strict=True)
    )
    return Computed(winner.name, "cover", values)


def _cover(page: Page | None, stems: Sequence[str], asked: set[str], idf: Idf, cosine: Cosine) -> float:
    if page is None:
        return 0.0
    total = sum(idf(stem) for stem in stems)
    share = sum(idf(stem) for stem in stems if stem in page.stems) / total if total else 0.0
    fits = bool(asked) and any(place.country in asked for place in places_in(page.lead))
    return share + _COSINE_WEIGHT * cosine(page) + _DEMONYM_WEIGHT * fits
