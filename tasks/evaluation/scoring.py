"""Predicted answers against gold answers: one score per row, and their means (`polyhop score`).

Owns no formula (metrics.py does) and knows no strategies (report.py does).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from polyhop.schemas.questions import Prediction
from polyhop.tasks.evaluation.metrics import exact_match, token_f1


@dataclass(frozen=True, slots=True)
class Score:
    """Exact match and F1 of one prediction, both in [0, 1]."""

    em: float
    f1: float


def score_rows(predictions: Sequence[Prediction], *, hotpot_yes_no: bool = False) -> list[Score | None]:
    """The score of each prediction, in order; None where there is no gold answer to judge by.

    Args:
        predictions: Each with one or more gold answers, of which the best counts, or with none.
        hotpot_yes_no: HotpotQA's special case of F1 for yes, no and noanswer.

    Source: algorithms.md 6.1.
    """
    return [
        Score(exact_match(p.prediction, p.answers), token_f1(p.prediction, p.answers, hotpot_yes_no=hotpot_yes_no))
        if p.answers
        else None
        for p in predictions
    ]


def mean_scores(scores: Sequence[Score | None]) -> dict[str, float | int | None]:
    """{n, em, f1}: rows without gold answers count in n only; the means of no row are None."""
    judged = [score for score in scores if score is not None]
    count = len(judged)
    return {
        "n": len(scores),
        "em": fsum(score.em for score in judged) / count if count else None,
        "f1": fsum(score.f1 for score in judged) / count if count else None,
    }
