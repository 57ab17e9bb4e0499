"""Answers computed from values: `A or B`, yes or no over two values or one, and one date or measure of one thing.

A question is parsed once: its options, and what is wanted of them. The value of an option is the date or number whose
sentence is nearest to the question with the option instead of its wh-word. Without all values, or where they do not
differ, nothing is computed. Source: reader.md, Computed answers; measured on HotpotQA and 2Wiki.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, fsum

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS
from polyhop.schemas.names import name_tokens
from polyhop.schemas.query import ComparedValue
from polyhop.schemas.types import HEADS, PERSON
from polyhop.schemas.values import DIMENSIONS, Value, order, values_in
from polyhop.worker.reading.pages import ParsedPassage, PassageSentence, Similarity, titled
from polyhop.worker.reading.question import DATE, NUMBER, YEAR, YES_NO, ParsedQuestion, stem_of, stems_of
from polyhop.worker.reading.word_lists import country_mentions, geography, nationalities, shared_countries

CONFIDENCES: Mapping[str, float] = {
    "date": 0.95, "birth": 0.91, "death": 0.91, "life span": 0.91, "number": 0.75, "country": 0.80, "statement": 0.60,
}  # fmt: skip
"""How often each rule is right, Laplace's estimate on comparisons of HotpotQA and 2Wiki; yes and no: reader.md."""

MISSING = "not stated in the passages read"  # What is shown of a thing whose value no sentence states.


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer that a rule computed, with what it compared; "" if a value is missing."""

    answer: str
    rule: str
    values: tuple[ComparedValue, ...]

    @property
    def confidence(self) -> float:
        """Share of right answers by the rule; 0 without an answer."""
        return CONFIDENCES[self.rule] if self.answer else 0.0


def compute(question: ParsedQuestion, pages: Sequence[ParsedPassage], similar: Similarity) -> Computed | None:
    """The answer of a question that asks for values, None if it asks for something else.

    Cost: O(characters of the context), and the encoding of the sentences that hold a value of an option.
    """
    values = _Values(question, pages, similar)
    options = options_of(question)
    if options:
        return _best_option(values, options)
    if question.expected == YES_NO:
        return _yes_or_no(values)
    is_value = question.expected in (DATE, YEAR, NUMBER) and len(question.names) == 1
    return _one_value(values, question.names[0]) if is_value else None


# What is compared, and which end of it wins.

_LARGER = """
later latest last recent recently newer newest younger youngest after more most larger largest bigger biggest higher
highest taller tallest greater greatest longer longest deeper deepest wider widest broader heavier heaviest farther
above over exceed exceeds reach reaches rise
"""
_SMALLER = """
older oldest elder earlier earliest first before fewer fewest less least smaller smallest lower lowest shorter shortest
narrower lighter cheaper below under
"""
_ORDER = "first earlier earliest later latest last recent recently newer newest after"
_BIRTH, _DEATH, _AGES, _DATES, _MOST, _LEAST = (
    frozenset(words.split())
    for words in ("born birth birthday birthdate", "died die dies death dead", "older oldest elder younger youngest",
                  _ORDER, _LARGER, _SMALLER)
)  # fmt: skip
_MEASURES = {
    word: frozenset(dimensions)
    for dimensions, words in (
        (("length",), "high higher highest height tall taller tallest deep deeper deepest depth wide wider width far"),
        (("length",), "broad broader farther lower lowest above widest"),
        (("mass",), "heavy heavier heaviest weight weigh weighs lighter"),
        (("length", "time"), "long longer longest length short shorter shortest"),
        (("area", "length", "mass", ""), "large larger largest big bigger biggest small smaller smallest size"),
    )
    for word in words.split()
}
"""Dimensions of the values that a word asks for (schemas/values.py)."""
_LIFE_SPAN = re.compile(
    r"\b(?:lived?|lives|living) (?:the )?(?:long|short)|\b(?:long|short)er (?:life|lived)"
    r"|\bdied? (?:young|old|at an? (?:young|old|lat|earli)\w* age)",
    re.IGNORECASE,
)
_SHORT = re.compile(r"\b(?:short|young|earl)", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?:more|most|fewer|fewest|less|least|many)\s+(?!recent|than)([a-z]\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value that a sentence states of an option, and how near the sentence is to the question."""

    value: Value
    page: ParsedPassage
    sentence: PassageSentence
    nearness: float

    @property
    def text(self) -> str:
        """As the sentence writes it."""
        return self.sentence.text[self.value.start : self.value.end]


