"""Can stated confidence be believed, and what is gained by giving fewer answers?

Judges no answer (metrics.py does): gets the confidence and the exact match of each.
Source: reader.md, Confidence and silence.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import fsum

GROUPS = 5  # chosen: of the 100 answers of a small evaluation, 20 each
COVERAGE_POINTS = 50  # chosen: two percent of the answers apart, closer than a plot shows

Judged = tuple[float, float]
"""An answer's stated confidence and its exact match, both 0 to 1."""


def calibration(answers: Sequence[Judged], groups: int = GROUPS) -> list[dict[str, float | int]]:
    """Stated confidence against observed exact match in groups of equal size, the least confident first.

    Args:
        answers: Of answered questions, in their order (equal confidences stay in it).
        groups: How many; sizes differ by at most one, the first ones are larger, empty ones are left out.

    Returns:
        [{n, stated, observed}]: number of answers, their mean confidence, their mean exact match.
    """
    ordered = sorted(answers, key=_confidence)
    size, larger = divmod(len(ordered), groups)
    ends = accumulate(size + (number < larger) for number in range(groups))
    rows: list[dict[str, float | int]] = []
    start = 0
    for end in ends:
        part = ordered[start:end]
        start = end
        if part:
            stated = fsum(confidence for confidence, _ in part) / len(part)
            observed = fsum(match for _, match in part) / len(part)
            rows.append({"n": len(part), "stated": stated, "observed": observed})
    return rows


def coverage_curve(
    answers: Sequence[Judged], question_count: int, points: int = COVERAGE_POINTS
) -> list[dict[str, float]]:
    """Precision when only the most confident answers are given, for ever lower thresholds.

    Args:
        answers: Of answered questions, in any order.
        question_count: Questions that could have been answered, at least len(answers).
        points: Most points of the curve; the last one is that of all answers.

    Returns:
        [{coverage, precision, confidence}]: share of the questions answered at that threshold, mean exact match of
        these answers, the threshold. Answers of equal confidence come together, so that their order decides nothing.
    """
    ordered = sorted(answers, key=_confidence, reverse=True)
    right = list(accumulate(match for _, match in ordered))
    last_of_confidence = {confidence: place for place, (confidence, _) in enumerate(ordered)}
    places = list(last_of_confidence.values())
    count = min(points, len(places))
    kept = [places[((number + 1) * len(places)) // count - 1] for number in range(count)]
    return [
        {
            "coverage": (place + 1) / question_count,
            "precision": right[place] / (place + 1),
            "confidence": ordered[place][0],
        }
        for place in kept
    ]


def _confidence(answer: Judged) -> float:
    return answer[0]
