"""Spans of a sentence that can answer a question of some type, and their features.

Source: reader.md 6.2. Decided here: at most `MOST_CANDIDATES` of a sentence, the first ones, so that a list of names
stays cheap; the full name that a page begins with (`Rory Elizabeth Katherine Kennedy`) is the question's `Rory Kennedy`
again.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from math import exp, fsum
from typing import NamedTuple

from polyhop.schemas.names import FUNCTION_WORDS, name_tokens
from polyhop.schemas.text import norm_answer
from polyhop.schemas.types import TITLES_OF_PERSONS
from polyhop.schemas.values import find_dates, values_in
from polyhop.worker.reading.clauses import PRONOUNS, Surroundings, leading_subject, words_of
from polyhop.worker.reading.pages import (
    CorpusPages,
    OwnPage,
    Page,
    PageContent,
    PageSentence,
    is_country_or_state,
    is_subject,
)
from polyhop.worker.reading.question import (
    ANY,
    DATE,
    NATIONALITY,
    NUMBER,
    PERSON,
    PLACE,
    YEAR,
    ParsedQuestion,
    stem_of,
    stems_of,
)
from polyhop.worker.reading.word_lists import clause_lists, geography, name_lists, places_in

DATED, YEARS, COUNTED, NAMED, QUOTED, PEOPLE, PHRASE, SUBJECT = "D", "Y", "#", "N", "Q", "A", "P", "S"
"""Kinds of candidates: dates, bare years, numbers, names, quotes, demonyms, lower-case phrases, and what the page is
about where a sentence begins with `he`, `the company` or a part of its name."""

MOST_CANDIDATES = 60  # see above; chosen: sentences other than lists have far fewer
_KEPT_SENTENCES = 10_000
"""Sentences whose spans are kept, once per type of answer: some 2,000 passages, as many as pages.py keeps."""
_COUNTRY_HEADS = frozenset(("country", "nation", "citizenship"))
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_DAY_AND_MONTH = re.compile(rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b)(?!,? \d)")
_QUOTE = re.compile(r"[\"“«]([^\"“”«»\n]{2,60})[\"”»]")
_OTHER_NAMES = frozenset(("name", "full", "real", "nickname", "known", "called"))
_LONGEST_PHRASE = 4  # words; reader.md 6.2, P.
_MOST_SUBJECTS = 30  # sentences of a page; chosen: half of those that are read (`MOST_SENTENCES` of pages.py)
_PARENTHESES = re.compile(r"\([^()]*\)")


class Candidate(NamedTuple):
    """A possible answer; `start` and `end` are offsets within its sentence.

    `key` holds its folded lower-case words, `norm` its `norm_answer`, `around` the text beside it.
    """

    kind: str
    answer: str
    key: str
    norm: str
    start: int
    end: int
    sentence: PageSentence
    page: Page
    around: Surroundings


Span = tuple[str, str, int, int]
"""Kind, answer, start and end within the sentence."""


class PreparedSpan(NamedTuple):
    """A span with what of its answer does not depend on the question: its words, folded and in lower case, and norm."""

    kind: str
    answer: str
    start: int
    end: int
    tokens: tuple[str, ...]
    key: str
    norm: str
    around: Surroundings


def find_candidates(question: ParsedQuestion, page: Page) -> list[Candidate]:
    """Candidates of a passage, sentence by sentence, without those that the question names itself.

    Source: reader.md 6.2. Cost: O(characters of the page).
    """
    asked = f" {norm_answer(question.text)} "
    words = frozenset(question.words)
    subject = _named_subject(question, page)
    asks_country = question.expected == PLACE and bool(_COUNTRY_HEADS.intersection(question.head))
    found = []
    for sentence in page.sentences:
        spans: Iterable[PreparedSpan] = _spans(sentence, question.expected, asks_country=asks_country)
        own = page_subject(question, page, sentence)
        if own is not None:  # what the sentence is about takes the place of a part of its name
            spans = chain([own.span], (one for one in spans if not own.covers(one)))
        kept = 0
        for kind, answer, start, end, tokens, key, norm, around in spans:
            if kept == MOST_CANDIDATES:
                break
            repeats = kind in (NAMED, QUOTED) and words.issuperset(tokens)
            repeats = repeats or (start == 0 and subject.issubset(tokens) and sentence.number == 0)
            if norm and tokens and f" {norm} " not in asked and not repeats:
                found.append(Candidate(kind, answer, key, norm, start, end, sentence, page, around))
                kept += 1
    return found


def _named_subject(question: ParsedQuestion, page: Page) -> frozenset[str]:
    """Words of the page's title if the question names it and asks for no other name of it; else one that is nowhere."""
    key = page.title_keys[-1] if page.title_keys else ""
    if " " not in key or key not in question.name_keys or _OTHER_NAMES.intersection(question.words):
        return frozenset(("",))
    return frozenset(key.split())


