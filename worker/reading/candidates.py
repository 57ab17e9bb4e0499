"""Spans of a sentence that can answer a question: by type, their features, and how much of it their evidence says.

Each part of the evidence is a factor between 0 and 1; their product lowers the confidence of an answer that only ranks
well. At most `MOST_CANDIDATES` of a sentence are kept, the first ones, so that a list of names stays cheap. Source:
reader.md 6.2, 6.3, 6.6.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from math import exp, fsum, log
from operator import mul
from typing import NamedTuple

from polyhop.schemas.names import FUNCTION_WORDS, name_tokens
from polyhop.schemas.text import norm_answer
from polyhop.schemas.types import TITLES_OF_PERSONS, find_dates, values_in
from polyhop.worker.reading.pages import CorpusPages, OwnPage, ParsedPassage, PassageSentence, singulars, subject_span
from polyhop.worker.reading.question import (
    ANY,
    DATE,
    LOCATION,
    NATIONALITY,
    NUMBER,
    PERSON,
    YEAR,
    ParsedQuestion,
    QuestionParts,
    asked_of,
    forms_of,
    stem_of,
)
from polyhop.worker.reading.word_lists import country_mentions, geography, is_country_or_state, words

DATED, YEARS, COUNTED, NAMED, PEOPLE, PHRASE, SUBJECT = "D", "Y", "#", "N", "A", "P", "S"
"""Kinds of candidates: dates, bare years, numbers, names, demonyms, lower-case phrases, and what the page is about
where a sentence begins with `he`, `the company` or a part of its name."""

MOST_CANDIDATES = 60  # see above; chosen: sentences other than lists have far fewer
_KEPT_SENTENCES = 10_000
"""Sentences whose spans are kept, once per type of answer: some 2,000 passages, as many as pages.py keeps."""
_COUNTRY_HEADS = frozenset(("country", "nation", "citizenship"))
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\b\.?"
)
_DAY_AND_MONTH = re.compile(rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b)(?!,? \d)")
_LONGEST_PHRASE = 4  # words; reader.md 6.2, P.
_MOST_SUBJECTS = 30  # sentences of a page; chosen: half of those that are read (`MOST_SENTENCES` of pages.py)
_PARENTHESES = re.compile(r"\([^()]*\)")

Span = tuple[str, str, int, int]  # Kind, answer, start and end within the sentence.


class PreparedSpan(NamedTuple):
    """A span with what of its answer does not depend on the question: its words, folded and in lower case, and norm."""

    kind: str
    answer: str
    start: int
    end: int
    tokens: tuple[str, ...]
    norm: str


class Candidate(NamedTuple):
    """A possible answer in a sentence of a page."""

    span: PreparedSpan
    sentence: PassageSentence
    page: ParsedPassage

    @property
    def key(self) -> str:
        """Its folded lower-case words."""
        return " ".join(self.span.tokens)

    @property
    def before(self) -> str:
        """The sentence before it."""
        return self.sentence.text[: self.span.start]


def find_candidates(question: ParsedQuestion, page: ParsedPassage) -> list[Candidate]:
    """Candidates of a passage, sentence by sentence, without those that the question names itself.

    Source: reader.md 6.2. Cost: O(characters of the page).
    """
    asked = f" {norm_answer(question.text)} "
    said = frozenset(question.words)
    asks_country = question.expected == LOCATION and not _COUNTRY_HEADS.isdisjoint(question.head)
    found = []
    for sentence in page.sentences:
        spans: Iterable[PreparedSpan] = _spans(sentence, question.expected, asks_country=asks_country)
        own = _page_subject(question, page, sentence)
        if own is not None:  # it replaces a part of its name
            begin, end, parts = own.start, own.end, frozenset(own.tokens)
            outside = (one for one in spans if one.start >= end or one.end <= begin or not parts.issuperset(one.tokens))
            spans = chain([own], outside)
        kept = 0
        for one in spans:
            if kept == MOST_CANDIDATES:
                break
            is_said = f" {one.norm} " in asked or (one.kind == NAMED and said.issuperset(one.tokens))
            if one.norm and one.tokens and not is_said:
                found.append(Candidate(one, sentence, page))
                kept += 1
    return found


@lru_cache(maxsize=_KEPT_SENTENCES)
def _spans(sentence: PassageSentence, expected: str, *, asks_country: bool) -> Sequence[PreparedSpan]:
    """The spans of a sentence, which are the same for all questions that expect an answer of this type."""
    if expected in _BY_TYPE:
        found = list(_BY_TYPE[expected](sentence))
    else:
        found = list(names(sentence))
        if expected == NATIONALITY or asks_country:
            found += people(sentence, is_country=expected == LOCATION)
        if expected == ANY:
            found += phrases(sentence)
    return [_prepared(span) for span in found]


def _prepared(span: Span) -> PreparedSpan:
    return PreparedSpan(*span, tuple(name_tokens(span[1])), norm_answer(span[1]))


def _page_subject(question: ParsedQuestion, page: ParsedPassage, sentence: PassageSentence) -> PreparedSpan | None:
    """The page's title where a sentence that says some of the question begins with what the page is about."""
    if question.expected in _BY_TYPE or question.expected == NATIONALITY or sentence.number >= _MOST_SUBJECTS:
        return None
    if sentence.word_indices.keys().isdisjoint(question.main_stems):
        return None
    title = _PARENTHESES.sub(" ", page.content.title).strip()
    span = subject_span(page.content, sentence) if title else None
    if span is None or " ".join(name_tokens(sentence.text[slice(*span)])) in question.name_keys:
        return None
    return _prepared((SUBJECT, title, *span))


