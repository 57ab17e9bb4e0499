"""Spans of a sentence that can answer a question of some type, and their features.

Source: reader.md 6.2. Decided here: at most `MOST_CANDIDATES` of a sentence, the first ones, so that a list of names
stays cheap; the full name that a page begins with (`Rory Elizabeth Katherine Kennedy`) is the question's `Rory Kennedy`
again.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
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
    found = []
    for sentence in page.sentences:
        kept = 0
        for kind, answer, start, end, tokens, key, norm, around in _spans_of(question, page, sentence):
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


def _spans_of(question: ParsedQuestion, page: Page, sentence: PageSentence) -> Sequence[PreparedSpan]:
    """Candidates of a sentence; what it is about takes the place of a part of its name."""
    own = page_subject(question, page, sentence)
    asks_country = question.expected == PLACE and bool(_COUNTRY_HEADS.intersection(question.head))
    spans = _prepared_spans(sentence, question.expected, asks_country=asks_country)
    if own is None:
        return spans
    rest = (
        span
        for span in spans
        if span.kind != NAMED or span.start >= own.end or span.end <= own.start or not own.words.issuperset(span.tokens)
    )
    return [own.span, *rest]


@lru_cache(maxsize=_KEPT_SENTENCES)
def _prepared_spans(sentence: PageSentence, expected: str, *, asks_country: bool) -> Sequence[PreparedSpan]:
    """The spans of a sentence, which are the same for all questions that expect an answer of this type."""
    return [_prepared(sentence, span) for span in _spans(expected, sentence, asks_country=asks_country)]


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

    @property
    def start(self) -> int:
        """Where the sentence's words for it begin."""
        return self.span.start

    @property
    def end(self) -> int:
        """Where they end."""
        return self.span.end


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
    if sentence.number and not _may_begin(page, sentence):
        return None
    words = words_of(sentence.text)
    phrase = leading_subject(words)
    title = _PARENTHESES.sub(" ", page.title).strip()
    if phrase is None or not title or not is_subject(page, sentence, words, phrase):
        return None
    start, end = words[phrase.first].start, words[phrase.last].end
    span = _prepared(sentence, (SUBJECT, title, start, end))
    return PageSubject(span, frozenset(span.tokens), " ".join(name_tokens(sentence.text[start:end])))


def _may_begin(page: PageContent, sentence: PageSentence) -> bool:
    """Whether the first word can be one of what the page is about: no other name begins the sentence."""
    start, end = sentence.words[0] if sentence.words else (0, 0)
    low = sentence.text[start:end].lower()
    lists = clause_lists()
    if low in PRONOUNS or low in ("the", "this") or low in lists.prepositions or low in lists.adverbs:
        return True
    return any(low in key for key in page.title_keys)


def _spans(expected: str, sentence: PageSentence, *, asks_country: bool) -> Iterator[Span]:
    if expected in _BY_TYPE:
        yield from _BY_TYPE[expected](sentence)
        return
    yield from names(sentence)
    if expected == ANY:
        yield from quotes(sentence)
    if expected == NATIONALITY or asks_country:
        yield from people(sentence, is_country=expected == PLACE)
    if expected == ANY:
        yield from phrases(sentence)


def dates(sentence: PageSentence) -> Iterator[Span]:
    """Full dates, months with a year, days with a month; years by themselves only without any of these."""
    found = find_dates(sentence.text)
    spans = [(one.start, one.end) for one in found if "-" in one.key]
    spans += [
        match.span()
        for match in _DAY_AND_MONTH.finditer(sentence.text)
        if all(match.end() <= one.start or match.start() >= one.end for one in found)
    ]
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
        if any(mention.start < one.end and one.start < mention.end for one in taken):
            continue
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
    links = name_lists().phrase_links
    words = sentence.words
    text = sentence.text
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
        if candidate.kind == PHRASE or not self._needs_pages:
            return None
        if candidate.key not in self._own_pages:
            self._own_pages[candidate.key] = self.corpus.find(candidate.key)
        return self._own_pages[candidate.key]

    @cached_property
    def _needs_pages(self) -> bool:
        return self.question.expected in (PERSON, ANY, PLACE) or bool(self.question.head)

    @cached_property
    def total(self) -> float:
        """Idf of the main clause."""
        return fsum(self.idf(stem) for stem in self.question.main_stems)

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
        return [self._is_named(page) for page in self.pages]

    def _is_named(self, page: Page) -> bool:
        return not self.question.name_keys.isdisjoint(page.title_keys)

    def found_share(self, sentence: PageSentence, page: Page) -> float:
        """mov: share of the main clause that the sentence or its title says."""
        if not self.total:
            return 0.0
        held = (s for s in self.question.main_stems if s in sentence.places or s in page.title_stems)
        return fsum(self.idf(stem) for stem in held) / self.total

    def near_words(self, sentence: PageSentence) -> list[tuple[float, Sequence[int]]]:
        """Idf and places of the question's words in a sentence, for mwin."""
        stems = self.question.main_stems
        return [(self.idf(stem), sentence.places[stem]) for stem in stems if stem in sentence.places]