_PARENTHESIS = re.compile(r"\([^()]*\)")
_BORN_OR_DIED = re.compile(r"\b(?:born|died|death|b\.|d\.)(?=\W|$)", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|death|d\.)(?=\W|$)", re.IGNORECASE)
_DASH = re.compile(r"\s*[–—-]")
_UNSAID = -9.0  # bonus of a date that is not said to be of a life
_LEAD, _ROLE = 4, 40  # sentences of a page that name who made it; characters before a name that say as what; chosen
_COVERED = 0.6  # share of the words of an option without a page that a sentence says with its title; chosen
_MOST_READ = 10  # sentences of an option; the value stands further down in fewer than 1 of 100 questions


class _Values:
    """Values that the passages state of the options of one question, prepared once."""

    def __init__(self, question: ParsedQuestion, pages: Sequence[ParsedPassage], similar: Similarity) -> None:
        self.question = question
        self.pages = pages
        self.similar = similar
        ends = [0, *(name.end for name in question.names)]
        starts = [*(name.start for name in question.names), len(question.text)]
        outside = [question.text[end:start] for end, start in zip(ends, starts, strict=True)]
        self.words = frozenset(name_tokens(" ".join(outside)))
        """Words of the question outside its names."""
        self.larger_wins = bool(self.words & _MOST) and not self.words & _LEAST
        match = _COUNTED.search(question.text)
        self.counted = stem_of(match[1].lower()) if match else ""
        """Stem of what is counted (`more inhabitants`), "" if nothing is."""

    def kind_of(self, page: ParsedPassage | None) -> tuple[str, frozenset[str]]:
        """The rule that a question asks for, and the dimensions of its values; "" if it compares nothing."""
        words, head = self.words, self.question.head
        asks_person = HEADS.get(head[-1]) == PERSON if head else page is not None and page.content.is_person
        # of a role that the question names, too: the film whose director is older
        asks_person = asks_person or any(HEADS.get(word) == PERSON for word in words)
        if _LIFE_SPAN.search(self.question.text):
            return "life span", frozenset(("date",))
        if words & (_DEATH | _BIRTH) or (words & _AGES and asks_person):
            return "death" if words & _DEATH else "birth", frozenset(("date",))
        if self.question.expected in (DATE, YEAR):
            return "date", frozenset(("date",))
        sizes = frozenset(dimension for word in words & _MEASURES.keys() for dimension in _MEASURES[word])
        if sizes or (self.counted and not words & _DATES):
            return "number", sizes or DIMENSIONS
        if words & (_DATES | _AGES | {"before"}):
            return "date", frozenset(("date",))
        return ("number", DIMENSIONS) if self.question.expected == NUMBER else ("", frozenset())

    def page_of(self, option: str) -> ParsedPassage | None:
        """The best ranked page with an option as its title, or in it."""
        key = " ".join(name_tokens(option)).removeprefix("the ")
        longer = (page for page in self.pages if " " in key and any(f" {key} " in f" {k} " for k in page.title_keys))
        return next((page for page in self.pages if key in page.title_keys), next(longer, None))

    def followed(self, page: ParsedPassage) -> tuple[str, ParsedPassage] | None:
        """The person whom a page names and a question asks about by a role: nearest to the question by its words."""
        named = []
        for sentence in page.sentences[:_LEAD]:
            for mention in sentence.names:
                other = next((one for one in self.pages if mention.key in one.title_keys), None)
                if other is not None and other is not page and other.content.is_person:
                    said = sentence.text[max(0, mention.start - _ROLE) : mention.end]
                    named.append((said, mention.surface, other))
        if not named:
            return None
        near = self.similar.of_texts(" ".join(sorted(self.words - STOP_WORDS)), [said for said, _, _ in named])
        _, name, person = named[max(range(len(named)), key=lambda number: (near[number], -number))]
        return name, person

    def nearest(
        self, option: str, page: ParsedPassage | None, asked: str, kind: str, dimensions: frozenset[str]
    ) -> dict[str, StatedValue]:
        """By dimension, the nearest of the values that are stated of an option; the nearest of all first."""
        named = stems_of(option)
        held = [
            (own, sentence, values)
            for own in (self.pages if page is None else [page])
            for sentence in own.sentences
            if page is not None or self.similar.share(named, own.title_stems.union(sentence.word_indices)) >= _COVERED
            if (values := [one for one in values_in(sentence.text) if one.dimension in dimensions])
        ]
        stems = stems_of(asked) - named
        # of a long page, the sentences that say most of the question
        held = sorted(held, key=lambda one: -len(stems & one[1].word_indices.keys()))[:_MOST_READ]
        near = self.similar.of_texts(asked, [titled(own, sentence) for own, sentence, _ in held])
        found = [
            StatedValue(value, own, sentence, cosine + bonus)
            for (own, sentence, values), cosine in zip(held, near, strict=True)
            for value in values
            if (bonus := self._bonus(sentence, value, kind, stems)) > _UNSAID
        ]
        found.sort(key=lambda one: (-one.nearness, one.page.rank, one.sentence.start + one.value.start))
        nearest: dict[str, StatedValue] = {}
        for one in found:
            nearest.setdefault(one.value.dimension, one)
        return nearest

    def _bonus(self, sentence: PassageSentence, value: Value, kind: str, stems: frozenset[str]) -> float:
        """Bonus for a value's position: early, near the question's words, in the parenthesis of a life."""
        bonus = 0.1 * (sentence.number == 0) - 0.02 * sentence.number
        if kind in ("birth", "death"):
            return bonus + 0.5 if _is_of_life(sentence, value, kind) else _UNSAID
        number = sum(end <= value.start for _, end in sentence.words)
        total = fsum(self.similar.idf(stem) for stem in stems)
        for stem in sorted(stems & sentence.word_indices.keys()):
            gap = min(number - n if n < number else 3 * (n - number + 1) for n in sentence.word_indices[stem])
            bonus += 0.3 * self.similar.idf(stem) / total * exp((1 - gap) / 4)
        if kind == "number" and self.counted and not value.dimension:
            following = sentence.words[number + 1 : number + 4]
            said = {stem_of(sentence.text[start:end].lower()) for start, end in following}
            bonus += 0.3 if self.counted in said else -0.3
        return bonus


