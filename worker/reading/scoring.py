"""A candidate's score from its features, and how far the best one can be believed.

Source: design/reader.md 6.3, Confidence and silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from operator import mul

from worker.reading.candidates import Candidate
from worker.reading.features import Features

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
"""What each feature counts. Source: design/reader.md 6.3."""
DECIMALS = 9
EXTRACTED_FACTOR = 0.6
_BIAS, _SHARE, _SCORE = -0.597, 0.954, 0.226


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
    """How often an extracted answer is right. Source: design/reader.md, Confidence and silence."""
    return EXTRACTED_FACTOR / (1 + exp(-(_BIAS + _SHARE * log(share) + _SCORE * best_score)))


def choose(candidates: Sequence[Candidate], rows: Sequence[Features]) -> Best | None:
    """The best candidate: by score, then the better ranked passage, then the earlier offset, then the longer.

    Source: design/reader.md steps (5), (6).
    """
    if not candidates:
        return None
    scores = [score(row) for row in rows]
    places = range(len(candidates))
    best = min(places, key=lambda n: (-scores[n], *_order(candidates[n])))
    parts: dict[str, list[float]] = {}
    for candidate, value in zip(candidates, scores, strict=True):
        parts.setdefault(candidate.norm, []).append(exp(value - scores[best]))
    total = fsum(part for values in parts.values() for part in values)
    share = fsum(parts[candidates[best].norm]) / total
    return Best(candidates[best], scores[best], share, confidence(share, scores[best]))


def _order(candidate: Candidate) -> tuple[int, int, int]:
    return candidate.page.place, candidate.sentence.start + candidate.start, -candidate.end