def features_of(situation: Situation, candidates: Sequence[Candidate]) -> list[Features]:
    """One Features per candidate, in order. Source: reader.md 6.3. Cost: O(candidates * question words)."""
    question, total = situation.question, situation.total
    head = stem_of(question.head[-1]) if question.head else ""
    is_person, is_place = question.expected in (PERSON, ANY), question.expected == PLACE
    is_mismatch = _MISMATCHES.get(question.expected)
    rows = []
    sentence: PageSentence | None = None
    share, bridged, named, near = 0.0, 0.0, 0.0, list[tuple[float, Sequence[int]]]()
    for candidate in candidates:
        if candidate.sentence is not sentence:
            sentence, page = candidate.sentence, candidate.page
            share, near = situation.found_share(sentence, page), situation.near_words(sentence)
            bridged, named = situation.bridged[page.place], float(situation.named[page.place])
        own = situation.own_page(candidate)
        rows.append(
            Features(
                mov=share,
                bp=bridged,
                kP=float(candidate.kind == PHRASE),
                chead=float(bool(head) and head in stems_of(candidate.key)),
                place=place_value(candidate) if is_place else 0.0,
                pat=float(follows_relation(question, candidate)),
                qtitle=named,
                person=person_value(candidate, own) if is_person else 0.0,
                mism=float(is_mismatch is not None and is_mismatch(question, candidate, own)),
                mwin=nearness(candidate, near, total),
            )
        )
    return rows


def nearness(candidate: Candidate, near: Sequence[tuple[float, Sequence[int]]], total: float) -> float:
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


def follows_relation(question: ParsedQuestion, candidate: Candidate) -> bool:
    """pat: whether the text before a candidate says the relation that is asked for."""
    if not question.relations and not question.verbs:
        return False
    if any(candidate.around.says(one) for one in question.relations):
        return True
    return bool(question.verbs) and candidate.around.passive_verb in question.verbs


def person_value(candidate: Candidate, own: OwnPage | None) -> float:
    """person: 1 for a person's page or an honorific; .5 for an unknown name of two or three words."""
    if candidate.kind == PHRASE:
        return 0.0
    words = candidate.key.split()
    if own is not None and own.is_person:
        return 1.0
    title = candidate.around.word_before.rstrip(".")
    if words[0] in TITLES_OF_PERSONS or title in TITLES_OF_PERSONS:
        return 1.0
    return 0.5 if own is None and len(words) in _SHORT_NAME else 0.0


def place_value(candidate: Candidate) -> float:
    """place: 1 for a people, a known country and a name with its kind; .7 after `in` and the like."""
    is_named = not name_lists().place_kinds.isdisjoint(candidate.key.split())
    if candidate.kind == PEOPLE or is_named or is_country_or_state(candidate.key):
        return 1.0
    return 0.7 if candidate.around.word_before in name_lists().place_links else 0.0


def is_no_person(_question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """A country, a people, or `X of Y` without a person's page."""
    key = candidate.key
    if is_country_or_state(key) or key in geography().demonyms:
        return True
    return " of " in key and not (own is not None and own.is_person)


def is_no_place(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """A person, a country or state where a smaller place is asked for, or another place where a country is."""
    key = candidate.key
    head = question.head[-1] if question.head else ""
    if head in ("country", "nation"):
        return not is_country_or_state(key)
    if own is not None and own.is_person and not is_country_or_state(key):
        return True
    return head in name_lists().place_kinds and is_larger_place(key, head)


def is_larger_place(key: str, head: str) -> bool:
    """Whether a name is only known as a country, or as a state, where a smaller place is asked for."""
    if key in geography().states:
        return head != "state"
    return key in geography().countries


def is_no_number(_question: ParsedQuestion, candidate: Candidate, _own: OwnPage | None) -> bool:
    """A year."""
    return candidate.kind == YEARS


def is_no_nationality(_question: ParsedQuestion, candidate: Candidate, _own: OwnPage | None) -> bool:
    """Anything but a demonym."""
    return candidate.key not in geography().demonyms


_MISMATCHES = {PERSON: is_no_person, PLACE: is_no_place, NUMBER: is_no_number, NATIONALITY: is_no_nationality}


def keys_of(candidates: Sequence[Candidate]) -> list[str]:
    """Names among candidates whose pages may be needed."""
    return sorted({candidate.key for candidate in candidates if candidate.kind != PHRASE})