def dates(sentence: PassageSentence) -> Iterator[Span]:
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


def years(sentence: PassageSentence) -> Iterator[Span]:
    """Years, within dates too."""
    for one in find_dates(sentence.text):
        yield YEARS, sentence.text[one.end - 4 : one.end], one.end - 4, one.end


def numbers(sentence: PassageSentence) -> Iterator[Span]:
    """Numbers in digits or words with their unit, outside dates; bare years are marked."""
    for value in values_in(sentence.text):
        is_year = value.dimension == "date" and not value.size[1]
        if is_year or value.dimension != "date":
            kind = YEARS if is_year else COUNTED
            yield kind, sentence.text[value.start : value.end], value.start, value.end


_BY_TYPE: Mapping[str, Callable[[PassageSentence], Iterator[Span]]] = {DATE: dates, YEAR: years, NUMBER: numbers}


def names(sentence: PassageSentence) -> Iterator[Span]:
    """Capitalised runs outside dates."""
    taken = find_dates(sentence.text)
    for mention in sentence.names:
        if not any(mention.start < one.end and one.start < mention.end for one in taken):
            yield NAMED, mention.surface, mention.start, mention.end


def people(sentence: PassageSentence, *, is_country: bool) -> Iterator[Span]:
    """Demonyms, as they stand or as their country."""
    for mention in country_mentions(sentence.text):
        if is_country and not mention.is_demonym and not mention.state:
            yield NAMED, sentence.text[mention.start : mention.end], mention.start, mention.end
        if mention.is_demonym:
            answer = mention.country.title() if is_country else sentence.text[mention.start : mention.end]
            yield PEOPLE, answer, mention.start, mention.end


def phrases(sentence: PassageSentence) -> Iterator[Span]:
    """Up to four lower-case words after a link word (`is`, `a`, `of`…), until a function word."""
    links, spans, text = words("phrase_links"), sentence.words, sentence.text
    for index, (start, end) in enumerate(spans[:-1]):
        if text[start:end].lower() not in links:
            continue
        last = index
        for following in range(index + 1, min(len(spans), index + 1 + _LONGEST_PHRASE)):
            first, stop = spans[following]
            joined = text[spans[following - 1][1] : first] in (" ", "-")
            if not joined or not text[first].islower() or text[first:stop] in FUNCTION_WORDS:
                break
            last = following
        if last > index:
            begin = spans[index + 1][0]
            yield PHRASE, text[begin : spans[last][1]], begin, spans[last][1]


# Source: reader.md 6.3. Decided here: without vectors of passages, the share of the question's words that a passage
# holds, by idf, replaces the cosine (`bridge-lexical`, BM25).

_FADE = 6.0  # words; reader.md 6.3, mwin.
_FAR = 1 << 30  # no word on that side: no distance reaches it
_SHORT_NAME = range(2, 4)
_WORD_BEFORE = re.compile(r"([\w.]+)\s+(?:the\s+)?$")
_MOST_BETWEEN = 5  # words between what a question says and its answer (`was built in 1886 by the engineer`); chosen

Idf = Callable[[str], float]


class Features(NamedTuple):
    """One value per feature; reader.md 6.3 says what each is."""

    mov: float
    bp: float
    chead: float
    location: float
    pat: float
    qtitle: float
    person: float
    mwin: float


WEIGHTS = Features(mov=3.0, bp=4.5, chead=3.5, location=2.0, pat=0.7, qtitle=1.5, person=1.0, mwin=1.5)
"""What each feature counts. Source: reader.md 6.3."""


