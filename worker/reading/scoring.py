"""What a candidate is worth: its features' weights, its fit to the expected type, stems by rarity; and the best one.

Finds no candidates and computes no features (candidates.py, features.py). Source: reader.md 6.3, 6.6 (type), Confidence
and silence; idf: algorithms.md 2.9. Decided here: what stands beside the head noun is of that kind (`the river Meuse`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log, log1p
from operator import mul

import numpy as np

from polyhop.schemas.graph import LexicalIndex
from polyhop.worker.reading.candidates import PHRASE, QUOTED, Candidate
from polyhop.worker.reading.corpus_pages import OwnPage
from polyhop.worker.reading.features import Features
from polyhop.worker.reading.lexicon import groups_of, is_of_kind, singulars
from polyhop.worker.reading.parsing import ANY, NATIONALITY, NUMBER, PERSON, PLACE, WORK, ParsedQuestion
from polyhop.worker.reading.word_lists import name_lists

WEIGHTS = Features(
    mov=3.0,
    bp=4.5,
    first=1.0,
    kP=-1.5,
    chead=2.5,
    place=2.0,
    pat=1.5,
    kC=-1.5,
    qtitle=1.5,
    person=1.0,
    mism=-1.0,
    mwin=1.5,
    ownhead=1.0,
)
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


class StemWeights:
    """BM25 idf by stem; an unknown stem counts as the rarest one. Without postings every stem counts the same."""

    def __init__(self, lexical: LexicalIndex | None) -> None:
        self._lexical = lexical
        rarest = int(np.diff(lexical.indptr).min(initial=1)) if lexical is not None and len(lexical.terms) else 1
        self._largest = self._of_count(max(1, rarest))
        self._known: dict[int, float] = {}

    def __call__(self, stem: str) -> float:
        """The idf of a stem: `ln(1 + (N - df + .5) / (df + .5))`."""
        if self._lexical is None:
            return 1.0
        term = self._lexical.terms.get(stem)
        if term is None:
            return self._largest
        known = self._known.get(term)
        if known is None:
            known = self._of_count(int(self._lexical.indptr[term + 1] - self._lexical.indptr[term]))
            self._known[term] = known
        return known

    def _of_count(self, df: int) -> float:
        if self._lexical is None:
            return 1.0
        return log1p((len(self._lexical.lengths) - df + 0.5) / (df + 0.5))


def fitness(question: ParsedQuestion, candidate: Candidate, own: OwnPage | None, features: Features) -> float:
    """How well a candidate fits the expected type, in (0, 1]."""
    if features.mism:
        return WRONG
    if question.expected == PERSON:
        return (UNLIKELY, LIKELY, KNOWN)[round(2 * features.person)]
    if question.expected == PLACE and not question.head:
        return _of_place(candidate, features)
    if question.expected in (PLACE, ANY, WORK) and question.head:
        fit = _of_head(question.head[-1], candidate, own)
        is_behind_in = features.place > 0 and question.head[-1] in _SETTLEMENTS
        return max(fit, LIKELY) if is_behind_in and fit == UNLIKELY else fit
    if question.expected == ANY:
        return OPEN if candidate.kind == PHRASE else LIKELY
    return LIKELY if question.expected in (NUMBER, NATIONALITY) else KNOWN


def _of_place(candidate: Candidate, features: Features) -> float:
    fit = KNOWN if features.place >= 1 else LIKELY if features.place else UNLIKELY
    return fit * WIDER if candidate.around.is_wider else fit


def is_vague(head: str) -> bool:
    """Whether a head noun says nothing of what kind the answer is (`name`, `reason`)."""
    return head in _VAGUE


def _of_head(head: str, candidate: Candidate, own: OwnPage | None) -> float:
    """By the head noun of the question: in the name, in its own page's definition, or beside it."""
    forms = singulars(head)
    words = candidate.key.split()
    if candidate.kind == PHRASE:
        return LIKELY if head in _VAGUE else UNLIKELY
    if not forms.isdisjoint(words) or (own is not None and is_of_kind(own.kinds, head)):
        return KNOWN
    if _is_beside(candidate, forms):
        return KNOWN
    if head in _VAGUE:
        return LIKELY
    if own is not None and _is_other(own, head):
        return WRONG
    if candidate.kind == QUOTED and head not in name_lists().place_kinds:
        return LIKELY
    return UNLIKELY if head in name_lists().place_kinds else OPEN


def _is_beside(candidate: Candidate, forms: frozenset[str]) -> bool:
    around = candidate.around
    if around.noun_before and not singulars(around.noun_before).isdisjoint(forms):
        return True
    if around.noun_after and not singulars(around.noun_after).isdisjoint(forms):
        return True
    return not _WATERS.isdisjoint(forms) and _SHORE.search(around.last(70)) is not None


def _is_other(own: OwnPage, head: str) -> bool:
    """Whether a name's own page defines it as something else than the head noun says."""
    wanted = groups_of({head})
    said = groups_of(own.kinds)
    return own.is_person or (bool(said) and (not wanted or wanted.isdisjoint(said)))
