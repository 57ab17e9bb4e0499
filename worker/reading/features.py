"""The thirteen features of a candidate: how well it fits the question, one number each.

Weighs nothing (scoring.py does). Source: reader.md 6.3.
Decided here: without vectors of passages, the share of the question's words that a passage holds, by idf, replaces
the cosine (`bridge-lexical`, BM25). `pat` also holds after the question's own verb in the passive (`who commissioned`,
`commissioned by the banker`), and a person is not a work; a country is not a city.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, fsum
from typing import NamedTuple

from polyhop.schemas.type_words import TITLES_OF_PERSONS
from polyhop.worker.reading.candidates import JOINED, PEOPLE, PHRASE, YEARS, Candidate
from polyhop.worker.reading.corpus_pages import CorpusPages, OwnPage, has_person_name
from polyhop.worker.reading.lexicon import has_place_word, is_country_or_state, is_organisation
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.parsing import (
    ANY,
    NATIONALITY,
    NUMBER,
    PERSON,
    PLACE,
    WORK,
    ParsedQuestion,
    stem_of,
    stems_of_key,
)
from polyhop.worker.reading.word_lists import geography, name_lists

_FADE = 6.0  # words; reader.md 6.3, mwin.
_FAR = 1 << 30  # no word on that side: no distance reaches it
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b", re.IGNORECASE)
_SHORT_NAME = range(2, 4)

Idf = Callable[[str], float]


class Features(NamedTuple):
    """One value per feature; reader.md 6.3 says what each is."""

    mov: float
    bp: float
    first: float
    kP: float  # noqa: N815 - the specification's names
    chead: float
    place: float
    pat: float
    kC: float  # noqa: N815
    qtitle: float
    person: float
    mism: float
    mwin: float
    ownhead: float


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
        return self.question.expected in (PERSON, ANY, PLACE, WORK) or bool(self.question.head)

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
        """Weighted idf and places of the question's words in a sentence, for mwin."""
        return [
            (self.idf(stem) * weight, sentence.places[stem])
            for stem, weight in self.question.weights.items()
            if stem in sentence.places
        ]


def features_of(situation: Situation, candidates: Sequence[Candidate]) -> list[Features]:
    """One Features per candidate, in order. Source: reader.md 6.3. Cost: O(candidates * question words)."""
    question, corpus, total = situation.question, situation.corpus, situation.total
    head = question.head_stem
    is_person, is_place = question.expected in (PERSON, ANY), question.expected == PLACE
    is_mismatch = _MISMATCHES.get(question.expected)
    rows = []
    sentence: PageSentence | None = None
    share, bridged, first, named, near = 0.0, 0.0, 0.0, 0.0, list[tuple[float, Sequence[int]]]()
    for candidate in candidates:
        if candidate.sentence is not sentence:
            sentence, page = candidate.sentence, candidate.page
            share, near = situation.found_share(sentence, page), situation.near_words(sentence)
            bridged, named = situation.bridged[page.place], float(situation.named[page.place])
            first = float(sentence.number == 0)
        own = situation.own_page(candidate)
        rows.append(
            Features(
                mov=share,
                bp=bridged,
                first=first,
                kP=float(candidate.kind == PHRASE),
                chead=float(bool(head) and head in stems_of_key(candidate.key)),
                place=place_value(candidate, own) if is_place else 0.0,
                pat=float(follows_relation(question, candidate)),
                kC=float(candidate.kind == JOINED),
                qtitle=named,
                person=person_value(candidate, own, corpus) if is_person else 0.0,
                mism=float(is_mismatch is not None and is_mismatch(question, candidate, own)),
                mwin=nearness(candidate, near, total),
                ownhead=float(bool(head) and own is not None and head in own.definition_stems),
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


def person_value(candidate: Candidate, own: OwnPage | None, corpus: CorpusPages) -> float:
    """person: 1 for a person's page, an honorific or a first name; .5 for an unknown name of two or three words."""
    if candidate.kind == PHRASE:
        return 0.0
    words = candidate.key.split()
    if own is not None and own.is_person:
        return 1.0
    title = candidate.around.word_before.rstrip(".")
    if words[0] in TITLES_OF_PERSONS or title in TITLES_OF_PERSONS:
        return 1.0
    if has_person_name(candidate.key, corpus.first_names):
        return 1.0
    return 0.5 if own is None and len(words) in _SHORT_NAME else 0.0


def place_value(candidate: Candidate, own: OwnPage | None) -> float:
    """place: 1 for a place by its words, its page or as a known country; .7 after `in`, `from` and the like."""
    lists = name_lists()
    if candidate.kind in (JOINED, PEOPLE) or is_country_or_state(candidate.key) or has_place_word(candidate.key):
        return 1.0
    if own is not None and not lists.place_definitions.isdisjoint(own.definition):
        return 1.0
    return 0.7 if candidate.around.word_before in lists.place_links else 0.0


def is_no_person(_question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """An organisation, a place, a people, or `X of Y` without a person's page."""
    key = candidate.key
    if is_organisation(key) or has_place_word(key) or is_country_or_state(key):
        return True
    return key in geography().demonyms or (" of " in key and not (own is not None and own.is_person))


def is_no_place(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """A person, a place of another kind than the head, or no country where one is asked for."""
    key = candidate.key
    head = question.head[-1] if question.head else ""
    if head in ("country", "nation"):
        return not is_country_or_state(key)
    if own is not None and own.is_person and not has_place_word(key) and not is_country_or_state(key):
        return True
    return head in name_lists().place_kinds and _is_place_of_another_kind(key, head)


def _is_place_of_another_kind(key: str, head: str) -> bool:
    """Whether a name is known as a larger place than the head, or says that it is a place but not of that kind."""
    return is_larger_place(key, head) or (has_place_word(key) and head not in key.split())


def is_larger_place(key: str, head: str) -> bool:
    """Whether a name is only known as a country, or as a state, where a smaller place is asked for."""
    if key in geography().states:
        return head != "state"
    return key in geography().countries


def is_no_number(question: ParsedQuestion, candidate: Candidate, _own: OwnPage | None) -> bool:
    """A year, or an ordinal where no rank is asked for."""
    if candidate.kind == YEARS:
        return True
    return bool(_ORDINAL.search(candidate.answer)) and name_lists().ordinal_words.isdisjoint(question.words)


def is_no_nationality(_question: ParsedQuestion, candidate: Candidate, _own: OwnPage | None) -> bool:
    """Anything but a demonym."""
    return candidate.key not in geography().demonyms


def is_no_work(_question: ParsedQuestion, candidate: Candidate, own: OwnPage | None) -> bool:
    """A person or a people."""
    return candidate.key in geography().demonyms or (own is not None and own.is_person)


_MISMATCHES = {
    WORK: is_no_work,
    PERSON: is_no_person,
    PLACE: is_no_place,
    NUMBER: is_no_number,
    NATIONALITY: is_no_nationality,
}


def question_share(question: ParsedQuestion, page: Page, idf: Idf) -> float:
    """Share of the question's words that a passage holds, by idf: the fallback for a cosine."""
    stems = sorted({stem for word in question.words if (stem := stem_of(word))})
    total = fsum(idf(stem) for stem in stems)
    return fsum(idf(stem) for stem in stems if stem in page.stems) / total if total else 0.0


def keys_of(candidates: Sequence[Candidate]) -> list[str]:
    """Names among candidates whose pages may be needed."""
    return sorted({candidate.key for candidate in candidates if candidate.kind != PHRASE})