@dataclass
class Situation:
    """A question with its passages, and what is the same for all its candidates."""

    question: ParsedQuestion  # The question, parsed.
    pages: Sequence[ParsedPassage]  # The context.
    cosines: Sequence[float]  # Similarity of question and passage, by the passage's index.
    idf: Idf  # How rare a stem is in the corpus.
    corpus: CorpusPages  # Pages of names.

    def own_page(self, candidate: Candidate) -> OwnPage | None:
        """The page of a candidate's name, None without one or where the type of the answer needs none."""
        is_needed = self.question.expected in (PERSON, ANY, LOCATION) or self.question.head
        return self.corpus.find(candidate.key) if is_needed and candidate.span.kind != PHRASE else None

    @cached_property
    def bridged(self) -> list[float]:
        """By page, bp: how close to the question a page is that mentions this page's title."""
        found = []
        for page, is_named in zip(self.pages, self.named, strict=True):
            others = (one for one in self.pages if one is not page and one.mentions(page.title_keys))
            found.append(0.0 if is_named else max((self.cosines[one.rank] for one in others), default=0.0))
        return found

    @cached_property
    def named(self) -> list[bool]:
        """By page, qtitle: whether the question names it."""
        return [not self.question.name_keys.isdisjoint(page.title_keys) for page in self.pages]

    @cached_property
    def asked(self) -> QuestionParts:
        """The question's parts."""
        return asked_of(self.question)

    @cached_property
    def asked_stems(self) -> frozenset[str]:
        """Stems of what the question says of its answer, in all forms."""
        return frozenset().union(*map(forms_of, self.asked.predicate))


def features_of(situation: Situation, candidates: Sequence[Candidate]) -> list[Features]:
    """One Features per candidate, in order. Source: reader.md 6.3. Cost: O(candidates * question words)."""
    question, idf = situation.question, situation.idf
    stems, total = question.main_stems, fsum(idf(stem) for stem in question.main_stems)
    head = stem_of(question.head[-1]) if question.head else ""
    is_person, is_location = question.expected in (PERSON, ANY), question.expected == LOCATION
    rows = []
    sentence: PassageSentence | None = None
    share, near = 0.0, list[tuple[float, Sequence[int]]]()
    asked_indices: list[int] = []
    for candidate in candidates:
        page = candidate.page
        if candidate.sentence is not sentence:
            sentence = candidate.sentence
            held = (stem for stem in stems if stem in sentence.word_indices or stem in page.title_stems)
            share = fsum(map(idf, held)) / total if total else 0.0
            near = [(idf(stem), sentence.word_indices[stem]) for stem in stems if stem in sentence.word_indices]
            asked_indices = [index for stem in situation.asked_stems for index in sentence.word_indices.get(stem, ())]
        first, last = _word_range(candidate)
        rows.append(
            Features(
                mov=share,
                bp=situation.bridged[page.rank],
                chead=float(bool(head) and head in map(stem_of, candidate.span.tokens)),
                location=_location_value(candidate) if is_location else 0.0,
                pat=float(any(_is_close(sentence, index, first) for index in asked_indices)),
                qtitle=float(situation.named[page.rank]),
                person=_person_value(candidate, situation.own_page(candidate)) if is_person else 0.0,
                mwin=_nearness(first, last, near, total),
            )
        )
    return rows


def _word_range(candidate: Candidate) -> tuple[int, int]:
    """Numbers of the first and the last word of a candidate in its sentence."""
    span, word_spans = candidate.span, candidate.sentence.words
    first = bisect_left(word_spans, (span.start, 0))
    return first, max(first, bisect_left(word_spans, (span.end, 0)) - 1)


def _is_close(sentence: PassageSentence, index: int, first: int) -> bool:
    """Returns whether the word at `index` is a few words before the one at `first`, in the same clause."""
    if not 0 < first - index <= _MOST_BETWEEN + 1:
        return False
    between = sentence.text[sentence.words[index][1] : sentence.words[first][0]]
    return not any(sign in between for sign in ".;")


def _nearness(first: int, last: int, near: Sequence[tuple[float, Sequence[int]]], total: float) -> float:
    """mwin: the question's words around a candidate, fading with their distance in words."""
    parts = []
    for weight, indices in near:
        left = bisect_left(indices, first)
        right = bisect_left(indices, last + 1)
        distance = first - indices[left - 1] if left else _FAR
        if right < len(indices):
            distance = min(distance, indices[right] - last)
        if distance != _FAR:
            parts.append(weight * exp(-(distance - 1) / _FADE))
    return min(1.0, fsum(parts) / total) if total else 0.0


def _word_before(candidate: Candidate) -> str:
    match = _WORD_BEFORE.search(candidate.before[-24:])
    return match[1].lower() if match else ""


