"""Answers that rules compute: comparisons and superlatives, and one date or measure of one thing.

An answer has the values of all that are compared, from sentences that state them of these; otherwise it is "" and shows
which value is missing. Source: reader.md 6.4.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.query import ComparedValue
from polyhop.schemas.types import HEADS, PERSON, title_type
from polyhop.schemas.values import find_numbers
from polyhop.worker.reading.pages import Page, PageSentence, is_about
from polyhop.worker.reading.quantities import (
    Option,
    Stated,
    choice,
    date_kinds,
    lets_choose,
    option_of,
    order,
    plain_words,
    role_of,
    shared_role_of,
    stated_date,
    stated_date_of_part,
    stated_measure,
    written,
    years_of,
)
from polyhop.worker.reading.question import DATE, YEAR, ParsedQuestion, stem_of
from polyhop.worker.reading.word_lists import (
    DateAttribute,
    Measure,
    comparison_lists,
    date_attributes,
    event_of,
    measures,
)

CONFIDENCES: Mapping[str, float] = {
    "life span": 0.85, "birth": 0.85, "death": 0.85, "founding": 0.80, "opening": 0.80, "building": 0.80,
    "release": 0.80, "launch": 0.80, "event": 0.75, "country": 0.80, "demonym": 0.75, "number": 0.70, "measure": 0.70,
    "shared name": 0.60, "definition": 0.60, "statement": 0.60, "cover": 0.40,
}  # fmt: skip
"""How often each rule is right. Source: reader.md, Confidence and silence."""

UNNAMED = 0.6
"""Factor of the confidence where the question names no options: the context may not hold all of them."""

MISSING = "not stated in the passages read"
"""What is shown of a thing whose value no sentence states."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer that a rule computed, with what it compared; "" if a value is missing.

    `names_all` is False if the question did not name what was compared, so that something better may be unread.
    """

    answer: str
    rule: str
    values: tuple[ComparedValue, ...]
    names_all: bool = True

    @property
    def confidence(self) -> float:
        """How often the rule is right, 0 without an answer."""
        if not self.answer:
            return 0.0
        return CONFIDENCES[self.rule] * (1.0 if self.names_all else UNNAMED)


_ASKING = ("what", "which")
_FIRST = r"(?:most recent|latest|newest|last|earliest|oldest|first)"
_BEFORE_NOUN = rf"\b{_FIRST} (?:[a-z-]+ ){{0,2}}"
_AT_END = re.compile(r"\b(?:first|last|earliest|latest|most recently)\s*\??\s*$", re.IGNORECASE)


def candidates_of(question: ParsedQuestion, pages: Sequence[Page]) -> list[Option]:
    """What a superlative may mean, in ranked order; none if the question has no superlative, no noun or no name.

    Cost: O(characters of the context).
    """
    if question.wh not in _ASKING or not question.names or not _has_superlative(question):
        return []
    kind, are_persons = question.head_stem, HEADS.get(question.head[-1]) == PERSON
    # Stems of what the question says of the thing (`directed`), besides its kind, its names and when it was.
    lists = comparison_lists()
    left_out = lists.larger | lists.smaller | lists.start_words | {question.head[-1], "most", "out"}
    left_out = left_out.union(*(kind.asked for kind in date_attributes().values()))
    words = plain_words(question) - left_out - STOP_WORDS
    said = frozenset(stem for word in words if (stem := stem_of(word)))
    keys = [mention.key for mention in question.names]
    return [
        Option(page.passage.title, page, page.passage.title)
        for page in pages
        if kind in map(stem_of, page.kinds)
        and said <= page.stems
        and all(page.mentions((key,)) for key in keys)
        and question.name_keys.isdisjoint(page.title_keys)
        and (bool(page.title_keys) and title_type(page.passage.title, page.title_keys[0], page.lead)[0] == PERSON)
        == are_persons
    ]


def _has_superlative(question: ParsedQuestion) -> bool:
    if not question.head:
        return False
    before = re.compile(rf"{_BEFORE_NOUN}{re.escape(question.head[-1])}\b", re.IGNORECASE)
    return bool(before.search(question.text) or _AT_END.search(question.text))


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
            # The last of the numbers that begin or end within the two words before a noun.
            low = sentence.words[max(0, place - _NEAR_NOUN)][0]
            high = sentence.words[place][0]
            number = next((one for one in reversed(numbers) if low <= one.start < high or low < one.end <= high), None)
            if number is not None:
                return float(number.key.removeprefix("number:")), number.surface, sentence
    return None


def _by_cover(question: ParsedQuestion, options: Sequence[Option], idf: Idf) -> Computed | None:
    """The option of whom one sentence says what the question says, where no sentence says it of another one."""
    # Stems of what a question says beside the names of its options, in alphabetical order.
    unsaid = {word for option in options for word in name_tokens(option.name)} | {"one"} | STOP_WORDS
    stems = sorted({stem for word in question.words if word not in unsaid and (stem := stem_of(word))})
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


def _best_cover(page: Page | None, stems: Sequence[str], idf: Idf) -> tuple[float, PageSentence | None]:
    total = sum(idf(stem) for stem in stems)
    best: tuple[float, PageSentence | None] = (0.0, None)
    for sentence in page.sentences if page is not None and total else ():
        if page is not None and is_about(page, sentence):
            share = sum(idf(stem) for stem in stems if stem in sentence.places) / total
            best = max(best, (share, sentence), key=lambda one: one[0])
    return best


_PART_OF = re.compile(r"\bthe ([a-z]+) of (?:the )?$", re.IGNORECASE)
_FREE = frozenset(("year", "date", "day", "month", "exact", "did", "does", "was", "were", "is", "are", "has", "have"))
_LONGEST_TIME = frozenset(("take", "takes", "last", "lasts"))


def answer_directly(question: ParsedQuestion, pages: Sequence[Page]) -> Computed | None:
    """The one value that a question asks for, None unless it asks for nothing else and a sentence states it.

    Cost: O(characters of the context).
    """
    if len(question.names) != 1:
        return None
    name = question.names[0]
    option = option_of(question, name, pages)
    role = role_of(question, name)
    if role and option.via is None:
        return None
    words = plain_words(question) - STOP_WORDS - _FREE - {role, question.wh}
    if question.expected in (DATE, YEAR):
        return _date(question, option, words, pages)
    return _measure(option, words) if question.wh == "how" else None


def _date(question: ParsedQuestion, option: Option, words: frozenset[str], pages: Sequence[Page]) -> Computed | None:
    # The noun in `the NOUN of NAME`, "" without one.
    before = _PART_OF.search(question.text[: question.names[0].start])
    part = before[1].lower() if before and not role_of(question, question.names[0]) else ""
    own = option.page.kinds if option.page is not None else frozenset()
    for kind, rest in _kinds(words - {part}):
        if rest <= own:
            if part and part not in own:
                stated = None if option.page is None else stated_date_of_part(part, option.page, kind)
            else:
                stated = stated_date(option.name, option.page, pages, kind)
            if stated is not None:
                return Computed(_written(stated, question), kind.name, (_shown(option, stated),))
    return None


def _kinds(words: frozenset[str]) -> Iterator[tuple[DateAttribute, frozenset[str]]]:
    """The kinds of dates that words may ask for, with the words that are left; any verb is one of its own."""
    known = [kind for kind in date_attributes().values() if words & kind.asked]
    for kind in known:
        yield kind, words - kind.asked
    for word in () if known else sorted(words):
        yield event_of(word), words - {word}


def _written(stated: Stated, question: ParsedQuestion) -> str:
    text = stated.sentence.text[stated.date.start : stated.date.end]
    return f"{stated.date.day[0]}" if question.expected == YEAR else text


def _shown(option: Option, stated: Stated) -> ComparedValue:
    text = stated.sentence.text[stated.date.start : stated.date.end]
    return ComparedValue(option.name, text, stated.page.cite(stated.sentence))


def _measure(option: Option, words: frozenset[str]) -> Computed | None:
    page = option.page
    if page is None or words & _LONGEST_TIME:
        return None
    for kind in measures().values():
        if words & kind.asked and words - kind.asked <= page.kinds | {"many", "much"}:
            found = stated_measure(page, kind)
            if found is not None:
                shown = ComparedValue(option.name, found.text, page.cite(found.sentence))
                return Computed(found.text, "measure", (shown,))
    return None
