"""Spans of a sentence that can answer a question: by type, their features, and how much of it their evidence says.

Each part of the evidence is a factor between 0 and 1; their product lowers the confidence of an answer that only ranks
well. Decided here: at most `MOST_CANDIDATES` of a sentence, the first ones, so that a list of names stays cheap; the
full name that a page begins with (`Rory Elizabeth Katherine Kennedy`) is the question's `Rory Kennedy` again. Source:
reader.md 6.2, 6.3, 6.6.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import chain
from math import exp, fsum, log
from operator import mul, or_
from typing import NamedTuple

from polyhop.schemas.languages import STOP_WORDS
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
    doers,
    forms_of,
    is_country_or_state,
    is_subject,
    singulars,
)
from polyhop.worker.reading.question import (
    ANY,
    DATE,
    NATIONALITY,
    NUMBER,
    PERSON,
    PLACE,
    YEAR,
    Asked,
    ParsedQuestion,
    asked_of,
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


Span = tuple[str, str, int, int]  # Kind, answer, start and end within the sentence.


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
    """A question with its passages, and what is the same for all its candidates."""

    question: ParsedQuestion  # The question, parsed.
    pages: Sequence[Page]  # The context.
    cosines: Sequence[float]  # Similarity of question and passage, by the passage's index.
    idf: Idf  # How rare a stem is in the corpus.
    corpus: CorpusPages  # Pages of names.

    def own_page(self, candidate: Candidate) -> OwnPage | None:
        """The page of a candidate's name, None without one or where the type of the answer needs none."""
        question = self.question
        is_needed = question.expected in (PERSON, ANY, PLACE) or question.head
        return self.corpus.find(candidate.key) if is_needed and candidate.kind != PHRASE else None

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


# Source: reader.md 6.3, 6.6 (type), Confidence and silence; idf: algorithms.md 2.9. Decided here: what stands beside
# the head noun is of that kind (`the river Meuse`).

WEIGHTS = Features(mov=3.0, bp=4.5, kP=-1.5, chead=2.5, place=2.0, pat=1.5, qtitle=1.5, person=1.0, mism=-1.0, mwin=1.5)
"""What each feature counts. Source: reader.md 6.3."""
DECIMALS = 9  # reader.md, steps (5).
EVIDENCE_WEIGHT = 1.5
"""What the logarithm of the evidence counts in the order; chosen on the tuning half, flat between 1 and 2.5."""
EXTRACTED_FACTOR = 0.6  # reader.md, confidence and silence.
_BIAS, _SHARE, _SCORE = -0.597, 0.954, 0.226  # fitted; reader.md, confidence and silence.
KNOWN, LIKELY, OPEN, UNLIKELY, WRONG = 1.0, 0.8, 0.5, 0.3, 0.03
"""Factors by what is known of a candidate's type; chosen on the tuning half of tests/golden/reader."""
WIDER = 0.6
"""Of a place that another one lies in (`at Missolonghi in Greece`), where the narrower is asked for as well."""
_SHORE = re.compile(
    r"\b(?:banks?|confluence|mouth|source|tributar(?:y|ies)|valley|basin|delta|course|waters) of "
    r"(?:the |[^.;]{0,40} and the )?$",
    re.IGNORECASE,
)
_WATERS = frozenset(("river", "rivers"))
_SETTLEMENTS = frozenset(("city", "town", "village"))
_VAGUE = frozenset(
    ("name", "term", "title", "word", "thing", "kind", "type", "form", "part", "reason", "role", "language")
)


@dataclass(frozen=True, slots=True)
class Best:
    """The best candidate with its score, the share of its answer among all, and the confidence in it."""

    candidate: Candidate
    score: float
    share: float
    confidence: float


def score(features: Features) -> float:
    """Weighted sum, rounded so that its order does not depend on how it was summed."""
    total: float = sum(map(mul, WEIGHTS, features))
    return round(total, DECIMALS)


def confidence(share: float, best_score: float) -> float:
    """How often an extracted answer is right. Source: reader.md, Confidence and silence."""
    return EXTRACTED_FACTOR / (1 + exp(-(_BIAS + _SHARE * log(share) + _SCORE * best_score)))