def _person_value(candidate: Candidate, own: OwnPage | None) -> float:
    """person: 1 for a person's page or an honorific; .5 for an unknown name of two or three words."""
    if candidate.span.kind == PHRASE:
        return 0.0
    tokens = candidate.span.tokens
    if (own is not None and own.is_person) or tokens[0] in TITLES_OF_PERSONS:
        return 1.0
    if _word_before(candidate).rstrip(".") in TITLES_OF_PERSONS:
        return 1.0
    return 0.5 if own is None and len(tokens) in _SHORT_NAME else 0.0


def _location_value(candidate: Candidate) -> float:
    """location: 1 for a people, a known country and a name with its kind; .7 after `in` and the like."""
    is_named = not words("location_kinds").isdisjoint(candidate.span.tokens)
    if candidate.span.kind == PEOPLE or is_named or is_country_or_state(candidate.key):
        return 1.0
    return 0.7 if _word_before(candidate) in words("location_links") else 0.0


# Source: reader.md 6.3, 6.6 (type), Confidence and silence; idf: algorithms.md 2.9.

DECIMALS = 9  # reader.md, steps (5).
EVIDENCE_WEIGHT = 1.5
"""What the logarithm of the evidence counts in the order; chosen on the tuning half, flat between 1 and 2.5."""
MOST_CERTAIN = 0.6
"""Confidence of an extracted answer at most: of those above it half were wrong on a corpus of 90 pages (the demo)."""
_BIAS, _SHARE, _SCORE, _AGREES, _STEPS = -3.02, 1.01, 0.16, 2.16, 0.64
"""Calibration (decision 0009) on questions that the rules were not tuned on."""
KNOWN, LIKELY, OPEN, UNLIKELY, WRONG = 1.0, 0.8, 0.5, 0.3, 0.03
"""Factors by what is known of a candidate's type; chosen on the tuning half of tests/golden/reader."""
WIDER = 0.6
"""Factor of a location that contains another one (`at Missolonghi in Greece`): the narrower is asked for as well."""
_PART_BEFORE = re.compile(r"[A-Z][\w'’-]+,? (?:in|of) (?:the )?$")
_SETTLEMENTS = frozenset(("city", "town", "village"))
_VAGUE = frozenset(
    ("name", "term", "title", "word", "thing", "kind", "type", "form", "part", "reason", "role", "language")
)


@dataclass(frozen=True, slots=True)
class Best:
    """The best candidate with its score, its evidence counted, and the share of its answer among all."""

    candidate: Candidate
    score: float
    share: float

    def confidence(self, *, is_shown: bool, is_one_step: bool) -> float:
        """Estimated probability that the answer is right; `is_shown`: the two best sentences contain it.

        Source: reader.md, Confidence and silence.
        """
        logit = _BIAS + _SHARE * log(self.share) + _SCORE * self.score
        return min(MOST_CERTAIN, 1 / (1 + exp(-(logit + _AGREES * is_shown + _STEPS * (not is_one_step)))))


def score(features: Features) -> float:
    """Weighted sum, rounded so that its order does not depend on how it was summed."""
    total: float = sum(map(mul, WEIGHTS, features))
    return round(total, DECIMALS)


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
        parts.setdefault(candidate.span.norm, []).append(exp(value - highest))
    total = fsum(part for values in parts.values() for part in values)
    share = fsum(parts[candidates[best].span.norm]) / total
    return Best(candidates[best], highest, share)


def _order(candidate: Candidate) -> tuple[int, int, int]:
    return candidate.page.rank, candidate.sentence.start + candidate.span.start, -candidate.span.end