@lru_cache(maxsize=_KEPT_SENTENCES)
def _spans(sentence: PageSentence, expected: str, *, asks_country: bool) -> Sequence[PreparedSpan]:
    """The spans of a sentence, which are the same for all questions that expect an answer of this type."""
    if expected in _BY_TYPE:
        return [_prepared(sentence, span) for span in _BY_TYPE[expected](sentence)]
    found = list(names(sentence))
    if expected == ANY:
        found += quotes(sentence)
    if expected == NATIONALITY or asks_country:
        found += people(sentence, is_country=expected == PLACE)
    if expected == ANY:
        found += phrases(sentence)
    return [_prepared(sentence, span) for span in found]


def _prepared(sentence: PageSentence, span: Span) -> PreparedSpan:
    _, answer, start, end = span
    tokens = tuple(name_tokens(answer))
    around = Surroundings(sentence.text, start, end)
    return PreparedSpan(*span, tokens, " ".join(tokens), norm_answer(answer), around)


class PageSubject(NamedTuple):
    """The title of a page where a sentence begins with what the page is about: `said` is how the sentence puts it."""

    span: PreparedSpan
    words: frozenset[str]
    said: str

    def covers(self, other: PreparedSpan) -> bool:
        """Whether a span is a name there that is a part of the title."""
        span = self.span
        is_beside = other.start >= span.end or other.end <= span.start
        return other.kind == NAMED and not is_beside and self.words.issuperset(other.tokens)


def page_subject(question: ParsedQuestion, page: Page, sentence: PageSentence) -> PageSubject | None:
    """The page's title where a sentence that says some of the question begins with what the page is about."""
    if question.expected in _BY_TYPE or question.expected == NATIONALITY or sentence.number >= _MOST_SUBJECTS:
        return None
    if sentence.places.keys().isdisjoint(question.main_stems):
        return None
    subject = _subject(page.content, sentence)
    return None if subject is None or subject.said in question.name_keys else subject


@lru_cache(maxsize=_KEPT_SENTENCES)
def _subject(page: PageContent, sentence: PageSentence) -> PageSubject | None:
    if sentence.number:
        # The first word can be one of what the page is about: no other name begins the sentence.
        start, end = sentence.words[0] if sentence.words else (0, 0)
        low, lists = sentence.text[start:end].lower(), clause_lists()
        is_open = low in PRONOUNS or low in ("the", "this") or low in lists.prepositions or low in lists.adverbs
        if not is_open and not any(low in key for key in page.title_keys):
            return None
    words = words_of(sentence.text)
    phrase = leading_subject(words)
    title = _PARENTHESES.sub(" ", page.title).strip()
    if phrase is None or not title or not is_subject(page, sentence, words, phrase):
        return None
    start, end = words[phrase.first].start, words[phrase.last].end
    span = _prepared(sentence, (SUBJECT, title, start, end))
    return PageSubject(span, frozenset(span.tokens), " ".join(name_tokens(sentence.text[start:end])))


def dates(sentence: PageSentence) -> Iterator[Span]:
    """Full dates, months with a year, days with a month; years by themselves only without any of these."""
    found = find_dates(sentence.text)
    of_months = (match.span() for match in _DAY_AND_MONTH.finditer(sentence.text))
    spans = [(one.start, one.end) for one in found if "-" in one.key]
    spans += [(a, b) for a, b in of_months if all(b <= one.start or a >= one.end for one in found)]
    for start, end in sorted(spans):
        yield DATED, sentence.text[start:end], start, end
    for one in found:
        if "-" not in one.key:
            yield DATED, one.surface, one.start, one.end


def years(sentence: PageSentence) -> Iterator[Span]:
    """Years, within dates too."""
    for one in find_dates(sentence.text):
        yield YEARS, sentence.text[one.end - 4 : one.end], one.end - 4, one.end


def numbers(sentence: PageSentence) -> Iterator[Span]:
    """Numbers in digits or words with their unit, outside dates; bare years are marked."""
    for value in values_in(sentence.text):
        is_year = value.dimension == "date" and not value.size[1]
        if is_year or value.dimension != "date":
            kind = YEARS if is_year else COUNTED
            yield kind, sentence.text[value.start : value.end], value.start, value.end


