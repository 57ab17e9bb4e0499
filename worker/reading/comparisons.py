"""Comparison questions: which of two or more has the larger or smaller value, with the values and where they stand.

An answer has the values of all that are compared, from sentences that state them of these; otherwise it is "" and shows
which value is missing. Source: reader.md 6.4.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.query import ComparedValue
from polyhop.schemas.values import find_numbers
from polyhop.worker.reading.attributes import Stated, stated_date
from polyhop.worker.reading.computed import MISSING, Computed
from polyhop.worker.reading.date_kinds import date_kinds
from polyhop.worker.reading.options import Option, choice, lets_choose, option_of, plain_words, shared_role_of
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.parsing import ParsedQuestion, stem_of
from polyhop.worker.reading.quantities import order, stated_measure, written, years_of
from polyhop.worker.reading.subjects import is_about
from polyhop.worker.reading.superlatives import candidates_of
from polyhop.worker.reading.word_lists import (
    DateAttribute,
    Measure,
    comparison_lists,
    date_attributes,
    measures,
)

_LONG = re.compile(
    r"\b(?:lived?|lives|living) (?:the )?(?:long|short)|\b(?:long|short)er (?:life|lived)", re.IGNORECASE
)
_AMOUNT_OF = re.compile(r"\b(?:more|most|fewer|fewest|less|least)\s+([a-z]\w+)", re.IGNORECASE)
_SHORT = re.compile(r"\bshort(?:er|est)\b")
_NEAR_NOUN = 2  # words before a noun; chosen: `12 stations`, `12 new stations`
_SIZES = ("area", "population")
_COVERED, _BARELY = 0.75, 0.35  # reader.md 6.4, choice without a value.
_PAIR = 2  # options of a comparison


@dataclass(frozen=True, slots=True)
class Measured:
    """What is stated of each option; `sign` is -1 if the first is smaller, 1 if larger, 0 if that does not tell."""

    rule: str
    sign: int
    values: tuple[ComparedValue, ...]

    @property
    def missing(self) -> int:
        """Values that no sentence states."""
        return sum(value.sentence is None for value in self.values)


Idf = Callable[[str], float]
Pair = tuple[Option, Option]


def compare(question: ParsedQuestion, pages: Sequence[Page], idf: Idf) -> Computed | None:
    """The option that wins a comparison, None if the question lets choose between no two names and describes none.

    Source: reader.md 6.4. Cost: O(characters of the context).
    """
    names = choice(question)
    if names is None:
        return _superlative(question, pages)
    role = shared_role_of(question)
    options = [option_of(question, name, pages, role) for name in names]
    tried = []
    for rule in rules_of(question):
        found = _winner(question, options, rule, pages)
        if found.answer:
            return found
        tried.append(found)
    if len(options) == _PAIR and not lets_choose(question):
        return None
    if tried or compares(question):
        return min(tried, key=_missing, default=Computed("", "", ()))
    return _by_cover(question, options, idf)


def _superlative(question: ParsedQuestion, pages: Sequence[Page]) -> Computed | None:
    """The first or last of the things that a question describes, None unless at least two are dated."""
    options = candidates_of(question, pages)
    if len(options) < _PAIR:
        return None
    found = (_winner(question, options, rule, pages) for rule in rules_of(question))
    decided = next((one for one in found if one.answer), None)
    return None if decided is None else replace(decided, names_all=False)


def _winner(question: ParsedQuestion, options: Sequence[Option], rule: "Rule", pages: Sequence[Page]) -> Computed:
    """The option that beats all others by one rule, "" unless each comparison on the way decides."""
    best, decides, name = 0, True, ""
    values: dict[int, ComparedValue] = {}
    for other in range(1, len(options)):
        found = rule((options[best], options[other]), pages)
        name = found.rule
        values[best], values[other] = found.values
        decides = decides and found.sign != 0
        if found.sign and (found.sign > 0) != larger_wins(question):
            best = other
    return Computed(options[best].name if decides else "", name, tuple(values[number] for number in sorted(values)))


def _missing(found: Computed) -> int:
    return sum(value.sentence is None for value in found.values)


def compares(question: ParsedQuestion) -> bool:
    """Whether a question has a word that compares."""
    lists = comparison_lists()
    return not (lists.larger | lists.smaller | lists.start_words).isdisjoint(plain_words(question))


def measure(question: ParsedQuestion, options: Pair, pages: Sequence[Page]) -> Measured | None:
    """What is stated of both options: by the first rule that decides, else by the one that found most.

    None if the question asks for no value that a rule knows.
    """
    tried = []
    for rule in rules_of(question):
        found = rule(options, pages)
        if found.sign:
            return found
        tried.append(found)
    return min(tried, key=lambda one: one.missing, default=None)


Rule = Callable[[Pair, Sequence[Page]], Measured]


def rules_of(question: ParsedQuestion) -> list[Rule]:
    """The rules that measure what a question compares, in the order in which they are tried."""
    words = plain_words(question)
    lists = comparison_lists()
    if _LONG.search(question.text):
        return [by_life_span]
    counted = _AMOUNT_OF.search(question.text) if words & lists.amounts else None
    rules: list[Rule] = [_by_number_of(stem_of(counted[1]))] if counted else []
    if compares(question):
        rules += [_by_measure(kind) for kind in measures().values() if words & kind.asked]
        rules += [_by_measure(measures()[name]) for name in _SIZES if words & lists.sizes]
    return [*rules, *(_by_date(kind) for kind in date_kinds(question))]


def larger_wins(question: ParsedQuestion) -> bool:
    """Whether the option with the larger value is asked for."""
    if _SHORT.search(question.text):
        return False
    return not plain_words(question).isdisjoint(comparison_lists().larger)


def by_life_span(options: Pair, pages: Sequence[Page]) -> Measured:
    """Who lived longer: both births and both deaths must be stated."""
    kinds = date_attributes()
    values, lengths = [], []
    for option in options:
        born = stated_date(option.name, option.page, pages, kinds["birth"])
        died = stated_date(option.name, option.page, pages, kinds["death"])
        if born is None or died is None:
            values.append(ComparedValue(option.name, MISSING))
            continue
        lengths.append(years_of(born.date.day, died.date.day))
        shown = f"{written(born.date.day)} to {written(died.date.day)}"
        values.append(ComparedValue(option.name, shown, born.page.cite(born.sentence)))
    first, second = (*lengths, None, None)[:2]
    sign = 0 if first is None or second is None or first == second else (-1 if first < second else 1)
    return Measured("life span", sign, tuple(values))


def by_dates(options: Pair, kinds: tuple[DateAttribute, DateAttribute], pages: Sequence[Page]) -> Measured:
    """Which date is earlier: one kind for each option, usually the same."""
    found = [stated_date(option.name, option.page, pages, kind) for option, kind in zip(options, kinds, strict=True)]
    values = tuple(_dated_value(option, one) for option, one in zip(options, found, strict=True))
    first, second = found
    sign = order(first.date.day, second.date.day) if first is not None and second is not None else None
    return Measured(kinds[0].name, sign or 0, values)


def _by_date(kind: DateAttribute) -> Rule:
    return lambda options, pages: by_dates(options, (kind, kind), pages)


def _dated_value(option: Option, stated: Stated | None) -> ComparedValue:
    if stated is None:
        return ComparedValue(option.name, MISSING)
    return ComparedValue(option.name, written(stated.date.day), stated.page.cite(stated.sentence))


def _by_measure(kind: Measure) -> Rule:
    """Which has the larger measure of a kind; both pages must state it."""

    def rule(options: Pair, _pages: Sequence[Page]) -> Measured:
        found = [stated_measure(option.page, kind) for option in options]
        return _measured(
            "measure", options, [None if one is None else (one.value, one.text, one.sentence) for one in found]
        )

    return rule


def _by_number_of(stem: str) -> Rule:
    """Which has more of something; both pages must count it."""
    return lambda options, _pages: _measured("number", options, [_count(option.page, stem) for option in options])


Value = tuple[float, str, PageSentence]


def _measured(rule: str, options: Pair, found: Sequence[Value | None]) -> Measured:
    values = tuple(
        ComparedValue(option.name, MISSING)
        if one is None or option.page is None
        else ComparedValue(option.name, one[1], option.page.cite(one[2]))
        for option, one in zip(options, found, strict=True)
    )
    first, second = found
    if first is None or second is None or first[0] == second[0]:
        return Measured(rule, 0, values)
    return Measured(rule, -1 if first[0] < second[0] else 1, values)


def _count(page: Page | None, stem: str) -> Value | None:
    """The number within two words before a noun in a sentence about the page's subject."""
    if page is None or not stem:
        return None
    for sentence in page.sentences:
        places = sentence.places.get(stem, ())
        if not places or not is_about(page, sentence):
            continue
        numbers = find_numbers(sentence.text)
        for place in places:
            number = _last_number_before(sentence, place, numbers)
            if number is not None:
                return float(number.key.removeprefix("number:")), number.surface, sentence
    return None