def choose(candidates: Sequence[Candidate], rows: Sequence[Features], factors: Sequence[float]) -> Best | None:
    """The best candidate: by score and evidence, then the better ranked passage, the earlier offset, the longer one.

    Source: reader.md steps (5), (6).
    """
    if not candidates:
        return None
    scores = [
        round(score(row) + EVIDENCE_WEIGHT * log(factor), DECIMALS) for row, factor in zip(rows, factors, strict=True)
    ]
    highest = max(scores)
    best = min((n for n, value in enumerate(scores) if value == highest), key=lambda n: _order(candidates[n]))
    parts: dict[str, list[float]] = {}
    for candidate, value in zip(candidates, scores, strict=True):
        parts.setdefault(candidate.norm, []).append(exp(value - highest))
    total = fsum(part for values in parts.values() for part in values)
    share = fsum(parts[candidates[best].norm]) / total
    return Best(candidates[best], highest, share, factors[best] * confidence(share, score(rows[best])))


def _order(candidate: Candidate) -> tuple[int, int, int]:
    return candidate.page.place, candidate.sentence.start + candidate.start, -candidate.end


def fitness(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None, features: Features) -> float:
    """How well a candidate fits the expected type, in (0, 1]."""
    if features.mism:
        return WRONG
    if question.expected == PERSON:
        return (UNLIKELY, LIKELY, KNOWN)[round(2 * features.person)]
    if question.expected == PLACE and not question.head:
        fit = KNOWN if features.place >= 1 else LIKELY if features.place else UNLIKELY
        return fit * WIDER if candidate.around.is_wider else fit
    if question.expected in (PLACE, ANY) and question.head:
        fit = _of_head(question.head[-1], candidate, own)
        is_behind_in = features.place > 0 and question.head[-1] in _SETTLEMENTS
        return max(fit, LIKELY) if is_behind_in and fit == UNLIKELY else fit
    if question.expected == ANY:
        return OPEN if candidate.kind == PHRASE else LIKELY
    return LIKELY if question.expected in (NUMBER, NATIONALITY) else KNOWN


def _of_head(head: str, candidate: Candidate, own: OwnPage | None) -> float:
    """By the head noun of the question: in the name, in its own page's definition, or beside it."""
    forms = singulars(head)
    words = candidate.key.split()
    if candidate.kind == PHRASE:
        return LIKELY if head in _VAGUE else UNLIKELY
    is_of_kind = own is not None and any(not forms.isdisjoint(singulars(word)) for word in own.kinds)
    if not forms.isdisjoint(words) or is_of_kind or _is_beside(candidate, forms):
        return KNOWN
    if head in _VAGUE:
        return LIKELY
    if own is not None and (own.is_person or (head in _WATERS and own.kinds)):
        return WRONG  # a page that does not call its subject a river is of none
    if candidate.kind == QUOTED and head not in name_lists().place_kinds:
        return LIKELY
    return UNLIKELY if head in name_lists().place_kinds else OPEN


def _is_beside(candidate: Candidate, forms: frozenset[str]) -> bool:
    around = candidate.around
    if any(noun and not singulars(noun).isdisjoint(forms) for noun in (around.noun_before, around.noun_after)):
        return True
    return not _WATERS.isdisjoint(forms) and _SHORE.search(around.last(70)) is not None


NO_DOER, UNSAID, UNNAMED, UNTIED, UNDESCRIBED, SAME_PLACE, UNHEADED = 0.1, 0.03, 0.03, 0.3, 0.4, 0.15, 0.1
"""Factors of evidence that lacks a part; chosen on the tuning half of tests/golden/reader."""
ONE_STEP, SPREAD = 0.6, 0.3
"""Exponents of the factor where one description (`the birthplace of NAME`) or more lead to the answer: the evidence is
spread, and each part proves less."""
_DESCRIPTION = 2  # reader.md 6.6, inner units.
_SAID_ENOUGH, _ALL_SAID, _TIED_ENOUGH = 0.5, 0.8, 0.6  # reader.md 6.6: predicate, one hop, tie.
_MOST_LINKS = 2  # further pages; reader.md 6.6, tie.