_BY_TYPE: Mapping[str, Callable[[PageSentence], Iterator[Span]]] = {DATE: dates, YEAR: years, NUMBER: numbers}


def names(sentence: PageSentence) -> Iterator[Span]:
    """Capitalised runs outside dates."""
    taken = find_dates(sentence.text)
    for mention in sentence.names:
        if not any(mention.start < one.end and one.start < mention.end for one in taken):
            yield NAMED, mention.surface, mention.start, mention.end


def quotes(sentence: PageSentence) -> Iterator[Span]:
    """What is in quotation marks."""
    for match in _QUOTE.finditer(sentence.text):
        answer = match[1].strip(" ,.;")
        if answer:
            yield QUOTED, answer, match.start(1), match.end(1)


def people(sentence: PageSentence, *, is_country: bool) -> Iterator[Span]:
    """Demonyms, as they stand or as their country."""
    for place in places_in(sentence.text):
        if is_country and not place.is_demonym and not place.state:
            yield NAMED, sentence.text[place.start : place.end], place.start, place.end
        if place.is_demonym:
            answer = place.country.title() if is_country else sentence.text[place.start : place.end]
            yield PEOPLE, answer, place.start, place.end


def phrases(sentence: PageSentence) -> Iterator[Span]:
    """Up to four lower-case words after a link word (`is`, `a`, `of`…), until a function word."""
    links, words, text = name_lists().phrase_links, sentence.words, sentence.text
    for place, (start, end) in enumerate(words[:-1]):
        if text[start:end].lower() not in links:
            continue
        last = place
        for following in range(place + 1, min(len(words), place + 1 + _LONGEST_PHRASE)):
            first, stop = words[following]
            joined = text[words[following - 1][1] : first] in (" ", "-")
            if not joined or not text[first].islower() or text[first:stop] in FUNCTION_WORDS:
                break
            last = following
        if last > place:
            begin = words[place + 1][0]
            yield PHRASE, text[begin : words[last][1]], begin, words[last][1]


# Source: reader.md 6.3. Decided here: without vectors of passages, the share of the question's words that a passage
# holds, by idf, replaces the cosine (`bridge-lexical`, BM25). `pat` also holds after the question's own verb in the
# passive (`who commissioned`, `commissioned by the banker`), and a person is not a work; a country is not a city.

_FADE = 6.0  # words; reader.md 6.3, mwin.
_FAR = 1 << 30  # no word on that side: no distance reaches it
_SHORT_NAME = range(2, 4)

Idf = Callable[[str], float]


class Features(NamedTuple):
    """One value per feature; reader.md 6.3 says what each is."""

    mov: float
    bp: float
    kP: float  # noqa: N815 - the specification's name
    chead: float
    place: float
    pat: float
    qtitle: float
    person: float
    mism: float
    mwin: float


@dataclass
class Situation:
    """A question with its passages, and what is the same for all its candidates.

    Attributes:
        question: The question, parsed.
        pages: The context.
        cosines: Similarity of question and passage, by the passage's index.
        idf: How rare a stem is in the corpus.
        corpus: Pages of names.
    """

    question: ParsedQuestion
    pages: Sequence[Page]
    cosines: Sequence[float]
    idf: Idf
    corpus: CorpusPages
    _own_pages: dict[str, OwnPage | None] = field(default_factory=dict)

    def own_page(self, candidate: Candidate) -> OwnPage | None:
        """The page of a candidate's name, None without one or where the type of the answer needs none."""
        question = self.question
        if candidate.kind == PHRASE or not (question.expected in (PERSON, ANY, PLACE) or question.head):
            return None
        if candidate.key not in self._own_pages:
            self._own_pages[candidate.key] = self.corpus.find(candidate.key)
        return self._own_pages[candidate.key]

    @cached_property
    def mentioned(self) -> list[list[int]]:
        """By page, the others whose title it mentions, in order."""
        return [
            [other.place for other in self.pages if other is not page and page.mentions(other.title_keys)]
            for page in self.pages
        ]

    @cached_property
    def bridged(self) -> list[float]:
        """By page, bp: how close to the question a page is that mentions this page's title."""
        found: list[list[float]] = [[] for _ in self.pages]
        for place, mentioned in enumerate(self.mentioned):
            for other in mentioned:
                found[other].append(self.cosines[place])
        return [0.0 if named else max(own, default=0.0) for named, own in zip(self.named, found, strict=True)]

    @cached_property
    def named(self) -> list[bool]:
        """By page, qtitle: whether the question names it."""
        return [not self.question.name_keys.isdisjoint(page.title_keys) for page in self.pages]