def _is_mismatch(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """Returns whether a candidate cannot be of the expected type."""
    key, expected, demonyms = candidate.key, question.expected, geography().demonyms
    is_person = own is not None and own.is_person
    if expected == PERSON:  # a country, a people, or `X of Y` without a person's page
        return is_country_or_state(key) or key in demonyms or (" of " in key and not is_person)
    if expected == LOCATION:
        head, is_state = question.head[-1] if question.head else "", key in geography().states
        if is_state or key in geography().countries:  # no smaller location, if one is asked for
            return head in words("location_kinds") - _COUNTRY_HEADS and not (is_state and head == "state")
        return head in _COUNTRY_HEADS or is_person or key in demonyms
    if expected == NUMBER:
        return candidate.span.kind == YEARS
    return expected == NATIONALITY and key not in demonyms


def fitness(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None, features: Features) -> float:
    """Scores how well a candidate fits the expected type, in (0, 1]."""
    if _is_mismatch(question, candidate, own):
        return WRONG
    if question.expected == PERSON:
        return (UNLIKELY, LIKELY, KNOWN)[round(2 * features.person)]
    if question.expected in (LOCATION, ANY) and question.head:
        fit = _of_head(question.head[-1], candidate, own)
        is_settlement = features.location > 0 and question.head[-1] in _SETTLEMENTS
        return max(fit, LIKELY) if is_settlement and fit == UNLIKELY else fit
    if question.expected == LOCATION:
        fit = KNOWN if features.location >= 1 else LIKELY if features.location else UNLIKELY
        return fit * WIDER if _PART_BEFORE.search(candidate.before[-40:]) else fit
    if question.expected == ANY:
        return OPEN if candidate.span.kind == PHRASE else LIKELY
    return LIKELY if question.expected in (NUMBER, NATIONALITY) else KNOWN


def _of_head(head: str, candidate: Candidate, own: OwnPage | None) -> float:
    """By the head noun of the question: in the name, or in its own page's definition."""
    if candidate.span.kind == PHRASE or head in _VAGUE:
        return LIKELY if head in _VAGUE else UNLIKELY
    forms = singulars(head)
    is_of_kind = own is not None and any(not forms.isdisjoint(singulars(word)) for word in own.kinds)
    if is_of_kind or not forms.isdisjoint(candidate.span.tokens):
        return KNOWN
    if own is not None and own.is_person:
        return WRONG
    return UNLIKELY if head in words("location_kinds") else OPEN


NO_PART, UNHEADED = 0.03, 0.1
"""Factors of evidence that says no part of the predicate or none of the names, and not the noun that is asked for;
chosen on the tuning half of tests/golden/reader."""
SPREAD = 0.5
"""Exponent of the factor where something else leads to the answer: the evidence is spread, each part proves less."""
_SAID_ENOUGH, _ALL_SAID = 0.5, 0.8  # reader.md 6.6: predicate, one hop.


def evidence(situation: Situation, candidates: Sequence[Candidate], rows: Sequence[Features]) -> list[float]:
    """Strength of the evidence for each candidate, in (0, 1], in order. Source: reader.md 6.6."""
    question, asked = situation.question, situation.asked
    predicate = [(forms, weight_of(forms, situation.idf)) for forms in map(forms_of, asked.predicate)]
    keys = [name.key for name in asked.direct]
    head, expected = question.head[-1] if question.head else "", question.expected
    is_sought = head and asked.is_one_step and head not in _VAGUE and expected in (ANY, LOCATION, NUMBER)
    heads = forms_of(head) if is_sought else frozenset[str]()
    is_anchored = bool(keys) or not asked.is_one_step
    exponent = 1.0 if asked.is_one_step else SPREAD
    found = []
    sentence: PassageSentence | None = None
    said = named = 1.0
    for candidate, features in zip(candidates, rows, strict=True):
        page = candidate.page
        if candidate.sentence is not sentence:
            sentence = candidate.sentence
            said = _said_factor(predicate, sentence, is_anchored=is_anchored)
            has_name = [key in page.title_keys or _has_name(page, sentence, key) for key in keys]
            share = sum(has_name) / len(keys) if keys else 1.0
            named = NO_PART + (1 - NO_PART) * share * share
        fit = fitness(question, candidate, situation.own_page(candidate), features)
        if heads and fit < KNOWN and heads.isdisjoint(sentence.word_indices) and heads.isdisjoint(page.title_stems):
            fit *= UNHEADED
        found.append((fit * named * said) ** exponent)
    return found


def weight_of(forms: frozenset[str], idf: Idf) -> float:
    """Rarity of a word: of its shortest stem, by the alphabet among equals (sets have no order)."""
    return idf(min(forms, key=lambda stem: (len(stem), stem))) if forms else 0.0


def _said_factor(
    predicate: Sequence[tuple[frozenset[str], float]], sentence: PassageSentence, *, is_anchored: bool
) -> float:
    """By the share of the predicate that a sentence says.

    1 from enough of the predicate on; without a name to hold on to, nearly all of it is needed.
    """
    total = fsum(weight for _, weight in predicate)
    held = fsum(weight for forms, weight in predicate if not forms.isdisjoint(sentence.word_indices))
    said = held / total if total else 1.0
    if said >= (_SAID_ENOUGH if is_anchored else _ALL_SAID):
        return 1.0
    return NO_PART + (1 - NO_PART) * said / (2 * _SAID_ENOUGH) if is_anchored else NO_PART


def _has_name(page: ParsedPassage, sentence: PassageSentence, key: str) -> bool:
    return page.mentions((key,)) and sentence.has_any((key,))
