"""Predictions against gold answers: the best gold answer counts, and what has none is not judged."""

import pytest

from polyhop.schemas.records import Prediction
from polyhop.tasks.evaluation.metrics import Score, mean_scores, score_rows


def prediction(said: str, *answers: str) -> Prediction:
    return Prediction(id="q", prediction=said, answers=answers)


def test_the_best_gold_answer_counts_and_no_gold_answer_is_no_score() -> None:
    found = score_rows(
        [prediction("the Ada Lovelace", "Babbage", "Ada Lovelace"), prediction("x"), prediction("", "x")]
    )
    assert found == [Score(1.0, 1.0), None, Score(0.0, 0.0)]
    (half,) = score_rows([prediction("Ada Byron", "Ada Lovelace")])
    assert half is not None
    assert half.em == 0.0
    assert half.f1 == pytest.approx(0.5)


def test_yes_is_no_part_of_an_answer_by_hotpotqa_s_rule() -> None:
    rows = [prediction("yes", "yes it is")]
    (plain,), (hotpot,) = score_rows(rows), score_rows(rows, hotpot_yes_no=True)
    assert plain is not None
    assert hotpot is not None
    assert plain.f1 > hotpot.f1 == 0


def test_means_leave_out_what_was_not_judged() -> None:
    assert mean_scores([Score(1, 1), None, Score(0, 0.5)]) == {"n": 3, "em": 0.5, "f1": 0.75}
    assert mean_scores([None]) == {"n": 1, "em": None, "f1": None}
    assert mean_scores([]) == {"n": 0, "em": None, "f1": None}
