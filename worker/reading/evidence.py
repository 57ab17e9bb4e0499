"""What a candidate is worth: weighted features, and how much of the question its evidence says.

Each part is a factor between 0 and 1; their product lowers the confidence of an answer that only ranks well. Source:
reader.md 6.6.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import exp, fsum, log
from operator import mul, or_

from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.worker.reading.candidates import PHRASE, QUOTED, Candidate, Features, Situation
from polyhop.worker.reading.pages import OwnPage, Page, PageSentence, doers, forms_of, singulars
from polyhop.worker.reading.question import ANY, NATIONALITY, NUMBER, PERSON, PLACE, Asked, ParsedQuestion, asked_of
from polyhop.worker.reading.word_lists import name_lists

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


class Evidence:
    """What the passages of one question say of it, prepared once for all its candidates."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.question = situation.question
        self.asked: Asked = asked_of(situation.question)
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
        is_relation_asked = not predicate or all(predicate & one.question_words for one in relations)
        for candidate, features in zip(candidates, rows, strict=True):
            if candidate.sentence is not sentence:
                # What all candidates of a sentence share; `said_of_it` is of whom the sentence says the verb.
                page, sentence = candidate.page, candidate.sentence
                said_by = said_of_it = self._said_factor(sentence, frozenset())
                if self._verb_stems:
                    said_of_it = self._said_factor(sentence, self._verb_stems)
                share = self._share_named(page, sentence)
                named = UNNAMED + (1 - UNNAMED) * share * share
                tie = self._tie_of(page.place, sentence.number) if self.inner else 1.0
            doer = self._doer(candidate) if self.asked.verb else 0
            said = said_of_it if doer > 0 else said_by
            if features.pat and is_relation_asked:
                said = 1.0
            fit = fitness(self.question, candidate, self.situation.own_page(candidate), features)
            if self._head_forms and fit < KNOWN and not self._says_head(candidate):
                fit *= UNHEADED
            product = fit * (NO_DOER if doer < 0 else 1.0) * said * named * tie
            found.append(product**exponent)
        return found

    # --- the kind of thing that is asked for ---------------------------------------------------------------------

    @cached_property
    def _head_forms(self) -> frozenset[str]:
        """Stems of the noun that a question of one step asks for (`the currency of Karland`); none of vague ones."""
        head = self.question.head
        if not head or self.inner or head[-1] in _VAGUE or self.question.expected not in (ANY, PLACE, NUMBER):
            return frozenset()
        return forms_of(head[-1])

    def _says_head(self, candidate: Candidate) -> bool:
        page, sentence = candidate.page, candidate.sentence
        return not (self._head_forms.isdisjoint(sentence.places) and self._head_forms.isdisjoint(page.title_stems))

    # --- the predicate -------------------------------------------------------------------------------------------

    @cached_property
    def _predicate(self) -> list[_Unit]:
        return [self._unit(word) for word in self.asked.predicate]

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
        said = held / self._predicate_weight if self._predicate_weight else 1.0
        is_anchored = bool(self.asked.direct) or bool(self.inner)
        if said >= (_SAID_ENOUGH if is_anchored else _ALL_SAID):
            return 1.0
        return UNSAID + (1 - UNSAID) * said / (2 * _SAID_ENOUGH) if is_anchored else UNSAID

    @cached_property
    def _predicate_weight(self) -> float:
        return fsum(unit.weight for unit in self._predicate)

    @cached_property
    def _verb_stems(self) -> frozenset[str]:
        return forms_of(self.asked.verb) if self.asked.verb else frozenset()

    def _doer(self, candidate: Candidate) -> int:
        """1 if the sentence says the question's verb of the candidate, -1 if of something else, 0 if not at all."""
        place = (candidate.page.place, candidate.sentence.number)
        if place not in self._doers:
            self._doers[place] = doers(candidate.sentence, self._verb_stems, is_done_to=self.asked.is_passive)
        has_verb, spans = self._doers[place]
        if any(start < candidate.end and candidate.start < end for start, end in spans):
            return 1
        return -1 if has_verb else 0

    # --- the names -----------------------------------------------------------------------------------------------

    def _share_named(self, page: Page, sentence: PageSentence) -> float:
        """Share of the names that the answer's sentence must be about: in the sentence or as its page."""
        keys = [name.key for name in self.asked.direct]
        if not keys:
            return 1.0
        return sum(key in page.title_keys or _has_name(page, sentence, key) for key in keys) / len(keys)

    # --- the chain -----------------------------------------------------------------------------------------------

    @cached_property
    def inner(self) -> list[_Unit]:
        """What the question says of what leads to the answer; none in a question of one step."""
        idf = self.situation.idf
        words = [word for word in self.asked.inner if word not in STOP_WORDS]
        names = [
            _Unit(
                frozenset(),
                name.key,
                max((idf(stem) for w in name_tokens(name.surface) for stem in forms_of(w)), default=0.0),
            )
            for name in self.asked.leading
        ]
        return [*(self._unit(word) for word in words), *names]

    @cached_property
    def _sentence_masks(self) -> list[list[int]]:
        """By page and sentence: which inner units it says, as bits."""
        return [
            [
                _bits(
                    _has_name(page, sentence, unit.key) if unit.key else not unit.stems.isdisjoint(sentence.places)
                    for unit in self.inner
                )
                for sentence in page.sentences
            ]
            for page in self.situation.pages
        ]

    @cached_property
    def _title_masks(self) -> list[int]:
        return [
            _bits(
                unit.key in page.title_keys if unit.key else not unit.stems.isdisjoint(page.title_stems)
                for unit in self.inner
            )
            for page in self.situation.pages
        ]

    @cached_property
    def _links(self) -> list[list[int]]:
        """By page: what the pages say that mention it, one mask each."""
        pages = self.situation.pages
        found: list[list[int]] = [[] for _ in pages]
        for other in pages:
            for place in self.situation.mentioned[other.place]:
                found[place].append(self._page_masks[other.place])
        return found

    @cached_property
    def _page_masks(self) -> list[int]:
        return [reduce(or_, masks, title) for title, masks in zip(self._title_masks, self._sentence_masks, strict=True)]

    def _tie_of(self, page: int, sentence: int) -> float:
        """Whether a sentence is tied to what leads there, over at most two more pages."""
        own = self._sentence_masks[page][sentence]
        is_start = any(name.key in self.situation.pages[page].title_keys for name in self.asked.leading)
        described = self._described
        if is_start and self.asked.predicate and described and not own & described:
            return SAME_PLACE
        mask = own | (self._title_masks[page] if is_start else self._page_masks[page])
        # What the pages say that mention a page or that its sentence mentions, one mask each.
        pages = self.situation.pages
        said_in = pages[page].sentences[sentence]
        linked = [one for one in self.situation.mentioned[page] if said_in.has_any(pages[one].title_keys)]
        links = self._links[page] + [self._page_masks[one] for one in linked]
        for _ in range(_MOST_LINKS):
            mask = max((mask | link for link in links), key=self._weight, default=mask)
        words, names = self._share_of(mask, described), self._share_of(mask, ~described)
        said = 1.0 if words >= _TIED_ENOUGH else UNDESCRIBED + (1 - UNDESCRIBED) * words / (2 * _TIED_ENOUGH)
        return said * (UNTIED + (1 - UNTIED) * names * names)

    @cached_property
    def _described(self) -> int:
        """The inner units that are words, not names, as bits."""
        return _bits(not unit.key for unit in self.inner)

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