@dataclass(frozen=True, slots=True)
class _Unit:
    """A part of a question that a sentence may say: stems, or the key of a name; `weight` is its idf."""

    stems: frozenset[str]
    key: str
    weight: float

    def is_said(self, page: Page, sentence: PageSentence | None) -> bool:
        """Whether a sentence of a page says it, or the page's title (None)."""
        if sentence is None:
            return self.key in page.title_keys if self.key else not self.stems.isdisjoint(page.title_stems)
        return _has_name(page, sentence, self.key) if self.key else not self.stems.isdisjoint(sentence.places)


class Evidence:
    """What the passages of one question say of it, prepared once for all its candidates."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.question = question = situation.question
        self.asked: Asked = asked_of(question)
        inner = [self._unit(word) for word in self.asked.inner if word not in STOP_WORDS]
        for name in self.asked.leading:
            weights = (situation.idf(stem) for word in name_tokens(name.surface) for stem in forms_of(word))
            inner.append(_Unit(frozenset(), name.key, max(weights, default=0.0)))
        self.inner = inner
        """What the question says of what leads to the answer; none in a question of one step."""
        self._described = _bits(not unit.key for unit in inner)  # those that are words, not names
        self._predicate = [self._unit(word) for word in self.asked.predicate]
        self._verb_stems = forms_of(self.asked.verb) if self.asked.verb else frozenset()
        head, expected = question.head[-1] if question.head else "", question.expected
        is_sought = head and not inner and head not in _VAGUE and expected in (ANY, PLACE, NUMBER)
        self._head_forms = forms_of(head) if is_sought else frozenset()
        """Stems of the noun that a question of one step asks for (`the currency of Karland`); none of vague ones."""
        self._doers: dict[tuple[int, int], tuple[bool, list[tuple[int, int]]]] = {}
        self._weights: dict[int, float] = {}

    def factors(self, candidates: Sequence[Candidate], rows: Sequence[Features]) -> list[float]:
        """How far the evidence for each candidate holds, in (0, 1], in order."""
        found = []
        sentence: PageSentence | None = None
        said_by = said_of_it = named = tie = 1.0
        exponent = (ONE_STEP if len(self.inner) <= _DESCRIPTION else SPREAD) if self.inner else 1.0
        # Whether the question's relations are those of its predicate, not of what leads to it.
        predicate, relations = frozenset(self.asked.predicate), self.question.relations
        keys = [name.key for name in self.asked.direct]
        is_relation_asked = not predicate or all(predicate & one.question_words for one in relations)
        for candidate, features in zip(candidates, rows, strict=True):
            if candidate.sentence is not sentence:
                # What all candidates of a sentence share; `said_of_it` is of whom the sentence says the verb.
                page, sentence = candidate.page, candidate.sentence
                said_by = said_of_it = self._said_factor(sentence, frozenset())
                if self._verb_stems:
                    said_of_it = self._said_factor(sentence, self._verb_stems)
                # Share of the names that it must be about: in the sentence or as its page.
                has_name = [key in page.title_keys or _has_name(page, sentence, key) for key in keys]
                share = sum(has_name) / len(keys) if keys else 1.0
                named = UNNAMED + (1 - UNNAMED) * share * share
                tie = self._tie_of(page.place, sentence.number) if self.inner else 1.0
            doer = self._doer(candidate) if self.asked.verb else 0
            said = said_of_it if doer > 0 else said_by
            if features.pat and is_relation_asked:
                said = 1.0
            fit = fitness(self.question, candidate, self.situation.own_page(candidate), features)
            heads = self._head_forms
            if heads and fit < KNOWN and heads.isdisjoint(sentence.places) and heads.isdisjoint(page.title_stems):
                fit *= UNHEADED
            product = fit * (NO_DOER if doer < 0 else 1.0) * said * named * tie
            found.append(product**exponent)
        return found

    def _unit(self, word: str) -> _Unit:
        stems = forms_of(word)
        # Stems of one length go by the alphabet: the order of a set differs from process to process.
        shortest = min(stems, key=lambda stem: (len(stem), stem), default="")
        return _Unit(stems, "", self.situation.idf(shortest) if stems else 0.0)

    def _said_factor(self, sentence: PageSentence, verb: frozenset[str]) -> float:
        """By the share of the predicate that a sentence says; of whom it says the verb, it says that too.

        1 from enough of the predicate on; without a name to hold on to, nearly all of it is needed.
        """
        held = fsum(
            unit.weight
            for unit in self._predicate
            if not unit.stems.isdisjoint(sentence.places) or not unit.stems.isdisjoint(verb)
        )
        total = fsum(unit.weight for unit in self._predicate)
        said = held / total if total else 1.0
        is_anchored = bool(self.asked.direct) or bool(self.inner)
        if said >= (_SAID_ENOUGH if is_anchored else _ALL_SAID):
            return 1.0
        return UNSAID + (1 - UNSAID) * said / (2 * _SAID_ENOUGH) if is_anchored else UNSAID

    def _doer(self, candidate: Candidate) -> int:
        """1 if the sentence says the question's verb of the candidate, -1 if of something else, 0 if not at all."""
        place = (candidate.page.place, candidate.sentence.number)
        if place not in self._doers:
            self._doers[place] = doers(candidate.sentence, self._verb_stems, is_done_to=self.asked.is_passive)
        has_verb, spans = self._doers[place]
        if any(start < candidate.end and candidate.start < end for start, end in spans):
            return 1
        return -1 if has_verb else 0

    @cached_property
    def _masks(self) -> list[list[int]]:
        """By page, the inner units that its title and each of its sentences say, as bits."""
        return [
            [_bits(unit.is_said(page, one) for unit in self.inner) for one in (None, *page.sentences)]
            for page in self.situation.pages
        ]

    @cached_property
    def _page_masks(self) -> list[int]:
        return [reduce(or_, masks) for masks in self._masks]

    def _tie_of(self, page: int, sentence: int) -> float:
        """Whether a sentence is tied to what leads there, over at most two more pages."""
        title, own = self._masks[page][0], self._masks[page][sentence + 1]
        pages, mentioned, described = self.situation.pages, self.situation.mentioned, self._described
        is_start = any(name.key in pages[page].title_keys for name in self.asked.leading)
        if is_start and self.asked.predicate and described and not own & described:
            return SAME_PLACE
        mask = own | (title if is_start else self._page_masks[page])
        # What the pages say that mention a page or that its sentence mentions, one mask each.
        said_in = pages[page].sentences[sentence]
        linked = [other.place for other in pages if page in mentioned[other.place]]
        linked += [one for one in mentioned[page] if said_in.has_any(pages[one].title_keys)]
        links = [self._page_masks[one] for one in linked]
        for _ in range(_MOST_LINKS):
            mask = max((mask | link for link in links), key=self._weight, default=mask)
        words, names = self._share_of(mask, described), self._share_of(mask, ~described)
        said = 1.0 if words >= _TIED_ENOUGH else UNDESCRIBED + (1 - UNDESCRIBED) * words / (2 * _TIED_ENOUGH)
        return said * (UNTIED + (1 - UNTIED) * names * names)

    def _share_of(self, mask: int, wanted: int) -> float:
        """Share of the wanted inner units that a mask holds, by idf; 1 if none is wanted."""
        total = self._weight(wanted & ((1 << len(self.inner)) - 1))
        return self._weight(mask & wanted) / total if total else 1.0

    def _weight(self, mask: int) -> float:
        if mask not in self._weights:
            self._weights[mask] = fsum(unit.weight for number, unit in enumerate(self.inner) if mask >> number & 1)
        return self._weights[mask]


def _bits(flags: Iterable[bool]) -> int:
    return sum(flag << number for number, flag in enumerate(flags))


def _has_name(page: Page, sentence: PageSentence, key: str) -> bool:
    return page.mentions((key,)) and sentence.has_any((key,))