def _is_of_life(sentence: PassageSentence, value: Value, kind: str) -> bool:
    """In a parenthesis of the first sentence birth comes first, then death; elsewhere after `born` or `died`."""
    text = sentence.text
    outer = next((one for one in _PARENTHESIS.finditer(text) if one.start() < value.start < one.end()), None)
    if sentence.number == 0 and outer is not None:
        dates = [one for one in values_in(text) if one.dimension == "date" and outer.start() < one.start < outer.end()]
        before = text[outer.start() : value.start]
        if len(dates) == 1 and not _BORN_OR_DIED.search(before):
            return bool(_DASH.match(before[1:])) and kind == "death"
        is_death = bool(_DIED.search(before)) or dates[0].start != value.start
        return is_death == (kind == "death")
    said = list(_BORN_OR_DIED.finditer(text[max(0, value.start - 60) : value.start]))
    return bool(said) and (_DIED.match(said[-1][0]) is not None) == (kind == "death")


# The names that a question offers to choose from.

_OR = re.compile(r"\bor\b", re.IGNORECASE)
_NEAR = 28  # characters around an `or`; chosen: room for `the passage system of`
_TWO = re.compile(r"\b(?:between|of the two)\b|\bof\b.{1,80}\band\b|\bwh(?:o|ich) (?:was|is|came|one)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"(?:,|,? (?:or|and)) (?:the )?")


def options_of(question: ParsedQuestion) -> tuple[Mention, ...]:
    """The options of a question, two or more; () if it offers none."""
    names, text = question.names, question.text
    for first, name in enumerate(names):
        last = first
        while last + 1 < len(names) and _BETWEEN.fullmatch(text, names[last].end, names[last + 1].start):
            last += 1
        is_series = last - first >= 2 and (first == 0 or not _BETWEEN.fullmatch(text, names[first - 1].end, name.start))
        if is_series and re.search(r"\bor\b|\band\b", text[names[last - 1].end : names[last].start]):
            return names[first : last + 1]
    for match in reversed(list(_OR.finditer(text))):
        before = [name for name in names if match.start() - _NEAR <= name.end <= match.start()]
        after = [name for name in names if match.end() <= name.start <= match.end() + _NEAR]
        is_inside = any(name.start < match.start() < name.end for name in names)
        if before and after and not is_inside:
            return before[-1], after[0]
    words = frozenset(question.words)
    if len(names) == 2 and words & (_MOST | _LEAST) and _TWO.search(text):
        return names
    return ()


_BEFORE_CHOICE = re.compile(
    r"(?:^|[,:;?–—-]|\b(?:is|are|was|were|do|does|did|has|have|had|between))\s*(?:the |an? )?$", re.IGNORECASE
)


def choices_of(question: ParsedQuestion) -> list[str]:
    """The options of a question whose answer has to be one of them, as it spells them: `Who is older, A or B?`.

    [] where they only say of what something is asked: `Which river flows through A or B?`, `How old are A or B?`.
    """
    options = options_of(question)
    if not options or not _OR.search(question.text) or question.wh in ("when", "where", "how", "why"):
        return []
    before = question.text[: options[0].start]
    last_word = (name_tokens(before) or [""])[-1]
    is_choice = _BEFORE_CHOICE.search(before) or last_word in _MOST | _LEAST
    return [option.surface for option in options] if is_choice else []


_ROLE_BEFORE = re.compile(r"\bthe ([a-z]+) of (?:the )?(?:[a-z]+ ){0,2}$", re.IGNORECASE)


def _asked_with(question: ParsedQuestion, option: Mention, options: Sequence[Mention]) -> str:
    """The question with one option instead of its wh-word, and without the others."""
    text, low, high = question.text, options[0].start, options[-1].end
    between = text[options[0].end : options[-1].start] if len(options) == 2 else ""
    wh = re.search(rf"\b{question.wh}\b", text, re.IGNORECASE) if question.wh else None
    if wh is None or low <= wh.start() < high:
        return f"{text[:low]}{option.surface}{between}{text[high:]}"
    if wh.start() < low:
        return f"{text[: wh.start()]}{option.surface}{text[wh.end() : low]}{between}{text[high:]}"
    return f"{text[:low]}{between}{text[high : wh.start()]}{option.surface}{text[wh.end() :]}"


def _measure(values: _Values, options: Sequence[Mention]) -> tuple[Computed, Sequence[str], list[tuple[float, ...]]]:
    """Values of each option, all of one dimension: that of all whose sentences are nearest.

    Returns:
        The undecided answer with what is shown, the options' names, and their sizes: none unless all are stated.
    """
    pages = [values.page_of(option.surface) for option in options]
    rule, dimensions = values.kind_of(next((page for page in pages if page is not None), None))
    names, births, rows = (
        [option.surface for option in options],
        list[dict[str, StatedValue]](),
        list[dict[str, StatedValue]](),
    )
    for number, (option, own) in enumerate(zip(options, pages, strict=True)):
        page = own
        followed = values.followed(own) if rule in _LIFE and own is not None and not own.content.is_person else None
        if followed is not None:
            page = followed[1]
            if _ROLE_BEFORE.search(values.question.text[: option.start]):
                names[number] = followed[0]
        asked = _asked_with(values.question, option, options)
        kind = "death" if rule == "life span" else rule
        rows.append(values.nearest(names[number], page, asked, kind, dimensions) if rule else {})
        births.append(values.nearest(names[number], page, asked, "birth", dimensions) if rule == "life span" else {})
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    best = max(shared, key=lambda name: sum(row[name].nearness for row in rows), default="none")
    sizes, shown = list[tuple[float, ...]](), []
    for name, row, birth in zip(names, rows, births, strict=True):
        one, born = row.get(best, next(iter(row.values()), None)), birth.get("date")
        if one is None or (rule == "life span" and born is None):
            shown.append(ComparedValue(name, MISSING))
            continue
        text, size = one.text, one.value.size
        if born is not None:
            (y1, m1, d1), (y2, m2, d2) = born.value.size, size
            size = (y2 - y1 + ((m2 - m1) / 12 + (d2 - d1) / 372 if m1 and m2 else 0.0),)
            text = f"{born.text} to {text}"
        sizes.append(size)
        shown.append(ComparedValue(name, text, one.page.cite(one.sentence)))
    return Computed("", rule, tuple(shown)), names, sizes if len(sizes) == len(options) else []


def _best_option(values: _Values, options: Sequence[Mention]) -> Computed:
    """The option with the largest or smallest value; "" without all values, or where they do not differ."""
    undecided, names, sizes = _measure(values, options)
    larger_wins = not _SHORT.search(values.question.text) if undecided.rule == "life span" else values.larger_wins
    best = 0
    for number in range(1, len(sizes)):
        sign = order(sizes[best], sizes[number])
        if not sign:
            return undecided
        if (sign < 0) == larger_wins:
            best = number
    return replace(undecided, answer=names[best]) if sizes else undecided


def _one_value(values: _Values, name: Mention) -> Computed | None:
    """The date or measure that a question asks of one thing, None unless its sentence says all else that is asked."""
    question, page = values.question, values.page_of(name.surface)
    rule, dimensions = values.kind_of(page)
    if page is None or rule == "life span":
        return None
    found = next(iter(values.nearest(name.surface, page, question.text, rule, dimensions).values()), None)
    if found is None:
        return None
    asked = (stem_of(word) for word in values.words - STOP_WORDS - _FREE - _BIRTH - _DEATH - _MEASURES.keys())
    held = page.title_stems.union(found.sentence.word_indices, map(stem_of, page.content.kinds))
    if not all(stem in held for stem in asked if stem):
        return None
    text = f"{found.value.size[0]:.0f}" if question.expected == YEAR else found.text
    return Computed(text, rule, (ComparedValue(name.surface, found.text, page.cite(found.sentence)),))


_AUXILIARIES = "did does do was were is are has have"
_ASKING = f"{_AUXILIARIES} year date day month exact when what which how many much"
_FREE = frozenset(_ASKING.split())
_LIFE = ("birth", "death", "life span")
_SAME = re.compile(r"\b(?:same|shares?|common)\b", re.IGNORECASE)
_COUNTRY = re.compile(r"\b(?:nationalit(?:y|ies)|country|countries|nation|citizenship)\b", re.IGNORECASE)
_SPAN = re.compile(r"\b(year|decade|century)\b", re.IGNORECASE)
_SPANS = {"year": 1, "decade": 10, "century": 100}
_NOT = re.compile(r"\b(?:not|never|no|nor|neither|without|instead|failed|refused)\b|n['\u2019]t\b", re.IGNORECASE)
_FILLERS = STOP_WORDS.union(f"{_AUXILIARIES} both all also either too".split())


def _yes_or_no(values: _Values) -> Computed:
    """Yes or no over two values or one, over countries, or because a sentence says it; "" if nothing decides."""
    question, text = values.question, values.question.text
    options = [one for one in question.names if one.key not in geography().demonyms]
    if _SAME.search(text) and _COUNTRY.search(text) and len(options) >= 2:
        return _same_country(values, options)
    outside = (one for one in values_in(text) if all(not n.start <= one.start < n.end for n in question.names))
    threshold = next(outside, None)
    if threshold is not None and values.words & (_MOST | _LEAST):
        return _against_threshold(values, options, threshold)
    is_ordered = len(options) == 2 and bool(values.words & {"than", "before", "after"})
    span = _SPAN.search(text) if _SAME.search(text) and len(options) >= 2 else None
    if not is_ordered and not span:
        return _by_statement(values, options)
    if values.words & _BIRTH and values.words & _DEATH:
        return Computed("", "", ())
    undecided, _, sizes = _measure(values, options)
    if not sizes or (not span and not order(sizes[0], sizes[1])):
        return undecided
    if span:
        is_so = len({size[0] // _SPANS[span[1].lower()] for size in sizes}) == 1
    else:
        is_so = (order(sizes[0], sizes[1]) > 0) == values.larger_wins
    return replace(undecided, answer="yes" if is_so else "no")


def _against_threshold(values: _Values, options: Sequence[Mention], threshold: Value) -> Computed:
    """Compares values of all things in the question with the threshold that it states."""
    text = values.question.text
    if not options:
        before = text[: threshold.start]
        said = (word for word in before.split()[1:] if word not in _MOST | _LEAST)
        options = [Mention("", " ".join(said), 0, threshold.start)]
    counted = re.match(r" ([a-z]\w+)", text[threshold.end :])
    stem = stem_of(counted[1]) if counted and not threshold.dimension else ""
    answers, shown = [], []
    for option in options:
        page = values.page_of(option.surface)
        wanted = frozenset((threshold.dimension,))
        found = values.nearest(option.surface, page, text, "number", wanted).get(threshold.dimension)
        if found is None or (stem and stem not in found.sentence.word_indices):
            return Computed("", "number", (ComparedValue(option.surface, MISSING),))
        sign = order(found.value.size, threshold.size) or (1 if values.words & {"reach", "reaches"} else 0)
        answers.append(sign > 0 if values.words & _MOST and not values.words & _LEAST else sign < 0)
        shown.append(ComparedValue(option.surface, found.text, found.page.cite(found.sentence)))
    return Computed("yes" if all(answers) else "no", "number", tuple(shown))


def _same_country(values: _Values, options: Sequence[Mention]) -> Computed:
    """Compares the countries of all pages; "" unless every page names one."""
    shared: set[str] | None = None
    shown = []
    for option in options:
        page = values.page_of(option.surface)
        lead = page.content.lead if page is not None else ""
        born = re.search(r"\bborn\b[^.]*", lead) if values.words & _BIRTH else None
        mentions = [p for p in country_mentions(born[0]) if not p.is_demonym] if born else nationalities(lead)
        countries = {mention.country for mention in mentions}
        shared = countries if shared is None else shared_countries(shared, countries)
        value = min(countries & shared or countries, default=MISSING)
        cited = page.cite(page.sentences[0]) if page is not None and countries else None
        shown.append(ComparedValue(option.surface, value, cited))
    is_open = any(value.sentence is None for value in shown)
    return Computed("" if is_open else "yes" if shared else "no", "country", tuple(shown))


def _by_statement(values: _Values, options: Sequence[Mention]) -> Computed:
    """Yes if a sentence of each thing that a question puts side by side says all of the rest, and no negation."""
    question = values.question
    things = options if "both" in question.words else options[:1]
    said = " ".join(word for word in name_tokens(question.text) if word not in _FILLERS)
    stems = stems_of(said).difference(*(stems_of(thing.surface) for thing in things))
    shown = []
    for thing in things:
        page = values.page_of(thing.surface)
        sentences = page.sentences if page is not None and stems else ()
        titles = page.title_stems if page is not None else frozenset()
        said_by = (one for one in sentences if stems <= titles.union(one.word_indices) and not _NOT.search(one.text))
        found = next(said_by, None)
        if found is None or page is None:
            return Computed("", "statement", (ComparedValue(thing.surface, MISSING),))
        shown.append(ComparedValue(thing.surface, " ".join(found.text.split()), page.cite(found)))
    return Computed("yes" if shown else "", "statement", tuple(shown))