def features_of(situation: Situation, candidates: Sequence[Candidate]) -> list[Features]:
    """One Features per candidate, in order. Source: reader.md 6.3. Cost: O(candidates * question words)."""
    question, idf = situation.question, situation.idf
    stems, total = question.main_stems, fsum(idf(stem) for stem in question.main_stems)
    head = stem_of(question.head[-1]) if question.head else ""
    is_person, is_place = question.expected in (PERSON, ANY), question.expected == PLACE
    rows = []
    sentence: PageSentence | None = None
    share, bridged, named, near = 0.0, 0.0, 0.0, list[tuple[float, Sequence[int]]]()
    for candidate in candidates:
        if candidate.sentence is not sentence:
            sentence, page = candidate.sentence, candidate.page
            held = (stem for stem in stems if stem in sentence.places or stem in page.title_stems)
            share = fsum(map(idf, held)) / total if total else 0.0
            near = [(idf(stem), sentence.places[stem]) for stem in stems if stem in sentence.places]
            bridged, named = situation.bridged[page.place], float(situation.named[page.place])
        own, around = situation.own_page(candidate), candidate.around
        says_verb = bool(question.verbs) and around.passive_verb in question.verbs
        rows.append(
            Features(
                mov=share,
                bp=bridged,
                kP=float(candidate.kind == PHRASE),
                chead=float(bool(head) and head in stems_of(candidate.key)),
                place=_place_value(candidate) if is_place else 0.0,
                pat=float(says_verb or any(around.says(one) for one in question.relations)),
                qtitle=named,
                person=_person_value(candidate, own) if is_person else 0.0,
                mism=float(_is_mismatch(question, candidate, own)),
                mwin=_nearness(candidate, near, total),
            )
        )
    return rows


def _nearness(candidate: Candidate, near: Sequence[tuple[float, Sequence[int]]], total: float) -> float:
    """mwin: the question's words around a candidate, fading with their distance in words."""
    if not total or not near:
        return 0.0
    first, last = candidate.around.word_range(candidate.sentence.words)
    parts = []
    for weight, places in near:
        left = bisect_left(places, first)
        right = bisect_left(places, last + 1)
        distance = first - places[left - 1] if left else _FAR
        if right < len(places):
            distance = min(distance, places[right] - last)
        if distance != _FAR:
            parts.append(weight * exp(-(distance - 1) / _FADE))
    return min(1.0, fsum(parts) / total)


def _person_value(candidate: Candidate, own: OwnPage | None) -> float:
    """person: 1 for a person's page or an honorific; .5 for an unknown name of two or three words."""
    if candidate.kind == PHRASE:
        return 0.0
    words, title = candidate.key.split(), candidate.around.word_before.rstrip(".")
    if (own is not None and own.is_person) or not TITLES_OF_PERSONS.isdisjoint((words[0], title)):
        return 1.0
    return 0.5 if own is None and len(words) in _SHORT_NAME else 0.0


def _place_value(candidate: Candidate) -> float:
    """place: 1 for a people, a known country and a name with its kind; .7 after `in` and the like."""
    is_named = not name_lists().place_kinds.isdisjoint(candidate.key.split())
    if candidate.kind == PEOPLE or is_named or is_country_or_state(candidate.key):
        return 1.0
    return 0.7 if candidate.around.word_before in name_lists().place_links else 0.0


def _is_mismatch(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """mism: whether a candidate cannot be of the expected type."""
    key, expected, demonyms = candidate.key, question.expected, geography().demonyms
    head, is_person = question.head[-1] if question.head else "", own is not None and own.is_person
    if expected == PERSON:  # a country, a people, or `X of Y` without a person's page
        return is_country_or_state(key) or key in demonyms or (" of " in key and not is_person)
    if expected == PLACE and head in ("country", "nation"):
        return not is_country_or_state(key)
    if expected == PLACE:  # a person, or a country or state where a smaller place is asked for
        is_larger = head in name_lists().place_kinds and is_larger_place(key, head)
        return is_larger or (is_person and not is_country_or_state(key))
    if expected == NUMBER:
        return candidate.kind == YEARS
    return expected == NATIONALITY and key not in demonyms


def is_larger_place(key: str, head: str) -> bool:
    """Whether a name is only known as a country, or as a state, where a smaller place is asked for."""
    if key in geography().states:
        return head != "state"
    return key in geography().countries