def _last_number_before(sentence: PageSentence, noun: int, numbers: Sequence[Mention]) -> Mention | None:
    """The last of the numbers that begin or end within the two words before a noun."""
    low = sentence.words[max(0, noun - _NEAR_NOUN)][0]
    high = sentence.words[noun][0]
    return next((one for one in reversed(numbers) if low <= one.start < high or low < one.end <= high), None)


def _by_cover(question: ParsedQuestion, options: Sequence[Option], idf: Idf) -> Computed | None:
    """The option of whom one sentence says what the question says, where no sentence says it of another one."""
    stems = _stems_beside_names(question, options)
    found = [_best_cover(option.page, stems, idf) for option in options]
    values = tuple(
        ComparedValue(option.name, f"{share:.2f} of the question", option.page.cite(sentence) if option.page else None)
        for option, (share, sentence) in zip(options, found, strict=True)
    )
    shares = [share for share, _ in found]
    second, largest = sorted(shares)[-2:]
    if largest < _COVERED or second > _BARELY:
        return Computed("", "cover", values)
    return Computed(options[shares.index(largest)].name, "cover", values)


def _stems_beside_names(question: ParsedQuestion, options: Sequence[Option]) -> list[str]:
    """Stems of what a question says beside the names of its options, in alphabetical order."""
    unsaid = {word for option in options for word in name_tokens(option.name)} | {"one"} | STOP_WORDS
    return sorted({stem for word in question.words if word not in unsaid and (stem := stem_of(word))})


def _best_cover(page: Page | None, stems: Sequence[str], idf: Idf) -> tuple[float, PageSentence | None]:
    total = sum(idf(stem) for stem in stems)
    best: tuple[float, PageSentence | None] = (0.0, None)
    for sentence in page.sentences if page is not None and total else ():
        if page is not None and is_about(page, sentence):
            share = sum(idf(stem) for stem in stems if stem in sentence.places) / total
            best = max(best, (share, sentence), key=lambda one: one[0])
    return best
